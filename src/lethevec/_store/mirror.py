"""The index in memory as a mirror of the tables: loaded at open, and brought up to date when another process wrote.

Reading is in parts, each a short transaction of its own, so that a loading reader does not hold up anybody's erasure.
What changes between two parts is caught at the end. Slots are never used twice, so everything new has a slot above the
last one read; `removals` names the buckets of slots from which something went; and the number of records must agree.
"""

from __future__ import annotations

import sqlite3

import numpy as np
import numpy.typing as npt

from .._progress import Progress
from ..errors import FormatError, IdError, InputError
from .engine import Engine, Keeper
from .rows import to_arrays
from .schema import StoreRow, read_store_row
from .tables import BUCKET, PlainTables

__all__ = ["Mirror"]

I64 = npt.NDArray[np.int64]
_PART = 8192


class Mirror:
    """The engine, and for readers the slot and row of every record in it, by ascending slot."""

    def __init__(
        self, engine: Engine, tables: PlainTables, dim: int, *, follow: bool, keeper: Keeper | None = None
    ) -> None:
        """An empty mirror; `follow` for readers, which must notice what others do; `keeper` if codes are kept."""
        self.engine = engine
        self._keeper = keeper
        self.encoded: list[int] = []  # for writers: slots of records that had no code, or a wrong one
        self.moved = False  # whether all codes were wrong, because the gain is another
        self._tables = tables
        self._dim = dim
        self._path = tables.path
        self._follow = follow
        self._last_slot = 0
        self._version = 0
        self._slots: I64 = np.empty(0, dtype=np.int64)
        self._rows: I64 = np.empty(0, dtype=np.int64)

    def refresh(self, expected: int) -> StoreRow:
        """Bring the engine to the present state of the tables; the `store` row that it now agrees with."""
        had = self._last_slot
        connection = self._tables.connection
        with Progress(expected or None, "loading", unit="records") as progress:
            while True:
                self._read_new(progress)
                connection.execute("BEGIN")
                try:
                    row = read_store_row(connection, self._path, self._tables)
                    complete = not self._tables.newer(self._last_slot)
                    present = self._present(connection) if complete and self._follow else {}
                finally:
                    connection.execute("ROLLBACK")
                if not complete:
                    continue
                if self._keeper is not None:
                    self.moved |= self._keeper.settle()
                if present:
                    self._drop_missing(present, had)
                self._tables.loaded()
                self._version = row.version
                held = len(self.engine)
                if row.digest_known and held + len(self._tables.lost()) != row.digest.count:
                    raise FormatError(
                        f"{self._path}: expected {row.digest.count} records, got {held}: the file is damaged"
                    )
                return row

    def _read_new(self, progress: Progress) -> None:
        slots_read, rows_read = [self._slots], [self._rows]
        while part := self._tables.read_new(self._last_slot, _PART):
            if part.slots:
                rows, vectors = to_arrays(part.rows, part.vectors, self._dim, self._path)
                self._put(part.slots, rows, vectors)
                slots_read.append(np.array(part.slots, dtype=np.int64))
                rows_read.append(rows)
            self._last_slot = part.last
            progress.advance(len(part.slots))
        if self._follow and len(slots_read) > 1:
            self._slots, self._rows = np.concatenate(slots_read), np.concatenate(rows_read)

    def _put(self, slots: list[int], rows: I64, vectors: npt.NDArray[np.float32]) -> None:
        """Add records, or replace those that are there: a replaced record is read again under its new slot."""
        try:
            try:
                self._add(slots, rows, vectors)
            except IdError:
                known = np.array([row in self.engine for row in rows.tolist()])
                if known.any():
                    self.engine.update(vectors[known], ids=rows[known])
                if not known.all():
                    self.engine.add(vectors[~known], ids=rows[~known])
        except InputError as error:  # it took them once, so the file has changed since
            raise FormatError(f"{self._path}: expected records that an index takes, got others: {error}") from error

    def _add(self, slots: list[int], rows: I64, vectors: npt.NDArray[np.float32]) -> None:
        """Add records, with their codes if they were kept."""
        if self._keeper is None:
            self.engine.add(vectors, ids=rows)
            return
        encoded = self._keeper.restore(vectors, rows, self._tables.codes.read(slots))
        if not self._follow and encoded.any():
            self.encoded += np.array(slots)[encoded].tolist()

    def _present(self, connection: sqlite3.Connection) -> dict[int, I64]:
        """The slots that are left in each bucket from which something went."""
        changed = connection.execute("SELECT bucket FROM removals WHERE version > ?", (self._version,)).fetchall()
        return {bucket: np.array(self._tables.slots_in(bucket), dtype=np.int64) for (bucket,) in changed}

    def _drop_missing(self, present: dict[int, I64], had: int) -> None:
        """Forget what is gone. A replaced record has a slot that is gone and one, read since slot `had`, that stays."""
        places = [self._gone(bucket, slots) for bucket, slots in present.items()]
        gone = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
        rows = self._rows[gone]
        self._tables.drop(self._slots[gone].tolist())
        self._slots, self._rows = np.delete(self._slots, gone), np.delete(self._rows, gone)
        new = self._rows[np.searchsorted(self._slots, had, side="right") :]
        rows = rows[~np.isin(rows, new)]
        if len(rows):
            self.engine.forget(np.unique(rows))

    def _gone(self, bucket: int, present: I64) -> I64:
        """Where in our arrays the slots of a bucket stand that are no longer in it."""
        start, end = np.searchsorted(self._slots, [bucket * BUCKET, (bucket + 1) * BUCKET]).tolist()
        places: I64 = start + np.flatnonzero(~np.isin(self._slots[start:end], present))
        return places
