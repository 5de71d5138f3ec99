"""Calls leave nothing of a record or a query in the wide registers of the CPU.

What is there goes to the stack as soon as somebody saves registers (the dynamic linker does, at first calls), and stays
there: `test_process_memory.py` found it. Registers are read right after a call returns to Python, which uses few.
"""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec._native import core

DIM, ROW = 64, 37

CALLS = {
    "add": lambda index, x: index.add(x[ROW:], ids=range(1000, 1000 + len(x) - ROW)),
    "add one": lambda index, x: index.add(x[ROW], ids=[1000]),
    "update": lambda index, x: index.update(x[ROW], ids=[3]),
    "forget": lambda index, x: index.forget([ROW]),
    "get": lambda index, x: index.get([ROW]),
    "vectors": lambda index, x: index.vectors([ROW]),
    "search": lambda index, x: index.search(x[ROW], k=3),
    "search of many": lambda index, x: index.search(x, k=3, allow=range(60)),
    "search_radius": lambda index, x: index.search_radius(x[ROW], 3.0),
    "digest": lambda index, x: index.digest(),
    "codes": lambda index, x: lethevec.hasher("usr", dim=DIM, bits=128).codes(x[ROW]),
}


def test_registers_can_be_read():
    assert len(core.testing.registers()) >= 16 * 16


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("source", ["scan", "tables", "pivots"])
@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_left_in_the_registers(source, call):
    x = np.random.default_rng(5).normal(size=(ROW + 1, DIM)).astype(np.float32)
    index = lethevec.Index(DIM, metric="l2", source=source)
    index.add(x, ids=range(len(x)))
    CALLS[call](index, x)
    held = core.testing.registers()
    assert not [at for at in range(0, 4 * DIM - 16, 4) if x[ROW].tobytes()[at : at + 16] in held]
