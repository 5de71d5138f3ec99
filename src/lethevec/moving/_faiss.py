"""Faiss: an index file, with the ids of an IDMap or the numbers 0 to n - 1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

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
        inner = faiss.downcast_index(index)
        if isinstance(inner, faiss.IndexIDMap):
            self._ids = faiss.vector_to_array(inner.id_map)
            inner = faiss.downcast_index(inner.index)
        if hasattr(inner, "make_direct_map"):
            inner.make_direct_map()
        self._inner = inner
        if not _is_exact(faiss, inner):
            self.remarks = (
                f"{type(inner).__name__} keeps codes instead of vectors: what was copied is an approximation of them",
            )

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
            return np.ascontiguousarray(self._inner.reconstruct_n(start, rows), dtype=np.float32)
        except Exception as error:  # IVF files with ids of their own have gaps, and some indexes cannot reconstruct
            kind = type(self._inner).__name__
            raise UnsupportedError(
                f"{self.name}: expected an index that gives vectors back by number, got {kind}: "
                f"{str(error).splitlines()[0][:200]}"
            ) from None

    def residue(self) -> Residue:
        """Faiss writes what the index holds, and nothing else."""
        return Residue(
            0, 0, "Faiss closes the gaps of removed records before it writes a file; older files still hold them"
        )


def _is_exact(faiss: Any, index: Any) -> bool:
    exact = (faiss.IndexFlat, faiss.IndexIVFFlat, faiss.IndexHNSWFlat)
    return isinstance(index, exact)
