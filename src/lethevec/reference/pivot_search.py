"""A search with pivots, in NumPy: which cells are visited, which of their rows each stage keeps, and the answer.

    cells          by their rounded means: 2 <q, mean> - |mean|^2 - variance/4, largest first, then by id (ip: by how
                   large <q, x> may be for the best member x)
    D              how far the k-th neighbour is at most: the true distance of the k-th of those rows of the first few
                   cells that are nearest by their codes
    first stage    a distance from the first plane and whole weights; rows that may lie within D go on
    second stage   a distance from that and the later planes; likewise
    third stage    true distances, then ids

How many cells are visited at effort 1 follows from the data. The middle row of the first cells tells how far rows like
the query's neighbours are on average, and D how far the neighbours are: so much nearer than its cell a row may be.
Where this is much, as in many dimensions, many cells that are hardly farther than the first ones have neighbours too.

A row may lie within D when its estimated distance, less so many times the usual error of such an estimate, does. The
first cells and D are the same for every effort. More effort visits more cells and allows for larger errors, so what
less effort keeps, more effort keeps too. How many rows a stage keeps follows from the data, and not from a number that
was chosen for some data set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .allowing import fewer_than_chance
from .codes import Bools
from .constants import (
    ALLOWED_CELLS,
    ALLOWED_ERRORS,
    CELL_ERRORS,
    CELLS_WITHIN,
    FALLOFF,
    FEW_ROWS,
    FEW_ROWS_PER_K,
    FIRST_ERRORS,
    FIRST_ROWS,
    FIRST_ROWS_ONE_IN,
    FIRST_ROWS_PER_K,
    LEAST_CELLS,
    LEAST_CELLS_PER_ROOT,
    LIMIT_ROWS,
    LIMIT_ROWS_PER_K,
    MOST_CELLS_PER_ROOT,
    QUERY_WEIGHT,
    SECOND_ERRORS,
)
from .families import plane_weights, superbit
from .pivots import Pivots, mean_alignment
from .ranking import I64, Records, answer, first_weights, tail_weights, true_distances
from .vectors import F32, directions, dot, norms, squared_distance

# --- How much to look at ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PivotPlan:
    """Effort decides nothing of the `first` and `reference` rows; all others grow with it.

    At effort 1, and without a filter, `least` to `most` cells are visited; these grow `growth` times. `usual` is how
    many cells the first ones are without a filter, or 0 where there is none. With one, the first cells are as many as
    it takes to see some rows that may be found: where these lie far from the query, there are many first cells, and as
    many times as many have to be visited: ALLOWED_CELLS times as many again where fewer than by chance may be found in
    these.
    """

    first: int
    least: float
    most: float
    growth: float
    usual: float
    reference: int
    few: int
    errors: float

    def probed(self, worth: int, first: int, cells: int, elsewhere: bool = False) -> int:
        """How many of so many cells are visited, where so many are `worth` it at effort 1, and so many came `first`;
        `elsewhere` says that fewer than by chance may be found in these."""
        wanted = self.growth * min(max(self.least, float(worth)), self.most)
        times = ALLOWED_CELLS if elsewhere else 1.0
        if self.usual > 0.0:
            wanted = max(wanted, times * (float(first) * (wanted / self.usual)))
        return max(first, math.ceil(min(wanted, cells)))


def pivot_plan(records: int, allowed: int, cells: int, probes: int, k: int, effort: float) -> PivotPlan:
    """For `allowed` of `records` in `cells` that are not empty. The fewer are allowed, the more cells are visited, and
    the larger errors are allowed for: so recall is not below that of a search without a filter (measured, on words and
    on images, for filters that know nothing of the vectors and for filters that leave only what is far away).

    With `probes` 0, how many cells are visited follows from the data, within bounds.

    >>> plan = pivot_plan(records=10_000, allowed=10_000, cells=400, probes=0, k=10, effort=1.0)
    >>> plan
    PivotPlan(first=320, least=100.0, most=300.0, growth=1.0, usual=0.0, reference=60, few=40, errors=1.0)
    >>> plan.probed(worth=20, first=10, cells=400), plan.probed(worth=120, first=10, cells=400)
    (100, 120)
    """
    fewer = records / max(1, allowed)
    more = math.sqrt(fewer) * _eighth_root(fewer)
    root = math.sqrt(cells)
    least = float(probes) if probes else max(LEAST_CELLS, LEAST_CELLS_PER_ROOT * root)
    most = float(probes) if probes else max(LEAST_CELLS, MOST_CELLS_PER_ROOT * root)
    first = math.ceil(FIRST_ROWS + FIRST_ROWS_PER_K * k + min(allowed / FIRST_ROWS_ONE_IN, math.sqrt(allowed)))
    usual = max(1.0, first * cells / max(1, allowed)) if allowed < records else 0.0
    reference = math.ceil(LIMIT_ROWS + LIMIT_ROWS_PER_K * k)
    growth = math.sqrt(effort) if effort < 1 else effort
    few = math.ceil(max(k, min(growth * (FEW_ROWS + FEW_ROWS_PER_K * k), records)))
    errors = math.sqrt(math.sqrt(max(1.0, effort))) * _eighth_root(fewer)
    if allowed < records:
        errors = errors * ALLOWED_ERRORS
    return PivotPlan(first, least, most, effort * more, usual, reference, few, errors)


def _eighth_root(number: float) -> float:
    return math.sqrt(math.sqrt(math.sqrt(number)))


# --- Which cells -----------------------------------------------------------------------------------------------------


def cell_order(pivots: Pivots, v0: F32, size_of_q: np.float32) -> tuple[I64, F32]:
    """Positions of the cells that are not empty, best first, for the first d rotated coordinates of a query and its
    norm; and the keys of all cells."""
    cells = pivots.cells
    size = np.abs(v0.astype(np.float64))
    top = float(size.max())
    whole = np.sign(v0) * np.floor(size * (QUERY_WEIGHT / top if top > 0 else 0.0) + 0.5)
    step = np.float32(top / QUERY_WEIGHT)
    products = (cells.means.astype(np.int64) * whole.astype(np.int64)).sum(axis=1).astype(np.float32)
    if pivots.settings.metric == "ip":
        keys = step * cells.steps * products - size_of_q * cells.penalties
    else:
        keys = np.float32(2) * step * cells.steps * products - cells.penalties
    filled = np.flatnonzero(cells.counts > 0)
    return filled[np.lexsort((cells.ids[filled], -keys[filled]))], keys


# --- Stages ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """Rows to take true distances of, how many were looked at, and how many codes were read in full (some twice)."""

    rows: I64
    scanned: int
    refined: int


def usual_errors(d: int, m: int) -> tuple[float, float]:
    """The usual error of <y, r>/(|y| |r|) by the first plane, and of the sum over m planes that the factor multiplies.

    A sign keeps sqrt(2/pi) of a coordinate on average, so of |r|^2 = 1 a part of pi/2 - 1 is lost, spread over d
    directions of which y is one. Every plane leaves FALLOFF of what it was given.
    """
    return math.sqrt((math.pi / 2.0 - 1.0) / d), FALLOFF**m / math.sqrt(d)


def pivot_candidates(pivots: Pivots, query: F32, k: int, effort: float, allowed: Bools | None = None) -> Found:
    """For one query (1, d); `allowed` says which rows may be found."""
    settings, cells, n = pivots.settings, pivots.cells, len(pivots.cells_of)
    frame, ip = settings.frame, settings.metric == "ip"
    may = np.ones(n, dtype=np.bool_) if allowed is None else allowed
    plan = pivot_plan(n, int(may.sum()), int((cells.counts > 0).sum()), settings.probes, k, effort)
    if may.sum() <= plan.few:
        return Found(np.flatnonzero(may), int(may.sum()), 0)

    q = directions(query) if settings.metric == "cosine" else query
    v = superbit(frame, q, frame.m * frame.d)[0]
    size = np.float32(norms(q)[0])
    order, keys = cell_order(pivots, v[: frame.d], size)
    seen = np.cumsum([int((may & (pivots.cells_of == c)).sum()) for c in order])
    first = min(len(order), int(np.searchsorted(seen, plan.first)) + 1)
    looked = int(cells.counts[order[:first]].sum())
    elsewhere = fewer_than_chance(n, int(may.sum()), looked, int(seen[first - 1]))
    place = np.full(len(cells.ids), -1)
    place[order] = np.arange(len(order))
    rows = np.arange(n)
    groups = place[pivots.cells_of]

    # <y, r> is estimated for y = q - origin, or q under ip, where `away` is |y|^2.
    origins = cells.origins[order]
    bases = -dot(q, origins) if ip else squared_distance(q, origins)
    away = np.full(len(order), size * size) if ip else np.maximum(bases, np.float32(0))

    weights = first_weights(v[: frame.d])
    gain = np.float32((1.0 if ip else 2.0) * weights.unit / mean_alignment(frame.d))
    agreement, total = weights.agreement(pivots.bits[:, : frame.d]), int(weights.w.sum())
    scaled, middle = (agreement + total).astype(np.float32) * gain, np.float32(total) * gain

    def nearness(shifts: F32) -> F32:
        """What the first plane takes off a row's base."""
        return pivots.sizes * ((scaled + (shifts - middle)[groups]) - pivots.offsets)

    c = plane_weights(frame.d, frame.m)
    tail = tail_weights((v * np.repeat(c, frame.d))[frame.d :])
    start = agreement.astype(np.float32) * np.float32(weights.unit * float(c[0]))
    rest = tail.agreement(pivots.bits[:, frame.d :]).astype(np.float32) * np.float32(tail.unit)

    # Whole weights are not quite those of the query: each is wrong by up to half a step. This error is larger the
    # farther the query is from zero, wherever the cell lies, and does not get smaller with more planes.
    first_error, second_error = usual_errors(frame.d, frame.m)
    by_first = np.float32(weights.unit * weights.unit * (math.pi / 24.0))
    reach = np.float32((1.0 if ip else 2.0) * FIRST_ERRORS * plan.errors) * np.sqrt(
        np.float32(first_error * first_error) * away + by_first
    )
    steps = (
        weights.unit * float(c[0]) * math.sqrt(float(frame.d)),
        tail.unit * math.sqrt(float((frame.m - 1) * frame.d)),
    )
    by_both = np.float32((steps[0] * steps[0] + steps[1] * steps[1]) / 12.0)
    spread = np.sqrt(np.float32(second_error * second_error) * away + by_both)
    lift = np.full(len(order), np.float32(SECOND_ERRORS * plan.errors)) * spread

    def distance(lifts: F32) -> F32:
        """By all planes."""
        return bases[groups] + (pivots.biases - ((start + rest) + lifts[groups]) * pivots.scales)

    # How far the k-th neighbour is at most, by rows of the first cells.
    none = np.zeros(len(order), dtype=np.float32)
    near = np.where((groups < first) & may, nearness(none) - bases[groups], -np.float32(np.inf))
    by_nearness, whole = np.sort(near)[::-1], int(seen[first - 1])
    reference = near >= by_nearness[min(plan.reference, whole) - 1]
    plain = distance(none)
    judges = reference & (plain <= np.sort(plain[reference])[k - 1])
    limit = np.sort(_as_bases(q, pivots.records.of(np.flatnonzero(judges)), settings.metric))[k - 1]

    # Which cells, and which of their rows.
    middle_one = -by_nearness[(whole + 1) // 2 - 1]
    last = order[first - 1]
    by_means = np.float32((1.0 if ip else 2.0) * CELL_ERRORS / math.sqrt(12.0)) * (size * cells.steps[last])
    worst = keys[last] - (np.float32(CELLS_WITHIN) * (middle_one - limit) + by_means)
    visited = groups < plan.probed(int((keys[order] >= worst).sum()), first, len(order), elsewhere)
    kept = visited & (nearness(reach) >= (bases - limit)[groups])
    # Those that set the limit are kept whatever their codes say: so there are k at the least.
    worth = (kept & may & (distance(lift) <= limit)) | judges
    return Found(rows[worth], int(visited.sum()), int(reference.sum()) + int(kept.sum()))


def _as_bases(q: F32, records: Records, metric: str) -> F32:
    """True distances as they are estimated: squared, or minus the inner product."""
    assert records.vectors is not None
    if metric == "cosine":
        return np.float32(2) * (np.float32(1) - dot(q, records.vectors) / records.norms)
    return -dot(q, records.vectors) if metric == "ip" else squared_distance(q, records.vectors)


def search_pivots(pivots: Pivots, query: F32, k: int, effort: float, allowed: Bools | None = None) -> tuple[I64, F32]:
    """The k nearest of one query (1, d): ids and distances, filled up with -1 and infinity."""
    rows = pivot_candidates(pivots, query, k, effort, allowed).rows
    distances = true_distances(query, pivots.records, rows, pivots.settings.metric)
    return answer(distances, pivots.records.ids[rows], k)
