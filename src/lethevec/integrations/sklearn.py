"""scikit-learn: a graph of nearest neighbours that can forget samples.

`LethevecTransformer` stands where `sklearn.neighbors.KNeighborsTransformer` stands: before an estimator that takes a
graph of neighbours (`metric="precomputed"`). It learns more samples with `partial_fit` and forgets some with `forget`.

Afterwards it is what it would be if it had never been given the forgotten ones. What comes after it is not reached: a
classifier, DBSCAN or t-SNE that was fitted on its graph keeps what it learnt until it is fitted again. Nor are pickles
of it, which hold the samples; the cache of a pipeline (`memory=`) has some.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec
from lethevec.errors import InputError, MissingDependencyError, ParameterError, UnknownIdError

try:
    from scipy.sparse import csr_matrix
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise MissingDependencyError(
        f"lethevec.integrations.sklearn needs the package {error.name!r}, which is not installed: "
        "pip install 'lethevec[sklearn]'"
    ) from None

__all__ = ["LethevecTransformer"]

I64 = npt.NDArray[np.int64]


class LethevecTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turn samples into the sparse graph of their nearest neighbours among the samples that were fitted.

    Args:
        n_neighbors: neighbours of each sample; in mode "distance" one more is given, because a fitted sample is its
            own nearest neighbour and some estimators leave it out.
        mode: "distance" (the graph holds distances) or "connectivity" (ones).
        metric: "l2" (Euclidean), "cosine" (1 - cos; zero vectors are refused) or "ip" (minus the inner product; only
            for mode "connectivity", since these distances are negative).
        source: where candidates come from, as in `lethevec.Index`: "scan", "pivots", "tables", "auto".
        effort: more looks at more records. At 1.0 nearly all true neighbours are found; `numpy.inf` looks at all.
        seed: what the random tables of the index are drawn from.
        n_jobs: threads of a search; None is one, -1 is all cores.

    After fitting, `index_` is the `lethevec.Index`, `n_samples_fit_` the number of samples in it and `sample_ids_`
    their ids, ascending. Column j of the graph is sample j in that order: the order in which they were given, with gaps
    closed where some were forgotten.

    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = [[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1]
    >>> nearest = make_pipeline(LethevecTransformer(n_neighbors=2), KNeighborsClassifier(2, metric="precomputed"))
    >>> nearest.fit(X, y).predict([[0.4], [5.6]]).tolist()
    [0, 1]
    >>> graph = LethevecTransformer(n_neighbors=1).fit(X).forget([1])
    >>> graph.n_samples_fit_, graph.transform([[1.0]]).toarray().tolist()
    (3, [[1.0, 4.0, 0.0]])
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        mode: str = "distance",
        metric: str = "l2",
        source: Any = "auto",
        effort: float = 1.0,
        seed: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.mode = mode
        self.metric = metric
        self.source = source
        self.effort = effort
        self.seed = seed
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> LethevecTransformer:
        """Forget all samples and learn these. `y` is not used."""
        X = self._checked(X, reset=True)
        self._add(self._empty(X.shape[1]), X, np.arange(len(X), dtype=np.int64))
        return self

    def partial_fit(self, X: Any, y: Any = None, *, ids: Any = None) -> LethevecTransformer:
        """Learn these samples as well. They are numbered on from the largest id there is, unless `ids` are given."""
        first = not hasattr(self, "index_")
        X = self._checked(X, reset=first)
        index = self._empty(X.shape[1]) if first else self.index_
        if ids is None:
            start = int(self.sample_ids_[-1]) + 1 if not first and self.n_samples_fit_ else 0
            ids = np.arange(start, start + len(X), dtype=np.int64)
        self._add(index, X, ids)
        return self

    def forget(self, indices: Any) -> LethevecTransformer:
        """Forget the samples in these columns of the graph; those after them move up.

        Every index must be a column of the graph, or nothing is forgotten. The transformer then equals one that was
        never given these samples: `index_.digest()` and every answer are the same.
        """
        check_is_fitted(self)
        columns = np.atleast_1d(np.asarray(indices))
        if columns.size == 0:
            return self
        if columns.ndim != 1 or columns.dtype.kind not in "iu":
            raise InputError(f"indices: expected a list of columns, got {columns.dtype} of shape {columns.shape}")
        outside = columns[(columns < 0) | (columns >= self.n_samples_fit_)]
        if len(outside):
            raise UnknownIdError(
                f"indices: expected columns from 0 to {self.n_samples_fit_ - 1}, got {outside[0]}; nothing was changed"
            )
        self.index_.forget(np.unique(self.sample_ids_[columns]))
        self._count()
        return self

    def transform(self, X: Any) -> csr_matrix:
        """The graph from these samples to the fitted ones: (n, n_samples_fit_), rows by ascending distance."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        k = self.n_neighbors + (self.mode == "distance")
        if k > self.n_samples_fit_:
            raise InputError(
                f"n_neighbors: expected n_neighbors <= n_samples_fit for mode {self.mode!r} (with the sample itself), "
                f"got {k} neighbours of n_samples_fit = {self.n_samples_fit_}, n_samples = {len(X)}"
            )
        effort = 1e18 if np.isposinf(self.effort) else self.effort
        hits = self.index_.search(X, k, effort=effort, threads=self._threads())
        found = np.isfinite(hits.distances)
        starts = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
        # Ids ascend with the columns, so that a place among them is the column.
        columns = np.searchsorted(self.sample_ids_, hits.ids[found])
        values = hits.distances[found] if self.mode == "distance" else np.ones(len(columns), dtype=np.float32)
        return csr_matrix((values, columns, starts), shape=(len(X), self.n_samples_fit_))

    def fit_transform(self, X: Any, y: Any = None) -> csr_matrix:
        """The graph of these samples among themselves, which are learnt."""
        return self.fit(X).transform(X)

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    def _checked(self, X: Any, *, reset: bool) -> npt.NDArray[np.float32]:
        if self.mode not in ("distance", "connectivity"):
            raise ParameterError(f"mode: expected 'distance' or 'connectivity', got {self.mode!r}")
        if self.mode == "distance" and self.metric == "ip":
            raise ParameterError("metric: expected 'l2' or 'cosine' for distances, got 'ip', which gives negative ones")
        whole = isinstance(self.n_neighbors, int | np.integer) and not isinstance(self.n_neighbors, bool)
        if not whole or self.n_neighbors < 1:
            raise ParameterError(f"n_neighbors: expected a whole number from 1 on, got {self.n_neighbors!r}")
        checked: npt.NDArray[np.float32] = validate_data(self, X, dtype=np.float32, order="C", reset=reset)
        return checked

    def _empty(self, dim: int) -> lethevec.Index:
        return lethevec.Index(dim, self.metric, source=self.source, seed=self.seed)

    def _add(self, index: lethevec.Index, X: npt.NDArray[np.float32], ids: Any) -> None:
        index.add(X, ids=ids)
        self.index_ = index
        self._count()

    def _count(self) -> None:
        self.sample_ids_: I64 = self.index_.ids()
        self.n_samples_fit_ = len(self.sample_ids_)

    def _threads(self) -> int | None:
        return None if self.n_jobs == -1 else self.n_jobs or 1

    def __getstate__(self) -> dict[str, Any]:
        """An index cannot be pickled, so a pickle of the transformer holds the samples themselves."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "index_" in state:
            state["index_"] = self.index_.vectors(self.sample_ids_)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vectors = state.pop("index_", None)
        super().__setstate__(state)
        if vectors is not None:
            index = self._empty(vectors.shape[1])
            if len(vectors):
                index.add(vectors, ids=self.sample_ids_)
            self.index_ = index

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
