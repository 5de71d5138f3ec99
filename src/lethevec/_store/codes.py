"""The table `codes`: what is kept of records' codes, where making them takes longer than reading them.

It is a help to open the store and nothing else: a row may be missing or wrong, and then the code is made anew (see
`index.kept`, which also says what a row holds). So a backup has none, and a store gets its table, and rows that are
missing, when it is opened for writing.

A code is derived from its record and goes with it: deleted in the same transaction, searched for like its vector, and
in a sealed store sealed under the record's own key. But codes can depend on the other records too, by the gain. When a
change moves the gain, all rows are deleted in the transaction of that change, and written anew after it: a code made
with a gain that knew a forgotten record would be a trace of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .rows import in_parts, marks

if TYPE_CHECKING:
    from .tables import PlainTables

__all__ = ["CodeTable", "has_codes", "make_codes"]

_TABLE = "CREATE TABLE codes (slot INTEGER PRIMARY KEY, code BLOB NOT NULL)"


def has_codes(connection: sqlite3.Connection) -> bool:
    """Whether the store has the table."""
    known = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'codes'"
    return connection.execute(known).fetchone() is not None


def make_codes(connection: sqlite3.Connection) -> None:
    """Make the table, inside the caller's transaction."""
    connection.execute(_TABLE)


class CodeTable:
    """The rows of `codes` of an open store, if it has the table. Everything runs inside the caller's transaction."""

    def __init__(self, tables: PlainTables) -> None:
        """Nothing is known about the rows yet: `complete` is False."""
        self._tables = tables
        self._connection = tables.connection
        self.names: tuple[str, ...] = ()
        self.gain: float | None = None  # with which the rows that are there were made
        self.complete = False  # whether every record has one
        self._before: tuple[float | None, bool] = (None, False)
        self.look()

    def look(self) -> None:
        """See whether the table is there."""
        self.names = ("main.codes",) if has_codes(self._connection) else ()

    def put(self, slots: Sequence[int], codes: Sequence[bytes]) -> None:
        """Write the codes of records, or write over them."""
        wrapped = self._tables.wrap(slots, codes)
        self._connection.executemany("REPLACE INTO main.codes VALUES (?, ?)", zip(slots, wrapped, strict=True))

    def read(self, slots: Sequence[int]) -> list[bytes | None]:
        """The codes of some slots, ascending; None for what is not there or cannot be read."""
        if not self.names or not slots:
            return [None] * len(slots)
        sql = "SELECT slot, code FROM main.codes WHERE slot >= ? AND slot <= ?"
        rows = self._connection.execute(sql, (slots[0], slots[-1])).fetchall()
        found = self._tables.unwrap([row for row in rows if type(row[1]) is bytes])
        return [found.get(slot) for slot in slots]

    def of(self, slots: Sequence[int]) -> list[bytes | None]:
        """The same for slots in any order."""
        if not self.names:
            return [None] * len(slots)
        rows: list[tuple[int, bytes]] = []
        for part in in_parts(slots):
            rows += self._connection.execute(f"SELECT slot, code FROM main.codes WHERE slot IN ({marks(part)})", part)
        found = self._tables.unwrap([row for row in rows if type(row[1]) is bytes])
        return [found.get(slot) for slot in slots]

    def as_kept(self, slot: int) -> list[bytes]:
        """What the file has of one code."""
        if not self.names:
            return []
        found = self._connection.execute("SELECT code FROM main.codes WHERE slot = ?", (slot,))
        return [code for (code,) in found if type(code) is bytes]

    def remove(self, slots: Iterable[int]) -> None:
        """Delete the codes of these slots, to be written anew."""
        self._connection.executemany("DELETE FROM main.codes WHERE slot = ?", ((slot,) for slot in slots))
        self.complete = False

    def clear(self) -> None:
        """Delete all, to be written anew: the gain moves."""
        self._connection.execute("DELETE FROM main.codes")
        self.gain, self.complete = None, False

    def missing(self, after: int, limit: int) -> list[int]:
        """Up to `limit` slots above this one whose records have no code, ascending."""
        sql = (
            "SELECT v.slot FROM main.vectors AS v LEFT JOIN main.codes AS c ON c.slot = v.slot "
            "WHERE v.slot > ? AND c.slot IS NULL ORDER BY v.slot LIMIT ?"
        )
        return [slot for (slot,) in self._connection.execute(sql, (after, limit))]

    def begin(self) -> None:
        """A write transaction has begun."""
        self._before = (self.gain, self.complete)

    def undo(self) -> None:
        """It was rolled back."""
        self.gain, self.complete = self._before
