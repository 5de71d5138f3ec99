"""Records by id and in order, and what a search needs to know of its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from .selecting import ALL, Pages, Selection, Selector
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
        return self.chosen(lambda: known_slots(self._session.connection, ids))

    def page(self, selection: Selection, after: Id | None, limit: int) -> list[Record]:
        """Up to `limit` records that a selection lets through, in the order of ids: those after one."""
        return self.chosen(lambda: [slot for slot, _ in self._selector.page(selection, after, limit)])

    def chosen(self, choose: Callable[[], list[int]]) -> list[Record]:
        """The records of the slots that a function chooses, in its order."""
        session = self._session
        with session.guard, translated(session.path):
            for _ in range(_ATTEMPTS):
                self._mirror.refresh()
                slots = choose()
                found = {record.slot: record.record() for record in session.tables.read_slots(slots)}
                if len(found) == len(slots):
                    return [found[slot] for slot in slots]
                # Another process took a record between the two steps.
        raise FormatError(f"{session.path}: expected every record in both tables, got some that are in one")

    def walk(self, selection: Selection) -> Iterator[Record]:
        """Every record that a selection lets through, in the order of ids, read in parts."""
        pages = Pages(self._selector, selection)
        after: Id | None = None

        def following() -> list[int]:
            return [slot for slot, _ in pages.page(after, _PART)]

        try:
            while part := self.chosen(following):
                yield from part
                after = part[-1].id
        finally:
            pages.drop()

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

    def subjects(self, prefix: str, after: str | None, limit: int) -> dict[str, int]:
        """Subjects that begin with a text, those after one, with the number of their records, by code point."""
        sql = (
            "SELECT subject, count(*) FROM alive WHERE subject IS NOT NULL AND subject >= ? AND subject > ? "
            "AND substr(subject, 1, ?) = ? GROUP BY subject ORDER BY subject LIMIT ?"
        )
        given = (prefix, "" if after is None else after, len(prefix), prefix, limit)
        with self._session.guard, translated(self._session.path):
            self._mirror.refresh()
            return dict(self._session.connection.execute(sql, given).fetchall())

    def described(self, hits: Hits) -> Hits | None:
        """The index's answers with the caller's ids, subjects and payloads; None if a record is gone by now."""
        shape = hits.ids.shape
        numbers: list[int] = hits.ids.ravel().tolist()
        distances: list[float] = hits.distances.ravel().tolist()
        found = numbers if _INF not in distances else [n for n, d in zip(numbers, distances, strict=True) if d != _INF]
        wanted = sorted(set(found))
        self._session.require_open()
        known = describe(self._session.connection, wanted)
        if len(known) != len(wanted):
            self._mirror.refresh()
            return None
        rows = (
            [known[number] for number in numbers]
            if found is numbers
            else [known[n] if d != _INF else _NOTHING for n, d in zip(numbers, distances, strict=True)]
        )
        return Hits(
            _objects([row[0] for row in rows], shape),
            hits.distances,
            hits.work,
            _objects([row[1] for row in rows], shape),
            _objects([row[2] for row in rows], shape),
        )


_INF = float("inf")
_NOTHING = (-1, None, None)  # padding


def _objects(values: list[Any], shape: tuple[int, ...]) -> npt.NDArray[np.object_]:
    """An array of objects as they are: NumPy would make more dimensions of lists among them."""
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made.reshape(shape)
