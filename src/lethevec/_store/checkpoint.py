"""Emptying the log for good: checkpoint, read its result, scrub the pages that it rewrote, drop the cached ones.

Order matters, and each step says why:

1. note which pages the log holds: those are the ones whose unused parts may have changed;
2. `wal_checkpoint(TRUNCATE)`, and **read what it returns**: with a reader on an older snapshot it says busy and the old
   bytes are still in the database, the new ones in the log;
3. take SQLite's write lock and see that the log is still empty: now nobody writes pages;
4. overwrite what is left in the unused parts of the noted pages, and sync;
5. drop the connection's page cache: a cached copy still has the old unused parts, and the next change of that page
would write them back.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from .connection import pragma
from .files import RawFile, StoreFiles
from .pages import WalState, scrub, wal_state

__all__ = ["BusyError", "Checkpointer", "Scrubbed"]


class BusyError(Exception):
    """The checkpoint could not finish: somebody reads an older state, or writes. Never leaves the store package."""


@dataclass(frozen=True)
class Scrubbed:
    """The pages that were looked at (None: all of them), and in how many something had to be overwritten."""

    pages: frozenset[int] | None
    cleaned: int


class Checkpointer:
    """The only one who checkpoints this store."""

    def __init__(self, connection: sqlite3.Connection, raw: RawFile, files: StoreFiles, page_size: int) -> None:
        """Nothing is known yet about pages that were written before: the first run looks at all if asked to."""
        self._connection = connection
        self._raw = raw
        self._files = files
        self._page_size = page_size
        self._mark = WalState()
        self.runs = 0  # that were complete: each has scrubbed pages that no later one names
        self.everything = False  # whether pages may need a scrub that the log no longer names
        self._busy: frozenset[int] = frozenset()  # pages that were to be scrubbed when somebody was in the way

    def note_commit(self) -> None:
        """Remember how far the log has come: if it is found shorter, somebody else emptied it."""
        log = wal_state(self._files.wal, with_pages=False)
        self._look_at(log)
        self._mark = log

    def _look_at(self, log: WalState) -> None:
        """Where the log is another one than was left, or shorter, it no longer names all pages."""
        if self._mark.size and (log.salts != self._mark.salts or log.size < self._mark.size):
            self.everything = True

    def grew(self) -> bool:
        """Whether something went to the log since the last commit."""
        return self.wal_size() > self._mark.size

    def wal_size(self) -> int:
        """Bytes in the log."""
        return self._files.wal.stat().st_size if self._files.wal.exists() else 0

    def run(self, timeout: float) -> Scrubbed:
        """Do all five steps; `BusyError` after `timeout` seconds if a reader is in the way."""
        log = wal_state(self._files.wal)
        self._look_at(log)
        named = log.pages | self._busy
        before = self.everything
        pages = None if before else named
        try:
            pragma(self._connection, f"busy_timeout={max(0, int(timeout * 1000))}")
            # If what follows fails half-way, the log may be empty and its pages not scrubbed: then all are looked at.
            self.everything = before or bool(named)
            try:
                self._truncate()
            except BusyError:  # the next run knows which pages they are, whoever has written to the log by then
                self.everything, self._busy = before, named
                raise
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                if self.wal_size():
                    raise BusyError("another program wrote to the database")
                cleaned = scrub(self._raw, self._page_size, pages)
            finally:
                self._connection.execute("ROLLBACK")
            pragma(self._connection, "shrink_memory")
        except sqlite3.OperationalError as error:
            raise BusyError(str(error)) from error
        self.everything, self._busy = False, frozenset()
        self.runs += 1
        self._mark = WalState()
        return Scrubbed(pages, len(cleaned))

    def _truncate(self) -> None:
        busy, in_log, moved = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy or in_log != 0 or moved != 0 or self.wal_size():
            raise BusyError("a reader holds a snapshot" if busy else "the log was not emptied")
