"""Pivots: a partition that forgets, in NumPy. Cells and what is kept of each record; `pivot_search` is the other half.

Which records are pivots is decided by a keyed hash of the id, and by the number of records: there is no training.
Every record, a pivot too, belongs to the nearest centre; ties go to the smaller id of the pivot. All of it is a
function of the settings and the records:

    z         what is searched: the direction x/|x| under cosine, x itself otherwise
    pivots    SipHash-2-4 of the id below 2^64/cell_size; about one in cell_size. Where no cell_size is given, it grows
              with the root of the number of records
    centre    z of the pivot; with `refine`, the mean of the pivot and of the records of a keyed sample that are
              nearest to it (one step of Lloyd's)
    origin    the mean of the members of a cell whose ids have the smallest hashes, 8 at most. It lies nearly where the
              mean of all members does, so that residuals are short; but few changes move it, after which the members
              have to be coded again
    mean      of all members of a cell, kept as sums of whole numbers, which add and subtract exactly in any order
    variance  the mean square of the members' distances to their mean: one more such sum, of squared norms
    void      where there is no pivot at all: one cell around zero that holds everything

A record is kept as the progressive code b of its residual r = z - origin, and as four numbers that turn sums over the
coordinates of a query q into distances:

    |q - z|^2 = |q - origin|^2 + |r|^2 - 2 <q, r> + 2 <origin, r>,     <y, r> ~ |r| factor sum_i c_i <R_i^T y, b_i>

What the query has no part in, |r|^2 + 2 <origin, r>, is one number, the bias. With the first plane alone,
<y, r> ~ |r| <R_0^T y, b_0>/A for A = sqrt(2 d/pi), the mean of <R_0^T u, b_0> over unit vectors u with the code b_0,
and the number, divided by |r|, is the offset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .codes import Bools, pack, unpack_bits
from .constants import (
    BEYOND_MEAN,
    LEAST_CELL,
    LN2,
    MEAN_WEIGHT,
    MOST_UNITS,
    ORIGIN_MEMBERS,
    RECORDS_PER_SQUARE,
    SAMPLE_RATE,
    SAMPLE_TAG,
    STREAM_PIVOTS,
    UNIT_BITS,
    VARIANCE_SHARE,
)
from .families import alignment, plane_weights, progressive, superbit
from .generator import words
from .ranking import I64, Records
from .rotations import Frame
from .scan import doublings
from .vectors import F32, directions, lane_sum, norms, squared_distance

U64 = npt.NDArray[np.uint64]
I8 = npt.NDArray[np.int8]


@dataclass(frozen=True)
class PivotSettings:
    """What, beside the records, decides everything. `probes` counts cells; `key` is two words of 64 bits. With a
    `cell_size` of 0 the size of cells follows the number of records."""

    frame: Frame
    metric: str
    cell_size: int
    probes: int
    key: tuple[int, int]
    refine: bool = False
    sweeps: int = 0


# --- Who is a pivot --------------------------------------------------------------------------------------------------


def default_pivot_key(seed: int) -> tuple[int, int]:
    """The key of an index that was not given one."""
    k0, k1 = words(seed, STREAM_PIVOTS, 2).tolist()
    return k0, k1


def pivot_key(data: bytes) -> tuple[int, int]:
    """A key given as 16 bytes: two little-endian words.

    >>> [hex(word) for word in pivot_key(bytes(range(16)))]
    ['0x706050403020100', '0xf0e0d0c0b0a0908']
    """
    return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:16], "little")


def siphash(key: tuple[int, int], ids: I64) -> U64:
    """SipHash-2-4 (Aumasson and Bernstein) of the eight bytes of each id, little-endian, two's complement."""
    message = ids.astype(np.int64).view(np.uint64)
    return siphash_blocks(key, [message, np.full_like(message, 8 << 56)])  # the last block holds the length


