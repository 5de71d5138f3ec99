"""The benchmark sets: those of the paper by name, and any file in the layout of ann-benchmarks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .._shown import shown
from .._vectors import F32, as_vectors
from ..errors import FileError, FormatError, ParameterError, VectorError
from ._download import fetch
from ._hdf5 import checked_dataset, open_hdf5
from ._records import StrPath

BASE_URL = "http://ann-benchmarks.com/"

NAMES = ("deep-image-96-angular", "sift-128-euclidean", "glove-100-angular", "glove-25-angular")

_METRICS = {"angular": "cosine", "euclidean": "l2", "dot": "ip", "ip": "ip"}


@dataclass(frozen=True)
class Benchmark:
    """A set to measure on: vectors, queries, and the true nearest of each query, nearest first.

    `neighbors` are row numbers in `train` and `distances` are as the file has them (for `cosine`: 1 - cosine), both of
    shape (queries, k); None when the file does not have them.
    """

    name: str
    metric: str
    train: F32
    test: F32
    neighbors: npt.NDArray[np.int64] | None
    distances: F32 | None


def data_folder() -> Path:
    """Where downloads are kept: LETHEVEC_DATA, or the folder `lethevec` in the user's cache (XDG_CACHE_HOME)."""
    given = os.environ.get("LETHEVEC_DATA")
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules say that a relative path is to be ignored.
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "lethevec"


def download(name: str, *, folder: StrPath | None = None, sha256: str | None = None, base_url: str = BASE_URL) -> Path:
    """Fetch one of `NAMES` into `folder` (default `data_folder()`), unless it is there, and return its path.

    Downloads show progress and resume where they stopped. A file that is there is verified against the checksum
    recorded at its first download, and against `sha256` when it is given.
    """
    if name not in NAMES:
        raise ParameterError(f"name: expected one of {', '.join(NAMES)}, got {shown(name)}")
    target = Path(folder) if folder is not None else data_folder()
    return fetch(f"{base_url.rstrip('/')}/{name}.hdf5", target / f"{name}.hdf5", sha256=sha256)


def load(name: str, *, folder: StrPath | None = None, sha256: str | None = None, base_url: str = BASE_URL) -> Benchmark:
    """Read one of the paper's sets by name; it is downloaded first if need be."""
    return read_benchmark(download(name, folder=folder, sha256=sha256, base_url=base_url))


def read_benchmark(path: StrPath) -> Benchmark:
    """Read an HDF5 file in the layout of ann-benchmarks, whatever types it stores, as float32."""
    path = Path(path)
    try:
        with open_hdf5(path) as file:
            kind = file.attrs.get("distance")
            if isinstance(kind, bytes):
                kind = kind.decode("utf-8")
            if not isinstance(kind, str) or kind not in _METRICS:
                raise FormatError(
                    f"{path}: expected the attribute distance to be one of {', '.join(_METRICS)}, got {kind!r}"
                )
            train = _vectors(path, "train", checked_dataset(path, file, "train")[:], None)
            test = _vectors(path, "test", checked_dataset(path, file, "test")[:], train.shape[1])
            neighbors = distances = None
            if "neighbors" in file:
                neighbors = checked_dataset(path, file, "neighbors")[:]
            if "distances" in file:
                distances = checked_dataset(path, file, "distances")[:].astype(np.float32, copy=False)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
    for name, array in (("neighbors", neighbors), ("distances", distances)):
        if array is not None and len(array) != len(test):
            raise FormatError(
                f"{path}, dataset {shown(name)}: expected {len(test)} rows, one for each query, got {len(array)}"
            )
    if distances is not None and not np.isfinite(distances).all():
        raise FormatError(f"{path}, dataset 'distances': expected finite numbers, got others")
    return Benchmark(path.stem, _METRICS[kind], train, test, _row_numbers(path, neighbors, len(train)), distances)


def _vectors(path: Path, name: str, values: npt.NDArray[np.generic], dim: int | None) -> F32:
    try:
        return as_vectors(values, values.shape[1] if dim is None else dim, name=f"{path}, dataset {shown(name)}")
    except VectorError as error:
        raise FormatError(str(error)) from None


def _row_numbers(path: Path, neighbors: npt.NDArray[np.generic] | None, n: int) -> npt.NDArray[np.int64] | None:
    if neighbors is None:
        return None
    where = f"{path}, dataset 'neighbors'"
    if neighbors.dtype.kind not in "iu":
        raise FormatError(f"{where}: expected whole numbers, got dtype {neighbors.dtype}")
    if neighbors.min() < 0 or neighbors.max() >= n:
        raise FormatError(
            f"{where}: expected row numbers from 0 to {n - 1}, got {neighbors.min()} to {neighbors.max()}"
        )
    return neighbors.astype(np.int64)
