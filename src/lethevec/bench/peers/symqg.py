"""SymphonyQG, from the RaBitQ library: a graph whose vertices hold the codes of their neighbours. It cannot delete."""

from __future__ import annotations

import importlib

import numpy as np

from .peer import F32, Ids, Peer, grid

LEAST_DIM = 64


class SymphonyQG(Peer):
    """32 neighbours and ef = 200 for the build, as its examples have them; built on one thread."""

    name = "SymphonyQG"
    module = "rabitqlib"
    knobs = ("ef",)
    grids = (grid(10, 4000, 1.05),)

    def fill(self, vectors: F32, metric: str) -> None:
        # Unit vectors: the Euclidean distance ranks as cosine does. Its rotation needs some dimensions: zeros make up.
        self.short = max(0, LEAST_DIM - vectors.shape[1])
        self.index = importlib.import_module("rabitqlib").SymqgIndex(vectors.shape[1] + self.short, 32, "l2")
        self.index.build(self._wide(vectors), 200, 1)
        self.ef = 10

    def _wide(self, vectors: F32) -> F32:
        return np.pad(vectors, ((0, 0), (0, self.short))) if self.short else vectors

    def _set(self, *setting: float) -> None:
        self.ef = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.search(self._wide(query[None]), k, self.ef)[0][0])

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.index.search_batch(self._wide(queries), k, self.ef)[0]).astype(np.int64)
