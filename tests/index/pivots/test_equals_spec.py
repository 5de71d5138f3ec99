"""Cells, records and answers of the native index equal those of the spec, bit for bit, with every instruction set."""

import numpy as np
import pytest

from lethevec import Index, Pivots, reference
from lethevec._native import core

METRICS = ["cosine", "l2", "ip"]


@pytest.fixture
def every_isa():
    """Calls a function once with each instruction set that this machine has."""
    before = core.active_isa()

    def run(function):
        for isa in core.supported_isas():
            core.use_isa(isa)
            function()

    yield run
    core.use_isa(before)


def compare(tools, every_isa, x, queries, how, *, ids=None, **arguments):
    """`how`: (k, effort, share of the ids that is allowed or None)."""
    rng = np.random.default_rng(len(x))
    ids = rng.permutation(len(x)) * 7 - 100 if ids is None else ids
    config = Index(x.shape[1], **tools.options(**arguments)).config
    spec = tools.Spec(config, ids, x)
    expected = spec.state()
    asked = [
        (k, effort, None if share is None else rng.choice(ids, size=max(1, int(share * len(ids))), replace=False))
        for k, effort, share in how
    ]

    # Pivots that come last take over from others, or end the void: a few by themselves, the rest together.
    late = np.isin(ids, tools.pivots_among(config, ids))
    parts = [np.flatnonzero(~late), *np.split(np.flatnonzero(late), [1, 3])]

    def check():
        index = Index(x.shape[1], **tools.options(**arguments))
        for part in parts:
            if len(part):
                index.add(x[part], ids=ids[part])
        tools.assert_same_state(tools.native_state(index), expected)
        index = tools.build(x, ids, **arguments)
        tools.assert_same_state(tools.native_state(index), expected)
        for k, effort, allow in asked:
            tools.assert_search_equals(index, spec, queries, k, effort, allow)

    every_isa(check)
    return spec


HOW = [(1, 0.05, None), (3, 0.5, None), (10, 1.0, 0.5), (5, 3.0, 0.05), (4, 1e6, None)]


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dim", [1, 3, 16, 100, 128, 130, 200])
def test_dimensions_and_planes(tools, every_isa, metric, dim, refine):
    x = tools.clustered(1, 330, dim)
    queries = np.vstack([tools.clustered(2, 2, dim), x[17:18]])
    for planes in (2,) if refine else (1, 2, 3):
        arguments = {"metric": metric, "bits": planes * dim, "refine": refine, "probes": 15}
        compare(tools, every_isa, x, queries, HOW, **arguments)


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_when_every_stage_prunes(tools, every_isa, metric, refine):
    """So many rows are visited that each of the stages leaves some behind."""
    rng = np.random.default_rng(3)
    x, queries = rng.normal(size=(2400, 20)).astype(np.float32), rng.normal(size=(3, 20)).astype(np.float32)
    how = [(1, 0.3, None), (5, 1.0, None), (8, 1.3, None), (20, 0.7, 0.8)]
    spec = compare(
        tools, every_isa, x, queries, how, metric=metric, refine=refine, cell_size=16, probes=100, bits=60, sweeps=1
    )
    found = spec.candidates(queries[0], 5, 1.0)
    assert 5 < len(found.rows) < found.refined < found.scanned < 2400


