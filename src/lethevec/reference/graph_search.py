"""A search in the graph, in NumPy: from the root to the vertices that are nearest to a query.

A vertex is *looked at*: its distance |q - z|^2 is taken, and the codes of its list give estimates for its neighbours.
A vertex that has been looked at gets no further estimates; until then it may have several. The next vertex to look at
is the best, by (estimate, rank), of all that were not looked at. It is chosen one step early, so that its memory can be
on its way meanwhile: the neighbours of the vertex before it do not count yet, unless there is nothing else.

The pool is the best `size` of all estimates. When all of it was looked at, the search ends, unless fewer than k records
were met: then it goes on as one with a larger pool would. Its answer is the nearest of all records that were looked at,
by their true distances. With an allow-list it ends in any case, and if it has met fewer than k of those that are
allowed, or far fewer among the first vertices than is usual, all of these are looked at instead.

It begins at the root, whose list is long. Only the GRAPH_STARTS best of that list count at first. Where all that they
lead to was looked at and the pool has room left, the next best GRAPH_STARTS follow.

The size of the pool decides when a search ends, and nothing before that. So what less effort looks at, more effort
looks at too, and before anything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .allowing import lies_elsewhere
from .codes import Bools
from .constants import DEGREE, DISTANCES_PER_VERTEX, GRAPH_POOL, GRAPH_POOL_PER_K, GRAPH_STARTS
from .families import superbit
from .graph import Graph
from .ranking import I64, first_weights
from .vectors import F32, directions, squared_distance

ROOT = 0


@dataclass(frozen=True)
class Walked:
    """What a search found: rows, and how many estimates it made, a whole block for each DEGREE neighbours or fewer."""

    rows: I64
    estimates: int


def graph_pool(records: int, allowed: int, k: int, effort: float) -> int:
    """The size of the pool for `allowed` of `records`, or 0: then all rows that may be found get true distances.

    The fewer may be found, the larger is the pool, so that about as many of them are looked at.

    >>> graph_pool(10_000, 10_000, k=10, effort=1.0), graph_pool(10_000, 2_000, k=10, effort=1.0)
    (48, 240)
    >>> graph_pool(10_000, 500, k=10, effort=1.0), graph_pool(150, 150, k=10, effort=1.0)
    (0, 0)
    """
    usual = max(float(k), effort * (GRAPH_POOL + GRAPH_POOL_PER_K * k))
    size = math.ceil(min(usual * records / max(1, allowed), float(records)))
    return size if allowed > DISTANCES_PER_VERTEX * size else 0


def graph_near(records: int, allowed: int, k: int) -> int:
    """By how many vertices a search tells whether what is allowed lies elsewhere: as many as the pool has at effort 1,
    where these are fewer than all.

    >>> graph_near(10_000, 2_000, k=10)
    240
    """
    return math.ceil(min((GRAPH_POOL + GRAPH_POOL_PER_K * k) * records / max(1, allowed), float(records)))


def graph_candidates(graph: Graph, q: F32, k: int, effort: float, allowed: Bools | None = None) -> Walked:
    """The rows whose distance to one query (1, d) decides on the answer."""
    everybody = np.arange(len(graph.ids)) if allowed is None else np.flatnonzero(allowed)
    size = graph_pool(len(graph.ids), len(everybody), k, effort)
    if size == 0:
        return Walked(everybody, 0)
    vertices, estimates = walk(graph, q, size, min(k, len(everybody)) if allowed is None else 0)
    rows = np.sort(np.concatenate([graph.rows[x] for x in vertices]))
    first = graph_near(len(graph.ids), len(everybody), k)
    if allowed is not None and len(vertices) >= first:
        near = np.concatenate([graph.rows[x] for x in vertices[:first]])
        if lies_elsewhere(len(graph.ids), len(everybody), len(near), int(allowed[near].sum())):
            return Walked(everybody, estimates)
    found = rows if allowed is None else rows[allowed[rows]]
    return Walked(found if len(found) >= min(k, len(everybody)) else everybody, estimates)


def walk(graph: Graph, q: F32, size: int, least: int = 0) -> tuple[list[int], int]:
    """The vertices that a search with a pool of this size looks at, in their order, and how many estimates it makes.

    It looks at `least` records in any case, or at all.
    """
    q = directions(q) if graph.settings.metric == "cosine" else q
    weights = first_weights(superbit(graph.settings.frame, q, q.shape[1])[0])
    unit = np.float32(weights.unit)

    def distance(x: int) -> np.float32:
        return np.float32(squared_distance(q, graph.z[x : x + 1])[0])

    def estimated(x: int) -> list[tuple[np.float32, int]]:
        """The neighbours of x by (estimate, rank)."""
        codes = graph.codes[x]
        along = weights.agreement(codes.bits).astype(np.float32) * unit
        return sorted(zip((distance(x) + codes.adds) - codes.scales * along, graph.lists[x].tolist(), strict=True))

    waiting = estimated(ROOT)
    looked_at, made = [ROOT], blocks(graph, ROOT)
    estimates: list[tuple[np.float32, int]] = []
    early: int | None = None

    def best(some: list[tuple[np.float32, int]]) -> int | None:
        return next((x for _, x in some if x not in looked_at), None)

    while True:
        short = sum(len(graph.rows[x]) for x in looked_at) < least
        estimates.sort()
        x = best(estimates[: None if short else size])
        if x is not None:
            x = x if early is None else early
            looked_at.append(x)
            early = best(estimates)
            made += blocks(graph, x)
            found = estimated(x)
        elif waiting and (short or len(estimates) < size):
            found, waiting = waiting[:GRAPH_STARTS], waiting[GRAPH_STARTS:]
        else:
            return looked_at, made * DEGREE
        estimates += [(estimate, y) for estimate, y in found if y not in looked_at]


def blocks(graph: Graph, x: int) -> int:
    """How many blocks of DEGREE neighbours a list takes."""
    return max(1, -(-len(graph.lists[x]) // DEGREE))
