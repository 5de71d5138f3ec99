"""A search as the index does it, in NumPy: which records each stage keeps, and the distances that are reported.

Codes are compared with a query in whole numbers, so that every implementation finds the same scores:

    first stage    w_j, one weight for each of the first bits (of the first plane, for progressive codes): |v_j| scaled
                   and rounded so that no 128 consecutive weights add up to more than 255 (or less, beyond 32,896 bits,
                   so that all of them stay below 2^16), where v is the rotated query. score = sum of w_j over the bits
                   that agree with the sign of v_j; 2 score - sum(w) estimates <v, b>.
    second stage   the bits after those, with weights of up to 127 each, and the record's own factor 1/<x̂, x/|x|>
    third stage    true distances

A stage keeps every record that reaches a threshold, ties included: what it keeps depends on no order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .codes import F32, U8, unpack
from .families import directions, norms

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

CHUNK_BITS = 128
FARTHEST = np.float32(np.inf)


# --- How much to look at ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How many records go on: `survivors` of the first stage; the `rank`-th of the `reference` best sets the second."""

    reference: int
    survivors: int
    rank: int


def plan(records: int, k: int, effort: float, *, staged: bool) -> Plan:
    """The numbers for an effort. `staged` says that there are bits after the first stage's.

    More effort never gives less recall, because what is kept for less effort is kept for more: the first threshold
    falls as `survivors` grows, and the second is read off a reference set that effort does not change, so it falls as
    `rank` grows.
    """
    n, wanted = float(records), float(k)

    def count(number: float) -> int:
        return math.ceil(min(max(number, min(wanted, n)), n))

    if not staged:
        everything = count(effort * (0.006 * n + 10.0 * wanted + 100.0))
        return Plan(everything, everything, everything)
    base = 0.008 * n + 16.0 * wanted + 256.0
    reference = count(0.5 * base)
    rank = count(effort * (0.0008 * n + 5.0 * wanted + 20.0))
    return Plan(reference, max(reference, count(effort * base)), rank)


def largest(keys: F32, rank: int) -> np.float32:
    """The rank-th largest key; minus infinity when there are not as many."""
    if not 1 <= rank <= len(keys):
        return np.float32(-np.inf)
    return np.float32(np.sort(keys)[len(keys) - rank])


# --- A query's weights -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weights:
    """Whole weights for some bits: w_j >= 0, the sign of v_j, and what one unit is worth."""

    w: I64
    sign: npt.NDArray[np.bool_]
    unit: float

    def agreement(self, bits: npt.NDArray[np.bool_]) -> I64:
        """2 score - sum(w) for each row of bits."""
        score = np.where(bits == self.sign, self.w, 0).sum(axis=1)
        return np.asarray(2 * score - self.w.sum())


