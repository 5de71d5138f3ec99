"""The source "scan": all codes are looked at, in stages that each keep fewer records.

    first stage     by the first bits of all codes
    second stage    by whole codes, where they have bits after the first
    third stage     true distances, where vectors are kept; by codes otherwise

A stage keeps every record that reaches a threshold, ties included: what it keeps depends on no order. Hamming ranking
has one stage before the true distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .codes import Bools
from .constants import (
    ONE_STAGE,
    ONE_STAGE_PER_K,
    ONE_STAGE_SHARE,
    RANK,
    RANK_PER_K,
    RANK_SHARE,
    REFERENCE_PART,
    SURVIVORS,
    SURVIVORS_PER_K,
    SURVIVORS_SHARE,
)
from .ranking import I64, Query, Records, code_keys, first_keys
from .vectors import F32


@dataclass(frozen=True)
class ScanPlan:
    """How many records go on: `survivors` of the first stage; the `rank`-th of the `reference` best sets the second."""

    reference: int
    survivors: int
    rank: int


def scan_plan(records: int, k: int, effort: float, *, staged: bool, allowed: int | None = None) -> ScanPlan:
    """The numbers for an effort. `staged` says that codes have bits after those of the first stage.

    Where only some records are allowed, as many of them go on as of all records without a filter: so recall is not
    below what it is without one.

    More effort never gives less recall, because what is kept for less effort is kept for more: the first threshold
    falls as `survivors` grows, and the second is read off a reference set that effort does not change, so it falls as
    `rank` grows.

    >>> scan_plan(10_000, 10, 1.0, staged=True)
    ScanPlan(reference=248, survivors=496, rank=78)
    """
    n, wanted = float(records), float(k)
    most = n if allowed is None else float(allowed)

    def count(number: float) -> int:
        return math.ceil(min(max(number, min(wanted, most)), most))

    if not staged:
        everything = count(effort * (ONE_STAGE_SHARE * n + ONE_STAGE_PER_K * wanted + ONE_STAGE))
        return ScanPlan(everything, everything, everything)
    base = SURVIVORS_SHARE * n + SURVIVORS_PER_K * wanted + SURVIVORS
    reference = count(REFERENCE_PART * base)
    rank = count(effort * (RANK_SHARE * n + RANK_PER_K * wanted + RANK))
    return ScanPlan(reference, max(reference, count(effort * base)), rank)


def scan_candidates(query: Query, records: Records, k: int, effort: float, allowed: Bools | None = None) -> I64:
    """The rows whose distance decides; `allowed` says which rows may be found.

    >>> codes, ones = np.uint8([[0b000], [0b011], [0b001]]), np.ones(3, dtype=np.float32)
    >>> query = Query(np.ones((1, 3), np.float32), "l2", np.uint8([[0b111]]), ones, first_bits=0, first_weight=1.0)
    >>> scan_candidates(query, Records(np.array([5, 6, 7]), codes, ones, ones, None), k=2, effort=1.0).tolist()
    [1, 2]
    """
    rows = np.arange(len(records.ids)) if allowed is None else np.flatnonzero(allowed)
    among = records.of(rows)
    if query.code is not None:
        keys = code_keys(query, among)
        if records.vectors is None:  # their k nearest are the answer
            return rows[keys >= largest(keys, min(k, len(rows)))]
        plan = scan_plan(len(records.ids), k, effort, staged=False, allowed=len(rows))
        return rows[keys >= largest(keys, plan.survivors)]
    staged = len(query.v) > query.first_bits
    plan = scan_plan(len(records.ids), k, effort, staged=staged, allowed=len(rows))
    keys = first_keys(query, among)
    survivors = keys >= largest(keys, plan.survivors)
    if records.vectors is None or not staged:
        return rows[survivors]
    refined = code_keys(query, among)
    reference = keys >= largest(keys, plan.reference)
    return rows[survivors & (refined >= largest(refined[reference], plan.rank))]


def largest(keys: F32, rank: int) -> np.float32:
    """The rank-th largest key; minus infinity when there are not as many.

    >>> float(largest(np.float32([3, 9, 5]), 2))
    5.0
    """
    if not 1 <= rank <= len(keys):
        return np.float32(-np.inf)
    return np.float32(np.sort(keys)[len(keys) - rank])
