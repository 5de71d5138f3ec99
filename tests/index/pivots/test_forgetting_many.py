"""To forget half of the records at once costs about what it costs to build an index of the other half.

CPU time, the least of a few turns: a machine that is busy with something else does not change it much, and the limit is
far from what is found. When every record that left a cell was worked through by itself, it was twenty times as much.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

import lethevec

DIM, RECORDS, TURNS = 64, 20_000, 5
MOST = 6.0  # times as much as building; about 1 is found


@pytest.mark.parametrize("layout", ["spread", "one cluster"])
def test_half_of_the_records(layout):
    x = np.random.default_rng(0).normal(size=(RECORDS, DIM)).astype(np.float32)
    half = RECORDS // 2
    if layout == "one cluster":
        x[:half] = x[0] + np.float32(0.05) * x[:half]

    def made(begin: int) -> lethevec.Index:
        index = lethevec.Index(DIM, "l2", source=lethevec.Pivots(refine=True))
        index.add(x[begin:], ids=np.arange(begin, RECORDS))
        return index

    built, forgot = [], []
    for _ in range(TURNS):
        began = time.process_time()
        survivors = made(half)
        built.append(time.process_time() - began)
        whole = made(0)
        began = time.process_time()
        whole.forget(np.arange(half))
        forgot.append(time.process_time() - began)
        assert whole.digest() == survivors.digest()
        assert whole.search(x[-9:], k=5).ids.tolist() == survivors.search(x[-9:], k=5).ids.tolist()
    assert min(forgot) < MOST * min(built)
