"""Zvec: a database in the process, on disk in its own folder."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .peer import F32, Ids, Peer, grid


class Zvec(Peer):
    """HNSW over numbers of 8 bits with 16 links and ef_construction = 200, its answers refined by float32."""

    name = "Zvec HNSW, int8 + refine"
    module = "zvec"
    knobs = ("ef",)
    grids = (grid(10, 2000, 1.1),)

    def start(self, sample: F32, metric: str) -> None:
        zvec: Any = importlib.import_module("zvec")
        self.zvec = zvec
        kind = zvec.MetricType.IP if metric == "ip" else zvec.MetricType.L2  # unit vectors under cosine
        made = zvec.HnswIndexParam(metric_type=kind, m=16, ef_construction=200, quantize_type=zvec.QuantizeType.INT8)
        vectors = zvec.VectorSchema("vector", zvec.DataType.VECTOR_FP32, sample.shape[1], index_param=made)
        schema = zvec.CollectionSchema(name="vectors", vectors=vectors)
        self.collection = zvec.create_and_open(path=str(self.folder / "collection"), schema=schema)

    def insert(self, vectors: F32, ids: Ids) -> None:
        for begin in range(0, len(ids), 1000):
            part = zip(ids[begin : begin + 1000].tolist(), vectors[begin : begin + 1000], strict=True)
            self.collection.insert([self.zvec.Doc(id=str(id), vectors={"vector": vector}) for id, vector in part])
        # Until then, what was inserted is searched one by one.
        self.collection.optimize(self.zvec.OptimizeOption(concurrency=os.cpu_count() or 1))

    def delete(self, ids: Ids) -> None:
        self.collection.delete([str(id) for id in ids.tolist()])

    def save(self, folder: Path) -> Path:
        """Its files are in its own folder."""
        self.collection.flush()
        return self.folder

    def erasing(self, ids: Ids, folder: Path) -> Iterator[tuple[str, Path]]:
        self.delete(ids)
        yield "delete, flush", self.save(folder)
        self.collection.optimize()
        yield "delete, flush, optimize", self.save(folder)

    def _set(self, *setting: float) -> None:
        self.asked = self.zvec.HnswQueryParam(ef=int(setting[0]), is_using_refiner=True)

    def search_one(self, query: F32, k: int) -> Ids:
        asked = self.zvec.Query("vector", vector=query, param=self.asked)
        return np.array([int(one.id) for one in self.collection.query(asked, topk=k, output_fields=[])], dtype=np.int64)