@pytest.mark.parametrize("cell_size", [2, 4, 16, 50])
def test_sizes_of_cells(tools, every_isa, cell_size):
    """Blocks of rows and of cells, whole and in part."""
    x, queries = tools.clustered(5, 1100, 12), tools.clustered(6, 2, 12)
    for n in (1, 2, 31, 33, 700, 1100):
        compare(tools, every_isa, x[:n], queries, [(3, 0.3, None), (2, 1.0, 0.5)], metric="l2", cell_size=cell_size)


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_the_void(tools, every_isa, metric, refine):
    x, queries = tools.clustered(7, 900, 16), tools.clustered(8, 2, 16)
    how = [(3, 0.2, None), (5, 1.0, 0.5)]
    spec = compare(tools, every_isa, x, queries, how, metric=metric, refine=refine, cell_size=2**20)
    assert spec.made.cells.real.tolist() == [False]


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_extreme_norms(tools, every_isa, metric, refine):
    """From about the smallest norm that is taken to the largest, in one index; and zeros."""
    rng = np.random.default_rng(9)
    sizes = np.float32([1e-11, 1e-9, 1e-5, 1.0, 1e5, 1e10, 1e15, 1e17])
    x = (rng.normal(size=(500, 10)) * np.resize(sizes, (500, 1))).astype(np.float32)
    queries = x[:8].copy()
    if metric != "cosine":
        x[::9] = 0
        x[4::9] = -0.0
        queries[0] = 0
    compare(tools, every_isa, x, queries, [(6, 0.2, None), (3, 1.0, 0.7)], metric=metric, refine=refine)


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_whole_numbers_tie(tools, every_isa, metric, refine):
    """On a small grid most records are as far from one centre as from another: the smaller id of the pivot wins."""
    rng = np.random.default_rng(10)
    x = rng.integers(-1, 2, size=(700, 4)).astype(np.float32)
    spec = compare(tools, every_isa, x, x[:3], [(5, 0.3, None)], metric=metric, refine=refine)
    if not refine:
        distances = ((x[:, None] - spec.made.cells.centres[None]) ** 2).sum(axis=2)
        assert ((distances == distances.min(axis=1, keepdims=True)).sum(axis=1) > 1).mean() > 0.5


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("dim", [3, 40])
def test_far_from_the_origin(tools, every_isa, dim, refine):
    """|z|^2 + |c|^2 - 2 <z, c> says nothing here: its rounding is larger than the distances between records."""
    x = tools.clustered(11, 600, dim) + np.float32(20_000)
    compare(tools, every_isa, x, x[:2] + np.float32(0.1), [(5, 0.5, None)], metric="l2", refine=refine)


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_equal_vectors(tools, every_isa, metric, refine):
    """Equal pivots too: the one with the smallest id has the cell."""
    x = np.repeat(tools.clustered(12, 4, 9), 200, axis=0)
    how = [(5, 0.1, None), (20, 1.0, None)]
    spec = compare(tools, every_isa, x, x[:1] * np.float32(1.5), how, metric=metric, refine=refine)
    assert (spec.made.cells.counts == 0).sum() > 50


def test_rotations_and_seeds(tools, every_isa):
    x, queries = tools.clustered(13, 400, 14), tools.clustered(14, 2, 14)
    for arguments in ({"seed": 77}, {"rotation": "svd"}, {"key": bytes(range(16))}, {"rotation": "gram-schmidt"}):
        compare(tools, every_isa, x, queries, [(5, 0.5, None)], **arguments)


def test_siphash():
    ids = np.concatenate([[0, -1, -(2**63), 2**63 - 1], np.random.default_rng(15).integers(-(2**63), 2**63 - 1, 200)])
    for key in ((0, 0), reference.pivot_key(bytes(range(16))), reference.default_pivot_key(5), (2**64 - 1, 2**64 - 1)):
        expected = reference.siphash(key, ids).tolist()
        assert [core.testing.siphash(*key, id) for id in ids.tolist()] == expected


def test_the_key_comes_from_the_seed_or_is_given(tools):
    ids = np.arange(2000)
    x = tools.clustered(16, 2000, 6)

    def pivots(**arguments):
        return set(tools.native_state(tools.build(x, ids, **arguments))[0])

    by_seed = pivots(seed=4)
    assert by_seed == set(ids[reference.is_pivot(ids, reference.default_pivot_key(4), 8)].tolist())
    assert by_seed != pivots(seed=5)
    key = bytes(range(100, 116))
    assert pivots(seed=4, key=key) == pivots(seed=5, key=key) != by_seed
    assert pivots(key=key) == set(ids[reference.is_pivot(ids, reference.pivot_key(key), 8)].tolist())


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_batches_threads_and_order_do_not_matter(tools, metric, refine):
    x = tools.clustered(17, 5000, 20)
    arguments = {"metric": metric, "source": Pivots(cell_size=40, refine=refine)}
    one, other = Index(20, **arguments), Index(20, **arguments)
    one.add(x, ids=range(5000), threads=2)
    for at in reversed(range(0, 5000, 613)):
        other.add(x[at : at + 613], ids=range(at, min(5000, at + 613)), threads=1)
    tools.assert_same_state(tools.native_state(one), tools.native_state(other))
    assert one.stats() == other.stats()
