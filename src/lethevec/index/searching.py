"""Asking an index. Many threads may, also while another changes it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._native import MAX_THREADS, core, resolve_threads
from ..errors import IdError, ParameterError
from ..hashing.parameters import LARGEST, SMALLEST, integer, positive, real
from ..vectors import F32, MAX_NORM, as_vectors
from .base import IndexBase
from .hits import Hits, RadiusHits, Work
from .ids import I64, as_ids, read_array
from .tuning import Tuning, tune

#: Answers that a search may be asked for when k is larger than the index.
MAX_PADDED = 1 << 28
MAX_K = 1 << 31

# Nearly every search asks for nothing that has to be converted or refused, and one query should not wait for a call for
# each question. What this one does not take goes the long way, which has the errors.
_search_directly = core.DirectSearch(
    hits=Hits,
    work=Work,
    largest_norm=MAX_NORM,
    least_effort=SMALLEST,
    most_effort=LARGEST,
    most_k=MAX_K,
    most_threads=MAX_THREADS,
    most_answers=MAX_PADDED,
).run


class SearchingIndex(IndexBase):
    """The operations that find records."""

    def search(
        self,
        queries: npt.ArrayLike,
        k: int = 10,
        *,
        effort: float = 1.0,
        allow: npt.ArrayLike | None = None,
        threads: int | None = 1,
    ) -> Hits:
        """The k nearest records of each query.

        Args:
            queries: (n, dim), or (dim,) for one.
            k: how many. It may be larger than the index, as long as the padding is not absurd (2^28 answers in all).
            effort: more looks at more records; it never gives less recall. 1.0 is meant for recall@10 of 0.95 or more.
            allow: only these ids may be found: a list of ids (those that are not present match nothing), or a mask, a
                boolean for each of `ids()`.
            threads: threads to share the queries out to; None is all cores.
        """
        if allow is None:
            hits: Hits | None = _search_directly(self._native, queries, k, effort, threads)
            if hits is not None:
                return hits
        q = self._checked_queries(queries)
        k = self._checked_k(k, len(q))
        effort = positive("effort", effort)
        allowed = self._allowed(allow)
        ids = np.empty((len(q), k), dtype=np.int64)
        distances = np.empty((len(q), k), dtype=np.float32)
        done = self._native.search(q, k, effort, allowed, resolve_threads(threads), ids, distances)
        return Hits(ids, distances, Work(*done))

    def search_radius(self, queries: npt.ArrayLike, radius: float, *, allow: npt.ArrayLike | None = None) -> RadiusHits:
        """All records within `radius` of each query, by true distance; by the codes' where vectors are not kept."""
        q = self._checked_queries(queries)
        radius = real("radius", radius)
        allowed = self._allowed(allow)
        found = [self._native.search_radius(row, radius, allowed) for row in q]
        offsets = np.cumsum([0] + [len(hits) for hits in found], dtype=np.int64)
        ids = np.array([id for hits in found for _, id in hits], dtype=np.int64)
        distances = np.array([distance for hits in found for distance, _ in hits], dtype=np.float32)
        return RadiusHits(offsets, ids, distances)

    def tune(
        self, queries: npt.ArrayLike, target_recall: float = 0.9, k: int = 10, *, threads: int | None = None
    ) -> Tuning:
        """The least effort whose recall on these queries reaches the target. Changes nothing in the index.

        The true answers are those of a search that looks at everything: exact where vectors are kept, and otherwise the
        best that the codes can tell. Queries should be like those to come: records of the index find themselves too
        easily.

        >>> from lethevec import Index
        >>> index = Index(dim=2)
        >>> index.add([[0, 1], [1, 0], [1, 1]], ids=[1, 2, 3])
        >>> index.tune([[1, 2]], target_recall=0.9, k=1).recall
        1.0
        """
        return tune(self, self._checked_queries(queries), target_recall, k, threads)

    def _checked_queries(self, queries: npt.ArrayLike) -> F32:
        return as_vectors(queries, self.dim, name="queries", nonzero=self.metric == "cosine")

    def _checked_k(self, given: object, queries: int) -> int:
        k = integer("k", given, 1, MAX_K)
        if queries * k > MAX_PADDED and k > len(self):
            raise ParameterError(
                f"k: expected at most {max(len(self), MAX_PADDED // queries)} for {queries} queries of {len(self)} "
                f"records, got {k}: the answer would be nearly all padding"
            )
        return k

    def _allowed(self, allow: npt.ArrayLike | None) -> I64 | None:
        if allow is None:
            return None
        mask = read_array(allow, "allow")
        if mask.dtype != np.bool_:
            return as_ids(mask, name="allow", empty=True)
        ids = self.ids()
        if mask.shape != ids.shape:
            raise IdError(f"allow: expected a mask with one boolean for each of the {len(ids)} ids, got {mask.shape}")
        return np.ascontiguousarray(ids[mask])
