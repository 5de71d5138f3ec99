"""Ranking: what codes say of the distance between a query and records, true distances, and the order of answers.

Codes are compared with a query in whole numbers, so that every implementation finds the same scores. v are the
coordinates of the rotated query (for progressive codes, times the weight of their plane):

    first bits    w_j for each of the first bits (the first plane of a progressive code, all bits of another): |v_j|,
                  scaled and rounded so that no 128 consecutive weights add up to more than 255, and all of them to no
                  more than 65,535
    later bits    the same with weights of up to 127 each

    score = sum of w_j over the bits that agree with the sign of v_j,     <v, b> ~ (2 score - sum(w)) unit

The record's own factor 1/<x̂, x/|x|> turns the sum of both into an estimate of cos(q, x) that is right on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .codes import U8, Bools, hamming, unpack_bits
from .constants import CHUNK_BITS, CHUNK_WEIGHT, FIRST_WEIGHT, SCALE_STEP, TAIL_WEIGHT
from .vectors import F32, F64, directions, dot, norms, squared_distance

I64 = npt.NDArray[np.int64]

NOTHING = -1
FARTHEST = np.float32(np.inf)


# --- A query's weights -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weights:
    """Whole weights for some bits: w_j >= 0, the sign of v_j, and what one unit is worth."""

    w: I64
    sign: Bools
    unit: float

    def agreement(self, bits: Bools) -> I64:
        """2 score - sum(w) for each row of bits."""
        score = np.where(bits == self.sign, self.w, 0).sum(axis=1)
        return np.asarray(2 * score - self.w.sum())


def first_weights(v: F32) -> Weights:
    """The largest scale, coming down by steps of a hundredth, at which no chunk's weights exceed what they may.

    >>> first_weights(np.float32([2.0, -1.0, 0.5])).w.tolist()
    [146, 73, 36]
    """
    size = np.abs(v.astype(np.float64))
    starts = range(0, len(v), CHUNK_BITS)
    if not starts:
        return _no_weights(v)
    most = min(CHUNK_WEIGHT, FIRST_WEIGHT // len(starts))
    heaviest = max(_sequential_sum(size[at : at + CHUNK_BITS]) for at in starts)
    scale = float(most) / heaviest if heaviest > 0 else 0.0
    while True:
        w = np.floor(size * scale + 0.5).astype(np.int64)
        if max(w[at : at + CHUNK_BITS].sum() for at in starts) <= most:
            return Weights(w, v >= 0, 1.0 / scale if scale > 0 else 0.0)
        scale = scale * SCALE_STEP


def tail_weights(v: F32) -> Weights:
    """Up to 127 each.

    >>> tail_weights(np.float32([2.0, -1.0, 0.5])).w.tolist()
    [127, 64, 32]
    """
    size = np.abs(v.astype(np.float64))
    if len(v) == 0 or size.max() == 0.0:
        return _no_weights(v)
    scale = float(TAIL_WEIGHT) / size.max()
    return Weights(np.floor(size * scale + 0.5).astype(np.int64), v >= 0, 1.0 / scale)


def _no_weights(v: F32) -> Weights:
    return Weights(np.zeros(len(v), dtype=np.int64), v >= 0, 0.0)


def _sequential_sum(numbers: F64) -> float:
    total = 0.0
    for number in numbers.tolist():
        total += number
    return total


# --- Records and queries ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Records:
    """What an index keeps, by ascending id: ids, codes, |x|, the factor of the estimate, and vectors or None."""

    ids: I64
    codes: U8
    norms: F32
    factors: F32
    vectors: F32 | None

    def of(self, rows: I64) -> Records:
        """Some of the records."""
        vectors = None if self.vectors is None else self.vectors[rows]
        return Records(self.ids[rows], self.codes[rows], self.norms[rows], self.factors[rows], vectors)


@dataclass(frozen=True)
class Query:
    """A query made ready to be compared with codes.

    `q` is the query itself, (1, d). For Hamming ranking, `code` (1, bytes) is its own code, and the rest is not used.
    Otherwise `v` (bits,) are the coordinates of its direction, and `first_bits` says how many of them a first stage
    looks at. `alignment` is what these come to for a record itself, on average; 0 where the query says it better.
    `first_error` is the usual error of a cosine by the first bits, and `code_error` by all of them, where these are
    known (0: they are not).
    """

    q: F32
    metric: str
    code: U8 | None
    v: F32
    first_bits: int
    alignment: float = 1.0
    first_error: float = 0.0
    code_error: float = 0.0

    @cached_property
    def norm(self) -> float:
        """|q|."""
        return float(norms(self.q)[0])

    @cached_property
    def first(self) -> Weights:
        """Weights of the first bits."""
        return first_weights(self.v[: self.first_bits])

    @cached_property
    def first_alignment(self) -> float:
        """What the first bits come to for a record that points where the query does: that is a cosine of 1.

        Where they are one plane, by the signs of the query itself: those of its neighbours differ little from them, and
        so do the errors that come of them and of the weights' rounding.
        """
        return self.alignment or float(self.first.w.sum()) * self.first.unit

    @cached_property
    def tail(self) -> Weights:
        """Weights of the bits after them."""
        return tail_weights(self.v[self.first_bits :])


# --- By codes --------------------------------------------------------------------------------------------------------


def first_keys(query: Query, records: Records, raised: int = 0) -> F32:
    """What the first bits alone say of every record: larger is nearer. Under ip `raised` is added to each agreement."""
    agreement = query.first.agreement(unpack_bits(records.codes, len(query.v))[:, : query.first_bits]) + raised
    if query.metric == "cosine":
        return ((agreement + query.first.w.sum()) // 2).astype(np.float32)  # the score
    size, estimate = records.norms, agreement.astype(np.float32)
    if query.metric == "ip":
        return size * estimate
    align = query.first_alignment
    gain = np.float32(2.0 * query.norm * query.first.unit / align if align > 0.0 else 0.0)
    return size * (estimate * gain - size)


def code_keys(query: Query, records: Records, lift: float = 0.0) -> F32:
    """What whole codes say of every record: larger is nearer. `lift` is added to what the first bits come to."""
    if query.code is not None:
        return -_differing(query, records)
    estimate, size = _cosines(query, records, lift), records.norms
    if query.metric == "cosine":
        return estimate
    return size * estimate if query.metric == "ip" else size * (estimate * np.float32(2.0 * query.norm) - size)


def code_distances(query: Query, records: Records) -> F32:
    """What codes alone say of the distance: how many bits differ, or an estimate of the metric's distance."""
    if query.code is not None:
        return _differing(query, records)
    estimate, size, q = _cosines(query, records), records.norms, np.float32(query.norm)
    if query.metric == "cosine":
        return np.float32(1) - estimate
    if query.metric == "ip":
        return -(estimate * size * q)
    squared = q * q + size * (size - estimate * np.float32(2.0 * query.norm))
    return np.sqrt(np.maximum(squared, np.float32(0)))


