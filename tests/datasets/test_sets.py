"""The bundled words, benchmark files, and where downloads are kept."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from lethevec import datasets
from lethevec.errors import ParameterError


def test_words() -> None:
    names, vectors = datasets.words()
    assert len(names) == len(set(names)) == 20_000
    assert all(isinstance(name, str) and name.isalpha() for name in names)
    assert vectors.shape == (20_000, 100)
    assert vectors.dtype == np.float32
    assert vectors.flags.writeable


def test_words_mean_something() -> None:
    """The neighbours of a word are words like it: names and vectors belong together."""
    names, vectors = datasets.words()
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = {names[i] for i in np.argsort(-unit @ unit[names.index("paris")])[:10]}
    assert {"paris", "france", "london"} <= nearest


def write_benchmark(path: Path, distance: object, dtype: str = "f4", truth: bool = True) -> None:
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        file.attrs["distance"] = distance
        file.create_dataset("train", data=rng.integers(0, 100, (40, 6)).astype(dtype), compression="gzip")
        file.create_dataset("test", data=rng.integers(0, 100, (3, 6)).astype(dtype))
        if truth:
            file["neighbors"] = np.arange(15, dtype=np.int32).reshape(3, 5)
            file["distances"] = np.linspace(0, 1, 15).reshape(3, 5)


@pytest.mark.parametrize(("distance", "metric"), [("angular", "cosine"), ("euclidean", "l2"), (np.bytes_("dot"), "ip")])
@pytest.mark.parametrize("dtype", ["f2", "u1", "f4", "f8"])
def test_benchmark_file(tmp_path: Path, distance: object, metric: str, dtype: str) -> None:
    write_benchmark(tmp_path / "toy-6.hdf5", distance, dtype)
    toy = datasets.read_benchmark(tmp_path / "toy-6.hdf5")
    assert (toy.name, toy.metric) == ("toy-6", metric)
    assert toy.train.dtype == toy.test.dtype == np.float32
    assert toy.train.shape == (40, 6)
    assert toy.test.shape == (3, 6)
    assert toy.neighbors is not None
    assert toy.neighbors.dtype == np.int64
    np.testing.assert_array_equal(toy.neighbors, np.arange(15).reshape(3, 5))
    assert toy.distances is not None
    assert toy.distances.dtype == np.float32


def test_benchmark_file_without_truth(tmp_path: Path) -> None:
    write_benchmark(tmp_path / "toy.hdf5", "angular", truth=False)
    toy = datasets.read_benchmark(tmp_path / "toy.hdf5")
    assert toy.neighbors is None
    assert toy.distances is None


def test_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LETHEVEC_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert datasets.data_folder() == tmp_path / "home/.cache/lethevec"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert datasets.data_folder() == tmp_path / "home/.cache/lethevec"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert datasets.data_folder() == tmp_path / "xdg/lethevec"
    monkeypatch.setenv("LETHEVEC_DATA", "~/mine")
    assert datasets.data_folder() == tmp_path / "home/mine"


def test_unknown_set() -> None:
    with pytest.raises(ParameterError, match=r"deep-image-96-angular, .* got 'mnist'"):
        datasets.load("mnist")


def test_public_names() -> None:
    public = {name for name in vars(datasets) if not name.startswith("_")} - {"annotations"}
    assert public == set(datasets.__all__)
