"""Fixtures that every part of the suite may use."""
# ruff: noqa: E402 (the environment is set before NumPy is imported)

from __future__ import annotations

import os

# Before NumPy is imported: the suite runs in one process per core, and a linear-algebra library that starts a thread
# per core in each of them spends its time waiting for itself (svd of a 128 x 128 matrix: 15 times slower).
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import subprocess
import sys
from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="session")
def seen_in_process() -> Callable[..., tuple[set[str], set[str]]]:
    """Look for patterns in the memory of a child process, from outside, so that they are not in it by our own doing.

    The child is Python code with arguments. It calls `pause("before")` and `pause("after")` and waits there; the answer
    is which of the patterns were found at the one and at the other.
    """
    return _seen_in_process


PAUSE = """
def pause(what):
    import sys
    print(what, flush=True)
    sys.stdin.readline()
"""


def _seen_in_process(code: str, *arguments: object, needles: dict[str, bytes]) -> tuple[set[str], set[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", PAUSE + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"OPENBLAS_NUM_THREADS": "1", **{k: v for k, v in os.environ.items() if k == "LETHEVEC_ISA"}},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "before\n"
        before = _patterns_in(child.pid, needles)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "after\n"
        return before, _patterns_in(child.pid, needles)
    finally:
        child.stdin.close()
        child.wait(30)
        child.stdout.close()


def _patterns_in(pid: int, needles: dict[str, bytes]) -> set[str]:
    """Those that are somewhere in the writable memory of a process, freed buffers included."""
    found: set[str] = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            where, rights, *_ = line.split()
            if rights.startswith("rw"):
                begin, end = (int(edge, 16) for edge in where.split("-"))
                memory.seek(begin)
                content = memory.read(end - begin).strip(b"\0")  # most of it was never touched
                found |= {name for name, needle in needles.items() if needle in content}
    return found
