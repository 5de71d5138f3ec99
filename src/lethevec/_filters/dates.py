"""Dates as text: which strings are dates, and which instant each stands for.

A date is what ISO 8601 calls the extended format, and nothing else:

    2024-05-17
    2024-05-17T09:30          or a space for the T
    2024-05-17T09:30:15.25    up to nine digits of a second
    2024-05-17T09:30:15+02:00 or Z

Without an offset it is UTC; without a time it is midnight. Years are 0001 to 9999, and the day must exist.
"""

from __future__ import annotations

import re

__all__ = ["instant_of"]

_DATE = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(?:Z|([+-])([0-9]{2}):([0-9]{2}))?)?"
)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SECOND = 1_000_000_000


def instant_of(text: str) -> int | None:
    """Nanoseconds from the first day of the year 1, or None for a text that is not a date.

    >>> instant_of("0001-01-02T00:00:00.5") == 86_400_500_000_000
    True
    >>> instant_of("2024-05-17T09:30+02:00") == instant_of("2024-05-17 07:30:00Z")
    True
    >>> instant_of("2023-02-29") is None
    True
    """
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction, sign, offset_hour, offset_minute = found.groups()[6:]
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1] + (leap and month == 2):
        return None
    offset = int(offset_hour or 0) * 60 + int(offset_minute or 0)
    if hour > 23 or minute > 59 or second > 59 or int(offset_hour or 0) > 23 or int(offset_minute or 0) > 59:
        return None
    before = year - 1
    days = 365 * before + before // 4 - before // 100 + before // 400
    days += sum(_DAYS[: month - 1]) + (leap and month > 2) + day - 1
    minutes = (days * 24 + hour) * 60 + minute - (-offset if sign == "-" else offset)
    return (minutes * 60 + second) * _SECOND + int((fraction or "").ljust(9, "0"))
