"""The source "scan": all codes are looked at, in stages that each keep fewer records.

    reference       the best few by the first bits of all codes
    D               the true distance of the k-th nearest of these: the answer has none further away
    first stage     by the first bits: records that may lie within D go on
    second stage    by whole codes, with the factor of each record: likewise
    third stage     true distances

A record may lie within D when its estimate, less so many times the usual error of such an estimate, does: as many times
as it takes to lose few of the k nearest, if they are as far away as those of the reference. How many records a stage
keeps follows from the data. Some queries have so many neighbours at about the same distance that far more records go on
than for most. These would take up most of the time, so where too many go on, more of the k nearest may be lost, if that
helps.

Reference and D are the same for every effort, and more effort allows for larger errors: so what less effort keeps, more
effort keeps too.

Where codes are all there is, and for codes whose errors are not known (any but progressive ones, and Hamming ranking),
the first stage keeps a number of records that follows from theirs, and the second none too few: by distance they are
put in order at the end. A stage keeps every record that reaches a threshold, ties included: what it keeps depends on no
order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .codes import Bools
from .constants import (
    ALLOWED_SCAN_EFFORT,
    ERROR_STEP,
    LEAST_ERRORS,
    NORMAL_TAIL,
    ONE_STAGE,
    ONE_STAGE_PER_K,
    ONE_STAGE_SHARE,
    SCAN_MISSED,
    SCAN_MISSED_MOST,
    SCAN_ROWS,
    SCAN_ROWS_PER_K,
    SURE_EFFORT,
    SURVIVORS,
    SURVIVORS_PER_K,
    SURVIVORS_SHARE,
)
from .ranking import I64, Query, Records, code_keys, distances, first_keys
from .vectors import F32, F64

# --- How much to look at ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScanPlan:
    """So many records are the `reference`, whatever the effort.

    Errors are allowed for as far as it takes to lose no more than the share `missed` of the k nearest in a stage, or
    `missed_most` where many records go on, and `further` than that. They follow from the effort.
    """

    reference: int
    missed: float
    missed_most: float
    further: float


def scan_plan(k: int, effort: float) -> ScanPlan:
    """The numbers for an effort.

    >>> scan_plan(10, 1.0)
    ScanPlan(reference=60, missed=0.04, missed_most=0.24, further=0.0)
    >>> scan_plan(10, 256.0).further
    0.5
    """
    beyond = max(0.0, doublings(effort) - doublings(SURE_EFFORT))
    reference = math.ceil(SCAN_ROWS + SCAN_ROWS_PER_K * k)
    return ScanPlan(reference, SCAN_MISSED / effort, SCAN_MISSED_MOST / effort, 0.25 * beyond)


def doublings(effort: float) -> float:
    """The logarithm to base 2 where it is a whole number, and straight between these: the same on every machine.

    >>> doublings(1.0), doublings(0.25), doublings(3.0)
    (0.0, -2.0, 1.5)
    """
    part, exponent = math.frexp(effort)
    return float(exponent - 1) + (2.0 * part - 1.0)


def scan_survivors(records: int, k: int, effort: float, *, staged: bool, allowed: int | None = None) -> int:
    """How many go on where errors are not judged. `staged` says that codes have bits after those of the first stage.

    Where only some records are allowed, as many of them go on as of all records without a filter: so recall is not
    below what it is without one.

    >>> scan_survivors(10_000, 10, 1.0, staged=True)
    496
    """
    n, wanted = float(records), float(k)
    if staged:
        number = SURVIVORS_SHARE * n + SURVIVORS_PER_K * wanted + SURVIVORS
    else:
        number = ONE_STAGE_SHARE * n + ONE_STAGE_PER_K * wanted + ONE_STAGE
    most = n if allowed is None else float(allowed)
    return math.ceil(min(max(effort * number, min(wanted, most)), most))


# --- Who may lie within D --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScanLimits:
    """Keys that a record must reach in either stage, and what is added to its estimate there (under ip alone)."""

    first: np.float32
    second: np.float32
    raised: int
    lift: np.float32


def scan_limits(
    query: Query, reference: Records, far: F32, k: int, plan: ScanPlan, crowd: float = -math.inf
) -> ScanLimits:
    """By the records of the reference and their true distances. The k-th nearest of them is at the distance D.

    Too many records reach the key `crowd` by their first bits.

    An estimate is wrong by its usual error times |x| sin(q, x), and by the rounding of the weights. Of a record at the
    distance D, |x| sin(q, x) is sqrt(D (2 - D)) under cosine, where |x| is 1, and at most D under l2. Under ip it is at
    most |x|, which differs from record to record.

    Of several planes, the first bits err along x as well: which part of a vector a later plane keeps is a matter of
    chance. Only whole codes come with a factor that mends it.

    Where all records point about the same way, the errors of their estimates have much in common. If the estimates of a
    stage are too far for half of the reference, by so much less is asked of all. How many are lost by errors of their
    own cannot be told well then, so no more may be lost than of others, however many records go on.
    """
    order = np.lexsort((reference.norms, far))[:k]
    nearest, sizes = far[order].astype(np.float64), reference.norms[order].astype(np.float64)
    q, D, unit, half = query.norm, float(nearest[-1]), query.first.unit, float(query.first.w.sum())
    first_error, code_error, align = query.first_error, query.code_error, query.first_alignment
    rounding = unit * math.sqrt(float(query.first_bits) / 12.0)
    by_first = (rounding / align) * (rounding / align) if align > 0.0 else 0.0
    by_code = rounding * rounding
    away, keys = far.astype(np.float64), code_keys(query, reference).astype(np.float64)
    first_key = first_keys(query, reference).astype(np.float64)
    if query.metric == "ip":
        if q == 0.0 or align <= 0.0:
            return ScanLimits(np.float32(-np.inf), np.float32(-np.inf), 0, np.float32(0))
        wanted = -D / q
        # How much nearer than D each is, in units of |x|.
        ahead = np.divide(-nearest / q - wanted, sizes, out=np.zeros(k), where=sizes > 0)
        size = reference.norms.astype(np.float64)
        off = _in_common(np.divide(keys - -away / q, size, out=np.zeros(len(size)), where=size > 0))
        first = math.sqrt(first_error * first_error + by_first)
        second = math.sqrt(code_error * code_error + by_code)
        near = np.divide(first_key, size, out=np.zeros(len(size)), where=size > 0) * unit / align
        true = np.divide(-away / q, size, out=np.zeros(len(size)), where=size > 0)
        # Longer records are raised more than shorter ones, so none can say how many will go on.
        allowed = allowed_errors(ahead, first, plan.missed) + plan.further
        raised = (allowed * first - _in_common(near - true)) * align / unit
        whole = math.floor(min(max(raised, -half), half))
        lift = (allowed_errors(ahead, second, plan.missed) + plan.further) * second - off
        return ScanLimits(np.float32(wanted * align / unit), np.float32(wanted), whole, np.float32(lift))
    if query.metric == "cosine":
        cos = 1.0 - D
        ahead = D - nearest
        off = _in_common(keys - (1.0 - away))
        across = min(max(D * (2.0 - D), 0.0), 1.0)
        spread = across if query.alignment == 0.0 else 1.0
        first = math.sqrt(first_error * first_error * spread + by_first * spread)
        second = math.sqrt(code_error * code_error * across + by_code)
        near = (2.0 * first_key - half) * unit / align if align > 0.0 else np.zeros(len(away))
        first_off = _in_common(near - (1.0 - away))

        def least(errors: float) -> np.float32:
            cosine = cos - errors * first + first_off
            return np.float32((cosine * align / unit + half) * 0.5 if align > 0.0 else -np.inf)

        limit, missed = least_key(least, ahead, first, plan, crowd if first_off == 0.0 else -math.inf)
        second = cos - (allowed_errors(ahead, second, missed) + plan.further) * second + off
        return ScanLimits(limit, np.float32(second), 0, np.float32(0))
    ahead = D * D - nearest * nearest
    off = _in_common(keys - (q * q - away * away))
    across = D * D
    spread = across if query.alignment == 0.0 else across + q * q
    first = 2.0 * q * math.sqrt(first_error * first_error * spread + by_first * spread)
    second = 2.0 * q * math.sqrt(code_error * code_error * across + by_code * (q * q))
    base = q * q - D * D
    first_off = _in_common(first_key - (q * q - away * away))
    limit, missed = least_key(
        lambda errors: np.float32(base - errors * first + first_off),
        ahead,
        first,
        plan,
        crowd if first_off == 0.0 else -math.inf,
    )
    second = base - (allowed_errors(ahead, second, missed) + plan.further) * second + off
    return ScanLimits(limit, np.float32(second), 0, np.float32(0))


def least_key(
    key: Callable[[float], np.float32], ahead: F64, error: float, plan: ScanPlan, crowd: float
) -> tuple[np.float32, float]:
    """The key to reach in the first stage, and the share that a later stage may lose.

    `key` gives the key for the errors that are allowed for. These are as large as `missed` asks for, unless too many
    records reach the key then and `missed_most` helps: in that case they are the largest at which few enough reach it.
    A later stage may lose as large a share as this one does.
    """
    wanted = allowed_errors(ahead, error, plan.missed)
    least = allowed_errors(ahead, error, plan.missed_most)
    if plan.further > 0.0 or key(wanted) > crowd or not key(least) > crowd:
        return key(wanted + plan.further), plan.missed
    low, high = 0, round((wanted - least) / ERROR_STEP)
    while low < high:
        middle = (low + high + 1) // 2
        if key(least + ERROR_STEP * middle) > crowd:
            low = middle
        else:
            high = middle - 1
    errors = least + ERROR_STEP * low
    return key(errors), max(plan.missed, lost(ahead, error, errors) / float(len(ahead)))


def _in_common(errors: F64) -> float:
    """The middle one, or 0 where it is above."""
    return min(0.0, float(np.sort(errors)[len(errors) // 2]))


def allowed_errors(ahead: F64, error: float, missed: float) -> float:
    """How many times its usual error an estimate may be wrong, for records that are so much nearer than D.

    The least multiple of ERROR_STEP at which the share of them that is lost is likely to be no more than `missed`.
    Where all of them are as far as D, that is the error which so many estimates exceed; where most are much nearer,
    less will do.

    >>> allowed_errors(np.array([0.0, 0.0]), 1.0, 0.025), allowed_errors(np.array([0.0, 3.0]), 1.0, 0.025)
    (2.0, 1.6875)
    """
    low, high = 0, STEPS
    while low < high:
        middle = (low + high) // 2
        if lost(ahead, error, LEAST_ERRORS + ERROR_STEP * middle) <= missed * len(ahead):
            high = middle
        else:
            low = middle + 1
    return LEAST_ERRORS + ERROR_STEP * low


def lost(ahead: F64, error: float, errors: float) -> float:
    """How many of these records are likely to be lost when so many times the usual error is allowed for."""
    number = 0.0
    for slack in ahead.tolist():
        number = number + exceeded(errors + (slack / error if error > 0.0 else 0.0))
    return number


#: The last of NORMAL_TAIL is reached after so many steps.
STEPS = round((0.25 * (len(NORMAL_TAIL) - 1) - LEAST_ERRORS) / ERROR_STEP)


def exceeded(errors: float) -> float:
    """How often an error is larger than so many times the usual one.

    >>> exceeded(0.0), exceeded(1.0), exceeded(-1.0), exceeded(9.0)
    (0.5, 0.158655254, 0.841344746, 0.0)
    """
    place = abs(errors) * 4.0
    if place >= float(len(NORMAL_TAIL) - 1):
        tail = 0.0
    else:
        at = int(place)
        tail = NORMAL_TAIL[at] + (place - float(at)) * (NORMAL_TAIL[at + 1] - NORMAL_TAIL[at])
    return tail if errors >= 0.0 else 1.0 - tail


# --- Candidates ------------------------------------------------------------------------------------------------------


def scan_candidates(query: Query, records: Records, k: int, effort: float, allowed: Bools | None = None) -> I64:
    """The rows whose distance decides; `allowed` says which rows may be found.

    >>> codes, ones = np.uint8([[0b000], [0b011], [0b001]]), np.ones(3, dtype=np.float32)
    >>> query = Query(np.ones((1, 3), np.float32), "l2", np.uint8([[0b111]]), ones, first_bits=0)
    >>> scan_candidates(query, Records(np.array([5, 6, 7]), codes, ones, ones, None), k=2, effort=1.0).tolist()
    [1, 2]
    """
    rows = np.arange(len(records.ids)) if allowed is None else np.flatnonzero(allowed)
    among, n, kept = records.of(rows), len(rows), records.vectors is not None
    staged = query.code is None and len(query.v) > query.first_bits
    survivors = scan_survivors(len(records.ids), k, effort, staged=staged, allowed=n)
    if query.code is not None:
        keys = code_keys(query, among)  # codes alone: their k nearest are the answer
        return rows[keys >= largest(keys, survivors if kept else min(k, n))]
    keys = first_keys(query, among)
    if not kept or query.first_error == 0.0:
        return rows[keys >= largest(keys, survivors)]
    plan = scan_plan(k, effort if allowed is None else ALLOWED_SCAN_EFFORT * effort)
    if n <= plan.reference:
        return rows
    reference = keys >= largest(keys, plan.reference)
    judges = among.of(np.flatnonzero(reference))
    # As many as would go on where errors are not judged, at any effort.
    many = scan_survivors(len(records.ids), k, 1.0, staged=staged, allowed=n)
    crowd = float(largest(keys, many + 1))
    limits = scan_limits(query, judges, distances(query, judges), k, plan, crowd)
    first = first_keys(query, among, limits.raised) >= limits.first
    second = code_keys(query, among, float(limits.lift)) >= limits.second
    return rows[reference | (first & second)]


def largest(keys: F32, rank: int) -> np.float32:
    """The rank-th largest key; minus infinity when there are not as many.

    >>> float(largest(np.float32([3, 9, 5]), 2))
    5.0
    """
    if not 1 <= rank <= len(keys):
        return np.float32(-np.inf)
    return np.float32(np.sort(keys)[len(keys) - rank])
