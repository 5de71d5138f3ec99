"""NGT: its optimised graph (ONNG). Its quantised graph needs command-line tools that the package does not bring."""

from __future__ import annotations

import importlib
import os

import numpy as np

from .peer import F32, Ids, Peer


class Ngt(Peer):
    """100 edges for the build, of which 10 outgoing and 100 incoming are kept, as its documentation advises."""

    name = "NGT ONNG"
    module = "ngtpy"
    package = "ngt"
    knobs = ("epsilon",)
    grids = ([(round(-0.1 + 0.01 * step, 2),) for step in range(61)],)

    def fill(self, vectors: F32, metric: str) -> None:
        ngt = importlib.import_module("ngtpy")
        plain, optimised = str(self.folder / "anng"), str(self.folder / "onng")
        # Unit vectors: the Euclidean distance ranks as cosine does.
        kind = "InnerProduct" if metric == "ip" else "L2"
        ngt.create(plain, vectors.shape[1], edge_size_for_creation=100, edge_size_for_search=-2, distance_type=kind)
        index = ngt.Index(plain, log_disabled=True)
        index.batch_insert(vectors, num_threads=os.cpu_count() or 1)
        index.save()
        index.close()
        optimiser = ngt.Optimizer(num_of_outgoings=10, num_of_incomings=100, log_disabled=True)
        # What it would choose for itself, searches set: epsilon is the knob here.
        optimiser.set_processing_modes(search_parameter_optimization=False, accuracy_table_generation=False)
        optimiser.execute(plain, optimised)
        self.index = ngt.Index(optimised, read_only=True, log_disabled=True)

    def _set(self, *setting: float) -> None:
        self.index.set(epsilon=setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.search(query, k, with_distance=False))