def _differing(query: Query, records: Records) -> F32:
    assert query.code is not None
    return hamming(query.code, records.codes)[0].astype(np.float32)


def _cosines(query: Query, records: Records, lift: float = 0.0) -> F32:
    """cos(q, x) by all bits of the codes."""
    bits, first, tail = unpack_bits(records.codes, len(query.v)), query.first, query.tail
    by_first = first.agreement(bits[:, : query.first_bits]).astype(np.float32) * np.float32(first.unit)
    by_first = by_first + np.float32(lift)
    by_tail = tail.agreement(bits[:, query.first_bits :]).astype(np.float32) * np.float32(tail.unit)
    return (by_first + by_tail) * records.factors


# --- By vectors ------------------------------------------------------------------------------------------------------


def true_distances(q: F32, records: Records, rows: I64, metric: str) -> F32:
    """Distances of one query (1, d) to some records: 1 - cos, Euclidean, or minus the inner product."""
    assert records.vectors is not None
    x = records.vectors[rows]
    if metric == "cosine":
        return np.float32(1) - dot(directions(q), x) / records.norms[rows]
    return -dot(q, x) if metric == "ip" else np.sqrt(squared_distance(q, x))


def distances(query: Query, records: Records) -> F32:
    """The distances that a search reports: true ones where vectors are kept, those of codes otherwise."""
    if records.vectors is None:
        return code_distances(query, records)
    return true_distances(query.q, records, np.arange(len(records.ids)), query.metric)


# --- Answers ---------------------------------------------------------------------------------------------------------


def answer(distances: F32, ids: I64, k: int) -> tuple[I64, F32]:
    """The k nearest by distance, then by id. Where there are fewer, the id is -1 and the distance infinity.

    >>> ids, distances = answer(np.float32([0.5, 0.25, 0.5]), np.array([7, 8, 6]), 4)
    >>> ids.tolist(), distances.tolist()
    ([8, 6, 7, -1], [0.25, 0.5, 0.5, inf])
    """
    order = np.lexsort((ids, distances))[:k]
    filled_ids = np.full(k, NOTHING, dtype=np.int64)
    filled_distances = np.full(k, FARTHEST, dtype=np.float32)
    filled_ids[: len(order)] = ids[order]
    filled_distances[: len(order)] = distances[order]
    return filled_ids, filled_distances
