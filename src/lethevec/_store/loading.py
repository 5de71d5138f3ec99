"""The first reading of a store: all records into an index that nobody uses yet.

Where the log is empty, the file's pages are all there is to know, and the native core reads vectors straight from them,
many for each call. SQLite is asked to keep the file as it is meanwhile: with an empty log, whoever reads holds the lock
that a checkpoint needs to write to the file. Each part is a short transaction of its own, so that nobody waits long;
if something was written between two parts, SQLite reads the rest. So it does where the pages do not make sense: it
says what is wrong with them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._index import Index
from .._index.loading import Loading
from .._native import core
from ..errors import FormatError
from .connection import pragma
from .image import Image
from .pages import wal_state
from .session import Session

__all__ = ["Loaded", "Loader"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

_PART_BYTES = 16 << 20  # of vectors that are read in one transaction


class Loaded(NamedTuple):
    """Some records that were read: slots and numbers of those with a vector and of the others, and the last slot."""

    slots: I64
    numbers: I64
    bare_slots: I64
    bare_numbers: I64
    last: int


class Loader:
    """Fills the index of a store that is being opened."""

    def __init__(self, session: Session, index: Index, image: Image) -> None:
        """An empty index; about as many records as the store says."""
        self._session = session
        self._index = index
        self._image = image
        self._loading = Loading(index, session.state.digest.count)
        self._kept = image.read()
        self._slots: list[I64] = []
        self._by_pages = not session.tables.sealed  # where the pages have records in the clear

    def add(self, slots: I64, numbers: I64, vectors: F32) -> None:
        """Some records that SQLite has read."""
        self._loading.add(vectors, numbers)
        self._slots.append(slots)

    def finish(self) -> None:
        """All are there: file them, by the image if it is of these records."""
        if self._loading.replaced and not self._session.read_only:
            raise FormatError(f"{self._session.path}: expected each id once, got one more than once: damaged")
        image, rows = None, None
        if self._kept is not None and not self._loading.replaced:
            slots = np.concatenate(self._slots) if self._slots else np.empty(0, dtype=np.int64)
            known = (slots <= self._kept.last) & ~np.isin(slots, self._kept.absent)
            if int(known.sum()) == self._kept.records:
                image, rows = self._kept.data, np.flatnonzero(known).astype(np.uint32)
        self._image.usable = self._loading.finish(image, rows)

    def from_pages(self) -> Iterator[Loaded]:
        """Read what can be read from pages, and put it into the index."""
        if not self._by_pages:
            return
        self._by_pages = False
        connection = self._session.connection
        rows = max(1024, _PART_BYTES // (4 * self._index.dim))
        stored: core.StoredVectors | None = None
        version = pragma(connection, "data_version")
        while True:
            connection.execute("BEGIN")
            try:
                roots = _roots(connection)  # the first question takes the lock
                log = wal_state(self._session.files.wal, with_pages=False)
                if roots is None or log.size or pragma(connection, "data_version") != version:
                    return
                stored = stored or self._open(*roots)
                loaded = Loaded(*self._loading.add_stored(stored, rows))
            except core.DamagedPages:
                return
            finally:
                connection.execute("ROLLBACK")
            if not len(loaded.slots) and not len(loaded.bare_slots):
                return
            self._slots.append(loaded.slots)
            yield loaded

    def _open(self, vectors: int, records: int) -> core.StoredVectors:
        session = self._session
        size = session.page_size
        return core.StoredVectors(
            session.raw.descriptor, size, session.raw.size // size, vectors, records, self._index.dim
        )


def _roots(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """The first pages of the tables `vectors` and `records`, as a damaged file might not have them."""
    sql = "SELECT name, rootpage FROM main.sqlite_master WHERE type = 'table' AND name IN ('vectors', 'records')"
    found = dict(connection.execute(sql).fetchall())
    roots = found.get("vectors"), found.get("records")
    if not all(type(root) is int and 0 < root < 1 << 32 for root in roots):
        return None
    return roots  # type: ignore[return-value]
