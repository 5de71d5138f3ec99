"""A search that may find only some of the records: when these are compared with the query one by one.

Few allowed records are all compared with the query, and the answer is exact (as exact as codes are, where vectors are
not kept). Many are looked for as without a filter, by a source that passes over the others and looks at as many more
records as fewer of them may be found. Which of the two it is follows from how many records there are and how many of
them are allowed.
"""

from __future__ import annotations

import math

from .constants import DIRECT_ROWS, DIRECT_ROWS_ONE_IN, DIRECT_ROWS_PER_K


def direct_rows(records: int, k: int, effort: float) -> int:
    """Up to how many allowed records are compared with the query one by one: more with more effort.

    Records that are all allowed are a search without a filter, however few there are.

    >>> direct_rows(1_000_000, k=10, effort=1.0)
    50040
    """
    growth = math.sqrt(effort) if effort < 1 else effort
    some = growth * (DIRECT_ROWS + DIRECT_ROWS_PER_K * k + records / DIRECT_ROWS_ONE_IN)
    return math.ceil(max(float(k), min(some, float(records))))
