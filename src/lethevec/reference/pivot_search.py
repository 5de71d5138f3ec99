"""A search with pivots, in NumPy: which cells are visited, which of their rows each stage keeps, and the answer.

    cells          by their rounded means: 2 <q, mean> - 0.75 |mean|^2, largest first (ip: <q, mean>), then by id
    first stage    a distance from the first plane and whole weights, put into one of 1,024 buckets
    second stage   a distance from that and the later planes, put into one of 4,096 buckets
    third stage    true distances, then ids

A group is what one cell gives. A row is judged by the rows of its own group, of those before it, and of the first few
groups, which every search visits: never by what more effort adds. So what less effort keeps, more effort keeps too.
A stage keeps whole buckets, so that what it keeps depends on no order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .codes import F32
from .families import directions, norms, plane_weights, superbit
from .pivots import Bools, Pivots, mean_alignment
from .ranking import I64, _answer, dot, first_weights, squared_distance, tail_weights, true_distances

#: Rows that the first stage keeps at effort 1: a number, and as many for each of the k neighbours.
SURVIVORS, SURVIVORS_PER_K = 700.0, 42.0
#: Rows that the second stage keeps, likewise.
RANK, RANK_PER_K = 10.0, 3.0
#: This part of the survivors at effort 1 is the reference, and this part of the probes at effort 1 are always visited.
REFERENCE_PART = 2.0
FIRST_PART = 8.0
#: Cells to visit at effort 1, unless a number is given: so many times the root of the number of cells.
LEAST_PROBES, PROBES_PER_ROOT = 8.0, 5.0
#: How much of |mean|^2 counts. 1 orders cells by the distance to the mean; 0, where all members have one length, by the
#: mean distance to members. Between the two, fewest rows have to be looked at: 0.6 to 0.75 on GloVe and on SIFT.
SHARE = 0.75
#: Whole weights of a query's coordinates, where it is compared with means, go up to this.
LARGEST_QUERY = 63.0
#: The first centres; the largest of their distances is the unit of estimates. (A query that is a pivot is at its own.)
SPAN = 8
#: Buckets of either stage, and how many of them reach from zero to that distance.
FIRST_BUCKETS, FIRST_PER_UNIT = 1024, 256
SECOND_BUCKETS, SECOND_PER_UNIT = 4096, 1024


# --- How much to look at ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PivotPlan:
    """`first` cells and the `reference` rows do not depend on effort; `probed`, `survivors` and `rank` grow with it."""

    first: int
    probed: int
    reference: int
    survivors: int
    rank: int


def pivot_plan(records: int, allowed: int, cells: int, probes: int, k: int, effort: float) -> PivotPlan:
    """For `allowed` of `records` in `cells` that are not empty. The fewer are allowed, the more cells are visited.

    `probes` 0 follows the number of cells.
    """
    share = records / max(1, allowed)
    probes_at_one = float(probes) if probes else max(LEAST_PROBES, PROBES_PER_ROOT * math.sqrt(cells))
    first = min(cells, max(1, math.ceil(min(probes_at_one * share / FIRST_PART, cells))))
    probed = max(first, math.ceil(min(effort * probes_at_one * share, cells)))
    base = SURVIVORS + SURVIVORS_PER_K * k
    reference = math.ceil(max(k, base / REFERENCE_PART))
    growth = math.sqrt(effort) if effort < 1 else effort  # few cells hold good rows too
    survivors = max(reference, math.ceil(min(growth * base, records)))
    rank = math.ceil(max(k, min(growth * (RANK + RANK_PER_K * k), records)))
    return PivotPlan(first, probed, reference, survivors, rank)


# --- Which cells -----------------------------------------------------------------------------------------------------


def cell_order(pivots: Pivots, v0: F32) -> I64:
    """Positions of the cells that are not empty, best first, for the first d rotated coordinates of a query."""
    cells = pivots.cells
    size = np.abs(v0.astype(np.float64))
    top = float(size.max())
    whole = np.sign(v0) * np.floor(size * (LARGEST_QUERY / top if top > 0 else 0.0) + 0.5)
    step = np.float32(top / LARGEST_QUERY)
    products = (cells.means.astype(np.int64) * whole.astype(np.int64)).sum(axis=1).astype(np.float32)
    if pivots.settings.metric == "ip":
        keys = step * cells.steps * products
    else:
        keys = np.float32(2) * step * cells.steps * products - np.float32(SHARE) * cells.squares
    filled = np.flatnonzero(cells.counts > 0)
    return filled[np.lexsort((cells.ids[filled], -keys[filled]))]


# --- Stages ----------------------------------------------------------------------------------------------------------


def bucket(e: F32, low: np.float32, unit: np.float32, count: int, per_unit: int) -> I64:
    """The bucket of each distance, of `count`; those beyond either end are put into the last."""
    with np.errstate(over="ignore", divide="ignore"):
        inverse = np.float32(per_unit) / unit if unit > 0 else np.float32(0)
        inverse = inverse if np.isfinite(inverse) else np.float32(0)
        return np.clip((e - low) * inverse, np.float32(0), np.float32(count - 1)).astype(np.int64)


def thresholds(buckets: I64, groups: I64, rank: int, first: int, visited: int, count: int) -> I64:
    """For each group: the bucket that holds the rank-th of the rows up to its own and of the first groups."""
    found = np.full(visited, count - 1, dtype=np.int64)
    for g in range(visited):
        judges = np.sort(buckets[groups <= max(g, first - 1)])
        if len(judges) >= rank:
            found[g] = judges[rank - 1]
    return found


@dataclass(frozen=True)
class Found:
    """Rows to take true distances of, and how many the first stage (or none) and the second one looked at."""

    rows: I64
    scanned: int
    refined: int


def pivot_candidates(pivots: Pivots, query: F32, k: int, effort: float, allowed: Bools | None = None) -> Found:
    """For one query (1, d); `allowed` says which rows may be found."""
    settings, cells, n = pivots.settings, pivots.cells, len(pivots.cells_of)
    frame, metric = settings.frame, settings.metric
    may = np.ones(n, dtype=np.bool_) if allowed is None else allowed
    plan = pivot_plan(n, int(may.sum()), int((cells.counts > 0).sum()), settings.probes, k, effort)
    if may.sum() <= plan.rank:
        return Found(np.flatnonzero(may), int(may.sum()), 0)

    q = directions(query) if metric == "cosine" else query
    v = superbit(frame, q, frame.m * frame.d)[0]
    order = cell_order(pivots, v[: frame.d])
    seen = np.cumsum([int((may & (pivots.cells_of == c)).sum()) for c in order])
    visited = max(plan.probed, int(np.searchsorted(seen, k)) + 1)  # as many as it takes to see k
    span = cells.centres[order[:SPAN]]
    order = order[:visited]
    place = np.full(len(cells.ids), -1)
    place[order] = np.arange(visited)
    rows = np.flatnonzero(may & (place[pivots.cells_of] >= 0))
    groups = place[pivots.cells_of[rows]]

    centres = cells.centres[order]
    bases = -dot(q, centres) if metric == "ip" else squared_distance(q, centres)
    if metric == "ip":
        unit = (np.float32(norms(q)[0]) * norms(span).astype(np.float32)).max()
        low = bases[0] - unit
    else:
        unit, low = squared_distance(q, span).max(), np.float32(0)
    base = bases[groups]

    weights = first_weights(v[: frame.d])
    gain = np.float32((1.0 if metric == "ip" else 2.0) * weights.unit / mean_alignment(frame.d))
    twice = weights.agreement(pivots.bits[rows, : frame.d]).astype(np.float32)
    e1 = base - pivots.sizes[rows] * (twice * gain - pivots.offsets[rows])
    bucket1 = bucket(e1, low, unit, FIRST_BUCKETS, FIRST_PER_UNIT)
    keeps = bucket1 <= thresholds(bucket1, groups, plan.survivors, plan.first, visited, FIRST_BUCKETS)[groups]
    judges = bucket1 <= thresholds(bucket1, groups, plan.reference, plan.first, visited, FIRST_BUCKETS)[groups]

    c = plane_weights(frame.d, frame.m)
    tail = tail_weights((v * np.repeat(c, frame.d))[frame.d :])
    rest = tail.agreement(pivots.bits[rows, frame.d :]).astype(np.float32) * np.float32(tail.unit)
    e2 = base + (pivots.biases[rows] - (twice * np.float32(weights.unit * float(c[0])) + rest) * pivots.scales[rows])
    bucket2 = bucket(e2, low, unit, SECOND_BUCKETS, SECOND_PER_UNIT)
    limits = thresholds(bucket2[judges], groups[judges], plan.rank, plan.first, visited, SECOND_BUCKETS)
    return Found(rows[keeps & (bucket2 <= limits[groups])], len(rows), int(keeps.sum()))


def search_pivots(pivots: Pivots, query: F32, k: int, effort: float, allowed: Bools | None = None) -> tuple[I64, F32]:
    """The k nearest of one query (1, d): ids and distances, filled up with -1 and infinity."""
    rows = pivot_candidates(pivots, query, k, effort, allowed).rows
    distances = true_distances(query, pivots.records, rows, pivots.settings.metric)
    return _answer(distances, pivots.records.ids[rows], k)
