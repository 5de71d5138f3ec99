"""A graph that forgets, in NumPy: every edge follows from the settings and the records. `graph_search` searches it.

Other search graphs depend on the order in which records came. This one is defined and not grown:

    z          what is searched: the direction x/|x| under cosine, x itself under l2
    vertices   the different z. Records with equal z are one vertex, and nothing of the graph depends on how many they
               are or on their ids
    rank       vertices are put in order by a keyed hash of z (and then by the numbers of z). All ties between
               distances go to the lower rank
    pivots     the vertices whose hash is below 2^64/cell_size, about one in cell_size; these have the lowest ranks
    cell       of a pivot: the vertices that it is the nearest pivot of
    near       N(x): the `cells` pivots nearest to x
    pool       P(x): the `pool` vertices nearest to x in the cells of N(x), without x
    kept       F(x): through P(x), nearest first, y is kept unless some f that was kept is nearer to y than x is;
               DEGREE at most. What is left out is reached through f
    edges      G(x): the same rule over F(x) and all y with x in F(y); then those that it left out, nearest first,
               until there are DEGREE
    entries    the vertices whose hash is below 2^64 GRAPH_ENTRIES/2^b, where 2^b is the least power of two that is
               not below the number of vertices; but pivots alone
    root       the vertex of the lowest rank
    parent     of x: the root for an entry; else the nearest of P(x) and N(x) with a lower rank, and where there is
               none, the root
    list       of x: G(x), and all y whose parent is x. Where these are more than DEGREE, of G(x) as many of those that
               the rule left out are missing, the furthest first

From child to parent the rank falls until it is that of the root. A list has the edges from parent to child, so every
vertex can be reached from the root, whatever the data: that is what parents are for. Entries are there so that a
search begins near the query, also where the data lie in clusters that have no edges between them.

Without pivots all vertices are one cell, which is near to everybody.

To each edge from x to y belong the code b = sign(R r) of r = y - x, one bit for each dimension, and two numbers. They
turn a query's whole weights (`ranking`) and its distance to x into an estimate of its distance to y:

    |q - y|^2 = |q - x|^2 + |r|^2 + 2 <x, r> - 2 <q, r>,     <v, r> ~ |r|^2 <R v, b>/<R r, b>
              ~ |q - x|^2 + add - scale <R q, b>,            scale = 2 |r|^2/<R r, b>,  add = |r|^2 + scale <R x, b>
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .codes import U8, Bools, pack
from .constants import DEGREE, GRAPH_ENTRIES
from .families import superbit
from .pivots import U64, siphash_blocks
from .ranking import I64
from .rotations import Frame
from .vectors import F32, F64, directions, lane_sum, norms, squared_distance

NOBODY = -1


@dataclass(frozen=True)
class GraphSettings:
    """What, beside the records, decides everything. Codes are made with the first rotation of the frame."""

    frame: Frame
    metric: str
    key: tuple[int, int]
    cell_size: int
    cells: int
    pool: int


@dataclass(frozen=True)
class EdgeCodes:
    """What belongs to the edges of one list, in its order."""

    bits: Bools
    adds: F32
    scales: F32

    @property
    def codes(self) -> U8:
        """The bits packed into bytes."""
        return pack(np.where(self.bits, np.float32(1), np.float32(-1)))


# --- Vertices --------------------------------------------------------------------------------------------------------


def vector_hash(key: tuple[int, int], z: F32) -> U64:
    """SipHash-2-4 of the bytes of each row; little-endian, and no zero is negative.

    >>> one, other = vector_hash((0, 0), np.float32([[0.0, 1.0], [-0.0, 1.0]])).tolist()
    >>> one == other
    True
    """
    n, d = z.shape
    padded = np.zeros((n, d + 2 - d % 2), dtype="<f4")
    padded[:, :d] = z + np.float32(0)
    blocks = padded.view("<u8").astype(np.uint64)
    blocks[:, -1] |= np.uint64((4 * d % 256) << 56)  # after what is left of the message, its length
    return siphash_blocks(key, list(blocks.T))


class Graph:
    """The graph of n >= 1 records (n, d), by ascending id. Vertices are numbered by their rank, so 0 is the root."""

    def __init__(self, settings: GraphSettings, ids: I64, x: F32) -> None:
        order = np.argsort(ids)
        self.settings = settings
        self.ids: I64 = ids[order]
        self.vectors: F32 = np.ascontiguousarray(x[order])
        z = (directions(self.vectors) if settings.metric == "cosine" else self.vectors) + np.float32(0)
        hashes = vector_hash(settings.key, z)
        by_rank = np.lexsort((*z.T[::-1], hashes))
        first = np.ones(len(z), dtype=bool)
        first[1:] = (z[by_rank][1:] != z[by_rank][:-1]).any(axis=1)
        self.z: F32 = z[by_rank[first]]
        self.hashes: U64 = hashes[by_rank[first]]
        #: The rows of each vertex, ascending.
        self.rows: list[I64] = [np.sort(rows) for rows in np.split(by_rank, np.flatnonzero(first)[1:])]

    def __len__(self) -> int:
        return len(self.z)

    # --- Cells and pools ---------------------------------------------------------------------------------------------

    @cached_property
    def pivots(self) -> I64:
        """The lowest ranks, or none."""
        return np.flatnonzero(self.hashes < np.uint64(2**64 // self.settings.cell_size))

    @cached_property
    def entries(self) -> int:
        """How many of the lowest ranks are entries; at least the root is one."""
        below = (GRAPH_ENTRIES << 64) >> (len(self) - 1).bit_length()
        few = sum(hash < below for hash in self.hashes[self.pivots].tolist())
        return max(1, few)

    @cached_property
    def near(self) -> list[I64]:
        """N(x) of each vertex, nearest first. The first of it is the pivot whose cell the vertex is in."""
        return [self._nearest(x, self.pivots)[: self.settings.cells] for x in range(len(self))]

    @cached_property
    def members(self) -> list[I64]:
        """The vertices in the cell of each pivot."""
        if len(self.pivots) == 0:
            return []
        cell = np.array([near[0] for near in self.near])
        return [np.flatnonzero(cell == pivot) for pivot in self.pivots]

    @cached_property
    def pools(self) -> list[I64]:
        """P(x) of each vertex, nearest first."""
        everybody = np.arange(len(self))
        pools = []
        for x, near in enumerate(self.near):
            found = np.concatenate([self.members[pivot] for pivot in near]) if len(near) else everybody
            pools.append(self._nearest(x, found[found != x])[: self.settings.pool])
        return pools

    # --- Edges -------------------------------------------------------------------------------------------------------

    @cached_property
    def kept(self) -> list[I64]:
        """F(x) of each vertex, nearest first."""
        return [self._prune(x, pool)[0] for x, pool in enumerate(self.pools)]

    @cached_property
    def edges(self) -> list[I64]:
        """G(x) of each vertex, nearest first."""
        known: list[set[int]] = [set(kept.tolist()) for kept in self.kept]
        for x, kept in enumerate(self.kept):
            for y in kept.tolist():
                known[y].add(x)
        edges = []
        for x, some in enumerate(known):
            kept, left_out = self._prune(x, self._nearest(x, sorted(some)))
            edges.append(self._nearest(x, [*kept, *left_out[: DEGREE - len(kept)]]))
        return edges

    @cached_property
    def parents(self) -> I64:
        """The parent of each vertex; the root has NOBODY, and entries have the root."""
        parents = np.zeros(len(self), dtype=np.int64)
        parents[0] = NOBODY
        for x in range(self.entries, len(self)):
            lower = [y for y in {*self.pools[x].tolist(), *self.near[x].tolist()} if y < x]
            if lower:
                parents[x] = self._nearest(x, sorted(lower))[0]
        return parents

    @cached_property
    def lists(self) -> list[I64]:
        """The list of each vertex, nearest first."""
        children: list[set[int]] = [set() for _ in self.edges]
        for x in range(1, len(self)):
            children[self.parents[x]].add(x)
        lists = []
        for x, edges in enumerate(self.edges):
            kept, left_out = self._prune(x, edges)
            firm = children[x].union(kept.tolist())
            others = [y for y in left_out.tolist() if y not in firm]
            lists.append(self._nearest(x, [*sorted(firm), *others[: max(0, DEGREE - len(firm))]]))
        return lists

    # --- What belongs to edges ---------------------------------------------------------------------------------------

    @cached_property
    def codes(self) -> list[EdgeCodes]:
        """Codes and numbers of the edges in each list."""
        d = self.z.shape[1]
        turned = superbit(self.settings.frame, self.z, d)
        made = []
        for x, some in enumerate(self.lists):
            r = self.z[some] - self.z[x]
            values = superbit(self.settings.frame, r, d)
            bits = values >= 0
            along = lane_sum(np.abs(values.astype(np.float64)))
            size = norms(r)
            square = size * size
            scale = np.divide(2 * square, along, out=np.zeros_like(along), where=along > 0)
            own = lane_sum(np.where(bits, turned[x], -turned[x]).astype(np.float64))
            made.append(EdgeCodes(bits, _float32(square + scale * own), _float32(scale)))
        return made

    # --- Distances ---------------------------------------------------------------------------------------------------

    @cached_property
    def _distances(self) -> list[F32]:
        return [squared_distance(one[None, :], self.z) for one in self.z]

    def _nearest(self, x: int, some: Sequence[int] | I64) -> I64:
        """Some vertices by their distance to x; ties by rank."""
        others = np.asarray(some, dtype=np.int64)
        return others[np.lexsort((others, self._distances[x][others]))]

    def _prune(self, x: int, some: Iterable[int]) -> tuple[I64, I64]:
        """Those of `some`, nearest first, that are kept, and those that are left out."""
        kept: list[int] = []
        left_out: list[int] = []
        for y in some:
            own = self._distances[x][y]
            if len(kept) < DEGREE and not any(self._distances[f][y] < own for f in kept):
                kept.append(y)
            else:
                left_out.append(y)
        return np.array(kept, dtype=np.int64), np.array(left_out, dtype=np.int64)


def _float32(numbers: F64) -> F32:
    return numbers.astype(np.float32)
