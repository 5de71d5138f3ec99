"""What is in a store, without its records: how many subjects, what has no vector, when records are due; and a sample.

All of it depends on the records (and the clock) alone. A sample is the records with the smallest hashes of their
numbers, so it is the same for every history that ends in the same records, and grows when more are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone

import numpy as np
import numpy.typing as npt

from .._record import Record
from .connection import translated
from .ids import order_of
from .lookup import ids_of, in_parts, marks
from .mirror import Mirror
from .reading import Reader
from .retention import Retention
from .selecting import Selection, Selector
from .session import Session

__all__ = ["STEPS", "Due", "Survey", "Surveyor", "due_of", "smallest", "step_for"]

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
_HOUR = 3_600_000
_DAY = 24 * _HOUR
STEPS = (_HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 30 * _DAY, 365 * _DAY)
_PARTS = 60  # at most, unless records are kept for more than sixty years


@dataclass(frozen=True)
class Due:
    """How many records become due from one moment up to another."""

    begin: datetime
    end: datetime
    records: int


@dataclass(frozen=True)
class Survey:
    """Counts of a store. `expired` are due and not yet erased; they are in no other number here."""

    records: int
    subjects: int
    without_subject: int
    without_vector: int
    without_expiry: int
    expired: int
    due: tuple[Due, ...]


class Surveyor:
    """Counts and samples."""

    def __init__(
        self, session: Session, mirror: Mirror, selector: Selector, retention: Retention, reader: Reader
    ) -> None:
        """Of an open store."""
        self._session = session
        self._connection = session.connection
        self._mirror = mirror
        self._selector = selector
        self._retention = retention
        self._reader = reader

    def survey(self) -> Survey:
        """The counts, and when records are due."""
        with self._session.guard, translated(self._session.path):
            self._mirror.refresh()
            return self._count()

    def _count(self) -> Survey:
        sql = "SELECT count(*), count(DISTINCT subject), count(subject), count(expires), max(expires) FROM alive"
        records, subjects, with_subject, with_expiry, last = self._connection.execute(sql).fetchone()
        expired = self._retention.expired
        return Survey(
            records=records,
            subjects=subjects,
            without_subject=records - with_subject,
            without_vector=records - len(self._mirror.index),
            without_expiry=records - with_expiry,
            expired=expired,
            due=() if last is None else self._due(last),
        )

    def _due(self, last: int) -> tuple[Due, ...]:
        step = step_for(last, self._retention.now())
        return due_of(step, self._parts(step))

    def _parts(self, step: int) -> list[tuple[int, int]]:
        sql = "SELECT expires / ?, count(*) FROM alive WHERE expires IS NOT NULL GROUP BY 1 ORDER BY 1"
        return [(part, count) for part, count in self._connection.execute(sql, (step,))]

    def due_parts(self) -> tuple[int | None, dict[int, list[tuple[int, int]]]]:
        """The last time, in milliseconds, and the counts of the parts for the step that it asks for and longer ones:
        another store's records may be due later."""
        with self._session.guard, translated(self._session.path):
            self._mirror.refresh()
            (last,) = self._connection.execute("SELECT max(expires) FROM alive").fetchone()
            if last is None:
                return None, {}
            least = step_for(last, self._retention.now())
            return last, {step: self._parts(step) for step in STEPS if step >= least}

    def sample(self, selection: Selection, count: int, seed: int) -> list[Record]:
        """Up to `count` records that a selection lets through, in the order of ids."""
        return self._reader.chosen(lambda: self._choose(selection, count, seed))

    def _choose(self, selection: Selection, count: int, seed: int) -> list[int]:
        numbers = self._selector.numbers(selection)
        if numbers is None:
            numbers = np.concatenate([self._mirror.index.ids(), self._alive(list(self._mirror.bare))])
        numbers = numbers[smallest(numbers, count, seed)]
        found = ids_of(self._connection, numbers.tolist())
        return [slot for slot, _ in sorted(found, key=lambda one: order_of(one[1]))]

    def _alive(self, numbers: list[int]) -> I64:
        found: list[int] = []
        for part in in_parts(numbers):
            sql = f"SELECT number FROM alive WHERE number IN ({marks(part)})"
            found += [number for (number,) in self._connection.execute(sql, part)]
        return np.array(found, dtype=np.int64)


def step_for(last: int, now: int) -> int:
    """Hours, days or longer parts of the calendar: the shortest that are not too many up to the last."""
    return next((step for step in STEPS if (last - now) // step < _PARTS), STEPS[-1])


def due_of(step: int, parts: Iterable[tuple[int, int]]) -> tuple[Due, ...]:
    """The parts of a step, without empty ones."""
    return tuple(Due(_moment(part * step), _moment(min((part + 1) * step, _END)), count) for part, count in parts)


def smallest(numbers: I64, count: int, seed: int) -> npt.NDArray[np.intp]:
    """The places of those that are in a sample of so many."""
    if len(numbers) <= count or not count:
        return np.arange(len(numbers) if count else 0)
    return np.argpartition(_mixed(numbers, seed), count)[:count]


def _mixed(numbers: I64, seed: int) -> U64:
    """A hash of each number: the finalizer of SplitMix64, with the seed added."""
    mixed = numbers.astype(np.uint64) + np.uint64(seed * 0x9E3779B97F4A7C15 % (1 << 64))
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


_END = 253_402_300_799_000  # the end of the year 9999


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
