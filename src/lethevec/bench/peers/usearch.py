"""usearch: a graph. `remove` frees the key, and the place is used again."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np

from .peer import F32, Ids, Peer, grid


class Usearch(Peer):
    """float32, with the same graph parameters as hnswlib."""

    name = "usearch"
    module = "usearch"
    knobs = ("expansion",)
    grids = (grid(10, 4000, 1.1),)

    def start(self, sample: F32, metric: str) -> None:
        usearch = importlib.import_module("usearch.index")
        made = {"ndim": sample.shape[1], "metric": "l2sq" if metric == "l2" else "ip", "dtype": "f32"}
        self.index = usearch.Index(**made, connectivity=16, expansion_add=200)

    def insert(self, vectors: F32, ids: Ids) -> None:
        self.index.add(ids.astype(np.uint64), vectors)

    def delete(self, ids: Ids) -> None:
        self.index.remove(ids.astype(np.uint64) if len(ids) > 1 else int(ids[0]))

    def save(self, folder: Path) -> Path:
        self.index.save(str(folder / "index"))
        return folder

    def _set(self, *setting: float) -> None:
        self.index.expansion_search = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.search(query, k, threads=1).keys)

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.index.search(queries, k, threads=1).keys).astype(np.int64)
