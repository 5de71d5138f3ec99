"""Records by id and in order, and what a search needs to know of its answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .._hits import Hits
from .._record import Record
from ..errors import FormatError
from .connection import translated
from .ids import Id
from .lookup import describe, known_slots, locate
from .mirror import Mirror
from .selecting import ALL, Selection, Selector
from .session import Session

__all__ = ["Reader"]

_PART = 2000  # records held at once by an iteration
_ATTEMPTS = 100  # reads that lose a race against a forget before a damaged file is the likelier cause


class Reader:
    """Looks into the tables, after it has taken up what others did."""

    def __init__(self, session: Session, mirror: Mirror, selector: Selector) -> None:
        """Of an open store."""
        self._session = session
        self._mirror = mirror
        self._selector = selector

    def contains(self, id: Id) -> bool:
        """Whether there is a record with this id."""
        with self._session.guard, translated(self._session.path):
            self._mirror.refresh()
            return locate(self._session.connection, [id])[0] is not None

    def get(self, ids: list[Id]) -> list[Record]:
        """The records with these ids, in this order; an unknown one is refused."""
        session = self._session
        with session.guard, translated(session.path):
            for _ in range(_ATTEMPTS):
                self._mirror.refresh()
                slots = known_slots(session.connection, ids)
                found = {record.slot: record.record() for record in session.tables.read_slots(slots)}
                if len(found) == len(slots):
                    return [found[slot] for slot in slots]
                # Another process took a record between the two steps.
        raise FormatError(f"{session.path}: expected every record in both tables, got some that are in one")

    def page(self, selection: Selection, after: Id | None, limit: int) -> list[Record]:
        """Up to `limit` records that a selection lets through, in the order of ids: those after one."""
        session = self._session
        with session.guard, translated(session.path):
            for _ in range(_ATTEMPTS):
                self._mirror.refresh()
                wanted = [slot for slot, _ in self._selector.page(selection, after, limit)]
                found = {record.slot: record.record() for record in session.tables.read_slots(wanted)}
                if len(found) == len(wanted):
                    return [found[slot] for slot in wanted]
                # Another process took a record between the two steps.
        raise FormatError(f"{session.path}: expected every record in both tables, got some that are in one")

    def everything(self) -> Iterator[Record]:
        """Every record in the order of ids, read in parts."""
        after: Id | None = None
        while part := self.page(Selection(), after, _PART):
            yield from part
            after = part[-1].id

    def ids(self, selection: Selection) -> list[Id]:
        """The ids of the records that a selection lets through, in their order."""
        with self._session.guard, translated(self._session.path):
            self._mirror.refresh()
            return [id for _, id in self._selector.page(selection, None, ALL)]

    def count(self, selection: Selection) -> int:
        """How many records a selection lets through."""
        with self._session.guard, translated(self._session.path):
            self._mirror.refresh()
            return self._selector.count(selection)

    def subjects(self) -> dict[str, int]:
        """Every subject with the number of its records, by code point."""
        sql = "SELECT subject, count(*) FROM alive WHERE subject IS NOT NULL GROUP BY subject ORDER BY subject"
        with self._session.guard, translated(self._session.path):
            self._mirror.refresh()
            return dict(self._session.connection.execute(sql).fetchall())

    def described(self, hits: Hits) -> Hits | None:
        """The index's answers with the caller's ids, subjects and payloads; None if a record is gone by now."""
        numbers: npt.NDArray[Any] = hits.ids
        found = np.isfinite(hits.distances)
        wanted = np.unique(numbers[found]).tolist()
        self._session.require_open()
        known = describe(self._session.connection, wanted)
        if len(known) != len(wanted):
            self._mirror.refresh()
            return None
        ids = np.full(numbers.shape, -1, dtype=object)
        subjects, payloads = np.full(numbers.shape, None), np.full(numbers.shape, None)
        for query, place in np.argwhere(found).tolist():
            at = query, place
            ids[at], subjects[at], payloads[at] = known[int(numbers[at])]
        return Hits(ids, hits.distances, hits.work, subjects, payloads)
