"""HDF5 files, in particular those in the layout of ann-benchmarks.

That layout is: `train` (n, dim), `test` (queries, dim), `neighbors` and `distances` (queries, k) of the true nearest of
each query in `train`, and the attribute `distance`. Values may be stored small (float16, uint8); they are read as
float32.

h5py parses the file. Beyond what it checks, data outside the file (external links, external storage, virtual datasets)
is refused, and so is a shape that the stored bytes cannot fill. The HDF5 library itself is C code with a history of
memory errors on hostile files: read files of strangers in a process that may die.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._extras import need
from ..errors import FormatError
from ._common import MAX_EXPANSION, Rows, choose, expect_magic

_MAGIC = b"\x89HDF\r\n\x1a\n"


@contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """The open file; whatever h5py raises inside the block becomes a FormatError."""
    h5py = need("h5py", "datasets", "reading HDF5 files")
    expect_magic(path, _MAGIC, "an HDF5 file")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except FormatError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, MemoryError) as error:
        raise FormatError(f"{path}: expected an undamaged HDF5 file, got one that cannot be read: {error}") from None


def hdf5_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of one 2-D dataset; `train` of the ann-benchmarks layout unless `key` says otherwise."""
    with open_hdf5(path) as file:
        dataset = _chosen(path, file, key)
        for start in range(0, dataset.shape[0], batch):
            yield Rows(dataset[start : start + batch])


def hdf5_count(path: Path, key: str | None) -> int:
    """The number of rows of the same dataset."""
    with open_hdf5(path) as file:
        return int(_chosen(path, file, key).shape[0])


def _chosen(path: Path, file: Any, key: str | None) -> Any:
    names = [name for name in file if name == key or _is_matrix(file, name)]
    if key is not None and "/" in key and key in file:
        names.append(key)
    return checked_dataset(path, file, choose(path, names, key, "a 2-D dataset of real numbers"))


def checked_dataset(path: Path, file: Any, name: str) -> Any:
    """A dataset that holds a matrix of real numbers inside this file, with as many bytes as its shape needs."""
    h5py = need("h5py", "datasets", "reading HDF5 files")
    where = f"{path}, dataset {name!r}"
    if isinstance(file.get(name, getlink=True), h5py.ExternalLink):
        raise FormatError(f"{where}: expected data inside the file, got a link to another file")
    dataset = file.get(name)
    if not isinstance(dataset, h5py.Dataset):
        raise FormatError(f"{where}: expected a dataset, got {type(dataset).__name__}; the file has: {', '.join(file)}")
    if dataset.dtype.kind not in "fiu":
        raise FormatError(f"{where}: expected real numbers (float or int), got dtype {dataset.dtype}")
    if len(dataset.shape or ()) != 2 or 0 in dataset.shape:
        raise FormatError(f"{where}: expected a shape of two positive numbers (n, dim), got {dataset.shape}")
    if dataset.is_virtual or dataset.external:
        raise FormatError(f"{where}: expected data inside the file, got data in other files")
    # A chunk is decompressed as a whole, so its size counts too.
    cells = max(math.prod(dataset.shape), math.prod(dataset.chunks or (1,)))
    claimed = cells * dataset.dtype.itemsize
    stored = min(dataset.id.get_storage_size(), path.stat().st_size)
    limit = stored * MAX_EXPANSION if dataset.chunks else stored
    if claimed > limit:
        raise FormatError(
            f"{where}: expected at most {limit} bytes out of the {stored} that are stored, "
            f"got shape {dataset.shape} of {dataset.dtype}, which is {claimed}"
        )
    return dataset


def _is_matrix(file: Any, name: str) -> bool:
    h5py = need("h5py", "datasets", "reading HDF5 files")
    if isinstance(file.get(name, getlink=True), h5py.ExternalLink):
        return False
    dataset = file.get(name)
    return isinstance(dataset, h5py.Dataset) and dataset.dtype.kind in "fiu" and len(dataset.shape or ()) == 2