def siphash_blocks(key: tuple[int, int], blocks: list[U64]) -> U64:
    """SipHash-2-4 of messages of equal length, given block by block. There is at least one block."""
    start = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [np.full_like(blocks[0], constant ^ key[i % 2]) for i, constant in enumerate(start)]
    for block in blocks:
        v[3] = v[3] ^ block
        for _ in range(2):
            v = _sip_round(v)
        v[0] = v[0] ^ block
    v[2] = v[2] ^ np.uint64(0xFF)
    for _ in range(4):
        v = _sip_round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _sip_round(v: list[U64]) -> list[U64]:
    v0, v1, v2, v3 = v
    v0, v2 = v0 + v1, v2 + v3
    v1, v3 = _turned(v1, 13) ^ v0, _turned(v3, 16) ^ v2
    v0, v2 = _turned(v0, 32) + v3, v2 + v1
    v3, v1 = _turned(v3, 21) ^ v0, _turned(v1, 17) ^ v2
    return [v0, v1, _turned(v2, 32), v3]


def _turned(word: U64, by: int) -> U64:
    return (word << np.uint64(by)) | (word >> np.uint64(64 - by))


def pivot_limit(cell_size: int, records: int) -> int:
    """Hashes below it make pivots, of so many records.

    Without a cell_size, a cell has sqrt(records/20) records on average, in steps of 2^-12, and LEAST_CELL at least. So
    the limit moves a little whenever a record comes or goes, and with it at most a pivot or two.

    >>> [round(2**64 / pivot_limit(0, n)) for n in (0, 10**5, 10**6, 10**7)]
    [4, 71, 224, 707]
    """
    if cell_size:
        return 2**64 // cell_size
    return 2**76 // max(LEAST_CELL << 12, math.isqrt((records << 24) // RECORDS_PER_SQUARE))


def is_pivot(ids: I64, key: tuple[int, int], cell_size: int, records: int = 0) -> Bools:
    """About one in cell_size of them; with a cell_size of 0, of those that are among so many records."""
    return np.asarray(siphash(key, ids) < np.uint64(pivot_limit(cell_size, records)))


