"""Where the size of cells is left open: the number of pivots follows the number of records, whatever the history."""

import numpy as np
import pytest

from lethevec import Index, Pivots, reference
from lethevec._native import core

DIM = 6
IDS = np.random.default_rng(3).permutation(10**6)[:4000].astype(np.int64)
X = np.random.default_rng(4).normal(size=(len(IDS), DIM)).astype(np.float32)


def made(ids, x, refine=False):
    index = Index(DIM, "l2", source=Pivots(refine=refine))
    index.add(x, ids=ids)
    return index


def pivots_of(index):
    key = reference.pivot_key(bytes.fromhex(index.config.source.key))
    ids = index.ids()
    return set(ids[reference.is_pivot(ids, key, 0, len(ids))].tolist())


@pytest.mark.parametrize("refine", [False, True])
def test_one_by_one_up_and_down(tools, refine):
    """So far down that the records that may become pivots have to be looked for again, and up so far that they are
    too many."""
    count = 400 if refine else 1500
    index = made(IDS[:40], X[:40], refine)
    for i in range(40, count):
        index.add(X[i : i + 1], ids=IDS[i : i + 1])
    tools.assert_same_state(tools.native_state(index), tools.native_state(made(IDS[:count], X[:count], refine)))
    assert index.stats()["pivots"] == len(pivots_of(index))
    for i in range(count - 30):
        index.forget(IDS[i])
        if i % 97 == 0:
            fresh = made(IDS[i + 1 : count], X[i + 1 : count], refine)
            tools.assert_same_state(tools.native_state(index), tools.native_state(fresh))
            assert index.stats()["pivots"] == len(pivots_of(index))
    fresh = made(IDS[count - 30 : count], X[count - 30 : count], refine)
    tools.assert_same_state(tools.native_state(index), tools.native_state(fresh))
    assert index.stats() == fresh.stats()


@pytest.mark.parametrize("refine", [False, True])
def test_many_at_a_time(tools, refine):
    rng = np.random.default_rng(8)
    index = made(IDS[:100], X[:100], refine)
    held = set(range(100))
    for count in (3000, -2500, 1200, -1700, 3000, -300, 20, -2):
        if count > 0:
            rows = rng.choice(sorted(set(range(len(IDS))) - held), min(count, len(IDS) - len(held)), replace=False)
            index.add(X[rows], ids=IDS[rows])
            held |= set(rows.tolist())
        else:
            rows = rng.choice(sorted(held), -count, replace=False)
            index.forget(IDS[rows])
            held -= set(rows.tolist())
        rows = np.array(sorted(held))
        tools.assert_same_state(tools.native_state(index), tools.native_state(made(IDS[rows], X[rows], refine)))


def test_a_change_moves_few_pivots():
    """Over all sizes up to two thousand, one record more changes two pivots at the most, beside itself."""
    key = reference.default_pivot_key(0)
    hashes = reference.siphash(key, np.arange(2000))
    limits = np.array([reference.pivot_limit(0, n) for n in range(2001)], dtype=np.uint64)
    assert (limits[1:] <= limits[:-1]).all()
    moved = [int(((hashes[:n] < limits[n]) & (hashes[:n] >= limits[n + 1])).sum()) for n in range(2000)]
    assert 50 < sum(moved) < 250
    assert max(moved) <= 2


def test_what_pivots_take():
    """What the documents compute for ten million records: a pivot takes 34 bytes for each number, a cell has room for
    less than 128 codes too many, and a record has its code. Lists have room for up to an eighth more."""
    dim, before = 256, np.inf
    code = 4 * dim // 8
    for count in (2000, 8000):
        x = np.random.default_rng(5).normal(size=(count, dim)).astype(np.float32)
        index = Index(dim, "l2", source=Pivots())
        index.add(x, ids=np.arange(count))
        stats = index.stats()
        pivots, rows = stats["pivots"], count + 4096  # places of rows are had together
        most = pivots * (34 * dim + 200) * 9 / 8 + (count + 127 * pivots) * (code + 36) + 12 * rows
        assert (count + pivots) * code < stats["bytes_cells"] <= most
        assert stats["bytes_per_record"] < before
        before = stats["bytes_per_record"]


@pytest.mark.parametrize(
    "change",
    {
        "tiny": lambda x: x * np.float32(1e-6),
        "huge": lambda x: x * np.float32(1e15),
        "as large as may be": lambda x: x * np.float32(1e17),
        "far from zero": lambda x: x + np.float32(1e5),
        "one large coordinate": lambda x: np.concatenate([x[:, :1] * np.float32(1e4), x[:, 1:]], axis=1),
        "few values": lambda x: np.round(x),
        "many sizes": lambda x: x * np.float32(10) ** np.round(3 * x[:, :1]),
    }.items(),
    ids=lambda change: change[0],
)
def test_the_nearest_pivot_is_exact(tools, change):
    """Bounds from whole numbers must not rule out the nearest, whatever the vectors are like."""
    x = np.ascontiguousarray(change[1](X[:400]), dtype=np.float32)
    spec = tools.Spec(made(IDS[:400], x).config, IDS[:400], x)
    pivots = spec.made.cells.ids[spec.made.cells_of].tolist()
    before = core.active_isa()
    try:
        for isa in core.supported_isas():
            core.use_isa(isa)
            cells = {id: cell for id, (cell, *_) in tools.native_state(made(IDS[:400], x))[1].items()}
            assert [cells[id] for id in spec.ids.tolist()] == pivots, isa
    finally:
        core.use_isa(before)
