"""What makes filters fast: the fields of all payloads in native memory, beside the rows of the index.

The structure is derived from the table `records`, and made when a filter is used for the first time: a store that is
never filtered does not pay for it, and opening takes no longer. From then on it follows every change. What belongs to
a record in the index goes with its row, inside the native index and at the same moment; records without a vector have
rows of their own here. What entered or changed is noted by number and read from the table again before the next answer,
and at the latest when the change is complete: nothing of an old payload is left then.

What the structure cannot tell ("unsure": fields that are not indexed, very long texts) is decided by the rules
themselves (`lethevec._filters.matches`) on the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._filters import Node, Pattern, matches, pattern_program
from .._native import core
from ..errors import FormatError
from .batch import read_payload
from .ids import STRING_NUMBERS
from .lookup import describe, in_parts, marks
from .mirror import Mirror
from .session import Session

__all__ = ["Fields", "Selected"]

I64 = npt.NDArray[np.int64]
_PART = 8192
_ATTEMPTS = 100  # readings that lose a race against a writer before a damaged file is the likelier cause


@dataclass(frozen=True)
class Selected:
    """What a filter lets through: rows of the index, and numbers of records without a vector."""

    rows: core.SelectedRows
    bare: I64

    def count(self) -> int:
        """How many records."""
        return len(self.rows) + len(self.bare)


class Fields:
    """The structure of an open store. The caller holds the guard."""

    def __init__(self, session: Session, mirror: Mirror, only: Sequence[str] | None) -> None:
        """Nothing yet. `only` are the fields that are indexed; None is all of them."""
        self._session = session
        self._mirror = mirror
        self._only = None if only is None else list(only)
        self._used = False  # whether a filter was used already
        self._native: core.Index | None = None  # that has the fields of its rows
        self._dirty: list[I64] = []  # numbers of what entered or changed
        self._touched: list[I64] = []  # the same, in the transaction under way
        self._bare = _BareRows(self._only)
        mirror.entered, mirror.left = self.entered, self.left
        session.participants.append(self)

    @property
    def used(self) -> bool:
        """Whether there is a structure: a filter was used already."""
        return self._used

    # --- Following changes -------------------------------------------------------------------------------------------

    def entered(self, numbers: Sequence[int] | I64) -> None:
        """Records have entered the store, or have changed."""
        if self._used and len(numbers):
            noted = np.array(numbers, dtype=np.int64)
            self._dirty.append(noted)
            self._touched.append(noted)

    def left(self, numbers: Sequence[int] | I64) -> None:
        """Records have left the store; those of the index took their fields along."""
        if self._used and len(numbers):
            self._touched.append(np.array(numbers, dtype=np.int64))
            self._bare.remove(numbers)

    def mark(self) -> int:
        """How much the transaction under way has touched so far."""
        if not self._session.in_transaction:
            self._touched = []
        return len(self._touched)

    def undo(self, mark: Any) -> None:
        """Take what was touched since from the table again."""
        self._dirty += self._touched[mark:]
        del self._touched[mark:]
        if not self._session.closed:
            self.catch_up()

    def catch_up(self) -> None:
        """If there is a structure, bring it up to date: what changed must not stay in it as it was."""
        if not self._used:
            return
        for _ in range(_ATTEMPTS):
            if self._up_to_date():
                return
            # Another process has written meanwhile: a record of the index is not in the table any more.
            self._mirror.refresh()
        raise FormatError(
            f"{self._session.path}: expected every record of the index in the table, got some that are not"
        )

    def _up_to_date(self) -> bool:
        native = self._mirror.index._native
        try:
            if native is not self._native:  # with many records the index is another one than with few
                self._native = native
                return self._read_everything(native)
            dirty, self._dirty = self._dirty, []
            return not dirty or self._read(native, np.unique(np.concatenate(dirty)))
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Nothing half-made stays: the next filter begins again."""
        if self._native is not None:
            self._native.keep_fields([])
        self._used, self._native, self._dirty, self._touched = False, None, [], []
        self._bare = _BareRows(self._only)

    # --- Reading the table -------------------------------------------------------------------------------------------

    def _read_everything(self, native: core.Index) -> bool:
        self._dirty = []
        self._bare = _BareRows(self._only)
        native.keep_fields(self._only)
        found = self._session.connection.execute("SELECT number, subject, payload FROM alive")
        seen = 0
        while part := found.fetchmany(_PART):
            seen += self._put(native, part)
        return seen == len(native)

    def _read(self, native: core.Index, numbers: I64) -> bool:
        connection = self._session.connection
        self._bare.remove(numbers)
        seen = 0
        for part in in_parts(numbers.tolist()):
            sql = f"SELECT number, subject, payload FROM alive WHERE number IN ({marks(part)})"
            seen += self._put(native, connection.execute(sql, part).fetchall())
        present = np.empty(len(numbers), dtype=np.bool_)
        native.contains(numbers, present)
        if seen == present.sum():
            return True
        self._dirty.append(numbers)
        return False

    def _put(self, native: core.Index, found: list[Any]) -> int:
        """Give records their fields; how many of them are in the index."""
        if not found:
            return 0
        columns = [list(column) for column in zip(*found, strict=True)]
        kinds = [set(map(type, column)) for column in columns]
        if kinds[0] != {int} or not kinds[1] | kinds[2] <= {str, type(None)}:
            raise FormatError("records: expected integers and texts in their columns, got others: damaged")
        bare = self._mirror.bare
        if bare:
            self._bare.put([record for record in found if record[0] in bare])
        numbers = np.array(columns[0], dtype=np.int64)
        native.set_fields(numbers, columns[2], columns[1])
        present = np.empty(len(numbers), dtype=np.bool_)
        native.contains(numbers, present)
        return int(present.sum())

    # --- Answers -----------------------------------------------------------------------------------------------------

    def select(self, node: Node, filter: core.Filter) -> Selected:
        """What passes a filter."""
        self._used = True
        self.catch_up()
        native = self._native
        assert native is not None
        rows, unsure = native.select(filter, STRING_NUMBERS)
        bare, unsure_bare = self._bare.select(filter)
        for part in in_parts(unsure.tolist()):
            native.include(rows, self._passing(node, part))
        more = [self._passing(node, part) for part in in_parts(unsure_bare.tolist())]
        return Selected(rows, np.concatenate([bare, *more]))

    def _passing(self, node: Node, numbers: Sequence[int]) -> I64:
        """Those of some records that pass, by the rules themselves."""
        known = describe(self._session.connection, numbers)
        found_in = _Patterns()
        passing = [
            number
            for number, (id, subject, payload) in known.items()
            if matches(node, id, subject, payload, found_in=found_in)
        ]
        return np.array(passing, dtype=np.int64)

    def expired(self, node: Node) -> list[int]:
        """The numbers of those that pass among the records that have expired and are still there."""
        sql = (
            "SELECT number, ifnull(name, number), subject, payload FROM records "
            "WHERE expires IS NOT NULL AND number NOT IN (SELECT number FROM alive WHERE expires IS NOT NULL)"
        )
        found = self._session.connection.execute(sql).fetchall()
        found_in = _Patterns()
        return [
            number
            for number, id, subject, payload in found
            if matches(node, id, subject, read_payload(payload), found_in=found_in)
        ]

    def are_selected(self, selected: Selected, numbers: I64) -> npt.NDArray[np.bool_]:
        """Which of these numbers were selected."""
        native = self._made()
        among = np.empty(len(numbers), dtype=np.bool_)
        native.are_selected(selected.rows, numbers, among)
        return among | np.isin(numbers, selected.bare) if len(selected.bare) else among

    def numbers(self, selected: Selected) -> I64:
        """The numbers of what was selected, in no particular order."""
        return np.concatenate([self._made().ids_of(selected.rows), selected.bare])

    def _made(self) -> core.Index:
        """The index that has the fields; `RowsMoved` if another thread's filter has failed since, and given them up."""
        if self._native is None:
            raise core.RowsMoved("the fields of the rows were given up since they were selected")
        return self._native


