"""The index in memory as a mirror of the tables: loaded at open, and brought up to date when another process wrote.

Reading is in parts, each a short transaction of its own, so that a loading reader does not hold up anybody's erasure.
What changes between two parts is caught at the end. Slots are never used twice, so everything new has a slot above the
last one read; `removals` names the buckets of slots from which something went; and the number of records must agree.

A writer changes the index together with the tables. It notes the numbers of the records that it touches, and when a
transaction is rolled back, the index takes those records from the tables again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .._forgetting.multiset import MultisetHash
from .._forgetting.small_arrays import wipe_small_arrays
from .._index import Index
from .._index.loading import Loading
from .._progress import Progress
from ..errors import FormatError, IdError, InputError, KeysError
from .batch import Stored, as_arrays
from .codes import Codes
from .connection import let_go_of_values, translated
from .image import Image
from .loading import Loader
from .lookup import in_parts, marks
from .retention import Retention
from .schema import State, read_state
from .session import Session
from .tables import BUCKET

__all__ = ["Mirror"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
_PART = 8192
_ATTEMPTS = 100  # reads that lose a race against a writer before a damaged file is the likelier cause


def _nobody(numbers: Sequence[int] | I64) -> None:
    """Nobody is told."""


class Mirror:
    """The index, and for readers the slot and number of every record, by ascending slot."""

    def __init__(
        self,
        session: Session,
        index: Index,
        codes: Codes,
        image: Image,
        retention: Retention,
        *,
        drop_unreadable: bool,
    ) -> None:
        """An empty mirror: `refresh` loads it."""
        self.index = index
        self.bare: set[int] = set()  # numbers of records that are not in the index: without a vector, or expired
        # Who is told the numbers of records that entered or changed, and of those that left.
        self.entered: Callable[[Sequence[int] | I64], None] = _nobody
        self.left: Callable[[Sequence[int] | I64], None] = _nobody
        self._retention = retention
        self._session = session
        self._codes = codes
        self._image = image
        self._loader: Loader | None = None  # while everything is read for the first time
        self._tables = session.tables
        self._path = session.path
        self._drop_unreadable = drop_unreadable
        self._follows = session.read_only  # whether others may change the tables
        self._seen = -1  # the connection's data_version that the index agrees with
        self._last_slot = 0
        self._version = 0
        self._slots: I64 = np.empty(0, dtype=np.int64)
        self._numbers: I64 = np.empty(0, dtype=np.int64)
        self._touched: list[I64] = []  # numbers that the transaction under way has changed
        self._torn: list[I64] = []  # those of one that was rolled back, until the index is as the tables are
        self._encoded: list[int] = []  # for writers: slots of records that had no code, or a wrong one
        self._moved = False  # whether all codes were wrong, because the gain is another
        session.participants.append(self)

    # --- Following the tables ----------------------------------------------------------------------------------------

    def load(self) -> None:
        """Load everything; a writer then repairs the codes that are kept."""
        if self._codes.keeper is None and Loading.fits(self.index):
            self._loader = Loader(self._session, self.index, self._image)
        try:
            self.refresh()
        finally:
            self._loader = None
        encoded, self._encoded = self._encoded, []
        self._codes.repair(encoded, len(self.index), moved=self._moved)

    def refresh(self) -> None:
        """Readers: take up what the writer has done since. Writers: mend what a failed transaction has left.

        What has expired meanwhile leaves the index.
        """
        session = self._session
        session.require_open()
        with session.guard, translated(self._path):
            if self._torn:
                self._mend()
            if self._seen < 0 or self._follows:
                self._follow()
            self._hide(self._retention.advance())

    def _follow(self) -> None:
        """Take up what another process has done."""
        session = self._session
        seen = session.data_version()
        while seen != self._seen:
            session.state = self._take_up(session.state.digest.count)
            self._seen = seen
            self._retention.stale = True
            # A forget meanwhile may have destroyed the key of a state that we have just read: then read again.
            if not session.state.digest_known:
                seen = session.data_version()
        self._count_digest()

    def _hide(self, expired: Sequence[int]) -> None:
        """Take records that have expired out of the index."""
        self.left(expired)
        new = [number for number in expired if number not in self.bare]
        if new:
            self._forget_known(new)
            self.bare.update(new)

    def _take_up(self, expected: int) -> State:
        """Bring the index to the present state of the tables; the `store` row that it now agrees with."""
        had = self._last_slot
        connection = self._tables.connection
        with Progress(expected or None, "loading", unit="records") as progress:
            idle = 0  # rounds in which nothing was found, although something should be there
            while True:
                before = self._last_slot
                self._read_new(progress)
                connection.execute("BEGIN")
                try:
                    state = read_state(connection, self._path, self._tables)
                    complete = not self._tables.newer(self._last_slot)
                    present = self._present(connection) if complete and self._follows else {}
                finally:
                    connection.execute("ROLLBACK")
                if not complete:
                    idle = idle + 1 if self._last_slot == before else 0
                    if idle == _ATTEMPTS:
                        raise FormatError(
                            f"{self._path}: expected records that can be read, got some that cannot: damaged"
                        )
                    continue
                self._file_loaded()
                self._moved |= self._codes.gain_moved()
                if present:
                    self._drop_missing(present, had)
                self._tables.loaded()
                self._version = state.version
                held = len(self.index) + len(self.bare)
                if state.digest_known and held + len(self._tables.lost()) != state.digest.count:
                    raise FormatError(
                        f"{self._path}: expected {state.digest.count} records, got {held}: the file is damaged"
                    )
                return state

    def _read_new(self, progress: Progress) -> None:
        slots_read, numbers_read = [self._slots], [self._numbers]
        for loaded in self._loader.from_pages() if self._loader is not None else ():
            self.bare.difference_update(loaded.numbers.tolist() if self.bare else ())
            self.bare.update(loaded.bare_numbers.tolist())
            slots = np.concatenate([loaded.slots, loaded.bare_slots])
            order = np.argsort(slots, kind="stable") if len(loaded.bare_slots) else slice(None)
            slots_read.append(slots[order])
            numbers_read.append(np.concatenate([loaded.numbers, loaded.bare_numbers])[order])
            self._last_slot = loaded.last
            progress.advance(len(slots))
        while part := self._tables.read_new(self._last_slot, _PART):
            if part.slots:
                self._put(part.slots, part.numbers, part.vectors)
                slots_read.append(np.array(part.slots, dtype=np.int64))
                numbers_read.append(np.array(part.numbers, dtype=np.int64))
            self._last_slot = part.last
            progress.advance(len(part.slots))
        if self._follows and len(slots_read) > 1:
            self._slots, self._numbers = np.concatenate(slots_read), np.concatenate(numbers_read)

    def _put(self, slots: list[int], numbers: list[int], vectors: list[bytes]) -> None:
        """Add records, or replace those that are there: a replaced record is read again under its new slot."""
        self.entered(numbers)
        bare = {number for number, vector in zip(numbers, vectors, strict=True) if vector == b""}
        self._forget_known(bare)
        self.bare.difference_update(numbers)
        self.bare |= bare
        whole = [place for place, vector in enumerate(vectors) if vector != b""]
        if len(whole) < len(vectors):
            slots = [slots[place] for place in whole]
            numbers = [numbers[place] for place in whole]
            vectors = [vectors[place] for place in whole]
        made, arrays = as_arrays(numbers, vectors, self.index.dim, self._path)
        if not len(made):
            return
        try:
            if self._loader is not None:
                self._loader.add(np.array(slots, dtype=np.int64), made, arrays)
                return
            try:
                encoded = self._codes.load(self.index, slots, made, arrays)
                if not self._follows:
                    self._encoded += encoded
            except IdError:
                self._replace(made, arrays)
        except InputError as error:  # it took them once, so the file has changed since
            raise FormatError(f"{self._path}: expected records that an index takes, got others: {error}") from error
        finally:
            arrays.fill(0)  # a copy, of records that may be forgotten

    def _file_loaded(self) -> None:
        """Everything was read for the first time: from here on the index can be used."""
        if self._loader is None:
            return
        loader, self._loader = self._loader, None
        loader.finish()
        self._forget_known(self.bare)  # of those that lost their vectors while we read

    def _forget_known(self, numbers: Iterable[int]) -> None:
        """Forget those of these that the index has."""
        known = [number for number in numbers if number in self.index]
        if known:
            self.index.forget(known)

    def _replace(self, numbers: I64, vectors: F32) -> None:
        """Add records, or replace the vectors of those that are there."""
        known = np.array([number in self.index for number in numbers.tolist()], dtype=np.bool_)
        if known.any():
            self.index.update(vectors[known], ids=numbers[known])
        if not known.all():
            self.index.add(vectors[~known], ids=numbers[~known])

    def _present(self, connection: sqlite3.Connection) -> dict[int, I64]:
        """The slots that are left in each bucket from which something went."""
        changed = connection.execute("SELECT bucket FROM removals WHERE version > ?", (self._version,)).fetchall()
        if not all(type(bucket) is int and 0 <= bucket < (1 << 62) // BUCKET for (bucket,) in changed):
            raise FormatError(f"{self._path}: expected numbers of buckets in the list of removals, got others: damaged")
        return {bucket: np.array(self._tables.slots_in(bucket), dtype=np.int64) for (bucket,) in changed}

    def _drop_missing(self, present: dict[int, I64], had: int) -> None:
        """Forget what is gone. A replaced record has a slot that is gone and one, read since slot `had`, that stays."""
        places = [self._gone(bucket, slots) for bucket, slots in present.items()]
        gone = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
        numbers = self._numbers[gone]
        self._tables.drop(self._slots[gone].tolist())
        self._slots, self._numbers = np.delete(self._slots, gone), np.delete(self._numbers, gone)
        new = self._numbers[np.searchsorted(self._slots, had, side="right") :]
        numbers = numbers[~np.isin(numbers, new)]
        self._leave(np.unique(numbers))
        if len(gone):
            let_go_of_values(self._tables.connection)
            wipe_small_arrays()

    def _gone(self, bucket: int, present: I64) -> I64:
        """Where in our arrays the slots of a bucket stand that are no longer in it."""
        start, end = np.searchsorted(self._slots, [bucket * BUCKET, (bucket + 1) * BUCKET]).tolist()
        places: I64 = start + np.flatnonzero(~np.isin(self._slots[start:end], present))
        return places

    def _count_digest(self) -> None:
        """A copy of a sealed store from before a forget: leave out what cannot be read, and count the digest again."""
        session, tables = self._session, self._tables
        lost = tables.lost()
        if session.state.digest_known and not lost:
            return
        if lost and not self._drop_unreadable:
            raise KeysError(
                f"{session.path}: expected the key of every record in the vault, got none for {len(lost)} of "
                f"{len(lost) + len(self.index) + len(self.bare)}: they were forgotten after this copy was made, or the "
                "vault is older than the store; drop_unreadable=True opens it without them"
            )
        digest = MultisetHash(session.state.configuration.encode())
        number = 0
        while part := tables.read_from(number, _PART):
            digest.add(record.encoding() for record in part)
            number = part[-1].number + 1
        session.state = replace(session.state, digest=digest, digest_known=True)
        if not session.read_only:
            with session.transaction() as transaction:
                tables.delete(lost, transaction.write().version)
                self._codes.delete(lost)

    def arrays(self, records: Sequence[Stored]) -> tuple[I64, F32]:
        """Numbers and vectors of records that have one."""
        return as_arrays([r.number for r in records], [r.vector for r in records], self.index.dim, self._path)

    # --- Changing it together with the tables ------------------------------------------------------------------------

    def enter(self, numbers: I64, vectors: F32, bare: Iterable[int] = (), *, replacing: bool = False) -> None:
        """Add records; with `replacing`, those that may be there. `bare` are the numbers of those without a vector."""
        bare = list(bare)
        self._touched += [numbers, np.array(bare, dtype=np.int64)]
        self.entered(numbers)
        self.entered(bare)
        self._forget_known(bare)
        if replacing:
            self._replace(numbers, vectors)
        elif len(numbers):
            self.index.add(vectors, ids=numbers)
        self.bare.difference_update(numbers.tolist())
        self.bare.update(bare)

    def leave(self, numbers: I64) -> None:
        """Forget records."""
        self._touched.append(numbers)
        self._leave(numbers)

    def _leave(self, numbers: I64) -> None:
        self.left(numbers)
        if self.bare:
            indexed = np.array([number not in self.bare for number in numbers.tolist()], dtype=np.bool_)
            self.bare.difference_update(numbers.tolist())
            numbers = numbers[indexed]
        if len(numbers):
            self.index.forget(numbers)

    def mark(self) -> int:
        """How much the transaction under way has touched so far."""
        if not self._session.in_transaction:
            self._touched = []
        return len(self._touched)

    def undo(self, mark: Any) -> None:
        """Take what was touched since from the tables again. What fails is tried again before the next call."""
        self._retention.stale = True
        self._torn += self._touched[mark:]
        del self._touched[mark:]
        if not self._session.closed:
            self._mend()

    def _mend(self) -> None:
        numbers = np.unique(np.concatenate(self._torn)) if self._torn else np.empty(0, dtype=np.int64)
        for start in range(0, len(numbers), _PART):
            part = numbers[start : start + _PART]
            self.entered(part)
            slots: list[int] = []
            for some in in_parts(part.tolist()):
                sql = f"SELECT slot FROM records WHERE number IN ({marks(some)})"
                slots += [slot for (slot,) in self._tables.connection.execute(sql, some)]
            found = list(self._tables.read_slots(slots))
            whole = [record for record in found if record.vector is not None]
            made, vectors = self.arrays(whole)
            gone = part[~np.isin(part, made)]
            self._forget_known(gone.tolist())
            if len(made):
                self._replace(made, vectors)
            vectors.fill(0)
            self.bare.difference_update(part.tolist())
            self.bare.update(record.number for record in found if record.vector is None)
        self._torn = []
