"""Hash tables and query-directed multi-probe (the paper's section "Hash Buckets Probe"), in NumPy and plain Python.

There are L tables. Table t has a rotation of its own, R_t, and files a vector under a key of b bits:

    values_t(x) = R_t^T x,   bit i of key_t(x) = [values_t(x)_i >= 0] for i < b

The signs of the next s coordinates, up to 64, lie beside the row in its bucket: its signature. It says which rows of a
bucket are worth a look at their code, so that most rows cost no visit to memory elsewhere.

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
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .families import directions, lane_sum
from .generator import words
from .rotations import F32, HadamardFrame, analysis

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

#: The stream that the seed of the tables' rotations is the first word of.
STREAM = 3 << 32
#: A search that may look at this many records for each bucket of its plan looks at all of them instead.
ROWS_PER_PROBE = 4
SIGNATURE_BITS = 64
CENTRED_FROM = 16
#: Whole weights of a query's coordinates add up to at most this in every table, so that estimates fit bytes.
WEIGHT_OF_TABLE = 255
#: Rows that pass the estimates by key and signature, for each bucket of the plan.
PASS_PER_PROBE = 2.5
#: A group of buckets has one for so many buckets before it.
GROUPING = 8


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


def table_values(frame: HadamardFrame, x: F32, b: int, metric: str) -> F32:
    """What keys and signatures are the signs of, in every table: (n, d) -> (n, L, b + s)."""
    width = min(frame.d, b + SIGNATURE_BITS)
    return np.ascontiguousarray(analysis(frame, hashed(x, metric)).reshape(len(x), frame.m, frame.d)[:, :, :width])


def table_keys(values: F32, b: int) -> U64:
    """Keys (n, L); bit i is 1 where value i is >= 0."""
    return _signs_as_numbers(values[:, :, :b])


def table_signatures(values: F32, b: int) -> U64:
    """Signatures (n, L), of the values after those of the key."""
    return _signs_as_numbers(values[:, :, b:])


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

    Rounding adds at most a half to each, so those of a table add up to WEIGHT_OF_TABLE at most.
    """
    size = np.abs(values.astype(np.float64))
    heaviest = float(np.cumsum(size, axis=1)[:, -1].max())  # summed one by one
    scale = (WEIGHT_OF_TABLE - 0.5 * size.shape[1]) / heaviest if heaviest > 0 else 0.0
    return np.floor(size * scale + 0.5).astype(np.int64)


def pass_rank(k: int, effort: float, limit: float, L: int) -> float:
    """Place among the estimates by key and signature that a row must reach, when `limit` buckets are looked into.

    A row has up to L estimates, so the best L k of them are those of k rows at least, whatever the effort.
    """
    return float(max(float(L * k), np.ceil(PASS_PER_PROBE * limit + effort * 6.0 * k)))


def probes_for(effort: float, probes: int, records: int, allowed: int) -> float:
    """Buckets to look into when `allowed` of the records may be found: as many more as these are fewer."""
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
) -> tuple[I64, list[int] | None]:
    """Rows whose code is to be looked at, for a query with these values (L, b + s), and where each group of them ends.

    `bits` (n, L, b + s) are the signs of the records' values. A group is what some buckets give, one after the other:
    the rows not found in an earlier group whose estimate, sum(w) - 2 sum(w over the bits that differ), reaches the
    rank-th largest of all estimates up to the end of the group; everything, until there are as many. A row that lies in
    several buckets of a group has an estimate for each. Groups are looked into whole, and where they end does not
    depend on effort: a row is judged by what comes before it and beside it alone, so more effort (more groups, a larger
    rank) never drops one. At least k rows, where there are as many.

    With enough effort all rows are given, and no groups (None).
    """
    left = np.ones(len(bits), dtype=np.bool_) if allowed is None else allowed.copy()
    count = int(left.sum())
    limit = probes_for(effort, probes, len(bits), count)
    if count <= k + ROWS_PER_PROBE * limit:
        return np.flatnonzero(left), None
    weights = table_weights(values)
    estimates = weights.sum(axis=1) - 2 * np.where(bits == (values >= 0), 0, weights).sum(axis=2)
    keys = _signs_as_numbers(np.where(bits[:, :, :b], np.float32(1), np.float32(-1)))
    passing = Rank(pass_rank(k, effort, limit, values.shape[0]))
    rows: list[int] = []
    ends: list[int] = []
    sequence = probing(values[:, :b])
    done = 0
    for end in group_ends(probes):
        if (done >= limit and len(rows) >= k) or len(rows) == count or done == values.shape[0] << b:
            break
        group = list(itertools.islice(sequence, end - done))
        done += len(group)
        buckets = [(np.flatnonzero(left & (keys[:, probe.table] == probe.key)), probe.table) for probe in group]
        here = np.concatenate([bucket for bucket, _ in buckets])
        kept = here[passing.judge(np.concatenate([estimates[bucket, t] for bucket, t in buckets]).astype(np.float64))]
        kept = np.unique(kept)
        left[kept] = False
        rows += kept.tolist()
        if len(kept):
            ends.append(len(rows))
    return np.array(rows, dtype=np.int64), ends


def group_ends(probes: int) -> Iterator[int]:
    """After how many buckets groups end: the first has an eighth of what effort 1 looks into, and so has each later one
    of all before it."""
    end = -(-probes // GROUPING)
    while True:
        yield end
        end += -(-end // GROUPING)


class Rank:
    """The rank-th largest of all numbers seen; minus infinity while there are fewer."""

    def __init__(self, rank: float) -> None:
        """Nothing seen yet."""
        self.rank = rank
        self._best: list[float] = []

    def judge(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Take in a group of numbers; which of them reach the rank-th largest, themselves included?"""
        for number in numbers.tolist():
            if len(self._best) < self.rank:
                heapq.heappush(self._best, number)
            else:
                heapq.heappushpop(self._best, number)
        return np.asarray(numbers >= (self._best[0] if len(self._best) >= self.rank else -math.inf))


# --- Which of them get their true distance ---------------------------------------------------------------------------


def filter_rank(k: int, effort: float) -> float:
    """Place among the estimates by code that a candidate must reach."""
    return float(np.ceil(max(float(k), effort * (6.0 * k + 60.0))))


def pass_filter(estimates: F32, ends: list[int] | None, rank: float) -> npt.NDArray[np.bool_]:
    """Which candidates go on, by the estimates of their codes, larger is nearer: group by group, as above."""
    if ends is None or len(estimates) <= rank:
        return np.ones(len(estimates), dtype=np.bool_)
    passing = Rank(rank)
    groups = zip([0, *ends[:-1]], ends, strict=True)
    return np.concatenate([passing.judge(estimates[begin:end].astype(np.float64)) for begin, end in groups])
