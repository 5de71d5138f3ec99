"""The choice of settings: the cheapest one that reaches a recall, on the queries of the data set that it is given."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..peers.peer import Peer, Setting, as_given
from .data import Data, recall


def tune_to(peer: Peer, data: Data, target: float, k: int = 10) -> float:
    """Set the peer to the cheapest setting that reaches `target` recall@k on the queries; return the recall it has.

    Within a grid the first sufficient setting is found by bisection; between grids the CPU time decides. A peer that
    cannot reach the target is left at its best.
    """
    queries = peer.ready(as_given(data.test, data.metric))

    def reached(setting: Setting) -> float:
        peer.set(setting)
        return recall(data, peer.search_batch(queries, k), k)

    if not peer.grids:
        return reached(())
    sufficient: list[tuple[float, Setting, float]] = []
    best: tuple[float, Setting] = (-1.0, ())
    for grid in peer.grids:
        low, high = 0, len(grid)
        seen: dict[int, float] = {}
        while low < high:
            middle = (low + high) // 2
            seen[middle] = reached(grid[middle])
            best = max(best, (seen[middle], grid[middle]))
            low, high = (low, middle) if seen[middle] >= target else (middle + 1, high)
        if low < len(grid):
            peer.set(grid[low])
            sufficient.append((_quick_time(peer, queries[:200], k), grid[low], seen[low]))
    if not sufficient:
        peer.set(best[1])
        return best[0]
    _, setting, got = min(sufficient)
    peer.set(setting)
    return got


def raise_to(peer: Peer, data: Data, least: float, k: int = 10) -> float:
    """Turn the knob up from where it is until the recall on the queries of the data set is at least `least`, or to the
    end; return the recall it has then. A peer without knobs stays as it is."""
    queries = peer.ready(as_given(data.test, data.metric))
    places = [(grid, grid.index(peer.setting)) for grid in peer.grids if peer.setting in grid]
    grid, place = places[0] if places else ([peer.setting], 0)
    for setting in grid[place:]:
        peer.set(setting)
        got = recall(data, peer.search_batch(queries, k), k)
        if got >= least:
            break
    return got


def _quick_time(peer: Peer, queries: Any, k: int) -> float:
    times = []
    for _ in range(3):
        start = time.process_time()
        for query in queries:
            peer.search_one(query, k)
        times.append(time.process_time() - start)
    return min(times)


def thinned(grid: Sequence[Setting], count: int) -> list[Setting]:
    """About `count` settings of a grid, spread evenly, the first and the last among them."""
    places = np.unique(np.linspace(0, len(grid) - 1, min(count, len(grid))).round().astype(int))
    return [grid[place] for place in places]
