"""Small data sets, and runs into a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lethevec.bench import THREAD_VARIABLES
from lethevec.bench.measuring import data as sets
from lethevec.bench.measuring.data import Data


def line_data(n: int = 40, metric: str = "l2") -> Data:
    """Points 0, 1, 2, ... on a line, and two queries on points of it; the queries for tuning are two others."""
    train = np.stack([np.arange(float(n)), np.zeros(n)], axis=1).astype(np.float32)
    return sets.with_truth("line", metric, train, train[[10, 0]].copy(), train[[20, 5]].copy(), k=20)


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the process that a run is started in, so that it does not start another."""
    for name in THREAD_VARIABLES:
        monkeypatch.setenv(name, "1")


@pytest.fixture
def toy(tmp_path: Path) -> Callable[..., str]:
    """Writes a small file in the layout of ann-benchmarks, clustered points of 16 numbers, and gives its path."""
    h5py = pytest.importorskip("h5py")

    def write(name: str, kind: str, records: int = 600, queries: int = 80) -> str:
        rng = np.random.default_rng(1)
        n = records + queries
        points = rng.standard_normal((30, 16))[rng.integers(0, 30, n)] + 0.5 * rng.standard_normal((n, 16))
        with h5py.File(tmp_path / name, "w") as file:
            file.attrs["distance"] = kind
            file["train"], file["test"] = points[:records], points[records:]
        return str(tmp_path / name)

    return write
