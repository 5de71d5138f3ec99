"""Hundreds of damaged stores: bits, rows, their order, the log behind right checksums, the keys.

LETHEVEC_FUZZ=20 tries 20 times as many.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lethevec

TIMES = int(os.environ.get("LETHEVEC_FUZZ", "1"))
DRIVER = Path(__file__).with_name("damaging.py")
KINDS = ["bits", "rows", "order", "log", "killed", "keys"]

KILLED = """
import os, sys, numpy as np, lethevec
db = lethevec.open(sys.argv[1], dim=6, metric="l2", encrypt=sys.argv[2] == "True")
x = np.random.default_rng(2).normal(size=(60, 6)).astype(np.float32)
db.add(x, ids=range(60), subjects="s", payloads=[{"n": i} for i in range(60)])
db.forget([3])
db.add(x[:9], ids=[f"name {i}" for i in range(9)])
os._exit(0)
"""


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "sealed"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    with lethevec.open(folder / "people.lethe", dim=6, metric="l2", encrypt=request.param) as db:
        x = np.random.default_rng(1).normal(size=(300, 6)).astype(np.float32)
        payloads = [{"n": i, "text": "x" * (i % 7 * 1000)} for i in range(200)]
        db.add(x[:200], ids=range(200), subjects=[f"person {i % 5}" for i in range(200)], payloads=payloads)
        db.add(x[200:], ids=[f"name {i}" for i in range(100)])
        db.forget([3])
        db.forget(subject="person 2")
    subprocess.run([sys.executable, "-c", KILLED, folder / "killed.lethe", str(request.param)], check=True, timeout=60)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_hangs_or_escapes(folder, kind):
    done = subprocess.run(
        [sys.executable, DRIVER, folder, "1", str(25 * TIMES), kind],
        capture_output=True,
        text=True,
        timeout=120 * max(1, TIMES),
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-3000:]}"
