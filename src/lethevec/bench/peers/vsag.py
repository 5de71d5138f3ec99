"""VSAG's HGraph: a graph over quantised vectors, whose answers are put in order by the vectors themselves."""

from __future__ import annotations

import importlib
import json
import os

import numpy as np

from .peer import F32, Ids, Peer, grid


class Vsag(Peer):
    """Eight bits a number (`sq8_uniform`), reordered by float32; 32 links and ef_construction = 200."""

    name = "VSAG HGraph, sq8_uniform + reorder"
    module = "pyvsag"
    knobs = ("ef_search",)
    grids = (grid(10, 4000, 1.08),)

    def fill(self, vectors: F32, metric: str) -> None:
        pyvsag = importlib.import_module("pyvsag")
        pyvsag.set_logger_off()
        # Unit vectors: the Euclidean distance ranks as cosine does.
        made = {
            "base_quantization_type": "sq8_uniform",
            "use_reorder": True,
            "precise_quantization_type": "fp32",
            "max_degree": 32,
            "ef_construction": 200,
            "build_thread_count": os.cpu_count() or 1,
        }
        dim = vectors.shape[1]
        about = {"dtype": "float32", "metric_type": "ip" if metric == "ip" else "l2", "dim": dim, "index_param": made}
        self.index = pyvsag.Index("hgraph", json.dumps(about))
        self.index.build(
            vectors=np.ascontiguousarray(vectors).ravel(),
            ids=np.arange(len(vectors)),
            num_elements=len(vectors),
            dim=dim,
        )

    def _set(self, *setting: float) -> None:
        self.asked = json.dumps({"hgraph": {"ef_search": int(setting[0])}})

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.knn_search(query, k, self.asked)[0])
