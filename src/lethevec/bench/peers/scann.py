"""ScaNN. `delete` moves the last point into the gap; what was trained stays trained on the deleted point."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from .peer import F32, Ids, Peer, cells, pad, rising


class Scann(Peer):
    """1024 leaves, asymmetric hashing of two dimensions a block, reordering by true distances.

    `retrained`: the least that ann-benchmarks trains (1000 leaves for angles, 100 for l2), on one thread.
    """

    name = "ScaNN"
    module = "scann"
    knobs = ("leaves", "reorder")
    grids = tuple([(float(p), float(r)) for p in rising(1, 512, 1.12)] for r in (30, 60, 100, 200, 400))

    def __init__(self, deletes: bool = False, retrained: bool = False) -> None:
        self.deletes, self.retrained = deletes, retrained

    def fill(self, vectors: F32, metric: str) -> None:
        if self.deletes:
            super().fill(vectors, metric)
        else:
            self.index = self.builder(vectors, metric).build()

    def builder(self, vectors: F32, metric: str) -> Any:
        """ScaNN's builder with our parameters."""
        scann = importlib.import_module("scann")
        kind = "squared_l2" if metric == "l2" else "dot_product"
        threads = 1 if self.retrained else 0  # 0: all
        builder = scann.scann_ops_pybind.builder(vectors, 10, kind).set_n_training_threads(threads)
        most = (100 if metric == "l2" else 1000) if self.retrained else 1024
        sample = min(len(vectors), 250_000)
        tree = builder.tree(num_leaves=cells(vectors, most), num_leaves_to_search=100, training_sample_size=sample)
        hashed = tree.score_ah(2, anisotropic_quantization_threshold=0.2) if kind != "squared_l2" else tree.score_ah(2)
        return hashed.reorder(100)

    def start(self, sample: F32, metric: str) -> None:
        self.made = False

    def insert(self, vectors: F32, ids: Ids) -> None:
        if not self.made:
            self.index = self.builder(vectors, self.metric).build(docids=ids.tolist())
            self.made = True
        else:
            self.index.upsert(ids.tolist(), vectors, batch_size=len(ids))

    def delete(self, ids: Ids) -> None:
        self.index.delete(ids.tolist())

    def save(self, folder: Path) -> Path:
        self.index.serialize(str(folder))
        return folder

    def _set(self, *setting: float) -> None:
        self.leaves, self.reorder = int(setting[0]), int(setting[1])

    def _arguments(self, k: int) -> dict[str, int]:
        return {
            "final_num_neighbors": k,
            "pre_reorder_num_neighbors": self.reorder,
            "leaves_to_search": self.leaves,
        }

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.search(query, **self._arguments(k))[0])

    def search_batch(self, queries: F32, k: int) -> Ids:
        return pad(list(self.index.search_batched(queries, **self._arguments(k))[0]), k)
