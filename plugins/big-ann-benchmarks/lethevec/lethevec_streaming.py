"""Lethevec in the streaming track of big-ann-benchmarks. A deleted point is forgotten; there are no tombstones."""

import numpy as np
from neurips23.streaming.base import BaseStreamingANN

import lethevec

METRICS = {"euclidean": "l2", "ip": "ip", "angular": "cosine"}


class Lethevec(BaseStreamingANN):
    """An index that is filled and emptied by the runbook. `index_params` are further options of `lethevec.Index`."""

    def __init__(self, metric, index_params):
        if metric not in METRICS:
            raise NotImplementedError(f"lethevec: expected a metric of {', '.join(METRICS)}, got {metric!r}")
        self.metric = METRICS[metric]
        self.params = dict(index_params)
        self.effort, self.threads = 1.0, None
        self.name = "lethevec"
        self.index = None
        self.res = None

    def setup(self, dtype, max_pts, ndims):
        """Make an empty index. Nothing is trained, so neither the type nor the number of points is needed."""
        self.dim = ndims
        self.start()

    def start(self):
        """Make a new, empty index with the same parameters."""
        self.index = lethevec.Index(dim=self.dim, metric=self.metric, **self.params)

    def insert(self, X, ids):
        """Add points under their ids."""
        self.index.add(np.asarray(X, dtype=np.float32), ids=np.asarray(ids, dtype=np.int64))

    def delete(self, ids):
        """Forget the points: afterwards the index is one that never had them."""
        self.index.forget(np.asarray(ids, dtype=np.int64))

    def replace(self, X, ids):
        """Give the ids other vectors."""
        self.index.update(np.asarray(X, dtype=np.float32), ids=np.asarray(ids, dtype=np.int64))

    def set_query_arguments(self, query_args):
        """Set `effort`, how much is looked at, and `T`, the number of threads: all cores by default.

        The framework replays the whole runbook on this object for each set of query arguments, without calling `setup`
        again. Records of the last replay would be in the way of the next one, so it starts with a new index.
        """
        self.effort = float(query_args.get("effort", 1.0))
        self.threads = query_args.get("T")
        if self.index is not None and len(self.index):
            self.start()

    def query(self, X, k):
        """Put the ids of the k nearest of each query into `res`."""
        found = self.index.search(np.asarray(X, dtype=np.float32), k, effort=self.effort, threads=self.threads)
        self.res = found.ids

    def range_query(self, X, radius):
        """Put all points within a true distance into `res`: offsets, distances, ids."""
        found = self.index.search_radius(np.asarray(X, dtype=np.float32), radius)
        there = np.isfinite(found.distances)
        offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        self.res = offsets, found.distances[there], found.ids[there]

    def get_additional(self):
        """What the index says of itself."""
        return {"bytes_per_record": self.index.stats()["bytes_per_record"]} if len(self.index) else {}

    def __str__(self):
        return f"lethevec({self.params}, effort={self.effort:g})"
