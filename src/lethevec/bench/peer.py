"""What a competitor is, and how it is tuned to a recall."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from .harness import F32, Data, Ids, now, pad, recall

Setting = tuple[float, ...]


class Peer(ABC):
    """One way to search. Unless `grids` is empty, it has knobs that trade recall for speed."""

    name: str
    module: str  # what must be importable
    knobs: tuple[str, ...] = ()
    # Each grid is a list of settings by rising recall and cost; `tune` takes the cheapest sufficient one of any grid.
    grids: Sequence[Sequence[Setting]] = ()
    setting: Setting = ()
    reranks = False  # whether `search_one` looks at `vectors`

    @classmethod
    def available(cls) -> bool:
        return importlib.util.find_spec(cls.module) is not None

    def build(self, vectors: F32, metric: str) -> None:
        """Take the vectors; ids are row numbers."""
        self.take(vectors, metric)
        self._build(self.vectors, metric)

    def take(self, vectors: F32, metric: str) -> None:
        """Make the vectors ready to be built from."""
        self.vectors = unit(vectors) if metric == "cosine" else np.ascontiguousarray(vectors, dtype=np.float32)
        self.metric = metric

    def drop(self) -> None:
        """Let go of the vectors, if the built index does not need them here."""
        if not self.reranks:
            self.vectors = self.vectors[:0].copy()

    @abstractmethod
    def _build(self, vectors: F32, metric: str) -> None: ...

    def set(self, setting: Setting) -> None:
        """Turn the knobs."""
        self.setting = setting
        if setting:
            self._set(*setting)

    def _set(self, *setting: float) -> None:
        raise NotImplementedError

    @abstractmethod
    def search_one(self, query: F32, k: int) -> Ids: ...

    def search_batch(self, queries: F32, k: int) -> Ids:
        """All queries at once, on one thread; one by one where the peer has no such call."""
        return pad([self.search_one(query, k) for query in queries], k)

    def describe(self) -> str:
        return ", ".join(f"{knob}={value:g}" for knob, value in zip(self.knobs, self.setting, strict=True)) or "-"


def unit(vectors: F32) -> F32:
    return np.ascontiguousarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def queries_for(data: Data) -> F32:
    """The queries as the peers get them."""
    return unit(data.test) if data.metric == "cosine" else np.ascontiguousarray(data.test)


def tune_to(peer: Peer, data: Data, target: float, k: int = 10) -> float:
    """Set the peer to the cheapest setting that reaches `target` recall@k on the queries; return the recall it has.

    Within a grid the first sufficient setting is found by bisection; between grids the stopwatch decides. A peer that
    cannot reach the target is left at its best.
    """
    queries = queries_for(data)

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


def _quick_time(peer: Peer, queries: F32, k: int) -> float:
    times = []
    for _ in range(3):
        start = now()
        for query in queries:
            peer.search_one(query, k)
        times.append(now() - start)
    return min(times)


def rising(first: float, last: float, factor: float) -> list[int]:
    """Whole numbers from `first` to `last`, each about `factor` times the one before."""
    values: list[int] = []
    value = float(first)
    while value <= last:
        if not values or round(value) > values[-1]:
            values.append(round(value))
        value = max(value * factor, value + 1)
    return values


def cells(vectors: F32) -> int:
    """1024 parts, or fewer where there are not 39 points for each, as k-means wants."""
    return min(1024, max(1, len(vectors) // 39))


def thinned(grid: Sequence[Setting], count: int) -> list[Setting]:
    """About `count` settings of a grid, spread evenly, the first and the last among them."""
    places = np.unique(np.linspace(0, len(grid) - 1, min(count, len(grid))).round().astype(int))
    return [grid[place] for place in places]
