"""Scalable Vector Search: a Vamana graph over vectors compressed by LVQ, with residuals for the final order."""

from __future__ import annotations

import importlib
import os

import numpy as np

from .peer import F32, Ids, Peer, grid


class Svs(Peer):
    """LVQ of 4 and 8 bits; 64 links, a window of 200 for the build. (The compression is made for Intel's CPUs.)"""

    name = "SVS Vamana, LVQ4x8"
    module = "svs"
    package = "scalable-vs"
    knobs = ("search_window_size",)
    grids = (grid(10, 4000, 1.08),)

    def fill(self, vectors: F32, metric: str) -> None:
        svs = importlib.import_module("svs")
        svs.logging.set_level(svs.logging.level.error)
        where = str(self.folder / "vectors.fvecs")
        svs.write_vecs(np.ascontiguousarray(vectors), where)
        loader = svs.VectorDataLoader(where, svs.DataType.float32, dims=vectors.shape[1])
        # Unit vectors: the Euclidean distance ranks as cosine does. Both values of alpha are those that it advises.
        kind, alpha = (svs.DistanceType.MIP, 0.95) if metric == "ip" else (svs.DistanceType.L2, 1.2)
        parameters = svs.VamanaBuildParameters(alpha=alpha, graph_max_degree=64, window_size=200)
        compressed = svs.LVQLoader(loader, primary=4, residual=8)
        self.index = svs.Vamana.build(parameters, compressed, kind, num_threads=os.cpu_count() or 1)
        self.index.num_threads = 1

    def _set(self, *setting: float) -> None:
        self.index.search_window_size = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.search(query, k)[0][0])

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.index.search(queries, k)[0]).astype(np.int64)
