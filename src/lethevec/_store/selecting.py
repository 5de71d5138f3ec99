"""Which records a filter lets through: the only place that answers that question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .ids import Id, check_text, comes_after, number_of, order_of
from .lookup import ids_of, in_order
from .retention import Retention
from .session import Session
from .where import compile_where

__all__ = ["ALL", "Expired", "Selection", "Selector"]

I64 = npt.NDArray[np.int64]
ALL = 1 << 62  # more records than there can be
_FEW = 10_000  # records that are looked up one by one and sorted; of more, all are read in their order


class Selection:
    """A filter, checked: what `where` says about subject and payload, and a subject."""

    def __init__(self, where: Mapping[str, Any] | None = None, subject: str | None = None) -> None:
        """Check what a caller gave; None is everything."""
        parts = [] if where is None else [compile_where(where)]
        if subject is not None:
            parts.append(("(subject IS NOT NULL AND subject = ?)", [check_text(subject, "subject")]))
        self.everything = not parts
        self.sql = " AND ".join(sql for sql, _ in parts) or "1"
        self.parameters = [value for _, values in parts for value in values]


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

    def __init__(self, session: Session, retention: Retention) -> None:
        """Of an open store."""
        self._retention = retention
        self._session = session
        self._connection = session.connection

    def numbers(self, selection: Selection) -> I64 | None:
        """The numbers of the records, in no particular order; None for all. Everything else here follows from it."""
        if selection.everything:
            return None
        sql = f"SELECT number FROM alive WHERE {selection.sql}"
        found = self._connection.execute(sql, selection.parameters).fetchall()
        return np.array([number for (number,) in found], dtype=np.int64)

    def count(self, selection: Selection) -> int:
        """How many records there are."""
        numbers = self.numbers(selection)
        return self._session.state.digest.count - self._retention.expired if numbers is None else len(numbers)

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
        sql = f"SELECT slot FROM records WHERE {selection.sql} ORDER BY slot"
        return [slot for (slot,) in self._connection.execute(sql, selection.parameters)]
