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
from .fields import Fields
from .ids import Id, check_text, comes_after, number_of, order_of
from .lookup import ids_of, in_order, in_parts, marks
from .retention import Retention
from .session import Session

__all__ = ["ALL", "Expired", "Selection", "Selector"]

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


class Selector:
    """Finds the records that a selection lets through. The caller holds the guard."""

    def __init__(self, session: Session, fields: Fields, retention: Retention) -> None:
        """Of an open store."""
        self._retention = retention
        self._session = session
        self._connection = session.connection
        self._fields = fields

    def allowed(self, selection: Selection) -> I64 | core.SelectedRows | None:
        """What a search may find, as an index takes it; None for everything."""
        if selection.everything or self._by_table(selection):
            return self.numbers(selection)
        return self._fields.select(selection.node, selection.filter).rows

    def numbers(self, selection: Selection) -> I64 | None:
        """The numbers of the records, in no particular order; None for all."""
        if selection.everything:
            return None
        if not self._by_table(selection):
            return self._fields.numbers(self._fields.select(selection.node, selection.filter))
        sql = f"SELECT number FROM alive WHERE {selection.sql}"
        found = self._connection.execute(sql, selection.parameters).fetchall()
        return np.array([number for (number,) in found], dtype=np.int64)

    def _by_table(self, selection: Selection) -> bool:
        """The table has an index of subjects: for nothing but a subject, no structure is made."""
        return selection.sql is not None and not self._fields.used

    def count(self, selection: Selection) -> int:
        """How many records there are."""
        if selection.everything:
            return self._session.state.digest.count - self._retention.expired
        if self._by_table(selection):
            sql = f"SELECT count(*) FROM alive WHERE {selection.sql}"
            return int(self._connection.execute(sql, selection.parameters).fetchone()[0])
        return self._fields.select(selection.node, selection.filter).count()

    def page(self, selection: Selection, after: Id | None, limit: int) -> list[tuple[int, Id]]:
        """Slots and ids of up to `limit` records in the order of ids: those after one, which need not be there."""
        numbers = self.numbers(selection)
        if numbers is None:
            return in_order(self._connection, after, limit)
        if len(numbers) <= _FEW:
            found = [(slot, id) for slot, id in ids_of(self._connection, numbers.tolist()) if comes_after(id, after)]
            return sorted(found, key=lambda one: order_of(one[1]))[:limit]
        allowed = np.sort(numbers)
        chosen: list[tuple[int, Id]] = []
        while len(chosen) < limit and (part := in_order(self._connection, after, _FEW)):
            wanted = np.array([number_of(id) for _, id in part], dtype=np.int64)
            places = np.minimum(np.searchsorted(allowed, wanted), len(allowed) - 1)
            chosen += [one for one, is_in in zip(part, allowed[places] == wanted, strict=True) if is_in]
            after = part[-1][1]
        return chosen[:limit]

    def slots(self, selection: Selection) -> list[int]:
        """The slots of the records, ascending, with those that have expired and are still there."""
        if selection.sql is not None:
            sql = f"SELECT slot FROM records WHERE {selection.sql} ORDER BY slot"
            return [slot for (slot,) in self._connection.execute(sql, selection.parameters)]
        numbers = self._fields.numbers(self._fields.select(selection.node, selection.filter)).tolist()
        numbers += self._fields.expired(selection.node)
        slots: list[int] = []
        for part in in_parts(numbers):
            sql = f"SELECT slot FROM records WHERE number IN ({marks(part)})"
            slots += [slot for (slot,) in self._connection.execute(sql, part)]
        return sorted(slots)
