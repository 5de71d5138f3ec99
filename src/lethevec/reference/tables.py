"""Hash tables and query-directed multi-probe (the paper's section "Hash Buckets Probe"), in NumPy and plain Python.

There are L tables. Table t has a rotation of its own, R_t, and files a vector under a key of b bits:

    values_t(x) = R_t^T x,   bit i of key_t(x) = [values_t(x)_i >= 0] for i < b

The signs of the next s coordinates, up to 128 with those of the key, lie beside the row in its bucket: its signature.
It says which rows of a bucket are worth a look at their code, so that most rows cost no visit to memory elsewhere.

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

from .families import directions, lane_sum
from .generator import words
from .rotations import F32, HadamardFrame, analysis

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

#: The stream that the seed of the tables' rotations is the first word of.
STREAM = 3 << 32
#: A search that may find at most so many records for each probe looks at all of them instead.
ROWS_PER_PROBE = 4
#: The most buckets that are looked into for a probe.
BUCKETS_PER_PROBE = 2.0
#: Bits of a key and its signature together.
LOOKED_BITS = 128
CENTRED_FROM = 16
#: Whole weights of a query's coordinates add up to at most this in every table, so that estimates fit bytes.
WEIGHT_OF_TABLE = 255
#: Which share of the rows looked at, and how many for each that is asked for, pass the estimates by key and signature.
PASS_SHARE = 0.003
PASS_PER_HIT = 15.0
#: The effort whose buckets the reference set is taken from: the least that a search looks into.
REFERENCE = 0.13
#: A rank so many times the size of the reference set lets everything pass.
FAR_BEYOND = 4.0


# --- Keys ------------------------------------------------------------------------------------------------------------


def tables_frame(d: int, L: int, seed: int) -> HadamardFrame:
    """R_0 ... R_{L-1}, chained like those of any frame, from a seed of their own."""
    return HadamardFrame(d, L, int(words(seed, STREAM, 1)[0]))


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
    """Keys (n, L); bit i is 1 where value i is >= 0."""
    return _signs_as_numbers(values[:, :, :b])


def table_signatures(values: F32, b: int) -> U8:
    """Signatures (n, L, ceil(s/8)), of the values after those of the key, bits as in codes."""
    return np.packbits(values[:, :, b:] >= 0, axis=2, bitorder="little")


def _signs_as_numbers(values: F32) -> U64:
    weights = np.uint64(1) << np.arange(values.shape[2], dtype=np.uint64)
    return np.asarray(np.where(values >= 0, weights, np.uint64(0)).sum(axis=2, dtype=np.uint64))


# --- Probing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Probe:
    """A bucket to look into: a key of a table, and the score of the flips that lead there."""

    score: np.float32
    table: int
    key: int


def flip_score(sizes: F32, flips: int) -> np.float32:
    """The score of a set of flips, for the sizes |value| of a table in ascending order."""
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
    WEIGHT_OF_TABLE.
    """
    size = np.abs(values.astype(np.float64))
    heaviest = float(np.cumsum(size, axis=1)[:, -1].max())  # summed one by one
    scale = float(WEIGHT_OF_TABLE) / heaviest if heaviest > 0 else 0.0
    while True:
        weights = np.floor(size * scale + 0.5).astype(np.int64)
        if weights.sum(axis=1).max() <= WEIGHT_OF_TABLE:
            return weights
        scale = scale * 0.99


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
    base = PASS_SHARE * looked + PASS_PER_HIT * k
    fixed = max((4.0 * k + 16.0) * L, math.ceil(base / 3.0))  # more than `filter_rank` asks for at effort 1
    return TablePlan(
        reference=probes_for(REFERENCE, probes, records, allowed),
        limit=probes_for(effort, probes, records, allowed),
        average=records / (1 << b),
        wanted=float(L * k),
        fixed=fixed,
        rank=max(fixed, float(np.ceil(effort * base))),
    )


def probes_for(effort: float, probes: int, records: int, allowed: int) -> float:
    """Probes when `allowed` of the records may be found: as many more as these are fewer."""
    return float(np.ceil(effort * probes * (records / max(1, allowed))))


def table_candidates(
    bits: npt.NDArray[np.bool_],
    values: F32,
    *,
    b: int,
    k: int,
    effort: float,
    probes: int,
    allowed: npt.NDArray[np.bool_] | None = None,
) -> tuple[I64, int | None]:
    """Rows whose code is to be looked at, for a query with these values (L, b + s), and how many are the reference set.

    `bits` (n, L, b + s) are the signs of the records' values. A row's estimate in a bucket is
    sum(w) - 2 sum(w over the bits that differ); one that lies in several buckets has an estimate for each. The first
    buckets say which estimates are good: those that the plan has for reference, and more until they hold `wanted`.
    Their best estimates, `fixed` of them with ties, are the reference set, and come first in the answer. Then comes
    every other row, of these buckets and of those after them up to the limit, that has an estimate as good as the
    rank-th best of the first buckets.

    Effort changes neither the first buckets nor the reference set. More effort looks into more buckets and lowers the
    threshold, so it never drops a row. The reference set has at least k rows, where there are as many.

    With enough effort all rows are given, and no reference set (None).
    """
    may = np.ones(len(bits), dtype=np.bool_) if allowed is None else allowed
    count = int(may.sum())
    L = values.shape[0]
    plan = table_plan(k, effort, probes=probes, records=len(bits), allowed=count, b=b, L=L)
    if count <= k + ROWS_PER_PROBE * plan.limit:
        return np.flatnonzero(may), None
    weights = table_weights(values)
    estimates = weights.sum(axis=1) - 2 * np.where(bits == (values >= 0), 0, weights).sum(axis=2)
    keys = _signs_as_numbers(np.where(bits[:, :, :b], np.float32(1), np.float32(-1)))
    first: list[tuple[int, int]] = []  # (estimate, row)
    after: list[tuple[int, int]] = []
    at_first, looked = True, 0
    for done, probe in enumerate(probing(values[:, :b])):
        at_first = at_first and (plan.looks_on(plan.reference, done, looked) or len(first) < plan.wanted)
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
    """Place among the estimates by code of the reference set that a candidate must reach."""
    return float(np.ceil(max(float(k), effort * (2.4 * k + 12.0))))


def pass_filter(estimates: F32, reference: int | None, rank: float) -> npt.NDArray[np.bool_]:
    """Which candidates go on, by the estimates of their codes, larger is nearer; the reference set comes first.

    A rank beyond the set is that of its last; one far beyond it lets all of them through, and so does having no set.
    """
    if reference is None or rank > FAR_BEYOND * reference:
        return np.ones(len(estimates), dtype=np.bool_)
    return np.asarray(estimates >= np.sort(estimates[:reference])[max(0, reference - int(rank))])
