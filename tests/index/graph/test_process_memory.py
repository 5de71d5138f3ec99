"""A record that an index with a graph forgot, looked for in the whole memory of a process, freed buffers included.

As with pivots: a child process adds and forgets, and waits; this process then reads every writable page of it.
"""

from pathlib import Path

import numpy as np
import pytest

from lethevec import Graph, Index, reference

pytestmark = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux's /proc")
DIM, RECORDS = 64, 400

CHILD = r"""
import sys
import numpy as np
import lethevec

x = np.lib.format.open_memmap(sys.argv[1], mode="r")
folder, row = sys.argv[2], int(sys.argv[3])
ids = np.arange(len(x))


def make(metric):
    return lethevec.Index(x.shape[1], metric=metric, source=lethevec.Graph(cell_size=10, cells=6, pool=30))

exec(sys.argv[4])
pause("after")
"""

ADD = "index = make(metric); index.add(x, ids=ids)"
CASES = {
    "forget": (ADD, "index.forget(row)"),
    "in a batch": (ADD, "index.forget(np.arange(row - 20, row + 20))"),
    "built again": (ADD, "index.forget(np.arange(row - 80, row + 80))"),
    "update": (ADD, "index.update(-x[:1], ids=[row])"),
    "one by one": ("index = make(metric)\nfor i in ids: index.add(x[i], ids=[i])", "index.forget(row)"),
    "searches": (f"{ADD}; index.search(x[:20] + 1, k=20); index.search(x[:9] + 1, effort=0.1)", "index.forget(row)"),
    "the index itself": (ADD, "del index"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    x = np.random.default_rng(11).normal(size=(RECORDS, DIM)).astype(np.float32)
    path = tmp_path_factory.mktemp("data") / "x.npy"
    np.save(path, x)
    return x, path


def pieces(row, label):
    """The ends and the middle: what is left of a half-overwritten copy is found too."""
    return {f"{label} at {at}": row[at : at + 5].tobytes() for at in (0, DIM // 2, DIM - 5)}


def patterns(tools, x, row, metric):
    """The vector, and what is computed from it: direction, residual, its code, rotated coordinates, the hash."""
    index = Index(DIM, metric=metric, source=Graph(cell_size=10, cells=6, pool=30))
    made = tools.Spec(index.config, np.arange(RECORDS), x).made
    v = next(v for v, rows in enumerate(made.rows) if row in rows)
    frame = made.settings.frame
    r = made.z[made.lists[v]] - made.z[v]
    return {
        **pieces(x[row], "vector"),
        **pieces(x[row].astype(np.float64), "float64"),
        **pieces(reference.directions(x)[row], "direction"),
        **pieces(reference.superbit(frame, made.z[v : v + 1], DIM)[0], "rotated"),
        **pieces(r[0], "residual"),
        **pieces(-r[0], "residual from the neighbour"),
        **pieces(reference.superbit(frame, r[:1], DIM)[0], "residual, rotated"),
        "code": made.codes[v].codes[0].tobytes(),
        "hash": int(made.hashes[v]).to_bytes(8, "little"),
    }


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_left_in_the_process(tools, data, seen_in_process, tmp_path, case):
    x, path = data
    number = list(CASES).index(case)
    metric = ["cosine", "l2"][number % 2]
    row = 100 + number
    needles = patterns(tools, x, row, metric)
    before, after = CASES[case]
    steps = f"metric = {metric!r}\n{before}\npause('before')\n{after}"
    there, left = seen_in_process(CHILD, path, tmp_path, row, steps, needles=needles)
    assert {name for name in there if name.startswith("vector")} == set(pieces(x[row], "vector"))
    assert left == set()
