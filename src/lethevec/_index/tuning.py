"""The least effort that gives a recall, found by trying it on queries of the caller, against the best of answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._hashing.parameters import as_float
from .._hits import Hits, Work
from .._progress import Progress
from .._shown import shown
from .._vectors import F32
from ..errors import ParameterError

#: Efforts that are tried: steps of an eighth of a doubling.
LOWEST, HIGHEST, PER_DOUBLING = -10, 20, 8
#: With this one, every record is looked at.
EVERYTHING = math.inf
#: Queries of one search, so that a progress line moves.
PART = 128


@dataclass(frozen=True)
class Tuning:
    """What `Index.tune` found: `effort` gives `recall` on the queries, for the k nearest.

    `candidates` and `reranked` count, for one query on average, the records looked at and the true distances taken.

    >>> Tuning(effort=0.5, recall=0.96, k=10, candidates=3100.0, reranked=54.5).effort
    0.5
    """

    effort: float
    recall: float
    k: int
    candidates: float
    reranked: float


def find_effort(ask: Callable[[F32, float], Hits], queries: F32, target_recall: object, k: int) -> Tuning:
    """The least effort of the grid with at least the target; recall rises with effort, so bisection finds it.

    `ask` searches for the k nearest of some queries with an effort.
    """
    target = _share(target_recall)
    low, high = LOWEST * PER_DOUBLING, HIGHEST * PER_DOUBLING
    rounds = 1 + (high - low).bit_length()  # with the search that looks at everything
    with Progress(rounds * len(queries), "tuning", unit="queries") as progress:

        def search(effort: float) -> Hits:
            return _in_parts(ask, queries, effort, progress)

        best = search(EVERYTHING)
        found = _tried(best, best, EVERYTHING, k)
        while low < high:
            middle = (low + high) // 2
            effort = 2.0 ** (middle / PER_DOUBLING)
            tried = _tried(search(effort), best, effort, k)
            if tried.recall >= target:
                found, high = tried, middle
            else:
                low = middle + 1
    return found


def _in_parts(ask: Callable[[F32, float], Hits], queries: F32, effort: float, progress: Progress) -> Hits:
    """The same as one search of all queries."""
    parts = []
    for start in range(0, len(queries), PART):
        part = queries[start : start + PART]
        parts.append(ask(part, effort))
        progress.advance(len(part))
    works = [(w.scanned, w.refined, w.reranked, w.bytes_read) for w in (hits.work for hits in parts)]
    return Hits(
        np.concatenate([hits.ids for hits in parts]),
        np.concatenate([hits.distances for hits in parts]),
        Work(*(sum(column) for column in zip(*works, strict=True))),
    )


def _share(value: object) -> float:
    share = as_float(value)
    if not 0 < share <= 1:
        raise ParameterError(f"target_recall: expected a number above 0 and up to 1, got {shown(value)}")
    return share


def _tried(hits: Hits, best: Hits, effort: float, k: int) -> Tuning:
    """Recall counts an answer that is as near as the last of the best answers, whichever of equal ones it is."""
    there = np.isfinite(best.distances)
    last = np.where(there, best.distances, -np.inf).max(axis=1, keepdims=True)
    right = np.isfinite(hits.distances) & (hits.distances <= last)
    recall = float(right.sum() / there.sum()) if there.any() else 1.0
    n = len(hits)
    return Tuning(effort, recall, k, hits.work.scanned / n, hits.work.reranked / n)
