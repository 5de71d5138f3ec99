"""Faiss: an index file, with the ids of an IDMap or of inverted lists, or the numbers 0 to n - 1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._extras import need
from ..errors import FileError, FormatError, UnsupportedError
from ._source import F32, Batch, Residue, Source, as_id, same_dim

__all__ = ["FaissSource"]


class FaissSource(Source):
    """The vectors of an index file, as Faiss reconstructs them."""

    def __init__(self, location: str) -> None:
        """Read the file; Faiss has no way to read a part of it."""
        faiss = need("faiss", "faiss", "reading an index of Faiss")
        if not Path(location).is_file():
            raise FileError(f"{location}: expected an index file of Faiss, got nothing there")
        try:
            index = faiss.read_index(location)
        except Exception as error:  # Faiss raises RuntimeError with a C++ trace
            first = str(error).splitlines()[0] if str(error) else "unreadable"
            raise FormatError(
                f"{location}: expected an index file of Faiss, got something else: {first[:200]}"
            ) from None
        self.name, self.dim = Path(location).name, int(index.d)
        if index.metric_type not in (faiss.METRIC_L2, faiss.METRIC_INNER_PRODUCT):
            raise UnsupportedError(
                f"{location}: expected the metric L2 or inner product, got number {index.metric_type}"
            )
        self.metric = "l2" if index.metric_type == faiss.METRIC_L2 else "ip"
        self._index, self._ids = index, None
        self._own = False  # whether the inner index knows its vectors by these ids, and not by place
        inner = faiss.downcast_index(index)
        if isinstance(inner, faiss.IndexIDMap):
            self._ids = faiss.vector_to_array(inner.id_map)
            inner = faiss.downcast_index(inner.index)
        try:
            self._map_lists(faiss, inner)
        except Exception as error:
            raise self._unreadable(inner, error) from None
        self._inner = inner
        if not _is_exact(faiss, inner):
            self.remarks = (
                f"{type(inner).__name__} keeps codes instead of vectors: what was copied is an approximation of them",
            )

    def _map_lists(self, faiss: Any, inner: Any) -> None:
        """Let inverted lists find a vector by its id, and see which ids they have: gaps where records were removed."""
        lists = faiss.try_extract_index_ivf(inner)
        if lists is None:
            return
        ids = np.sort(_ids_in(faiss, lists.invlists, lists.nlist))
        if np.array_equal(ids, np.arange(len(ids))):
            lists.make_direct_map()
            return
        if self._ids is not None:  # of an IDMap, which then gives the ids of others in Faiss as well
            raise ValueError("records were removed from inverted lists below an IDMap, which mixes up ids")
        lists.set_direct_map_type(faiss.DirectMap.Hashtable)
        self._ids, self._own = ids, True

    def count(self) -> int:
        """What the index says."""
        return int(self._index.ntotal)

    def batches(self, size: int) -> Iterator[Batch]:
        """In the order of the index."""
        for start in range(0, self.count(), size):
            rows = min(size, self.count() - start)
            numbers = range(start, start + rows) if self._ids is None else self._ids[start : start + rows].tolist()
            ids = [as_id(number) for number in numbers]
            yield Batch(ids, same_dim(self._vectors(start, rows), self.dim, self.name), [None] * rows)

    def _vectors(self, start: int, rows: int) -> F32:
        try:
            if self._own and self._ids is not None:
                got = self._inner.reconstruct_batch(self._ids[start : start + rows])
            else:
                got = self._inner.reconstruct_n(start, rows)
            return np.ascontiguousarray(got, dtype=np.float32)
        except Exception as error:  # some indexes cannot reconstruct
            raise self._unreadable(self._inner, error) from None

    def _unreadable(self, inner: Any, error: Exception) -> UnsupportedError:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        return UnsupportedError(
            f"{self.name}: expected an index that gives vectors back by number, got {type(inner).__name__}: "
            f"{first[:200]}"
        )

    def residue(self) -> Residue:
        """Faiss writes what the index holds, and nothing else."""
        return Residue(
            0, 0, "Faiss closes the gaps of removed records before it writes a file; older files still hold them"
        )


def _ids_in(faiss: Any, lists: Any, count: int) -> npt.NDArray[np.int64]:
    """The ids of all inverted lists."""
    parts = [
        faiss.rev_swig_ptr(lists.get_ids(number), size).copy()
        for number in range(count)
        if (size := int(lists.list_size(number)))
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _is_exact(faiss: Any, index: Any) -> bool:
    # What IndexRefineFlat and IndexNSGFlat give back are the vectors too.
    exact = (faiss.IndexFlat, faiss.IndexIVFFlat, faiss.IndexHNSWFlat, faiss.IndexNSGFlat, faiss.IndexRefineFlat)
    return isinstance(index, exact)