def is_sampled(ids: I64, key: tuple[int, int]) -> Bools:
    """About one in SAMPLE_RATE of them; of those, pivots count as pivots."""
    return np.asarray(siphash((key[0] ^ SAMPLE_TAG, key[1]), ids) < np.uint64(2**64 // SAMPLE_RATE))


# --- Means that are exact in any order -------------------------------------------------------------------------------


def exponents(z: F32) -> I64:
    """E of each row: |z| = f 2^E with 0.5 <= f < 1, for |z| in float32; 0 for a zero row."""
    return np.frexp(norms(z).astype(np.float32))[1].astype(np.int64)


def in_units(z: F32, E: int) -> I64:
    """The coordinates in units of 2^(E-24), rounded half to even."""
    return np.clip(np.rint(z.astype(np.float64) * 2.0 ** (UNIT_BITS - E)), -MOST_UNITS, MOST_UNITS).astype(np.int64)


def squares_in_units(z: F32, E: int) -> I64:
    """The squared norm of each row in units of 2^(2E-24), rounded half to even."""
    size = norms(z)
    return np.minimum(np.rint((size * size) * 2.0 ** (UNIT_BITS - 2 * E)), MOST_UNITS).astype(np.int64)


def exact_mean(sums: I64, count: int, E: int) -> F32:
    """From sums of whole numbers (d,) back to a vector; zero where there is nothing to take a mean of."""
    if count == 0:
        return np.zeros(len(sums), dtype=np.float32)
    return (sums.astype(np.float64) / float(count) * 2.0 ** (E - UNIT_BITS)).astype(np.float32)


# --- The partition ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PivotCells:
    """The cells, by ascending id of the pivot; the void is not real and has the id 0.

    `means` are the rotated means in whole numbers, in units of `steps`; `square_sums` the sums of the members' squared
    norms in whole numbers. `penalties` are what speaks against a cell whatever the query is.
    """

    ids: I64
    real: Bools
    counts: I64
    centres: F32
    origins: F32
    sums: I64
    square_sums: I64
    means: I8
    steps: F32
    penalties: F32


@dataclass(frozen=True)
class Pivots:
    """All that an index with pivots holds. `cells_of` has the position of each record's cell; rows are by ascending id.

    `records` has ids, codes of residuals, |x|, factors of residuals, and vectors.
    """

    settings: PivotSettings
    cells: PivotCells
    records: Records
    cells_of: I64
    sizes: F32
    offsets: F32
    scales: F32
    biases: F32

    @cached_property
    def bits(self) -> Bools:
        """The codes as bits (n, m d)."""
        frame = self.settings.frame
        return unpack_bits(self.records.codes, frame.m * frame.d)


def build_pivots(settings: PivotSettings, ids: I64, x: F32) -> Pivots:
    """The partition of n >= 1 records (n, d), which may come in any order."""
    order = np.argsort(ids)
    ids, x = ids[order], np.ascontiguousarray(x[order])
    z = directions(x) if settings.metric == "cosine" else x
    pivots = np.flatnonzero(is_pivot(ids, settings.key, settings.cell_size, len(ids)))
    if len(pivots):
        cell_ids, cell_exponents = ids[pivots], exponents(z[pivots])
        centres = _refined(settings, ids, z, pivots) if settings.refine else z[pivots]
        cells_of = nearest(z, centres)
    else:
        cell_ids, cell_exponents = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        centres = np.zeros((1, x.shape[1]), dtype=np.float32)
        cells_of = np.zeros(len(ids), dtype=np.int64)
    real = np.full(len(cell_ids), len(pivots) > 0)
    counts = np.bincount(cells_of, minlength=len(cell_ids)).astype(np.int64)
    sums = np.stack([in_units(z[cells_of == c], int(E)).sum(axis=0) for c, E in enumerate(cell_exponents)])
    square_sums = np.array([squares_in_units(z[cells_of == c], int(E)).sum() for c, E in enumerate(cell_exponents)])
    means = [exact_mean(s, int(n), int(E)) for s, n, E in zip(sums, counts, cell_exponents, strict=True)]
    rotated = superbit(settings.frame, np.stack(means), x.shape[1])
    against = penalties(settings.metric, rotated, counts, square_sums, cell_exponents)
    origins = _origins(settings, ids, z, cells_of, cell_exponents)
    cells = PivotCells(cell_ids, real, counts, centres, origins, sums, square_sums, *rounded_means(rotated), against)
    return _with_residuals(settings, cells, cells_of, ids, x, z)


def nearest(z: F32, centres: F32) -> I64:
    """The position of the nearest centre of each row; centres stand by ascending id, and the first of equals wins."""
    best = np.full(len(z), np.inf, dtype=np.float32)
    position = np.zeros(len(z), dtype=np.int64)
    for c, centre in enumerate(centres):
        distance = squared_distance(z, centre[None, :])
        nearer = distance < best
        best[nearer], position[nearer] = distance[nearer], c
    return position


def _refined(settings: PivotSettings, ids: I64, z: F32, pivots: I64) -> F32:
    counted = is_sampled(ids, settings.key)
    counted[pivots] = True
    rows = np.flatnonzero(counted)
    closest = nearest(z[rows], z[pivots])
    closest[np.isin(rows, pivots)] = np.arange(len(pivots))  # a pivot counts for itself, also beside an equal one
    centres = []
    for c, E in enumerate(exponents(z[pivots]).tolist()):
        chosen = z[rows[closest == c]]
        centres.append(exact_mean(in_units(chosen, E).sum(axis=0), len(chosen), E))
    return np.stack(centres)


def _origins(settings: PivotSettings, ids: I64, z: F32, cells_of: I64, cell_exponents: I64) -> F32:
    by_hash = np.lexsort((ids, siphash(settings.key, ids)))
    origins = []
    for c, E in enumerate(cell_exponents.tolist()):
        chosen = z[by_hash[cells_of[by_hash] == c][:ORIGIN_MEMBERS]]
        origins.append(exact_mean(in_units(chosen, E).sum(axis=0), len(chosen), E))
    return np.stack(origins)


def rounded_means(mu: F32) -> tuple[I8, F32]:
    """Rotated means (C, d) in whole numbers up to 127, and what one of these is worth."""
    top = np.abs(mu.astype(np.float64)).max(axis=1)
    scale = np.divide(MEAN_WEIGHT, top, out=np.zeros_like(top), where=top > 0)
    whole = (np.sign(mu) * np.floor(np.abs(mu.astype(np.float64)) * scale[:, None] + 0.5)).astype(np.int8)
    return whole, (top / MEAN_WEIGHT).astype(np.float32)


def penalties(metric: str, mu: F32, counts: I64, square_sums: I64, cell_exponents: I64) -> F32:
    """What is taken off 2 <q, mu> to put cells in order: |mu|^2 and a share of the variance. Moving all records and
    the query by one vector changes no order.

    Under ip it is for each |q|, and taken off <q, mu>. It is negative: members lie beyond the mean, the best of many
    farther than the best of few. They are taken to be spread evenly over all dimensions.
    """
    size = norms(mu)
    made = []
    squares = (size * size).tolist()
    for square, count, total, E in zip(squares, counts.tolist(), square_sums.tolist(), cell_exponents, strict=True):
        mean_square = float(total) / float(max(1, count)) * 2.0 ** (2 * int(E) - UNIT_BITS)
        variance = max(0.0, mean_square - square)
        if metric == "ip":
            beyond = 2.0 * LN2 * doublings(float(max(1, count))) * variance / mu.shape[1]
            made.append(0.0 - BEYOND_MEAN * math.sqrt(beyond))  # never -0.0
        else:
            made.append(square + VARIANCE_SHARE * variance)
    return np.array(made, dtype=np.float32)


# --- Records in their cells ------------------------------------------------------------------------------------------


def mean_alignment(d: int) -> float:
    """A = sqrt(2 d/pi): what sum |u_j| comes to for a random unit vector u."""
    return math.sqrt(2.0 * d / math.pi)


def _with_residuals(settings: PivotSettings, cells: PivotCells, cells_of: I64, ids: I64, x: F32, z: F32) -> Pivots:
    frame, c = settings.frame, plane_weights(settings.frame.d, settings.frame.m)
    r = z - cells.origins[cells_of]
    values = progressive(frame, r, settings.sweeps)
    along = alignment(superbit(frame, directions(r), frame.m * frame.d), values, c)
    factors = np.divide(1.0, along, out=np.zeros_like(along), where=along > 0).astype(np.float32)
    size, factor = norms(r), factors.astype(np.float64)

    # S_i = <b_i, g_i> of each plane, for g = R_i^T origin.
    g = superbit(frame, cells.origins, frame.m * frame.d)[cells_of]
    signed = np.where(values >= 0, g, -g).astype(np.float64)
    S = [lane_sum(plane) for plane in np.split(signed, frame.m, axis=1)]
    weighted = np.zeros(len(ids))
    for c_i, S_i in zip(c, S, strict=True):
        weighted = weighted + np.float64(c_i) * S_i

    if settings.metric == "ip":
        scale, offset, bias = size * factor, np.zeros_like(size), np.zeros_like(size)
    else:
        scale = 2.0 * size * factor
        offset = size + 2.0 * S[0] / mean_alignment(frame.d)
        bias = size * size + scale * weighted
    floats = (number.astype(np.float32) for number in (size, offset, scale, bias))
    size32, offset32, scale32, bias32 = floats
    records = Records(ids, pack(values), norms(x).astype(np.float32), factors, x)
    return Pivots(settings, cells, records, cells_of, upper_half(size32), upper_half(offset32), scale32, bias32)


def upper_half(numbers: F32) -> F32:
    """Rounded to the upper sixteen bits, half to even: enough for a first stage, which reads them for every row."""
    bits = numbers.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32)
