"""What all operations of an open store share: its parts, taking up others' changes, finishing waiting work, closing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from .._forgetting.multiset import MultisetHash
from .._index import Config
from ..errors import FileError, IncompleteWriteError, KeysError, StoreLockedError, UnknownIdError
from . import rows
from .connection import translated
from .copying import remove_unfinished
from .engine import Engine, Factory, read_configuration
from .erasing import Eraser
from .ids import Id
from .ledger import Ledger
from .lock import WriterLock
from .mirror import Mirror
from .reserve import Reserve
from .schema import add_codes
from .session import Session
from .source_key import draw_key, put_key, read_key

__all__ = ["StoreBase"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
_Self = TypeVar("_Self", bound="StoreBase")

_PART = 2000  # records held at once
_CODES = 8192  # codes that are written in one transaction when they are missing
_LOG_LIMIT = 4 << 20  # bytes of log after which it is emptied; a forget has to look at every page in it


class StoreBase:
    """An open store without its operations."""

    def __init__(
        self,
        session: Session,
        lock: WriterLock | None,
        factory: Factory,
        keys_path: Path,
        *,
        drop_unreadable: bool = False,
    ) -> None:
        """Finish what an earlier process left, then load the index."""
        self._session = session
        self._lock = lock
        configuration = read_configuration(session.row.configuration, session.path)
        self.dim: int = configuration.dim
        self.metric: str = configuration.metric
        self._ledger = Ledger(session, keys_path)
        self._eraser = Eraser(session, self._ledger)
        self._reserve = Reserve(session.files.reserve)
        if not session.read_only:
            self._recover()
            self._reserve.ensure()
        self._draws_key = factory.draws_key(session.row.configuration)
        engine = self._make_engine(factory)
        self._keeper = factory.keeper(engine)
        self._prepare_codes()
        self._mirror = Mirror(engine, session.tables, self.dim, follow=session.read_only, keeper=self._keeper)
        self._drop_unreadable = drop_unreadable
        self._seen = -1
        self._refresh()
        self._repair_codes()

    def _make_engine(self, factory: Factory) -> Engine:
        """An empty engine. A writer gives the store a key if it should have one and has none."""
        session = self._session
        configuration = session.row.configuration
        if not self._draws_key:
            return factory.make(configuration)
        key = read_key(session.connection, session.path)
        if key is not None or session.read_only:
            return factory.make(configuration, key)
        key = draw_key()
        engine = factory.make(configuration, key)  # before anything is written: it may refuse
        try:
            with session.transaction() as connection:
                put_key(connection, key)
                connection.execute("UPDATE store SET unscrubbed = 1 WHERE one = 1")  # pages were rewritten
        except IncompleteWriteError:
            return factory.make(configuration)  # a full disk must not stand in the way of a forget: the next open draws
        return engine

    def _prepare_codes(self) -> None:
        """Without the table no codes are kept. A writer makes it where they are worth keeping."""
        session = self._session
        codes = session.tables.codes
        if self._keeper is not None and not codes.names and not session.read_only:
            # Neither a full disk nor another program must stand in the way of opening.
            with suppress(IncompleteWriteError, StoreLockedError):
                with session.transaction() as connection:
                    add_codes(connection)
                    connection.execute("UPDATE store SET unscrubbed = 1 WHERE one = 1")
                codes.look()
        if not codes.names:
            self._keeper = None

    def _repair_codes(self) -> None:
        """A writer has loaded the index: what codes were missing or wrong are written anew."""
        session, mirror = self._session, self._mirror
        if self._keeper is None or session.read_only:
            return
        codes = session.tables.codes
        if not mirror.moved:
            codes.gain, codes.complete = self._keeper.gain, True
            if mirror.encoded:
                with suppress(IncompleteWriteError, StoreLockedError), session.transaction() as connection:
                    if len(mirror.encoded) < len(mirror.engine):
                        codes.remove(mirror.encoded)
                    else:
                        codes.clear()
                    connection.execute("UPDATE store SET unscrubbed = 1 WHERE one = 1")
        mirror.encoded = []
        self._fill_codes()

    def _put_codes(self, slots: Sequence[int], vectors: F32, numbers: I64) -> None:
        """Keep the codes of records that were just written, in their transaction; all codes go if the gain moved."""
        if self._keeper is not None:
            codes = self._session.tables.codes
            if codes.gain != self._keeper.gain:
                codes.clear()
                codes.gain = self._keeper.gain
            codes.put(slots, self._keeper.pack(vectors, numbers))

    def _fill_codes(self) -> None:
        """Write the codes that are missing. They are a help and no more: if there is no space, the next open tries."""
        session, keeper = self._session, self._keeper
        codes = session.tables.codes
        if keeper is None or codes.complete:
            return
        last = 0
        with suppress(IncompleteWriteError, StoreLockedError), translated(session.path):
            if codes.gain != keeper.gain:
                with session.transaction() as connection:
                    codes.clear()
                    codes.gain = keeper.gain
                    connection.execute("UPDATE store SET unscrubbed = 1 WHERE one = 1")
            while slots := codes.missing(last, _CODES):
                with session.transaction() as connection:
                    found = list(session.tables.read_slots(slots))
                    numbers, vectors = rows.to_arrays(
                        [r.row for r in found], [r.vector for r in found], self.dim, self.path
                    )
                    codes.put([r.slot for r in found], keeper.pack(vectors, numbers))
                    connection.execute("UPDATE store SET unscrubbed = 1 WHERE one = 1")
                last = slots[-1]
                self._empty_long_log()
            codes.complete = True

    def _recover(self) -> None:
        """Do what a crash has left: half a copy, an unscrubbed log, erasures without a receipt. It waits for nobody."""
        with suppress(FileError, OSError):  # an erasure says so if it is in the way
            remove_unfinished(self._session.path)
        self._eraser.try_complete()
        if self._session.checkpointer.everything:
            self._eraser.scrub_if_free()

    @property
    def path(self) -> Path:
        """The database file."""
        return self._session.path

    @property
    def config(self) -> Config:
        """Everything that was chosen when the store was made, defaults filled in.

        A key that the store has drawn is not part of it.
        """
        configuration = read_configuration(self._session.row.configuration, self._session.path)
        return configuration.with_key(None) if self._draws_key else configuration

    def files(self) -> dict[str, int]:
        """Every file that belongs to the store and could hold a record, by name, with its size in bytes."""
        return {path.name: path.stat().st_size for path in self._session.files.searchable()}

    @property
    def read_only(self) -> bool:
        """Whether this is a reader."""
        return self._session.read_only

    @property
    def encrypted(self) -> bool:
        """Whether its records are sealed, each under a key of its own."""
        return self._session.tables.sealed

    def _refresh(self) -> None:
        """Readers: take up what the writer has done since."""
        session = self._session
        session.require_open()
        if self._seen >= 0 and not session.read_only:
            return
        with session.guard, translated(session.path):
            seen = session.data_version()
            while seen != self._seen:
                session.row = self._mirror.refresh(session.row.digest.count)
                self._seen = seen
                # A forget meanwhile may have destroyed the key of a state that we have just read: then read again.
                if not session.row.digest_known:
                    seen = session.data_version()
            self._restore()

    def _restore(self) -> None:
        """A copy of a sealed store from before a forget: leave out what cannot be read, and count the digest anew."""
        session = self._session
        lost = session.tables.lost()
        if session.row.digest_known and not lost:
            return
        if lost and not self._drop_unreadable:
            raise KeysError(
                f"{session.path}: expected the key of every record in the vault, got none for {len(lost)} of "
                f"{len(lost) + len(self._mirror.engine)}: they were forgotten after this copy was made, or the vault "
                "is older than the store; drop_unreadable=True opens it without them"
            )
        digest = MultisetHash(session.row.configuration.encode())
        row = 0
        while part := session.tables.read_from_row(row, _PART):
            digest.add(record.encoding() for record in part)
            row = part[-1].row + 1
        session.row = replace(session.row, digest=digest, digest_known=True)
        if not session.read_only:
            with session.transaction():
                session.row.version += 1
                session.tables.delete(lost, session.row.version)
                session.write_row(session.row)

    def _settle(self) -> None:
        """Before each operation: see what others did, and finish what waits if the way is free."""
        self._refresh()
        if not self._session.read_only:
            self._eraser.try_complete()

    def _known_slots(self, ids: list[Id]) -> list[int]:
        found = rows.locate(self._session.connection, ids)
        missing = [id for id, slot in zip(ids, found, strict=True) if slot is None]
        if missing:
            raise UnknownIdError(
                f"ids: expected ids that are in the store, got {missing[0]!r}, which is not ({len(missing)} are not)"
            )
        return [slot for slot in found if slot is not None]

    def _empty_long_log(self) -> None:
        if self._session.checkpointer.wal_size() > _LOG_LIMIT:
            self._eraser.scrub_if_free()

    def close(self) -> None:
        """Finish what can be finished, and close. Safe to call twice."""
        with self._session.guard:
            try:
                if not self._session.closed and not self._session.read_only:
                    self._eraser.try_complete()
                    self._reserve.release()
            finally:
                try:
                    self._session.close()
                finally:
                    if self._lock is not None:
                        self._lock.release()

    def __enter__(self: _Self) -> _Self:
        """Return itself; the store is closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        """Where, how many, which kind."""
        state = "closed" if self._session.closed else f"{self._session.row.digest.count} records"
        return f"<Store {self.path}: {state}, dim={self.dim}, metric={self.metric!r}>"
