"""hnswlib: one file, which is read without the library. It does not say which metric it is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..errors import ParameterError
from ._hnsw_file import read_header
from ._left_behind import FileSource, bytes_by_file
from ._source import Batch, Residue, Source, as_id

__all__ = ["HnswlibSource"]


class HnswlibSource(Source):
    """The elements of a file that are not marked as deleted, with their labels as ids."""

    def __init__(self, location: str, metric: str | None) -> None:
        """Read the header."""
        path = Path(location)
        self._file = read_header(path, path)
        if metric is None:
            raise ParameterError(f"{location}: expected a metric, since files of hnswlib do not say which they are for")
        self.name, self.dim, self.metric = path.name, self._file.dim, metric
        if metric == "cosine":
            self.remarks = ("hnswlib keeps vectors of length 1 under cosine; the original lengths are not in the file",)

    def count(self) -> int:
        """Elements that are not deleted."""
        return sum(int((~deleted).sum()) for _, _, deleted in self._file.parts(10_000))

    def batches(self, size: int) -> Iterator[Batch]:
        """In the order of the file."""
        for labels, vectors, deleted in self._file.parts(size):
            kept = ~deleted
            if kept.any():
                ids = [as_id(label) for label in labels[kept].tolist()]
                yield Batch(ids, vectors[kept], [None] * len(ids))

    def residue(self) -> Residue:
        """The elements that are only marked."""
        gone = [vectors[deleted] for _, vectors, deleted in self._file.parts(10_000)]
        left = np.concatenate(gone) if gone else np.empty((0, self.dim), dtype=np.float32)
        if not len(left):
            return Residue(0, 0, "no deleted records in the file")
        held = bytes_by_file(left, [FileSource(self._file.path, self._file.path.name)])
        return Residue(
            len(left),
            left.nbytes,
            f"the vectors of {len(left):,} deleted records are still in the file: hnswlib only marks them",
            held,
        )
