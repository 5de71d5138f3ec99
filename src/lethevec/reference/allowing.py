"""A search that may find only some of the records: when these are compared with the query one by one.

Few allowed records are all compared with the query, and the answer is exact (as exact as codes are, where vectors are
not kept). Many are looked for as without a filter, by a source that passes over the others and looks at as many more
records as fewer of them may be found, and with more effort: what a filter leaves may be further away than what it
removes, and harder to tell apart. Which of the two it is follows from how many records there are and how many of them
are allowed. Sources that begin where the query is, tables and graph, find nothing where nothing near it is allowed:
they look at all of the allowed records then.
"""

from __future__ import annotations

import math

from .constants import (
    ALLOWED_EFFORT,
    ALLOWED_NEARBY,
    ALLOWED_NEARBY_ERRORS,
    DIRECT_ROWS,
    DIRECT_ROWS_ONE_IN,
    DIRECT_ROWS_PER_K,
)


def direct_rows(records: int, k: int, effort: float) -> int:
    """Up to how many allowed records are compared with the query one by one: more with more effort.

    Records that are all allowed are a search without a filter, however few there are.

    >>> direct_rows(1_000_000, k=10, effort=1.0)
    50040
    """
    growth = math.sqrt(effort) if effort < 1 else effort
    some = growth * (DIRECT_ROWS + DIRECT_ROWS_PER_K * k + records / DIRECT_ROWS_ONE_IN)
    return math.ceil(max(float(k), min(some, float(records))))


def allowed_effort(records: int, allowed: int, effort: float) -> float:
    """The effort that a source is asked with.

    >>> allowed_effort(1000, 999, effort=1.0), allowed_effort(1000, 1000, effort=1.0)
    (4.0, 1.0)
    """
    return ALLOWED_EFFORT * effort if allowed < records else effort


def lies_elsewhere(records: int, allowed: int, met: int, met_allowed: int) -> bool:
    """Whether far fewer may be found of those met near the query than of all. What is met first is the same for every
    effort, so more effort gets no other answer.

    >>> lies_elsewhere(1000, 500, met=100, met_allowed=25), lies_elsewhere(1000, 500, met=100, met_allowed=24)
    (False, True)
    """
    return float(met_allowed) * float(records) < ALLOWED_NEARBY * float(allowed) * float(met)


def fewer_than_chance(records: int, allowed: int, met: int, met_allowed: int) -> bool:
    """The same for many that are met: whether fewer of them may be found than is likely by chance.

    >>> [fewer_than_chance(1000, 500, met=5000, met_allowed=number) for number in (2401, 2399)]
    [False, True]
    """
    expected = float(met) * float(allowed) / float(records)
    return float(met_allowed) < expected - ALLOWED_NEARBY_ERRORS * math.sqrt(expected)
