"""Annoy: a forest of trees, which cannot change once it is built."""

from __future__ import annotations

import importlib

import numpy as np

from .peer import F32, Ids, Peer, grid


class Annoy(Peer):
    """100 trees, which is also the least that ann-benchmarks builds; `retrained` builds on one thread."""

    name = "Annoy"
    module = "annoy"
    knobs = ("search_k",)
    grids = (grid(100, 400_000, 1.2),)

    def __init__(self, retrained: bool = False, trees: int = 100) -> None:
        self.trees = trees
        self.jobs = 1 if retrained else -1  # -1: all cores

    def fill(self, vectors: F32, metric: str) -> None:
        annoy = importlib.import_module("annoy")
        self.index = annoy.AnnoyIndex(vectors.shape[1], {"l2": "euclidean", "ip": "dot"}.get(metric, "angular"))
        self.index.set_seed(1)
        for row, vector in enumerate(vectors):
            self.index.add_item(row, vector)
        self.index.build(self.trees, n_jobs=self.jobs)

    def _set(self, *setting: float) -> None:
        self.search_k = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.get_nns_by_vector(query, k, search_k=self.search_k))
