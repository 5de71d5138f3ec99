"""The TEXMEX formats: .fvecs (float32), .bvecs (uint8) and .ivecs (int32).

A file is a run of records: the dimension as a little-endian int32, then that many values. All records of a file have
the same dimension here, so the first one fixes the size of a record, and the size of the file must be a multiple of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .._shown import shown
from ..errors import FormatError
from ._common import MAX_DIM, Rows

_MAX_PIECE = 1 << 28  # bytes that are asked for at once when the size of the data is not known
_DTYPES: dict[str, np.dtype[Any]] = {
    ".fvecs": np.dtype("<f4"),
    ".bvecs": np.dtype("u1"),
    ".ivecs": np.dtype("<i4"),
}


def vecs_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of a .fvecs, .bvecs or .ivecs file, which has no names in it, so `key` must be None."""
    suffix = path.suffix.lower()
    if key is not None:
        raise FormatError(f"{path}: expected no key, as a {suffix} file has no names in it, got key={shown(key)}")
    for values in iter_vecs(path, _DTYPES[suffix], batch):
        yield Rows(values)


def vecs_stream(suffix: str) -> Callable[[IO[bytes], Path, str | None, int], Iterator[Rows]]:
    """A reader of one of the formats from a pipe."""
    dtype = _DTYPES[suffix]

    def stream(file: IO[bytes], path: Path, key: str | None, batch: int) -> Iterator[Rows]:
        if key is not None:
            raise FormatError(f"{path}: expected no key, as {suffix} has no names in it, got key={shown(key)}")
        head = file.read(4)
        dim = int.from_bytes(head, "little", signed=True)
        if not head:
            return
        # Nothing is known about the size, so the claim is not believed beyond this.
        if len(head) < 4 or not 1 <= dim <= MAX_DIM:
            raise FormatError(f"{path}: expected a dimension from 1 to {MAX_DIM}, got {dim}")
        record = 4 + dim * dtype.itemsize
        rows = max(1, min(batch, _MAX_PIECE // record))
        start = 0
        while raw := head + file.read(rows * record - len(head)):
            if len(raw) % record:
                raise FormatError(f"{path}: expected records of {record} bytes, got {len(raw) % record} at the end")
            yield Rows(_values(path, raw, dim, dtype, start))
            start += len(raw) // record
            head = b""

    return stream


def iter_vecs(path: Path, dtype: np.dtype[Any], batch: int) -> Iterator[npt.NDArray[Any]]:
    """Values of shape (at most `batch`, dim) in the type that is stored."""
    size = path.stat().st_size
    with path.open("rb") as file:
        dim = int.from_bytes(file.read(4), "little", signed=True)
        record = 4 + dim * dtype.itemsize
        if dim < 1 or record > size:
            raise FormatError(
                f"{path}: expected a dimension of at least 1, and a record that fits in the {size} bytes of the file, "
                f"got dimension {dim}"
            )
        if size % record:
            raise FormatError(
                f"{path}: expected a multiple of {record} bytes (records of dimension {dim}), got {size}: "
                f"the file is cut short, or its dimensions differ"
            )
        file.seek(0)
        for start in range(0, size // record, batch):
            rows = min(batch, size // record - start)
            raw = file.read(rows * record)
            if len(raw) != rows * record:
                raise FormatError(f"{path}: expected {rows * record} more bytes, got {len(raw)}")
            yield _values(path, raw, dim, dtype, start)


def _values(path: Path, raw: bytes, dim: int, dtype: np.dtype[Any], start: int) -> npt.NDArray[Any]:
    """Whole records without their heads, each of which must say the same; `start` is the number of the first."""
    table = np.frombuffer(raw, dtype=np.uint8).reshape(-1, 4 + dim * dtype.itemsize)
    dims = table[:, :4].copy().view("<i4")[:, 0]
    if (dims != dim).any():
        row = int((dims != dim).argmax())
        raise FormatError(f"{path}: expected dimension {dim} in every row, got {dims[row]} in row {start + row}")
    return table[:, 4:].copy().view(dtype)


def vecs_count(path: Path, key: str | None) -> int:
    """The number of records that fit in the file, by the dimension of the first."""
    with path.open("rb") as file:
        dim = max(0, int.from_bytes(file.read(4), "little", signed=True))
    return path.stat().st_size // (4 + dim * _DTYPES[path.suffix.lower()].itemsize)
