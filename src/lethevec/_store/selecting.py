"""Which records a filter lets through: the only place that answers that question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .._filters import Node, compile_program, parse
from .._filters.tree import And, OneOf
from .._native import core
from .fields import Fields, Selected
from .ids import Id, check_text, comes_after, number_of, order_of
from .lookup import ids_of, in_order, in_parts, marks
from .retention import Retention
from .session import Session

__all__ = ["ALL", "Expired", "Pages", "Selection", "Selector"]

I64 = npt.NDArray[np.int64]
ALL = 1 << 62  # more records than there can be
_FEW = 10_000  # records that are looked up one by one and sorted; of more, all are read in their order


class Selection:
    """A filter, checked: what `where` says about id, subject and payload (see `lethevec._filters.language`), and a
    subject.

    What the table can answer by its indexes is `sql` too, with its parameters: everything, or a subject alone.
    """

    def __init__(self, where: Mapping[str, Any] | None = None, subject: str | None = None) -> None:
        """Check what a caller gave; None is everything."""
        parts: list[Node] = [] if where is None else [parse(where)]
        self.sql: str | None = None if parts else "1"
        self.parameters: list[Any] = []
        if subject is not None:
            parts.append(OneOf("$subject", (check_text(subject, "subject"),)))
            if self.sql is not None:
                self.sql, self.parameters = "(subject IS NOT NULL AND subject = ?)", [subject]
        self.everything = not parts
        self.node: Node = parts[0] if len(parts) == 1 else And(tuple(parts))

    @cached_property
    def filter(self) -> core.Filter:
        """For the native core; not of everything."""
        return core.Filter(compile_program(self.node, _number))


def _number(id: Id) -> int | None:
    """The number of what could be an id."""
    return number_of(id) if isinstance(id, str) or 0 <= id < 1 << 63 else None


class Expired(Selection):
    """All records whose time has come, but for those of some subjects."""

    def __init__(self, now: int, without: Sequence[str] = ()) -> None:
        """At this time, in milliseconds."""
        super().__init__()
        self.everything = False
        self.sql = "(expires IS NOT NULL AND expires <= ?)"
        self.parameters = [now]
        if without:
            self.sql += " AND (subject IS NULL OR subject NOT IN (SELECT value FROM json_each(?)))"
            self.parameters.append(json.dumps(list(without)))


class Pages:
    """What a selection lets through, page by page. While nothing changes, the filter is evaluated once."""

    def __init__(self, selector: Selector, selection: Selection) -> None:
        """Nothing is evaluated yet."""
        self._selector = selector
        self._selection = selection
        self._made_for: object = None
        self._numbers: I64 | None = None  # where there are few, or the table gave them: then ascending
        self._selected: Selected | None = None

    def page(self, after: Id | None, limit: int) -> list[tuple[int, Id]]:
        """Slots and ids of up to `limit` records in the order of ids: those after one, which need not be there."""
        connection = self._selector.connection
        if self._selection.everything:
            return in_order(connection, after, limit)
        for again in (True, False):
            count = self._evaluate()
            try:
                if self._numbers is not None and count <= _FEW:
                    found = ids_of(connection, self._numbers.tolist())
                    return sorted((one for one in found if comes_after(one[1], after)), key=_by_id)[:limit]
                return self._walk(after, limit, count)
            except core.RowsMoved:  # a rollback puts rows elsewhere
                if not again:
                    raise
                self.drop()
        raise AssertionError

    def _walk(self, after: Id | None, limit: int, count: int) -> list[tuple[int, Id]]:
        """Of all records in their order, those that are selected."""
        chosen: list[tuple[int, Id]] = []
        # About as many as it takes.
        some = min(_FEW, 100 + 2 * limit * self._selector.records // count)
        while len(chosen) < limit and (part := in_order(self._selector.connection, after, some)):
            wanted = np.array([number_of(id) for _, id in part], dtype=np.int64)
            chosen += [one for one, is_in in zip(part, self._are_selected(wanted), strict=True) if is_in]
            after, some = part[-1][1], _FEW
        return chosen[:limit]

    def _evaluate(self) -> int:
        """Make sure of an evaluation that holds for the store as it is; how many records there are."""
        selector = self._selector
        if self._made_for != selector.now:
            self.drop()
            if selector.by_table(self._selection):
                numbers = selector.numbers(self._selection)
                assert numbers is not None
                self._numbers = np.sort(numbers)
            else:
                self._selected = selector.selected(self._selection)
                if self._selected.count() <= _FEW:
                    self._numbers = selector.numbers_of(self._selected)
            self._made_for = selector.now
        if self._numbers is not None:
            return len(self._numbers)
        assert self._selected is not None
        return self._selected.count()

    def _are_selected(self, numbers: I64) -> npt.NDArray[np.bool_]:
        if self._numbers is None:
            assert self._selected is not None
            return self._selector.are_selected(self._selected, numbers)
        places = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        return np.asarray(self._numbers[places] == numbers)

    def drop(self) -> None:
        """Overwrite what is kept."""
        for kept in (self._numbers, None if self._selected is None else self._selected.bare):
            if kept is not None:
                kept.fill(0)
        self._made_for = self._numbers = self._selected = None


def _by_id(one: tuple[int, Id]) -> tuple[bool, Id]:
    return order_of(one[1])


class Selector:
    """Finds the records that a selection lets through. The caller holds the guard."""

    def __init__(self, session: Session, fields: Fields, retention: Retention) -> None:
        """Of an open store."""
        self._retention = retention
        self._session = session
        self.connection = session.connection
        self._fields = fields

    def allowed(self, selection: Selection) -> I64 | core.SelectedRows | None:
        """What a search may find, as an index takes it; None for everything."""
        if selection.everything or self.by_table(selection):
            return self.numbers(selection)
        return self._fields.select(selection.node, selection.filter).rows

    def numbers(self, selection: Selection) -> I64 | None:
        """The numbers of the records, in no particular order; None for all."""
        if selection.everything:
            return None
        if not self.by_table(selection):
            return self._fields.numbers(self._fields.select(selection.node, selection.filter))
        sql = f"SELECT number FROM alive WHERE {selection.sql}"
        found = self.connection.execute(sql, selection.parameters).fetchall()
        return np.array([number for (number,) in found], dtype=np.int64)

    @property
    def records(self) -> int:
        """How many there are, with those that have expired."""
        return self._session.state.digest.count

    @property
    def now(self) -> object:
        """Is another after any change."""
        return self._session.epoch, self._session.state.version

    def selected(self, selection: Selection) -> Selected:
        """What passes."""
        return self._fields.select(selection.node, selection.filter)

    def numbers_of(self, selected: Selected) -> I64:
        """The numbers of what was selected, in no particular order."""
        return self._fields.numbers(selected)

    def are_selected(self, selected: Selected, numbers: I64) -> npt.NDArray[np.bool_]:
        """Which of these numbers were selected."""
        return self._fields.are_selected(selected, numbers)

    def by_table(self, selection: Selection) -> bool:
        """The table has an index of subjects: for nothing but a subject, no structure is made."""
        return selection.sql is not None and not self._fields.used

    def count(self, selection: Selection) -> int:
        """How many records there are."""
        if selection.everything:
            return self._session.state.digest.count - self._retention.expired
        if self.by_table(selection):
            sql = f"SELECT count(*) FROM alive WHERE {selection.sql}"
            return int(self.connection.execute(sql, selection.parameters).fetchone()[0])
        return self._fields.select(selection.node, selection.filter).count()

    def page(self, selection: Selection, after: Id | None, limit: int) -> list[tuple[int, Id]]:
        """Slots and ids of up to `limit` records in the order of ids: those after one, which need not be there."""
        return Pages(self, selection).page(after, limit)

    def slots(self, selection: Selection) -> list[int]:
        """The slots of the records, ascending, with those that have expired and are still there."""
        if selection.sql is not None:
            sql = f"SELECT slot FROM records WHERE {selection.sql} ORDER BY slot"
            return [slot for (slot,) in self.connection.execute(sql, selection.parameters)]
        numbers = self._fields.numbers(self._fields.select(selection.node, selection.filter)).tolist()
        numbers += self._fields.expired(selection.node)
        slots: list[int] = []
        for part in in_parts(numbers):
            sql = f"SELECT slot FROM records WHERE number IN ({marks(part)})"
            slots += [slot for (slot,) in self.connection.execute(sql, part)]
        return sorted(slots)