def first_weights(v: F32) -> Weights:
    """The largest scale, coming down by steps of a hundredth, at which no chunk's weights exceed what they may."""
    size = np.abs(v.astype(np.float64))
    chunks = [size[at : at + CHUNK_BITS] for at in range(0, len(v), CHUNK_BITS)]
    most = min(255, 65_535 // len(chunks))
    heaviest = max(_sequential_sum(chunk) for chunk in chunks)
    scale = float(most) / heaviest if heaviest > 0 else 0.0
    while True:
        w = np.floor(size * scale + 0.5).astype(np.int64)
        if max(w[at : at + CHUNK_BITS].sum() for at in range(0, len(v), CHUNK_BITS)) <= most:
            return Weights(w, v >= 0, 1.0 / scale if scale > 0 else 0.0)
        scale = scale * 0.99


def tail_weights(v: F32) -> Weights:
    """Up to 127 each."""
    size = np.abs(v.astype(np.float64))
    if len(v) == 0 or size.max() == 0.0:
        return Weights(np.zeros(len(v), dtype=np.int64), v >= 0, 0.0)
    scale = 127.0 / size.max()
    return Weights(np.floor(size * scale + 0.5).astype(np.int64), v >= 0, 1.0 / scale)


def _sequential_sum(numbers: F64) -> float:
    total = 0.0
    for number in numbers.tolist():
        total += number
    return total


# --- Records and distances -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Records:
    """What the index keeps: ids, codes, |x| and the factor of the estimate, and vectors or None."""

    ids: I64
    codes: U8
    norms: F32
    factors: F32
    vectors: F32 | None


def dot(a: F32, b: F32) -> F32:
    """<a, b> of rows: sixteen partial sums, then pairwise."""
    return _lane_sum(a * b)


def squared_distance(a: F32, b: F32) -> F32:
    """|a - b|^2 of rows, summed likewise."""
    t = a - b
    return _lane_sum(t * t)


def _lane_sum(terms: F32) -> F32:
    n, d = terms.shape
    padded = np.zeros((n, -(-d // 16) * 16), dtype=np.float32)
    padded[:, :d] = terms
    lanes = np.zeros((n, 16), dtype=np.float32)
    for block in padded.reshape(n, -1, 16).transpose(1, 0, 2):
        lanes = lanes + block
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]


def true_distances(q: F32, records: Records, rows: I64, metric: str) -> F32:
    """Distances of one query (1, d) to some records: 1 - cos, Euclidean, or minus the inner product."""
    assert records.vectors is not None
    x = records.vectors[rows]
    if metric == "cosine":
        return np.float32(1) - dot(directions(q), x) / records.norms[rows]
    return -dot(q, x) if metric == "ip" else np.sqrt(squared_distance(q, x))


# --- The stages ------------------------------------------------------------------------------------------------------


def search_asymmetric(
    q: F32,
    v: F32,
    records: Records,
    *,
    dim: int,
    first_bits: int,
    first_weight: float,
    metric: str,
    k: int,
    effort: float,
) -> tuple[I64, F32]:
    """The k nearest of one query q (1, d), whose rotated (and, for progressive codes, weighted) direction is v (bits,).

    `first_weight` is the weight of the first plane (1 where all bits weigh the same).
    """
    bits = unpack(records.codes, len(v)) > 0
    n = len(records.ids)
    staged = len(v) > first_bits
    how_much = plan(n, k, effort, staged=staged)
    q_norm = float(norms(q)[0])

    first, tail = first_weights(v[:first_bits]), tail_weights(v[first_bits:])
    agreement = first.agreement(bits[:, :first_bits])
    keys = _first_keys(agreement, first, records.norms, metric, q_norm, dim, first_bits, first_weight)
    survivors = np.flatnonzero(keys >= largest(keys, how_much.survivors))
    reference = keys >= largest(keys, how_much.reference)

    estimate = (
        agreement.astype(np.float32) * np.float32(first.unit)
        + tail.agreement(bits[:, first_bits:]).astype(np.float32) * np.float32(tail.unit)
    ) * records.factors
    if records.vectors is None:
        distances = estimated_distances(estimate, records.norms, q_norm, metric)
        return _answer(distances[survivors], records.ids[survivors], k)
    if staged:
        refined = _refined_keys(estimate, records.norms, metric, q_norm)
        threshold = largest(refined[reference], how_much.rank)
        survivors = survivors[refined[survivors] >= threshold]
    return _answer(true_distances(q, records, survivors, metric), records.ids[survivors], k)


def search_hamming(q: F32, differing: I64, records: Records, *, metric: str, k: int, effort: float) -> tuple[I64, F32]:
    """The k nearest of one query by `differing` bits; reranked by true distance where vectors are kept."""
    n = len(records.ids)
    want = min(k, n) if records.vectors is None else plan(n, k, effort, staged=False).survivors
    survivors = np.flatnonzero(differing <= np.sort(differing)[want - 1]) if n else np.empty(0, dtype=np.int64)
    if records.vectors is None:
        return _answer(differing[survivors].astype(np.float32), records.ids[survivors], k)
    return _answer(true_distances(q, records, survivors, metric), records.ids[survivors], k)


def _first_keys(
    agreement: I64,
    first: Weights,
    size: F32,
    metric: str,
    q_norm: float,
    dim: int,
    first_bits: int,
    first_weight: float,
) -> F32:
    estimate = agreement.astype(np.float32)
    if metric == "cosine":
        return ((agreement + first.w.sum()) // 2).astype(np.float32)
    if metric == "ip":
        return size * estimate
    mean_alignment = first_bits * math.sqrt(2.0 / (math.pi * dim))
    gain = np.float32(2.0 * q_norm * first.unit / (first_weight * mean_alignment))
    return size * (estimate * gain - size)


def _refined_keys(estimate: F32, size: F32, metric: str, q_norm: float) -> F32:
    if metric == "cosine":
        return estimate
    return size * estimate if metric == "ip" else size * (estimate * np.float32(2.0 * q_norm) - size)


def estimated_distances(estimate: F32, size: F32, q_norm: float, metric: str) -> F32:
    """What the codes alone say of the distance."""
    if metric == "cosine":
        return np.float32(1) - estimate
    q = np.float32(q_norm)
    if metric == "ip":
        return -(estimate * size * q)
    squared = q * q + size * (size - estimate * np.float32(2.0 * q_norm))
    return np.sqrt(np.maximum(squared, np.float32(0)))


def _answer(distances: F32, ids: I64, k: int) -> tuple[I64, F32]:
    """By distance, then by id; filled up to k."""
    order = np.lexsort((ids, distances))[:k]
    filled_ids = np.full(k, -1, dtype=np.int64)
    filled_distances = np.full(k, FARTHEST, dtype=np.float32)
    filled_ids[: len(order)] = ids[order]
    filled_distances[: len(order)] = distances[order]
    return filled_ids, filled_distances
