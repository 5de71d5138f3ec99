"""The table `codes`: what is kept of records' codes, where making them takes longer than reading them.

It is a help to open the store and nothing else: a row may be missing or wrong, and then the code is made again (see
`_index.kept`, which also says what a row holds). So a backup has none, and a store gets its table, and rows that are
missing, when it is opened for writing.

A code is derived from its record and goes with it: deleted in the same transaction, searched for like its vector, and
in a sealed store sealed under the record's own key. But codes can depend on the other records too, by the gain. When a
change moves the gain, all rows are deleted in the transaction of that change, and written again after it: a code made
with a gain that knew a forgotten record would be a trace of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._forgetting.residue import Needle
from .._index import Index
from .._index.kept import KeptCodes, worth_keeping
from ..errors import IncompleteWriteError, StoreLockedError
from .batch import Stored, as_arrays
from .connection import translated
from .lookup import in_parts, marks
from .tables import require_ascending

if TYPE_CHECKING:
    from .session import Session

__all__ = ["Codes", "code_columns", "make_codes"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

_TABLE = "CREATE TABLE codes (slot INTEGER PRIMARY KEY, code BLOB NOT NULL)"
_PART = 8192  # codes that are written in one transaction when they are missing


def make_codes(connection: sqlite3.Connection) -> None:
    """Make the table, inside the caller's transaction."""
    connection.execute(_TABLE)


def has_codes(connection: sqlite3.Connection) -> bool:
    """Whether the store has the table."""
    known = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'codes'"
    return connection.execute(known).fetchone() is not None


