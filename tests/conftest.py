"""Fixtures that every part of the suite may use."""
# ruff: noqa: E402 (the environment is set before NumPy is imported)

from __future__ import annotations

import os

# Before NumPy is imported: the suite runs in one process per core, and a linear-algebra library that starts a thread
# per core in each of them spends its time waiting for itself (svd of a 128 x 128 matrix: 15 times slower).
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import lethevec
from lethevec._native import core

F32 = npt.NDArray[np.float32]


@pytest.fixture(params=core.supported_isas())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the test once with each instruction set that this machine has, and puts back the one that was in use."""
    before = core.active_isa()
    core.use_isa(request.param)
    try:
        yield request.param
    finally:
        core.use_isa(before)


@pytest.fixture(scope="session")
def word_vectors() -> F32:
    """The bundled GloVe vectors, (20000, 100), most frequent word first, as they are."""
    path = Path(lethevec.__file__).parent / "datasets" / "words-20k-glove-100.npz"
    with np.load(path) as archive:
        vectors: F32 = archive["vectors"].astype(np.float32)
    return vectors


@pytest.fixture(scope="session")
def unit_words(word_vectors: F32) -> F32:
    """The same, of length 1: what the cosine metric searches."""
    units: F32 = word_vectors / np.linalg.norm(word_vectors, axis=1, keepdims=True)
    return units
