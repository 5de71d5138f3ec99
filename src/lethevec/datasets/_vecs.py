"""The TEXMEX formats: .fvecs (float32), .bvecs (uint8) and .ivecs (int32).

A file is a run of records: the dimension as a little-endian int32, then that many values. All records of a file have
the same dimension here, so the first one fixes the size of a record, and the size of the file must be a multiple of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ._common import Rows

_DTYPES: dict[str, np.dtype[Any]] = {
    ".fvecs": np.dtype("<f4"),
    ".bvecs": np.dtype("u1"),
    ".ivecs": np.dtype("<i4"),
}


def vecs_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of a .fvecs, .bvecs or .ivecs file, which has no names in it, so `key` must be None."""
    suffix = path.suffix.lower()
    if key is not None:
        raise FormatError(f"{path}: expected no key, as a {suffix} file has no names in it, got key={key!r}")
    for values in iter_vecs(path, _DTYPES[suffix], batch):
        yield Rows(values)


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
            table = np.frombuffer(raw, dtype=np.uint8).reshape(rows, record)
            dims = table[:, :4].copy().view("<i4")[:, 0]
            if (dims != dim).any():
                row = int((dims != dim).argmax())
                raise FormatError(
                    f"{path}: expected dimension {dim} in every row, got {dims[row]} in row {start + row}"
                )
            yield table[:, 4:].copy().view(dtype)


def vecs_count(path: Path, key: str | None) -> int:
    """The number of records that fit in the file, by the dimension of the first."""
    with path.open("rb") as file:
        dim = max(0, int.from_bytes(file.read(4), "little", signed=True))
    return path.stat().st_size // (4 + dim * _DTYPES[path.suffix.lower()].itemsize)