class _Patterns:
    """Whether a pattern is found in a text, by the native core: texts may be long, and Python takes a thousand times as
    long.
    """

    def __init__(self) -> None:
        """Nothing is known of any pattern yet."""
        self._known: dict[Pattern, core.Filter] = {}

    def __call__(self, pattern: Pattern, text: str) -> bool:
        """The answer of `Pattern.found_in`."""
        known = self._known.get(pattern)
        if known is None:
            known = self._known[pattern] = core.Filter(pattern_program(pattern))
        return bool(known.found_in(text))


class _BareRows:
    """Records without a vector: rows of their own."""

    def __init__(self, only: list[str] | None) -> None:
        self._rows = core.FilterRows(only)
        self._numbers: list[int] = []
        self._places: dict[int, int] = {}

    def put(self, found: list[Any]) -> None:
        """Add records, or give them other fields."""
        for number, subject, payload in found:
            place = self._places.get(number)
            if place is not None:
                self._rows.replace(np.array([place], dtype=np.uint32), [payload], [subject])
        new = [record for record in found if record[0] not in self._places]
        self._rows.add([record[2] for record in new], [record[1] for record in new], len(new))
        for number, _, _ in new:
            self._places[number] = len(self._numbers)
            self._numbers.append(number)

    def remove(self, numbers: Sequence[int] | I64) -> None:
        """Wipe those that are there."""
        for number in numbers:
            place = self._places.pop(int(number), None)
            if place is None:
                continue
            self._rows.remove(place)
            last = self._numbers.pop()
            if place < len(self._numbers):
                self._numbers[place] = last
                self._places[last] = place

    def select(self, filter: core.Filter) -> tuple[I64, I64]:
        """The numbers of those that pass, and of those of which it cannot be told."""
        numbers = np.array(self._numbers, dtype=np.int64)
        if not len(numbers):
            return numbers, numbers
        bits = [
            np.unpackbits(np.frombuffer(part, dtype=np.uint8), bitorder="little")[: len(numbers)].astype(np.bool_)
            for part in self._rows.evaluate(filter, numbers, STRING_NUMBERS)
        ]
        return numbers[bits[0]], numbers[bits[1]]
