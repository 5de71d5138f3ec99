"""Retention: until when records may be kept, and how they leave every answer at that moment.

A time is whole milliseconds since 1970, in UTC. From its time on a record is in no answer: it leaves the index, and the
view `alive`, which is what every question about records reads, ends before it. Its bytes are there until `expire`, or
any other erasure, takes them.

The clock is the only thing besides configuration and records that answers depend on. It never goes back while a store
is open, and stands still inside a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

from .._shown import shown
from ..errors import ParameterError
from .session import Session

__all__ = ["Clock", "Retention", "check_clock", "check_duration", "check_expires"]

Clock = Callable[[], float]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MOST = 253_402_300_799_000  # the end of the year 9999
_NEVER = 1 << 62
_EXPECTED = "a datetime with a time zone, a date or a timedelta from now, all in the future, or None"


class Retention:
    """Knows which records of an open store have expired. The caller holds the guard."""

    def __init__(self, session: Session, clock: Clock = time.time) -> None:
        """Make the view. `clock` gives the seconds since 1970."""
        self._session = session
        self._clock = clock
        self._now = 0
        self._next = _NEVER  # when the next record expires
        self._expired = 0
        self.stale = True  # whether records have changed since it was looked
        session.connection.execute("CREATE TEMP TABLE clock (now INTEGER NOT NULL)")
        session.connection.execute("INSERT INTO temp.clock VALUES (0)")
        session.connection.execute(
            "CREATE TEMP VIEW alive AS SELECT * FROM records "
            "WHERE expires IS NULL OR expires > (SELECT now FROM temp.clock)"
        )

    def now(self) -> int:
        """The time, in milliseconds."""
        self._now = max(self._now, int(self._clock() * 1000))
        return self._now

    @property
    def expired(self) -> int:
        """How many records have expired and are still there."""
        return self._expired

    def advance(self) -> list[int]:
        """Let time go on: the numbers of records that have expired, if there may be new ones among them."""
        if self._session.in_transaction:
            return []
        now = self.now()
        if not self.stale and now < self._next:
            return []
        connection = self._session.connection
        connection.execute("UPDATE temp.clock SET now = ?", (now,))
        sql = "SELECT number FROM records WHERE expires IS NOT NULL AND expires <= ?"
        numbers = [number for (number,) in connection.execute(sql, (now,))]
        sql = "SELECT min(expires) FROM records WHERE expires IS NOT NULL AND expires > ?"
        (following,) = connection.execute(sql, (now,)).fetchone()
        self._next = _NEVER if following is None else int(following)
        self._expired = len(numbers)
        self.stale = False
        return numbers


def check_expires(expires: Any, n: int, now: int) -> list[int | None]:
    """A time for each record: one for all, or a list with None where there is none."""
    if expires is None or isinstance(expires, date | timedelta):
        return [_moment(expires, now)] * n
    no_list = not isinstance(expires, Iterable) or isinstance(expires, Mapping | str | bytes)
    if no_list or getattr(expires, "ndim", 1) == 0:  # such an array calls itself iterable and is not
        raise ParameterError(f"expires: expected {_EXPECTED}, or a list of {n} of these, got {shown(expires, 80)}")
    given = list(expires)
    if len(given) != n:
        raise ParameterError(f"expires: expected one for each of {n} records, or one for all, got {len(given)}")
    return [_moment(value, now) for value in given]


def check_clock(clock: Any) -> Clock:
    """A clock, tried once."""
    try:
        good = callable(clock) and 0 <= float(clock()) < _MOST / 1000
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise ParameterError(f"clock: expected a function that gives the seconds since 1970, got {shown(clock, 80)}")
    checked: Clock = clock
    return checked


def check_duration(expires: Any) -> timedelta | None:
    """How long records are kept unless they say otherwise; None: for ever."""
    if expires is None:
        return None
    if not isinstance(expires, timedelta) or not timedelta(0) < expires <= timedelta(days=365_000):
        raise ParameterError(
            f"expires: expected a timedelta of up to 1,000 years for a collection, got {shown(expires, 80)}"
        )
    return expires


def _moment(value: Any, now: int) -> int | None:
    if value is None:
        return None
    try:
        if isinstance(value, timedelta):
            moment = now + value // timedelta(milliseconds=1)
        elif isinstance(value, datetime):
            if value.tzinfo is None:
                raise ParameterError(
                    f"expires: expected a datetime with a time zone, got {shown(value)}, which has none"
                )
            moment = (value - _EPOCH) // timedelta(milliseconds=1)  # floats are not exact for times far away
        elif isinstance(value, date):
            moment = (datetime(value.year, value.month, value.day, tzinfo=timezone.utc) - _EPOCH).days * 86_400_000
        else:
            raise ParameterError(f"expires: expected {_EXPECTED}, got {shown(value, 80)}")
    except (OverflowError, ValueError, OSError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(f"expires: expected a time before the year 10000, got {shown(value, 80)}") from None
    if moment <= now:
        raise ParameterError(f"expires: expected a time in the future, got {shown(value, 80)}, which is past")
    if moment > _MOST:
        raise ParameterError(f"expires: expected a time before the year 10000, got {shown(value, 80)}")
    return moment
