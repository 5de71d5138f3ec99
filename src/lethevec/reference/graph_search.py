"""A search in the graph, in NumPy: from the root to the vertices that are nearest to a query.

A vertex is *looked at*: its true distance is taken, and the codes of its list give estimates for its neighbours. Of
several estimates for one vertex the smallest counts, until the vertex is looked at itself. The pool is the best
`size` vertices by (estimate, rank) of all that there are estimates for. The next vertex to look at is the best of the
pool that has not been looked at; when there is none left, the search ends, and its answer is the nearest of all records
that were looked at, by their true distances.

A larger pool changes nothing of what a search does while a smaller one would still go on: the best of the pool is the
best of all. So what less effort looks at, more effort looks at too, and before anything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .codes import Bools
from .constants import DISTANCES_PER_VERTEX, GRAPH_POOL, GRAPH_POOL_PER_K
from .families import superbit
from .graph import Graph
from .ranking import I64, first_weights
from .vectors import F32, directions, dot, norms, squared_distance

ROOT = 0


@dataclass(frozen=True)
class Walked:
    """What a search found: rows, and how many estimates it made."""

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


def graph_candidates(graph: Graph, q: F32, k: int, effort: float, allowed: Bools | None = None) -> Walked:
    """The rows whose distance to one query (1, d) decides on the answer."""
    everybody = np.arange(len(graph.ids)) if allowed is None else np.flatnonzero(allowed)
    size = graph_pool(len(graph.ids), len(everybody), k, effort)
    if size == 0:
        return Walked(everybody, 0)
    vertices, estimates = walk(graph, q, size)
    rows = np.sort(np.concatenate([graph.rows[x] for x in vertices]))
    found = rows if allowed is None else rows[allowed[rows]]
    return Walked(found if len(found) >= min(k, len(everybody)) else everybody, estimates)


def walk(graph: Graph, q: F32, size: int) -> tuple[list[int], int]:
    """The vertices that a search with a pool of this size looks at, in their order, and how many estimates it makes."""
    metric, d = graph.settings.metric, q.shape[1]
    q = directions(q) if metric == "cosine" else q
    weights = first_weights(superbit(graph.settings.frame, q, d)[0])
    unit = np.float32(weights.unit)
    estimates = {ROOT: _squared_distance(graph, q, ROOT)}
    looked_at: list[int] = []
    made = 0
    while True:
        pool = sorted(estimates, key=lambda x: (estimates[x], x))[:size]
        x = next((x for x in pool if x not in looked_at), None)
        if x is None:
            return looked_at, made
        looked_at.append(x)
        codes, base = graph.codes[x], _squared_distance(graph, q, x)
        along = weights.agreement(codes.bits).astype(np.float32) * unit
        made += len(along)
        for y, estimate in zip(graph.lists[x].tolist(), (base + codes.adds) - codes.scales * along, strict=True):
            if y not in looked_at:
                estimates[y] = min(estimates.get(y, estimate), estimate)


def _squared_distance(graph: Graph, q: F32, x: int) -> np.float32:
    """|q - z|^2; under cosine from the distance that is the answer, 1 - cos, of which it is twice as much."""
    row = graph.rows[x][0]
    one = graph.vectors[row : row + 1]
    if graph.settings.metric == "l2":
        return np.float32(squared_distance(q, one)[0])
    distance = np.float32(1) - dot(q, one)[0] / norms(one).astype(np.float32)[0]
    return np.float32(distance + distance)
