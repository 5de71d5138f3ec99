"""Lethevec in ann-benchmarks."""

import numpy as np

import lethevec

from ..base.module import BaseANN

METRICS = {"angular": "cosine", "euclidean": "l2", "hamming": "l2"}


class Lethevec(BaseANN):
    """An index with a source of candidates ("default" is whatever the index takes by itself) and its one knob.

    Bits become the numbers -1 and 1: the square of their Euclidean distance is four times the Hamming distance, so the
    order is that of Hamming. They are kept in a byte each, which rounds all alike and leaves the order as it is.
    """

    def __init__(self, metric, source="default"):
        if metric not in METRICS:
            raise NotImplementedError(f"lethevec: expected a metric of {', '.join(METRICS)}, got {metric!r}")
        self.metric = METRICS[metric]
        self.binary = metric == "hamming"
        self.source = source
        self.effort = 1.0
        self.index = None

    def fit(self, X):
        """Add all vectors; their row numbers are their ids."""
        options = {} if self.source == "default" else {"source": self.source}
        if self.binary:
            options["keep_vectors"] = "int8"
        self.index = lethevec.Index(dim=X.shape[1], metric=self.metric, **options)
        self.index.add(self.numbers(X), ids=range(len(X)))

    def numbers(self, X):
        """Vectors as the index takes them."""
        return np.where(X, np.float32(1), np.float32(-1)) if self.binary else X

    def set_query_arguments(self, effort):
        """Set how much is looked at."""
        self.effort = float(effort)

    def query(self, q, n):
        """The ids of the n nearest of one query; fewer where there are not so many."""
        ids = self.index.search(self.numbers(q), n, effort=self.effort).ids[0]
        return ids[ids >= 0]

    def batch_query(self, X, n):
        """All queries at once, on all cores."""
        self.res = self.index.search(self.numbers(X), n, effort=self.effort, threads=None).ids

    def get_batch_results(self):
        """The ids that `batch_query` found."""
        return [ids[ids >= 0] for ids in self.res]

    def __str__(self):
        return f"lethevec(source={self.source}, effort={self.effort:g})"
