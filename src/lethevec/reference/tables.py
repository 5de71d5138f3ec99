"""Hash tables and query-directed multi-probe (the paper's section "Hash Buckets Probe"), in NumPy and plain Python.

There are L tables. Table t has a rotation of its own, R_t, and files a vector under a key of b bits:

    values_t(x) = R_t^T x,   bit i of key_t(x) = [values_t(x)_i >= 0] for i < b

The signs of the next s coordinates, up to 128 with those of the key, lie beside the row in its bucket: its signature.
It says which rows of a bucket are worth a look at their code. Most are not, and cost no visit to memory elsewhere.

A key is shorter than the dimension, so W is b columns of one rotation, W^T W = I, and the step of USR loses its second
term: y <- tanh(alpha W^T x + (I - W^T W) y) = tanh(alpha W^T x). Its signs are those of W^T x: USR is Super-Bit here.

What is hashed is the direction x/|x| under cosine, so that a record and a query that point the same way have the same
key to the last bit, and x itself under l2 and ip: a positive factor changes no sign. Where vectors are not kept it is
the vector that the record's code stands for, because that is all there is to make the tables from again.

The mean of the coordinates is taken off each of them first: in data that are never negative (descriptors, counts,
activations) all vectors lean towards (1, ..., 1), most signs would be the same for all of them, and a few buckets would
hold everything. The mean of the records would do better, but a key must not depend on other records.

A query looks into buckets in the order of (score, table, set of flips), over all tables at once:

    score(Delta) = sum of |values_i| over the flipped coordinates

The coordinates of a table are ranked by (|value|, coordinate), and a set of flips is the number whose bit r says that
the r-th ranked coordinate is flipped. The sum is taken in float32 in the order of the ranks. Rounding is monotone, so a
set never scores less than one that it grows from, and the sequence below is in this order exactly: no sorting, no set
twice, none left out.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .allowing import fewer_than_chance
from .codes import U8, Bools, pack
from .constants import (
    BUCKETS_PER_PROBE,
    CENTRED_FROM,
    FAR_BEYOND,
    FILTER,
    FILTER_PER_K,
    LOOKED_BITS,
    PASS_PER_K,
    PASS_SHARE,
    REFERENCE_EFFORT,
    ROWS_PER_PROBE,
    SCALE_STEP,
    STREAM_TABLES,
    TABLE_REFERENCE,
    TABLE_REFERENCE_ONE_IN,
    TABLE_REFERENCE_PER_K,
    TABLE_WEIGHT,
)
from .generator import words
from .ranking import I64, Query, Records, code_keys
from .rotations import HadamardFrame, analysis
from .vectors import F32, directions, lane_sum

U64 = npt.NDArray[np.uint64]


# --- Keys ------------------------------------------------------------------------------------------------------------


def tables_frame(d: int, L: int, seed: int) -> HadamardFrame:
    """R_0 ... R_{L-1}, chained like those of any frame, from a seed of their own."""
    return HadamardFrame(d, L, int(words(seed, STREAM_TABLES, 1)[0]))


def hashed(x: F32, metric: str) -> F32:
    """What is hashed of x: its direction under cosine; in CENTRED_FROM dimensions or more, less the mean coordinate."""
    x = directions(x) if metric == "cosine" else x
    d = x.shape[1]
    if d < CENTRED_FROM:
        return x
    return np.asarray(x - (lane_sum(x.astype(np.float64)) / d).astype(np.float32)[:, None])


def table_values(frame: HadamardFrame, x: F32, metric: str) -> F32:
    """What keys and signatures are the signs of, in every table: (n, d) -> (n, L, b + s)."""
    width = min(frame.d, LOOKED_BITS)
    return np.ascontiguousarray(analysis(frame, hashed(x, metric)).reshape(len(x), frame.m, frame.d)[:, :, :width])


def table_keys(values: F32, b: int) -> U64:
    """Keys (n, L) as numbers; bit i is 1 where value i is >= 0.

    >>> table_keys(np.float32([[[0.5, -0.5, 0.0, 9.0]]]), 3).tolist()
    [[5]]
    """
    code = pack(values[:, :, :b])
    padded = np.zeros((*code.shape[:2], 8), dtype=np.uint8)
    padded[:, :, : code.shape[2]] = code
    return np.asarray(padded.view("<u8")[:, :, 0], dtype=np.uint64)


def table_signatures(values: F32, b: int) -> U8:
    """Signatures (n, L, ceil(s/8)), of the values after those of the key, bits as in codes."""
    return pack(values[:, :, b:])


@dataclass(frozen=True)
class TableSettings:
    """What decides on the tables beside the records: rotations, metric, bits of a key, and probes at effort 1."""

    frame: HadamardFrame
    metric: str
    b: int
    probes: int


@dataclass(frozen=True)
class Tables:
    """All that hash tables hold: the values (n, L, b + s) whose signs are the keys and signatures of each row."""

    settings: TableSettings
    values: F32

    @property
    def keys(self) -> U64:
        """Under which key each row lies in each table, (n, L)."""
        return table_keys(self.values, self.settings.b)

    @property
    def signatures(self) -> U8:
        """What lies beside it, (n, L, ceil(s/8))."""
        return table_signatures(self.values, self.settings.b)


def build_tables(settings: TableSettings, x: F32) -> Tables:
    """The tables of n records (n, d).

    >>> settings = TableSettings(tables_frame(8, L=3, seed=0), "l2", b=2, probes=1)
    >>> build_tables(settings, np.eye(8, dtype=np.float32)).keys.shape
    (8, 3)
    """
    return Tables(settings, table_values(settings.frame, x, settings.metric))


# --- Probing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Probe:
    """A bucket to look into: a key of a table, and the score of the flips that lead there."""

    score: np.float32
    table: int
    key: int


def flip_score(sizes: F32, flips: int) -> np.float32:
    """The score of a set of flips, for the sizes |value| of a table in ascending order.

    >>> float(flip_score(np.float32([0.25, 0.5, 2.0]), 0b101))
    2.25
    """
    total = np.float32(0)
    for rank in range(flips.bit_length()):
        if flips >> rank & 1:
            total = total + sizes[rank]
    return np.float32(total)


def probing(values: F32) -> Iterator[Probe]:
    """All L 2^b buckets for a query's values (L, b), nearest first.

    A min-heap holds sets of flips (Lv et al.). The empty set leads to {0}; any other, whose last rank is r, leads to
    two: shift, its last rank r + 1 instead of r; and expand, rank r + 1 added. Every set is reached in exactly one way.
    """
    L, b = values.shape
    sizes = np.abs(values)
    order = np.argsort(sizes, axis=1, kind="stable")
    ranked = np.take_along_axis(sizes, order, axis=1)
    home = table_keys(values[None], b)[0]
    heap = [(np.float32(0), t, 0) for t in range(L)]
    while heap:
        score, t, flips = heapq.heappop(heap)
        flipped = sum(1 << int(order[t, r]) for r in range(b) if flips >> r & 1)
        yield Probe(score, t, int(home[t]) ^ flipped)
        after = flips.bit_length()  # r + 1
        if after == b:
            continue
        grown = [flips | 1 << after]
        if flips:
            grown.append((flips ^ 1 << (after - 1)) | 1 << after)
        for other in grown:
            heapq.heappush(heap, (flip_score(ranked[t], other), t, other))


# --- Candidates ------------------------------------------------------------------------------------------------------


def table_weights(values: F32) -> I64:
    """Whole weights for a query's values (L, b + s): |value|, scaled alike in all tables and rounded.

    The scale is the largest, coming down by steps of a hundredth, at which those of no table add up to more than
    TABLE_WEIGHT.

    >>> table_weights(np.float32([[2.0, -1.0, 0.5], [0.0, 1.0, 1.0]])).tolist()
    [[146, 73, 36], [0, 73, 73]]
    """
    size = np.abs(values.astype(np.float64))
    heaviest = float(np.cumsum(size, axis=1)[:, -1].max())  # summed one by one
    scale = float(TABLE_WEIGHT) / heaviest if heaviest > 0 else 0.0
    while True:
        weights = np.floor(size * scale + 0.5).astype(np.int64)
        if weights.sum(axis=1).max() <= TABLE_WEIGHT:
            return weights
        scale = scale * SCALE_STEP


@dataclass(frozen=True)
class TablePlan:
    """How much to look at: probes, and places among the estimates of the reference set.

    A probe is worth the rows of a bucket of the `average` size. A search looks into another bucket while it has looked
    at fewer rows than its probes are worth: where records lie close together, few buckets hold many of them and many
    of the nearest. And while it has looked into fewer than BUCKETS_PER_PROBE times as many buckets: they may be empty.
    `wanted` estimates at least are in the reference buckets; the `fixed` best of them are the reference
    set; a row passes when it reaches the `rank`-th best.
    """

    reference: float
    limit: float
    average: float
    wanted: float
    fixed: float
    rank: float

    def looks_on(self, probes: float, buckets: int, rows: int) -> bool:
        """Whether probes are left after so many buckets with so many rows."""
        return buckets < BUCKETS_PER_PROBE * probes and rows < self.average * probes


def table_plan(k: int, effort: float, *, probes: int, records: int, allowed: int, b: int, L: int) -> TablePlan:
    """The numbers for an effort, which changes `limit` and `rank` alone.

    A row has up to L estimates, so the best L k of them are those of k rows at least.
    """
    looked = probes_for(1.0, probes, records, allowed) * allowed / (1 << b)  # in buckets of average size
    base = PASS_SHARE * looked + PASS_PER_K * k
    least = (TABLE_REFERENCE_PER_K * k + TABLE_REFERENCE) * L  # more than `filter_rank` asks for at effort 1
    fixed = max(least, math.ceil(base / TABLE_REFERENCE_ONE_IN))
    return TablePlan(
        reference=probes_for(REFERENCE_EFFORT, probes, records, allowed),
        limit=probes_for(effort, probes, records, allowed),
        average=records / (1 << b),
        wanted=float(L * k),
        fixed=fixed,
        rank=max(fixed, float(np.ceil(effort * base))),
    )


def probes_for(effort: float, probes: int, records: int, allowed: int) -> float:
    """Probes when `allowed` of the records may be found: as many times more as these are fewer.

    >>> probes_for(1.0, 20, records=1000, allowed=250)
    80.0
    """
    return float(np.ceil(effort * probes * (records / max(1, allowed))))


def table_candidates(
    tables: Tables, query: F32, k: int, effort: float, allowed: Bools | None = None
) -> tuple[I64, int | None]:
    """Rows whose code is to be looked at, for one query (1, d), and how many of them are the reference set.

    A row's estimate in a bucket is sum(w) - 2 sum(w over the bits of key and signature that differ); a row that lies in
    several buckets has an estimate for each. The first buckets say which estimates are good: those that the plan has
    for reference, and more until they hold `wanted`. Their best estimates, `fixed` of them with ties, are the reference
    set, and come first in the answer. Then comes every other row, of these buckets and of those after them up to the
    limit, that has an estimate as good as the rank-th best of the first buckets.

    Effort changes neither the first buckets nor the reference set. More effort looks into more buckets and lowers the
    threshold, so it never drops a row. The reference set has at least k rows, where there are as many.

    With enough effort all rows are given, and no reference set (None); and all that may be found, where the first
    buckets show that they lie elsewhere.

    >>> x = np.eye(8, dtype=np.float32)
    >>> tables = build_tables(TableSettings(tables_frame(8, L=1, seed=0), "l2", b=2, probes=1), x)
    >>> table_candidates(tables, x[:1], k=1, effort=9.0)
    (array([0, 1, 2, 3, 4, 5, 6, 7]), None)
    """
    settings, n, L, b = tables.settings, len(tables.values), tables.values.shape[1], tables.settings.b
    may = np.ones(n, dtype=np.bool_) if allowed is None else allowed
    count = int(may.sum())
    plan = table_plan(k, effort, probes=settings.probes, records=n, allowed=count, b=b, L=L)
    if count <= k + ROWS_PER_PROBE * plan.limit:
        return np.flatnonzero(may), None
    values = table_values(settings.frame, query, settings.metric)[0]
    weights, keys = table_weights(values), tables.keys
    agree = (tables.values >= 0) == (values >= 0)
    estimates = weights.sum(axis=1) - 2 * np.where(agree, 0, weights).sum(axis=2)
    first: list[tuple[int, int]] = []  # (estimate, row)
    after: list[tuple[int, int]] = []
    at_first, looked = True, 0
    for done, probe in enumerate(probing(values[:, :b])):
        before = at_first
        at_first = at_first and (plan.looks_on(plan.reference, done, looked) or len(first) < plan.wanted)
        if before and not at_first and fewer_than_chance(n, count, looked, len(first)):
            return np.flatnonzero(may), None
        if not at_first and not plan.looks_on(plan.limit, done, looked):
            break
        bucket = np.flatnonzero(keys[:, probe.table] == probe.key)
        looked += len(bucket)
        bucket = bucket[may[bucket]]
        (first if at_first else after).extend(
            zip(estimates[bucket, probe.table].tolist(), bucket.tolist(), strict=True)
        )
    best = sorted((estimate for estimate, _ in first), reverse=True)
    fixed, least = _ranked(best, plan.fixed), _ranked(best, plan.rank)
    reference = {row for estimate, row in first if estimate >= fixed}
    others = {row for estimate, row in first + after if estimate >= least} - reference
    return np.array(sorted(reference) + sorted(others), dtype=np.int64), len(reference)


def _ranked(best: list[int], rank: float) -> float:
    """The rank-th of numbers in descending order; minus infinity when there are not as many."""
    return float(best[int(rank) - 1]) if rank <= len(best) else -math.inf


# --- Which of them get their true distance ---------------------------------------------------------------------------


def filter_rank(k: int, effort: float) -> float:
    """Place among the estimates by code of the reference set that a candidate must reach.

    >>> filter_rank(10, 1.0)
    36.0
    """
    return float(np.ceil(max(float(k), effort * (FILTER_PER_K * k + FILTER))))


def pass_filter(estimates: F32, reference: int | None, rank: float) -> Bools:
    """Which candidates go on, by the estimates of their codes, larger is nearer; the reference set comes first.

    A rank beyond the set is that of its last; one far beyond it lets all of them through, and so does having no set.

    >>> pass_filter(np.float32([5, 3, 4, 1]), reference=2, rank=2.0).tolist()
    [True, True, True, False]
    """
    if reference is None or rank > FAR_BEYOND * reference:
        return np.ones(len(estimates), dtype=np.bool_)
    return np.asarray(estimates >= np.sort(estimates[:reference])[max(0, reference - int(rank))])


def table_survivors(
    tables: Tables, query: Query, records: Records, k: int, effort: float, allowed: Bools | None = None
) -> I64:
    """The rows whose distance decides: all candidates where codes are all there is, otherwise those that pass.

    >>> x, none = np.eye(8, dtype=np.float32), np.zeros((8, 1), dtype=np.uint8)
    >>> tables = build_tables(TableSettings(tables_frame(8, L=1, seed=0), "l2", b=2, probes=1), x)
    >>> query = Query(x[:1], "l2", none[:1], x[0], first_bits=0)
    >>> records = Records(np.arange(8), none, np.ones(8, np.float32), np.ones(8, np.float32), None)
    >>> table_survivors(tables, query, records, k=1, effort=9.0).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    rows, reference = table_candidates(tables, query.q, k, effort, allowed)
    if records.vectors is None:
        return rows
    return rows[pass_filter(code_keys(query, records.of(rows)), reference, filter_rank(k, effort))]