def code_columns(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Table, key and column of what living records have in the table, if it is there."""
    return [("main.codes", "slot", "code")] if has_codes(connection) else []


class Codes:
    """The kept codes of an open store: made, read, repaired, filled and deleted. Without the table nothing is kept."""

    def __init__(self, session: Session, index: Index) -> None:
        """Of this index, still empty. A writer makes the table where codes are worth keeping."""
        self._session = session
        self._connection = session.connection
        self._tables = session.tables
        self._dim = index.dim
        self.keeper = KeptCodes(index) if worth_keeping(index.config) else None
        self.present = has_codes(session.connection)
        self.gain: float | None = None  # with which the rows that are there were made
        self.complete = False  # whether every record has one
        if self.keeper is not None and not self.present and not session.read_only:
            # Neither a full disk nor another program must stand in the way of opening.
            with suppress(IncompleteWriteError, StoreLockedError):
                with session.transaction():
                    make_codes(session.connection)
                self.present = True
        if not self.present:
            self.keeper = None
        session.participants.append(self)

    # --- Reading -----------------------------------------------------------------------------------------------------

    def load(self, index: Index, slots: Sequence[int], numbers: I64, vectors: F32) -> list[int]:
        """Add records to the index, with their codes if they were kept; the slots of those that had to be encoded.

        `gain_moved` has to be asked when all are there.
        """
        if self.keeper is None:
            index.add(vectors, ids=numbers)
            return []
        encoded = self.keeper.restore(vectors, numbers, self.read(slots))
        return [slot for slot, was in zip(slots, encoded.tolist(), strict=True) if was]

    def gain_moved(self) -> bool:
        """After `load`: whether the gain of all records is another than was kept, and so all codes are."""
        return self.keeper is not None and self.keeper.follow_gain()

    def read(self, slots: Sequence[int]) -> list[bytes | None]:
        """The codes of some slots, ascending; None for what is not there or cannot be read."""
        sql = "SELECT slot, code FROM main.codes WHERE slot >= ? AND slot <= ?"
        return self._opened(slots, self._connection.execute(sql, (slots[0], slots[-1])).fetchall())

    def of(self, slots: Sequence[int]) -> list[bytes | None]:
        """The same for slots in any order."""
        found: list[tuple[int, bytes]] = []
        if self.present:
            for part in in_parts(slots):
                sql = f"SELECT slot, code FROM main.codes WHERE slot IN ({marks(part)})"
                found += self._connection.execute(sql, part)
        return self._opened(slots, found)

    def _opened(self, slots: Sequence[int], found: Sequence[tuple[int, bytes]]) -> list[bytes | None]:
        codes = self._tables.unwrap([row for row in found if type(row[1]) is bytes])
        return [codes.get(slot) for slot in slots]

    def traces(self, record: Stored) -> list[Needle]:
        """What the file has of a record's code."""
        if not self.present:
            return []
        found = self._connection.execute("SELECT code FROM main.codes WHERE slot = ?", (record.slot,))
        label = "sealed code" if self._tables.sealed else "code"
        return [Needle(label, code) for (code,) in found if type(code) is bytes]

    # --- Writing -----------------------------------------------------------------------------------------------------

    def put(self, slots: Sequence[int], vectors: F32, numbers: I64) -> None:
        """Keep the codes of records that were just written, in their transaction."""
        if self.keeper is not None and len(slots):
            self.follow_gain()
            self.gain = self.keeper.gain
            self._write(slots, vectors, numbers)

    def follow_gain(self) -> None:
        """After a change of the index, in its transaction: all codes go if the gain moved."""
        if self.keeper is not None and self.gain != self.keeper.gain:
            self.clear()

    def delete(self, slots: Iterable[int]) -> None:
        """Delete the codes of records that go."""
        if self.present:
            self._connection.executemany("DELETE FROM main.codes WHERE slot = ?", ((slot,) for slot in slots))

    def repair(self, encoded: Sequence[int], loaded: int, *, moved: bool) -> None:
        """A writer has loaded the index: write what was missing or wrong.

        `encoded` are the slots of records whose codes were not right, of so many that were loaded.
        """
        if self.keeper is None or self._session.read_only:
            return
        if not moved:
            self.gain, self.complete = self.keeper.gain, True
            if encoded:
                with suppress(IncompleteWriteError, StoreLockedError), self._session.transaction():
                    if len(encoded) < loaded:
                        self.delete(encoded)
                        self.complete = False
                    else:
                        self.clear()
        self.fill()

    def fill(self) -> None:
        """Write the codes that are missing. They are a help and no more: if there is no space, the next open tries."""
        session = self._session
        if self.keeper is None or self.complete or session.in_transaction:
            return
        last = 0
        with suppress(IncompleteWriteError, StoreLockedError), translated(session.path):
            if self.gain != self.keeper.gain:
                with session.transaction():
                    self.clear()
                    self.gain = self.keeper.gain
            while slots := self._missing(last):
                with session.transaction():
                    found = [record for record in self._tables.read_slots(slots) if record.vector is not None]
                    numbers, vectors = as_arrays(
                        [r.number for r in found], [r.vector for r in found], self._dim, session.path
                    )
                    if found:
                        self._write([record.slot for record in found], vectors, numbers)
                last = slots[-1]
                session.empty_long_log()
            self.complete = True

    def _write(self, slots: Sequence[int], vectors: F32, numbers: I64) -> None:
        assert self.keeper is not None
        wrapped = self._tables.wrap(slots, self.keeper.pack(vectors, numbers))
        self._connection.executemany("REPLACE INTO main.codes VALUES (?, ?)", zip(slots, wrapped, strict=True))

    def clear(self) -> None:
        """Delete all, to be written again."""
        self._connection.execute("DELETE FROM main.codes")
        self.gain, self.complete = None, False

    def _missing(self, after: int) -> list[int]:
        """Slots above this one whose records have no code, ascending."""
        sql = (
            f"SELECT r.slot FROM {self._tables.main_table} AS r LEFT JOIN main.codes AS c ON c.slot = r.slot "
            "WHERE r.slot > ? AND c.slot IS NULL ORDER BY r.slot LIMIT ?"
        )
        slots = [slot for (slot,) in self._connection.execute(sql, (after, _PART))]
        require_ascending(slots, after + 1)
        return slots

    # --- As a participant in transactions ----------------------------------------------------------------------------

    def mark(self) -> tuple[float | None, bool]:
        """What is known about the rows."""
        return self.gain, self.complete

    def undo(self, mark: Any) -> None:
        """It is known again."""
        self.gain, self.complete = mark
