"""The native graph is the spec's, list by list and bit by bit, and so are searches, on every instruction set."""

from __future__ import annotations

import numpy as np
import pytest

from lethevec import Graph, Index, reference
from lethevec._native import core
from lethevec.reference import constants

KINDS = {
    "clustered": lambda rng, n, d: None,
    "grid": lambda rng, n, d: rng.integers(0, 3, size=(n, d)) + 0.25,
    "copies": lambda rng, n, d: np.where(rng.random((n, 1)) < 0.5, 1.0, rng.normal(size=(n, d))),
    "line": lambda rng, n, d: np.outer(np.arange(n) + 1, np.ones(d)),
    "clumps": lambda rng, n, d: 30 * rng.integers(1, 4, size=(n, 1)) + 1e-3 * rng.normal(size=(n, d)),
    "star": lambda rng, n, d: np.vstack([np.full((1, d), 1e-9), 9 * rng.normal(size=(n - 1, d))]),
}


def vectors(tools, name, n, d, seed=0):
    if name == "clustered":
        return tools.clustered(seed, n, d)
    return KINDS[name](np.random.default_rng([seed, n, d]), n, d).astype(np.float32)


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("name", KINDS)
def test_lists_and_searches(tools, isa, name, metric):
    x = vectors(tools, name, 150, 13)
    index = tools.build(x, np.arange(150) * 7 - 40, metric=metric)
    tools.assert_equals_spec(index)
    ids = index.ids()
    spec = tools.Spec(index.config, ids, index.vectors(ids))
    queries = np.vstack([x[:3] + np.float32(0.01), tools.clustered(5, 4, 13)])
    for k, effort in ((1, 0.01), (5, 0.2), (10, 1.0)):
        tools.assert_search_equals(index, spec, queries, k, effort)
    tools.assert_search_equals(index, spec, queries, 4, 0.1, ids[::2])
    tools.assert_search_equals(index, spec, queries, 4, 0.1, ids[:3])


@pytest.mark.parametrize("d", [1, 2, 7, 16, 33, 64, 129])
def test_dimensions(tools, isa, d):
    x = vectors(tools, "clustered", 90, d)
    index = tools.build(x, np.arange(90), metric="l2")
    tools.assert_equals_spec(index)
    spec = tools.Spec(index.config, np.arange(90), x)
    tools.assert_search_equals(index, spec, tools.clustered(3, 5, d), 3, 0.1)


@pytest.mark.parametrize("n", [1, 2, 3, 31, 33])
def test_few_records(tools, n):
    x = tools.clustered(1, n, 9)
    index = tools.build(x, np.arange(n))
    tools.assert_equals_spec(index)
    spec = tools.Spec(index.config, np.arange(n), x)
    tools.assert_search_equals(index, spec, x[:2], 3, 1.0)
    tools.assert_search_equals(index, spec, x[:2], 1, 0.001)


def test_long_lists(tools, isa):
    """A pool of everybody, few pivots and many dimensions: lists that take several blocks."""
    rng = np.random.default_rng(2)
    x = np.vstack([np.zeros((1, 96)), rng.normal(size=(249, 96))]).astype(np.float32)
    index = tools.build(x, np.arange(250), metric="l2", cell_size=120, cells=2, pool=3)
    tools.assert_equals_spec(index)
    assert max(len(parts[-1]) for parts in tools.native_state(index).values()) > constants.DEGREE
    spec = tools.Spec(index.config, np.arange(250), x)
    tools.assert_search_equals(index, spec, rng.normal(size=(5, 96)).astype(np.float32), 5, 0.3)


def test_who_comes_next_has_dropped_out_of_a_small_pool(tools, isa):
    """Along a line estimates are exact, and a pool of one goes far. What comes next is far behind the best at times."""
    rng = np.random.default_rng([0, 900, 1])
    x = (rng.normal(size=(8, 1))[rng.integers(0, 8, 900)] + 0.4 * rng.normal(size=(900, 1))).astype(np.float32)
    queries = np.vstack([np.random.default_rng(seed).normal(size=(1, 1)) for seed in (1, 6, 18, 24)]).astype(np.float32)
    index = Index(1, source=Graph(cell_size=8, cells=4, pool=16), metric="l2")
    index.add(x, ids=np.arange(900))
    spec = tools.Spec(index.config, np.arange(900), x)
    tools.assert_search_equals(index, spec, queries, 1, 0.01)


def test_the_default_parameters(tools):
    x = tools.clustered(4, 700, 24)
    index = Index(24, source=Graph())
    index.add(x, ids=np.arange(700))
    tools.assert_equals_spec(index)
    spec = tools.Spec(index.config, np.arange(700), x)
    tools.assert_search_equals(index, spec, tools.clustered(9, 8, 24), 10, 1.0)
    tools.assert_search_equals(index, spec, tools.clustered(9, 8, 24), 10, 0.3)


def test_any_number_of_threads(tools):
    x = tools.clustered(4, 400, 12)
    one = tools.build(x, np.arange(400))
    other = tools.build(x[:1], [0])
    other.forget([0])
    other.add(x[::-1].copy(), ids=np.arange(400)[::-1].copy(), threads=3)
    tools.assert_same_state(tools.native_state(one), tools.native_state(other))


def test_the_hash_and_the_plan():
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 64, 65):
        z = rng.normal(size=(1, d)).astype(np.float32)
        assert core.testing.vector_hash(5, 9, z[0]) == int(reference.vector_hash((5, 9), z)[0])
    for records, allowed, k, effort in (
        (0, 0, 1, 1.0),
        (1000, 1000, 10, 0.3),
        (10**6, 12345, 7, 2.5),
        (50, 20, 60, 1e9),
    ):
        assert core.testing.graph_pool(records, allowed, k, effort) == reference.graph_pool(records, allowed, k, effort)
