"""The RaBitQ library: SymphonyQG, and its inverted file and its HNSW over RaBitQ codes."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .peer import F32, Ids, Peer, cells, grid

LEAST_DIM = 64
NOBODY = 2**32 - 1


class Rabitqlib(Peer):
    """What the three share. Under cosine they get unit vectors, which the Euclidean distance ranks as cosine does; and
    the rotation needs some dimensions, which zeros make up."""

    module = "rabitqlib"
    knobs = ("ef",)
    grids = (grid(10, 4000, 1.05),)
    index: Any
    knob = 10

    def wide(self, vectors: F32) -> F32:
        """Vectors of at least so many dimensions as the rotation needs."""
        short = max(0, LEAST_DIM - vectors.shape[1])
        return np.pad(vectors, ((0, 0), (0, short))) if short else vectors

    def wide_dim(self, vectors: F32) -> int:
        """How many they have then."""
        return max(LEAST_DIM, vectors.shape[1])

    def _set(self, *setting: float) -> None:
        self.knob = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.search(self.wide(query[None]), k, self.knob)[0][0])

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.index.search(self.wide(queries), k, self.knob)[0]).astype(np.int64)


def kind(metric: str) -> str:
    """The library's name for a metric."""
    return "ip" if metric == "ip" else "l2"


class SymphonyQG(Rabitqlib):
    """A graph whose vertices hold the codes of their neighbours. It cannot delete.

    32 neighbours and ef = 200 for the build, as its examples have them; built on one thread.
    """

    name = "SymphonyQG"
    shares = True

    def fill(self, vectors: F32, metric: str) -> None:
        self.index = importlib.import_module("rabitqlib").SymqgIndex(self.wide_dim(vectors), 32, kind(metric))
        self.index.build(self.wide(vectors), 200, 1)

    def search_batch(self, queries: F32, k: int) -> Ids:
        found = self.index.search_batch(self.wide(queries), k, self.knob, self.threads)
        return np.asarray(found[0]).astype(np.int64)


def clusters(vectors: F32, count: int) -> tuple[F32, npt.NDArray[np.uint32]]:
    """Centroids by the library's own k-means, and the cluster of each vector."""
    made = importlib.import_module("rabitqlib").RaBitQKMeans(vectors.shape[1], count)
    made.train(vectors)
    return np.asarray(made.centroids), np.asarray(made.assignments).astype(np.uint32)


class RabitqIVF(Rabitqlib):
    """An inverted file with as many cells as the Faiss peers, RaBitQ codes, and true distances for the best of them.

    Where it has to delete, `remove` leaves what it removed in its lists. Numbers of points are the library's own.
    """

    name = "RaBitQ IVF + refine"
    knobs = ("nprobe",)
    grids = (grid(1, 512, 1.08),)

    def __init__(self, deletes: bool = False) -> None:
        self.deletes = deletes
        self.numbers: Ids = np.empty(0, dtype=np.int64)  # the id of each point of the library, where it deletes

    def fill(self, vectors: F32, metric: str) -> None:
        if self.deletes:
            super().fill(vectors, metric)
        else:
            self._build(self.wide(vectors), cells(vectors), metric)

    def _build(self, wide: F32, count: int, metric: str) -> None:
        made = importlib.import_module("rabitqlib").IvfIndex
        self.index = made(wide.shape[1], len(wide), count, 32, kind(metric))
        self.index.build(wide, *clusters(wide, count), 1)

    def start(self, sample: F32, metric: str) -> None:
        self.cells = cells(sample)
        self.built = False

    def insert(self, vectors: F32, ids: Ids) -> None:
        if self.built:
            self.index.add(self.wide(vectors))
        else:  # what is trained is trained on the first vectors that come
            self._build(self.wide(vectors), min(self.cells, len(vectors)), self.metric)
            self.built = True
        self.numbers = np.concatenate([self.numbers, ids])

    def delete(self, ids: Ids) -> None:
        # An id that came back stands at more than one number; the library ignores those that are removed already.
        self.index.remove(np.flatnonzero(np.isin(self.numbers, ids)).astype(np.uint32))

    def save(self, folder: Path) -> Path:
        self.index.save(str(folder / "index"))
        return folder

    def _named(self, found: Ids) -> Ids:
        """Ids of points; where fewer were found than were asked for, the library gives the largest number there is."""
        if not self.deletes:
            return np.where(found < NOBODY, found, -1)
        return np.where(found < NOBODY, self.numbers[np.where(found < NOBODY, found, 0)], -1)

    def search_one(self, query: F32, k: int) -> Ids:
        return self._named(np.asarray(super().search_one(query, k)).astype(np.int64))

    def search_batch(self, queries: F32, k: int) -> Ids:
        return self._named(super().search_batch(queries, k))


class RabitqHNSW(Rabitqlib):
    """HNSW over RaBitQ codes of 8 bits a number, in 16 clusters; 16 links and ef = 200 for the build."""

    name = "RaBitQ HNSW"

    def fill(self, vectors: F32, metric: str) -> None:
        wide = self.wide(vectors)
        self.index = importlib.import_module("rabitqlib").HnswIndex(wide.shape[1], len(wide), 16, 200, 8, kind(metric))
        self.index.build(wide, *clusters(wide, min(16, len(wide))), 1)
