"""A forgotten record is looked for in the whole memory of a process: its float32 bytes, its float64 bytes, its code.

A child process adds, forgets, wipes what was its own, and waits; this process then reads every writable page of it.
Looking from outside keeps the pattern itself out of the memory that is searched. Each case first shows that the search
finds the record while it is there. The data reach the child as a file that is mapped read-only, so the only writable
copies are those that lethevec makes and those that the case makes and wipes, as a careful caller would.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lethevec
from lethevec.reference.kept_form import packed, rounded

pytestmark = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux's /proc")
DIM, RECORDS, ROW = 64, 300, 137

CHILD = r"""
import os, sys
import numpy as np
import lethevec

x = np.lib.format.open_memmap(sys.argv[1], mode="r")
folder = sys.argv[2]
ids = np.arange(len(x))
ROW = int(sys.argv[3])


def make(**arguments):
    return lethevec.Index(x.shape[1], **arguments)

exec(sys.argv[4])
pause("after")
"""

# What a case does before and after the record is seen to be there. `index` must hold record ROW at the pause.
CASES = {
    "float32": ("index = make(); index.add(x, ids=ids)", "index.forget(ROW)"),
    "in a batch": ("index = make(); index.add(x, ids=ids)", "index.forget(ids[100:200])"),
    "l2": ("index = make(metric='l2'); index.add(x, ids=ids)", "index.forget(ROW)"),
    "hamming": ("index = make(ranking='hamming'); index.add(x, ids=ids)", "index.forget(ROW)"),
    "one by one": ("index = make()\nfor i in ids: index.add(x[i], ids=[i])", "index.forget(ROW)"),
    "two threads": (
        "index = make(); big = np.resize(x, (6000, x.shape[1])); big[300:] += 1\n"
        "index.add(big, ids=range(6000), threads=2); big.fill(0)",
        "index.forget(ROW)",
    ),
    "float64": ("index = make(); y = x.astype(np.float64); index.add(y, ids=ids); y.fill(0)", "index.forget(ROW)"),
    "float64, one": (
        "index = make(); y = x[ROW].astype(np.float64); index.add(y, ids=[ROW]); y.fill(0)",
        "index.forget(ROW)",
    ),
    "other byte order": ("index = make(); y = x.astype('>f4'); index.add(y, ids=ids); y.fill(0)", "index.forget(ROW)"),
    "Fortran order": (
        "index = make(); y = np.asfortranarray(x); index.add(y, ids=ids); y.fill(0)",
        "index.forget(ROW)",
    ),
    "lists": ("index = make(); y = x.tolist(); index.add(y, ids=ids); del y", "index.forget(ROW)"),
    "a list": ("index = make(); y = x[ROW].tolist(); index.add(y, ids=[ROW]); del y", "index.forget(ROW)"),
    "update": ("index = make(); index.add(x, ids=ids)", "index.update(x[:1] + 1, ids=[ROW])"),
    "usr": ("index = make(metric='l2', family='usr', bits=128); index.add(x, ids=ids)", "index.forget(ROW)"),
    "usr, crossing a step": (
        "index = make(metric='l2', family='usr', bits=128); index.add(x, ids=ids)",
        "index.forget(ROW); index.add(1000 * x[:100], ids=range(1000, 1100)); index.forget(range(1000, 1100))",
    ),
    "usr, update": (
        "index = make(metric='l2', family='usr', bits=128); index.add(x, ids=ids)",
        "index.update(x[:1] + 1, ids=[ROW])",
    ),
    "usr, in batches": (
        "index = make(metric='ip', family='usr', bits=128)\nfor part in np.split(ids, 6): index.add(x[part], ids=part)",
        "index.forget(ids[100:150])",
    ),
    "usr, refused before": (
        "index = make(metric='l2', family='usr', bits=128); index.add(x, ids=ids)\n"
        "for bad in ([*range(100, 200), 10**9], [*range(100, 200), ROW], [ROW, 10**9]):\n"
        "    try: index.forget(bad)\n"
        "    except lethevec.errors.IdError: pass",
        "index.forget(ROW)",
    ),
    "refused add": (
        "index = make(); index.add(x, ids=ids)\n"
        "y = x.astype(np.float64)\n"
        "try: index.add(y, ids=ids + 1)\n"
        "except lethevec.errors.IdError: y.fill(0)",
        "index.forget(ROW)",
    ),
    "digest": ("index = make(); index.add(x, ids=ids); index.digest()", "index.forget(ROW); index.digest()"),
    "get": ("index = make(); index.add(x, ids=ids); y = index.vectors(ids); y.fill(0)", "index.forget(ROW)"),
    "searches": (
        "index = make(); index.add(x, ids=ids); index.search(x[:20] + 1, k=50); index.search_radius(x[:3] + 1, 9.0)",
        "index.forget(ROW)",
    ),
    "the query": (
        "index = make(metric='l2'); index.add(x, ids=ids)",
        "index.forget([ROW]); index.search(x[ROW]); index.search_radius(x[ROW], 9.0)",
    ),
    # Of a memmap, which is a subclass, a search makes an array first; of an array it does not.
    "the query, an array": (
        "index = make(metric='l2'); index.add(x, ids=ids)",
        "index.forget([ROW]); index.search(np.asarray(x[ROW])); index.search(np.asarray(x[ROW : ROW + 1]), threads=2)",
    ),
    "the query, an array, pivots": (
        "index = make(metric='l2', source=lethevec.Pivots(cell_size=9)); index.add(x, ids=ids)",
        "index.forget([ROW]); index.search(np.asarray(x[ROW]))",
    ),
    "the query, an array, tables": (
        "index = make(metric='l2', source=lethevec.Tables(key_bits=3)); index.add(x, ids=ids)",
        "index.forget([ROW]); index.search(np.asarray(x[ROW]))",
    ),
    "the query, hamming": (
        "index = make(metric='l2', ranking='hamming'); index.add(x, ids=ids)",
        "index.forget([ROW]); index.search(x[ROW - 3 : ROW + 1]); index.search_radius(x[ROW], 9.0)",
    ),
    "the query, pivots": (
        "index = make(metric='l2', source=lethevec.Pivots(cell_size=9)); index.add(x, ids=ids)",
        "index.forget([ROW]); index.search(x[ROW]); index.search_radius(x[ROW], 9.0)",
    ),
    "save": ("index = make(); index.add(x, ids=ids); index.save(folder + '/s')", "index.forget(ROW)"),
    "save of few": (
        "index = make(); index.add(x[ROW - 9 : ROW + 1], ids=ids[ROW - 9 : ROW + 1]); index.save(folder + '/s')",
        "index.forget(ROW)",
    ),
    "load": (
        "index = make(); index.add(x, ids=ids); index.save(folder + '/s'); del index\n"
        "index = lethevec.Index.load(folder + '/s')",
        "index.forget(ROW)",
    ),
    "load of few": (
        "index = make(); few = slice(ROW - 9, ROW + 1)\n"
        "index.add(x[few], ids=ids[few]); index.save(folder + '/s'); del index\n"
        "index = lethevec.Index.load(folder + '/s')",
        "index.forget(ROW)",
    ),
    "the index itself": ("index = make(); index.add(x, ids=ids)", "del index"),
    "int8": ("index = make(keep_vectors='int8'); index.add(x, ids=ids)", "index.forget(ROW)"),
    "int8, updated": ("index = make(keep_vectors='int8'); index.add(x, ids=ids)", "index.update(-x[:1], ids=[ROW])"),
    "int8, searched": (
        "index = make(keep_vectors='int8', metric='l2'); index.add(x, ids=ids)",
        "index.search(x, k=20); index.search_radius(x[ROW], 9.0); index.vectors([ROW]).fill(0); index.forget(ROW)",
    ),
    "int8, loaded": (
        "index = make(keep_vectors='int8'); index.add(x, ids=ids); index.save(folder + '/s'); del index\n"
        "index = lethevec.Index.load(folder + '/s')",
        "index.forget(ROW)",
    ),
    "float16": ("index = make(keep_vectors='float16'); index.add(x, ids=ids)", "index.forget(ids[100:200])"),
    "float16, pivots": (
        "index = make(keep_vectors='float16', source=lethevec.Pivots(cell_size=9)); index.add(x, ids=ids)",
        "index.forget(ROW)",
    ),
    "float16, loaded": (
        "index = make(keep_vectors='float16'); index.add(x, ids=ids); index.save(folder + '/s'); del index\n"
        "index = lethevec.Index.load(folder + '/s')",
        "index.forget(ROW)",
    ),
    "in a file": ("index = make(vectors=folder + '/v'); index.add(x, ids=ids)", "index.forget(ROW)"),
    "in a file, pivots, updated": (
        "index = make(vectors=folder + '/v', source=lethevec.Pivots(cell_size=9)); index.add(x, ids=ids)",
        "index.update(x[:1] + 1, ids=[ROW])",
    ),
    "in a file, loaded": (
        "index = make(); index.add(x, ids=ids); index.save(folder + '/s'); del index\n"
        "index = lethevec.Index.load(folder + '/s', vectors=folder + '/v')",
        "index.forget(ids[100:200])",
    ),
    "in a file, the index itself": ("index = make(vectors=folder + '/v'); index.add(x, ids=ids)", "del index"),
    "codes": ("index = make(keep_vectors=False); index.add(x, ids=ids)", "index.forget(ROW)"),
    "codes, hamming": (
        "index = make(keep_vectors=False, ranking='hamming', bits=128); index.add(x, ids=ids)",
        "index.forget(ROW)",
    ),
    "codes, saved": (
        "index = make(keep_vectors=False); index.add(x, ids=ids); index.save(folder + '/s')",
        "index.forget(ROW)",
    ),
    "codes, loaded": (
        "index = make(keep_vectors=False); index.add(x, ids=ids); index.save(folder + '/s'); del index\n"
        "index = lethevec.Index.load(folder + '/s')",
        "index.forget(ROW)",
    ),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    x = np.random.default_rng(11).normal(size=(RECORDS, DIM)).astype(np.float32)
    path = tmp_path_factory.mktemp("data") / "x.npy"
    np.save(path, x)
    return x, path


def pieces(data: bytes, label: str, size: int = 24) -> dict[str, bytes]:
    """A few windows of the bytes: what is left of a half-overwritten copy is found too."""
    last = len(data) - size
    return {f"{label} at {at}": data[at : at + size] for at in (0, last // 3 // 8 * 8, last // 2 // 8 * 8, last)}


def code_of(case: str, x, row: int = ROW) -> bytes:
    """The packed code of a record, from an index of this process."""
    index = lethevec.Index(
        DIM, keep_vectors=False, **({"ranking": "hamming", "bits": 128} if "hamming" in case else {})
    )
    index.add(x[row], ids=[0])
    codes = np.empty((1, -(-index.config.bits // 8)), dtype=np.uint8)
    floats = np.empty(1, dtype=np.float32)
    index._native.export_codes(np.zeros(1, dtype=np.int64), codes, floats, floats.copy())
    return codes.tobytes()


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_left_in_the_process(data, seen_in_process, tmp_path, case):
    x, path = data
    before, after = CASES[case]
    needles = {**pieces(x[ROW].tobytes(), "float32"), **pieces(x[ROW].astype(np.float64).tobytes(), "float64")}
    present = "float32"
    form = case.partition(",")[0]
    if form in ("int8", "float16"):
        kept = rounded(form, x[ROW : ROW + 1])
        needles = {**needles, **pieces(kept.tobytes(), "rounded"), **pieces(packed(form, kept), "kept")}
        present = "kept"
    if case.startswith("codes"):
        # The first plane is stored byte by byte among 32 rows; the rest, and any copy of the whole, in one piece.
        needles = {**needles, "code, later planes": code_of(case, x)[8:], "code, first plane": code_of(case, x)[:8]}
        present = "code, later planes"
    if case == "codes, hamming":
        # Word by word among 32 rows, beside those of its neighbours.
        one, two, three = (np.frombuffer(code_of(case, x, row), np.uint32) for row in (ROW - 1, ROW, ROW + 1))
        for word in range(4):
            needles[f"word {word}, after"] = np.array([one[word], two[word]]).tobytes()
            needles[f"word {word}, before"] = np.array([two[word], three[word]]).tobytes()
        present = "word"
    steps = f"{before}\npause('before')\n{after}"
    there, left = seen_in_process(CHILD, path, tmp_path, ROW, steps, needles=needles)
    assert {name for name in there if name.startswith(present)} == {n for n in needles if n.startswith(present)}
    assert left == set()
