"""A record that an index with pivots forgot, looked for in the whole memory of a process, freed buffers included.

A child process adds and forgets, and waits; this process then reads every writable page of it. Looking from outside
keeps the patterns out of the memory that is searched. The data reach the child as a file that is mapped read-only.
"""

from pathlib import Path

import numpy as np
import pytest

from lethevec import Pivots, reference

pytestmark = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux's /proc")
DIM, RECORDS = 64, 400

CHILD = r"""
import sys
import numpy as np
import lethevec

x = np.lib.format.open_memmap(sys.argv[1], mode="r")
folder, row = sys.argv[2], int(sys.argv[3])
ids = np.arange(len(x))


def make(refine, **arguments):
    return lethevec.Index(x.shape[1], source=lethevec.Pivots(cell_size=10, refine=refine), **arguments)

exec(sys.argv[4])
pause("after")
"""

ADD = "index = make(metric=metric, refine=refine); index.add(x, ids=ids)"
# What a case does before and after the record is seen to be there.
CASES = {
    "forget": (ADD, "index.forget(row)"),
    "in a batch": (ADD, "index.forget(np.arange(row - 50, row + 50))"),
    "update": (ADD, "index.update(-x[:1], ids=[row])"),
    "one by one": (
        "index = make(metric=metric, refine=refine)\nfor i in ids: index.add(x[i], ids=[i])",
        "index.forget(row)",
    ),
    "searches": (f"{ADD}; index.search(x[:20] + 1, k=50); index.search(x[:9] + 1, effort=0.1)", "index.forget(row)"),
    "load": (
        f"{ADD}; index.save(folder + '/s'); del index; index = lethevec.Index.load(folder + '/s')",
        "index.forget(row)",
    ),
    "the index itself": (ADD, "del index"),
}
# Nothing is done there that one kind of record does not show for both.
LEFT_OUT = {("in a batch", "other"), ("searches", "pivot"), ("load", "other"), ("the index itself", "pivot")}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    x = np.random.default_rng(11).normal(size=(RECORDS, DIM)).astype(np.float32)
    path = tmp_path_factory.mktemp("data") / "x.npy"
    np.save(path, x)
    return x, path


def pieces(row, label):
    """The ends and the middle: what is left of a half-overwritten copy is found too."""
    return {f"{label} at {at}": row[at : at + 5].tobytes() for at in (0, DIM // 2, DIM - 5)}


def patterns(tools, x, row, metric, refine):
    """The vector, and what is computed from it: direction, residual, its code, and rotated coordinates."""
    from lethevec import Index

    index = Index(DIM, metric=metric, source=Pivots(cell_size=10, refine=refine))
    made = tools.Spec(index.config, np.arange(RECORDS), x).made
    z = reference.directions(x) if metric == "cosine" else x
    r = z[row] - made.cells.origins[made.cells_of[row]]
    frame = made.settings.frame
    needles = {
        **pieces(x[row], "vector"),
        **pieces(x[row].astype(np.float64), "float64"),
        **pieces(reference.directions(x)[row], "direction"),
        **pieces(reference.analysis(frame, z[row : row + 1])[0, :DIM], "rotated"),
        "code": made.records.codes[row].tobytes(),
    }
    if r.any():  # a record that is alone in its cell is its origin
        needles |= {**pieces(r, "residual"), **pieces(reference.directions(r[None])[0], "residual's direction")}
        needles |= pieces(reference.analysis(frame, reference.directions(r[None]))[0, :DIM], "residual, rotated")
    else:
        del needles["code"]
    return needles


KINDS = [(case, kind) for case in CASES for kind in ("pivot", "other") if (case, kind) not in LEFT_OUT]


@pytest.mark.parametrize(("case", "kind"), KINDS)
def test_nothing_is_left_in_the_process(tools, data, seen_in_process, tmp_path, case, kind):
    x, path = data
    number = list(CASES).index(case)
    metric, refine = ["cosine", "l2", "ip"][number % 3], number // 3 % 2 == 1
    pivots = np.flatnonzero(reference.is_pivot(np.arange(RECORDS), reference.default_pivot_key(0), 10))
    within = np.arange(100, 300)
    row = int(np.intersect1d(within, pivots)[0] if kind == "pivot" else np.setdiff1d(within, pivots)[37])
    needles = patterns(tools, x, row, metric, refine)
    before, after = CASES[case]
    steps = f"metric, refine = {metric!r}, {refine}\n{before}\npause('before')\n{after}"
    there, left = seen_in_process(CHILD, path, tmp_path, row, steps, needles=needles)
    assert {name for name in there if name.startswith("vector")} == set(pieces(x[row], "vector"))
    assert left == set()
