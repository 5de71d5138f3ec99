"""hnswlib: a graph. Deleting marks a point; where it was made for that, new points take the places of marked ones."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np

from .peer import F32, Ids, Peer, grid


class Hnswlib(Peer):
    """M = 16 and ef_construction = 200."""

    name = "hnswlib"
    module = "hnswlib"
    knobs = ("ef",)
    shares = True
    grids = (grid(10, 4000, 1.1),)

    def __init__(self, deletes: bool = False) -> None:
        self.deletes = deletes

    def start(self, sample: F32, metric: str) -> None:
        hnswlib = importlib.import_module("hnswlib")
        # Unit vectors: the inner product ranks as cosine does, without the division at every query.
        self.index = hnswlib.Index(space="l2" if metric == "l2" else "ip", dim=sample.shape[1])
        reuse = {"allow_replace_deleted": True} if self.deletes else {}
        self.index.init_index(max_elements=len(sample), M=16, ef_construction=200, random_seed=1, **reuse)
        self.marked = 0

    def insert(self, vectors: F32, ids: Ids) -> None:
        reused = min(self.marked, len(ids))
        if reused:
            self.index.add_items(vectors[:reused], ids[:reused], num_threads=1, replace_deleted=True)
            self.marked -= reused
        if reused < len(ids):
            room = self.index.get_current_count() + len(ids) - reused
            if room > self.index.get_max_elements():
                self.index.resize_index(room)
            self.index.add_items(vectors[reused:], ids[reused:], num_threads=-1)
        self.index.set_num_threads(1)

    def delete(self, ids: Ids) -> None:
        for id in ids.tolist():
            self.index.mark_deleted(id)
        self.marked += len(ids)

    def save(self, folder: Path) -> Path:
        self.index.save_index(str(folder / "index"))
        return folder

    def _set(self, *setting: float) -> None:
        self.index.set_ef(int(setting[0]))

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.knn_query(query, k=k)[0][0])

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.index.knn_query(queries, k=k, num_threads=self.threads)[0]).astype(np.int64)
