"""Vectors from files: the format follows from the suffix, the check is that of `vectors.py`.

| suffix | what it is | needs |
|---|---|---|
| .npy .npz | NumPy arrays; an archive may have ids, subjects and payloads beside the vectors | |
| .fvecs .bvecs .ivecs | the TEXMEX formats: float32, bytes, int32 | |
| .hdf5 .h5 | HDF5, the ann-benchmarks layout among others | h5py |
| .parquet .arrow .feather | Parquet and Arrow IPC | pyarrow |
| .jsonl .ndjson .csv | text | |
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .._shown import shown
from .._vectors import F32, as_vectors
from ..errors import FileError, FormatError, LethevecError, ParameterError, VectorError
from ._arrow import arrow_rows, arrow_stream, parquet_count, parquet_rows
from ._common import Ids, Rows
from ._hdf5 import hdf5_count, hdf5_rows
from ._npy import npy_count, npy_rows, npy_stream
from ._npz import npz_count, npz_rows
from ._text import csv_rows, csv_stream, jsonl_rows, jsonl_stream
from ._vecs import iter_vecs, vecs_count, vecs_rows, vecs_stream

_READERS: dict[str, Callable[[Path, str | None, int], Iterator[Rows]]] = {
    ".npy": npy_rows,
    ".npz": npz_rows,
    ".fvecs": vecs_rows,
    ".bvecs": vecs_rows,
    ".ivecs": vecs_rows,
    ".hdf5": hdf5_rows,
    ".h5": hdf5_rows,
    ".parquet": parquet_rows,
    ".arrow": arrow_rows,
    ".feather": arrow_rows,
    ".jsonl": jsonl_rows,
    ".ndjson": jsonl_rows,
    ".csv": csv_rows,
}

# Formats that know their length.
_COUNTERS: dict[str, Callable[[Path, str | None], int | None]] = {
    ".npy": npy_count,
    ".npz": npz_count,
    ".fvecs": vecs_count,
    ".bvecs": vecs_count,
    ".ivecs": vecs_count,
    ".hdf5": hdf5_count,
    ".h5": hdf5_count,
    ".parquet": parquet_count,
}
# Formats that can be read from a pipe, without going back.
_STREAMS: dict[str, Callable[[IO[bytes], Path, str | None, int], Iterator[Rows]]] = {
    "jsonl": jsonl_stream,
    "csv": csv_stream,
    "npy": npy_stream,
    "fvecs": vecs_stream(".fvecs"),
    "bvecs": vecs_stream(".bvecs"),
    "ivecs": vecs_stream(".ivecs"),
    "arrow": arrow_stream,
}

StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Records:
    """Vectors of shape (n, dim), float32, and what else the file says about each: None where it says nothing.

    `ids` are whole numbers (int64) or, where some are texts, a list. Where `bare` is True, a record has no vector, and
    zeros stand in its place.
    """

    vectors: F32
    ids: Ids | None = None
    subjects: list[str | None] | None = None
    payloads: list[Any] | None = None
    expires: list[date | None] | None = None
    bare: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        """The number of records."""
        return len(self.vectors)


def iter_records(
    path: StrPath, *, batch: int = 10_000, key: str | None = None, bare: bool = False
) -> Iterator[Records]:
    """Read a file piece by piece: at most `batch` records at a time, in the order of the file.

    `key` names the array, dataset, column or field that holds the vectors, where the format has names. With `bare`,
    records without a vector are read too. Anything unexpected raises FormatError, which says what came and what was
    expected; batches given before it were sound.
    """
    path = Path(path)
    if batch < 1:
        raise ParameterError(f"batch: expected at least 1, got {batch}")
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        raise FormatError(f"{path}: expected a file name that ends in {' '.join(_READERS)}, got {suffix!r}")
    return checked(path, _READERS[suffix](path, key, batch), bare=bare)


def iter_stream(
    file: IO[bytes],
    format: str,
    *,
    batch: int = 10_000,
    key: str | None = None,
    name: str = "stdin",
    bare: bool = False,
) -> Iterator[Records]:
    """Like `iter_records`, from an open binary file that need not be seekable; `name` is for messages.

    >>> import io
    >>> [records.vectors.shape for records in iter_stream(io.BytesIO(b"[1, 2]\\n[3, 4]\\n[5, 6]\\n"), "jsonl", batch=2)]
    [(2, 2), (1, 2)]
    """
    if batch < 1:
        raise ParameterError(f"batch: expected at least 1, got {batch}")
    if format not in _STREAMS:
        raise ParameterError(f"format: expected one of {', '.join(_STREAMS)} for a stream, got {shown(format)}")
    return checked(Path(name), _STREAMS[format](file, Path(name), key, batch), bare=bare)


def count_records(path: StrPath, *, key: str | None = None) -> int | None:
    """How many records a file holds, where that can be told without reading it through; None where it cannot.

    It is for progress bars: the readers check what a file says about itself, and this does not.
    """
    path = Path(path)
    counter = _COUNTERS.get(path.suffix.lower())
    if counter is None:
        return None
    try:
        return counter(path, key)
    except (OSError, LethevecError):  # whoever reads it will say what is wrong
        return None


def read_records(path: StrPath, *, key: str | None = None) -> Records:
    """Read a whole file.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.jsonl")
    ...     _ = path.write_text('{"id": 7, "subject": "ada", "vector": [0.5, 1]}')
    ...     records = read_records(path)
    ...     records.vectors, records.ids, records.subjects
    (array([[0.5, 1. ]], dtype=float32), array([7]), ['ada'])
    """
    # Formats whose size is known are read in one piece, without a second copy; the others in pieces that are joined.
    whole = Path(path).suffix.lower() in (".npy", ".npz", ".fvecs", ".bvecs", ".ivecs", ".hdf5", ".h5")
    return _joined(list(iter_records(path, batch=sys.maxsize if whole else 65_536, key=key)))


def iter_vectors(path: StrPath, *, batch: int = 10_000, key: str | None = None) -> Iterator[F32]:
    """Like `iter_records`, for those who want the vectors alone."""
    return (records.vectors for records in iter_records(path, batch=batch, key=key))


def read_vectors(path: StrPath, *, key: str | None = None) -> F32:
    """Read all vectors of a file as float32 of shape (n, dim).

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "two.csv")
    ...     _ = path.write_text("1,2,3\\n4,5,6\\n")
    ...     read_vectors(path)
    array([[1., 2., 3.],
           [4., 5., 6.]], dtype=float32)
    """
    return read_records(path, key=key).vectors


def read_neighbors(path: StrPath) -> npt.NDArray[np.int32]:
    """Read true neighbours from a .ivecs file: row numbers of shape (queries, k)."""
    path = Path(path)
    if path.suffix.lower() != ".ivecs":
        raise FormatError(f"{path}: expected a file name that ends in .ivecs, got {path.suffix!r}")
    try:
        parts = list(iter_vecs(path, np.dtype("<i4"), 65_536))
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
    return np.concatenate(parts).astype(np.int32, copy=False)


def checked(path: Path, pieces: Iterator[Rows], *, bare: bool) -> Iterator[Records]:
    """The check stage: one dimension for the whole file, finite float32, and at least one row."""
    dim: int | None = None
    start = 0
    try:
        for rows in pieces:
            if len(rows.values) == 0:
                continue
            missing = rows.bare
            if missing is not None and not missing.any():
                missing = None
            if missing is not None and not bare:
                row = start + int(missing.argmax())
                raise FormatError(f"{path}: expected a vector in every row, got {missing.sum()} nulls, in row {row}")
            if missing is not None and missing.all():
                vectors = np.zeros((len(missing), dim or 0), dtype=np.float32)
                yield Records(vectors, rows.ids, rows.subjects, rows.payloads, rows.expires, missing)
                start += len(vectors)
                continue
            if dim is None:
                dim = rows.values.shape[1]
            if dim == 0:
                raise FormatError(f"{path}: expected vectors of dimension 1 or more, got dimension 0")
            name = str(path) if start == 0 else f"{path}, counted from row {start}"
            try:
                vectors = as_vectors(rows.values, dim, name=name)
            except VectorError as error:
                raise FormatError(str(error)) from None
            yield Records(vectors, rows.ids, rows.subjects, rows.payloads, rows.expires, missing)
            start += len(vectors)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if start == 0:
        raise FormatError(f"{path}: expected at least one vector, got none")


def _joined(parts: list[Records]) -> Records:
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    return Records(
        np.concatenate([part.vectors for part in parts]),
        _joined_ids([part.ids for part in parts if part.ids is not None]),
        None if first.subjects is None else [value for part in parts for value in part.subjects or ()],
        None if first.payloads is None else [value for part in parts for value in part.payloads or ()],
        _joined_expires(parts),
    )


def _joined_expires(parts: list[Records]) -> list[date | None] | None:
    if all(part.expires is None for part in parts):
        return None
    return [moment for part in parts for moment in part.expires or [None] * len(part)]


def _joined_ids(parts: list[Ids]) -> Ids | None:
    if not parts:
        return None
    if any(isinstance(part, list) for part in parts):
        return [id for part in parts for id in (part if isinstance(part, list) else part.tolist())]
    return np.concatenate(parts)
