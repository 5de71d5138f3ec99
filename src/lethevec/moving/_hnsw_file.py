"""The index files of hnswlib, which Chroma uses too, read without the library: all elements, the deleted ones as well.

A header (`header.bin` in Chroma) is followed by the elements of level 0, all of one size: neighbours, vector, label.
The third byte of the neighbours' count is 1 where the element was deleted: hnswlib only marks it. Little-endian, as
hnswlib writes it on every machine that it is built for.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ..errors import FormatError

__all__ = ["HnswFile", "read_header"]

# offsetLevel0, max_elements, count, size of an element, offset of the label, offset of the vector
_HEADER = struct.Struct("<QQQQQQ")
_WHOLE_HEADER = 96  # with levels, links and settings of the graph, which are not needed here
_DELETED = 1
_LARGEST_DIM = 1 << 20


@dataclass(frozen=True)
class HnswFile:
    """The elements of a file: `start` is where the first one begins."""

    path: Path
    start: int
    count: int
    size: int
    vector_at: int
    label_at: int

    @property
    def dim(self) -> int:
        """Numbers of a vector, which are float32."""
        return (self.label_at - self.vector_at) // 4

    def parts(
        self, size: int
    ) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32], npt.NDArray[np.bool_]]]:
        """Labels, vectors and whether they were deleted, at most `size` at a time."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            for first in range(0, self.count, size):
                rows = min(size, self.count - first)
                yield self._split(self._read(file, rows), rows)

    def _read(self, file: BinaryIO, rows: int) -> bytes:
        raw = file.read(rows * self.size)
        if len(raw) != rows * self.size:
            raise FormatError(f"{self.path}: expected {rows * self.size} more bytes, got {len(raw)}: it is cut short")
        return raw

    def _split(
        self, raw: bytes, rows: int
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        table = np.frombuffer(raw, dtype=np.uint8).reshape(rows, self.size)
        labels = np.ascontiguousarray(table[:, self.label_at : self.label_at + 8]).view("<u8")[:, 0]
        vectors = np.ascontiguousarray(table[:, self.vector_at : self.label_at]).view("<f4")
        return labels, vectors, (table[:, 2] & _DELETED).astype(np.bool_)


def read_header(header: Path, elements: Path, *, skip: int = 0) -> HnswFile:
    """The layout that a header tells, held against the size of the file with the elements.

    `skip` is what comes before the header (Chroma writes a version of 4 bytes).
    """
    with header.open("rb") as file:
        raw = file.read(skip + _WHOLE_HEADER)
    start = _WHOLE_HEADER if header == elements else 0
    found = os.path.getsize(elements)
    if len(raw) < skip + _HEADER.size:
        raise FormatError(f"{header}: expected an index of hnswlib, got {len(raw)} bytes")
    offset, most, count, size, label_at, vector_at = _HEADER.unpack_from(raw, skip)
    width = label_at - vector_at
    whole = offset == 0 and count <= most and 0 < vector_at < label_at and label_at + 8 == size and width % 4 == 0
    if not whole or not 1 <= width // 4 <= _LARGEST_DIM:
        raise FormatError(f"{header}: expected an index of hnswlib with vectors of float32, got something else")
    if start + count * size > found:
        raise FormatError(f"{elements}: expected {count} elements of {size} bytes, got a file of {found} bytes")
    return HnswFile(elements, start, count, size, vector_at, label_at)
