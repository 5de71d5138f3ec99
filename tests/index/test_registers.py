"""Calls leave nothing of a record or a query in the wide registers of the CPU, nor on the stack.

What is in registers goes to the stack as soon as somebody saves them (the dynamic linker does, at first calls), and
stays there: `test_process_memory.py` found it. Registers are read right after a call returns to Python, which uses few.
Of the stack so much is cleared as the deepest calls take: how much they take is seen by painting it before.
"""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec._native import core

DIM, ROW = 64, 37
SOURCES = ["scan", "tables", "pivots", "graph"]

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
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_left_in_the_registers(source, call):
    x = np.random.default_rng(5).normal(size=(ROW + 1, DIM)).astype(np.float32)
    index = lethevec.Index(DIM, metric="l2", source=source)
    index.add(x, ids=range(len(x)))
    CALLS[call](index, x)
    held = core.testing.registers()
    assert not [at for at in range(0, 4 * DIM - 16, 4) if x[ROW].tobytes()[at : at + 16] in held]


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize(("dim", "family"), [(8, {}), (200, {}), (96, {"family": "usr", "bits": 192}), (1100, {})])
def test_no_call_reaches_below_what_is_cleared(source, metric, dim, family):
    if family and source in ("pivots", "graph"):
        pytest.skip("these have codes of their own")
    x = np.random.default_rng(6).normal(size=(300, dim)).astype(np.float32)
    index = lethevec.Index(dim, metric, source=source, **family)
    native = index._native
    native.keep_fields(None)
    index.add(x, ids=range(len(x)))
    native.set_fields(np.arange(300), [f'{{"n": {n}, "text": "word {n % 7}"}}' for n in range(300)], None)
    others = core.testing.stack_of_others(native, x[0], 1000)
    forgets = [core.testing.stack_of_forget(native, id) for id in range(0, 300, 3)]
    for taken, cleared in [*others, *forgets]:
        assert 64 < taken <= cleared
    assert max(taken for taken, _ in others) > 4096  # the paint shows how far down they were
