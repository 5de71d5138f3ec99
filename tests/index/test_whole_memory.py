"""Ids, queries and answers in the whole memory of a process, for every source, metric and instruction set.

A record is added with an id that is like no other eight bytes, found by searches, and forgotten; somebody asks for a
vector that is in no index. Then another process reads every writable page. What the caller owns (the arrays of an
answer) the case wipes, as a careful caller would; ids and vectors reach it as files that are mapped read-only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lethevec import cpu_info
from lethevec.reference.kept_form import packed, rounded

pytestmark = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux's /proc")
DIM, RECORDS, ROW = 36, 700, 333  # a query of 144 bytes: its end fills no wide register

CHILD = r"""
import sys
import numpy as np
import lethevec

x, q, ids = (np.lib.format.open_memmap(f"{sys.argv[1]}/{name}.npy", mode="r") for name in ("x", "q", "ids"))
ROW = int(sys.argv[2])
exec(sys.argv[3])
pause("after")
"""

SOURCES = {
    "scan": "'scan'",
    "hamming": "'scan', ranking='hamming'",
    "tables": "lethevec.Tables(key_bits=3)",
    "pivots": "lethevec.Pivots(cell_size=9)",
    "refined": "lethevec.Pivots(cell_size=9, refine=True)",
    "graph": "lethevec.Graph()",
    "auto": "lethevec.Auto(pivots_from=650)",
    "codes": "'scan', keep_vectors=False",
    "int8": "'scan', keep_vectors='int8'",
    "float16 pivots": "lethevec.Pivots(cell_size=9), keep_vectors='float16'",
    "usr": "'scan', family='usr', bits=72, steps=2",
}

BEFORE = """
indexes = []
for metric in {metrics}:
    index = lethevec.Index(x.shape[1], metric, source={source})
    index.add(x, ids=ids)
    indexes.append(index)
pause("before")
"""

AFTER = """
def ask(index, query):
    for hits in (index.search(query, k=3), index.search(query, k=20, effort=0.2), index.search(query, k=3, threads=2)):
        hits.ids.fill(0)
        hits.distances.fill(0)
    del hits

for index in indexes:
    for query in (q[0], np.asarray(q[0]), np.asarray(q), x[ROW], np.asarray(x[ROW : ROW + 1])):
        ask(index, query)
    hits = index.search_radius(x[ROW], 1.0)
    hits.ids.fill(0)
    hits.distances.fill(0)
    del hits
    index.digest()
    index.forget(ids[ROW : ROW + 1])
    index.forget(ids[ROW + 1 : ROW + 90])
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(17)
    folder = tmp_path_factory.mktemp("data")
    x = rng.normal(size=(RECORDS, DIM)).astype(np.float32)
    q = rng.normal(size=(3, DIM)).astype(np.float32)
    ids = rng.integers(1 << 60, 1 << 62, RECORDS)
    for name, array in (("x", x), ("q", q), ("ids", ids)):
        np.save(folder / f"{name}.npy", array)
    return folder, x, q, ids


def windows(data: bytes, label: str, size: int = 16, step: int = 16) -> dict[str, bytes]:
    return {f"{label} at {at}": data[at : at + size] for at in range(0, len(data) - size + 1, step)}


@pytest.mark.parametrize("isa", cpu_info().supported)
@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_left(data, seen_in_process, monkeypatch, source, isa):
    folder, x, q, ids = data
    monkeypatch.setenv("LETHEVEC_ISA", isa)
    needles = {f"id {row}": ids[row].tobytes() for row in (ROW, ROW + 1, ROW + 50)}
    needles |= windows(x[ROW].tobytes(), "vector") | windows(q[0].tobytes(), "query") | windows(q[2].tobytes(), "last")
    unit = (x[ROW] / np.linalg.norm(x[ROW])).astype(np.float32)
    if form := next((form for form in ("int8", "float16") if form in source), None):
        kept = rounded(form, x[ROW : ROW + 1])
        needles |= windows(kept.tobytes(), "rounded") | windows(packed(form, kept), "kept")
    needles |= windows(unit.tobytes()[:64], "direction")
    steps = (
        BEFORE.format(source=SOURCES[source], metrics=("cosine", "l2") if source == "graph" else ("cosine", "l2", "ip"))
        + AFTER
    )
    there, left = seen_in_process(CHILD, folder, ROW, steps, needles=needles)
    assert {f"id {row}" for row in (ROW, ROW + 1, ROW + 50)} <= there
    assert left == set()
