"""voyager: a graph. Deleting marks a point, whose place is never used again."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np

from .peer import F32, Ids, Peer, grid


class Voyager(Peer):
    """float32, with the same graph parameters as hnswlib."""

    name = "voyager"
    module = "voyager"
    knobs = ("query_ef",)
    grids = (grid(10, 4000, 1.1),)

    def start(self, sample: F32, metric: str) -> None:
        voyager = importlib.import_module("voyager")
        space = voyager.Space.Euclidean if metric == "l2" else voyager.Space.InnerProduct
        made = {"num_dimensions": sample.shape[1], "M": 16, "ef_construction": 200}
        self.index = voyager.Index(space, **made, max_elements=len(sample), random_seed=1)

    def insert(self, vectors: F32, ids: Ids) -> None:
        self.index.add_items(vectors, ids.tolist(), num_threads=-1)

    def delete(self, ids: Ids) -> None:
        for id in ids.tolist():
            self.index.mark_deleted(id)

    def save(self, folder: Path) -> Path:
        self.index.save(str(folder / "index"))
        return folder

    def _set(self, *setting: float) -> None:
        self.ef = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return self.search_batch(query, k)

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.index.query(queries, k=k, num_threads=1, query_ef=max(k, self.ef))[0]).astype(np.int64)
