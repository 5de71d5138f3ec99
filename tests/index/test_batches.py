"""Each query of a batch finds what it finds alone, bit for bit, and looks at as much."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lethevec import Pivots
from lethevec._native import core

DIM = 24
COUNT = 1500  # several blocks that share a pass, and a part of one
SIZES = [2, 31, 35]  # around the number of queries that share a pass

CONFIGURATIONS = {
    "scan cosine": {},
    "scan l2": {"metric": "l2"},
    "scan ip": {"metric": "ip"},
    "scan long codes": {"dim": 200, "metric": "l2"},
    "scan codes alone": {"keep_vectors": False, "metric": "l2"},
    "scan one stage": {"family": "superbit", "bits": 40},
    "scan usr ip": {"metric": "ip", "family": "usr", "bits": 2 * DIM, "steps": 2},
    "hamming": {"metric": "l2", "ranking": "hamming"},
    "tables": {"source": "tables"},
    "pivots cosine": {"source": Pivots(cell_size=8)},
    "pivots l2": {"source": Pivots(cell_size=8), "metric": "l2"},
    "pivots ip": {"source": Pivots(cell_size=8), "metric": "ip"},
    "pivots refined": {"source": Pivots(cell_size=8, refine=True), "metric": "l2"},
    "graph cosine": {"source": "graph"},
    "graph l2": {"source": "graph", "metric": "l2"},
}


# As where there is more of them than caches have; here the cells of a few rows are looked at together.
IN_STEP = [name for name in CONFIGURATIONS if name.startswith("pivots")]


@pytest.fixture(scope="module", params=[*CONFIGURATIONS, *(f"{name}, in step" for name in IN_STEP)])
def problem(request, tools):
    """An index that nobody changes, queries, and the ids."""
    name, *in_step = request.param.split(", ")
    if in_step:
        core.pivots_in_step(0, 1000)
    arguments = {"dim": DIM, **CONFIGURATIONS[name]}
    x, ids = tools.data(COUNT, arguments["dim"])
    rng = np.random.default_rng(5)
    queries = x[rng.integers(COUNT, size=max(SIZES))] + rng.normal(size=(max(SIZES), x.shape[1])).astype(np.float32)
    queries[7] = queries[3]  # twice in one batch
    yield tools.build(arguments, x, ids), queries.astype(np.float32), ids
    core.pivots_in_step()


def assert_as_alone(tools, index, queries, *, batches, threads=(1,), **how):
    alone = [index.search(query, **how) for query in queries]
    for size in batches:
        for workers in threads:
            together = index.search(queries[:size], threads=workers, **how)
            for i, one in enumerate(alone[:size]):
                np.testing.assert_array_equal(together.ids[i], one.ids[0], err_msg=f"query {i} of {size}, {how}")
                assert tools.same_floats(together.distances[i], one.distances[0]), (i, size, how)
            assert tuple(together.work) == tuple(map(sum, zip(*(one.work for one in alone[:size]), strict=True)))


def test_batches_of_all_sizes(tools, isa, problem):
    index, queries, _ = problem
    assert_as_alone(tools, index, queries, batches=SIZES, threads=[1, 3], k=5)


@pytest.mark.parametrize("how", [{"k": 1, "effort": 0.2}, {"k": 40, "effort": 4.0}, {"k": 3, "effort": math.inf}])
def test_however_much_is_looked_at(tools, problem, how):
    index, queries, _ = problem
    assert_as_alone(tools, index, queries[:12], batches=[12], threads=[1, 2], **how)


@pytest.mark.parametrize("share", [0.005, 0.4])
def test_under_an_allow_list(tools, isa, problem, share):
    index, queries, ids = problem
    allow = np.sort(ids)[np.random.default_rng(8).random(len(ids)) < share]
    assert_as_alone(tools, index, queries[:34], batches=[34], threads=[1, 2], k=6, allow=allow)


def test_everything_is_asked_for(tools, problem):
    """Where a query finds all records, few queries go together."""
    index, queries, ids = problem
    assert_as_alone(tools, index, queries[:5], batches=[5], k=len(ids) + 3)


def test_within_a_radius(tools, problem):
    index, queries, _ = problem
    radius = float(np.median(index.search(queries[:9], 8).distances[:, -1]))
    together = index.search_radius(queries[:9], radius)
    for i, query in enumerate(queries[:9]):
        alone = index.search_radius(query, radius)
        n = alone.ids.shape[1]
        np.testing.assert_array_equal(together.ids[i, :n], alone.ids[0])
        assert tools.same_floats(together.distances[i, :n], alone.distances[0])
        assert (together.ids[i, n:] == -1).all()


def test_a_graph_that_has_to_look_further_for_some(tools):
    """Equal vectors fill the first pool of some queries: their walks begin again, while others go on."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(2000, 8)).astype(np.float32)
    index = tools.build({"dim": 8, "metric": "l2", "source": "graph"}, x, np.arange(len(x)))
    allow = np.flatnonzero(x[:, 0] > 0)
    queries = rng.normal(size=(33, 8)).astype(np.float32)
    for how in ({"k": 200}, {"k": 200, "effort": 0.01}, {"k": 30, "effort": 0.01, "allow": allow}):
        assert_as_alone(tools, index, queries, batches=[33], **how)


def test_while_records_come_and_go(tools, problem):
    index, queries, ids = problem
    index = index.copy()
    index.forget(ids[::3])
    assert_as_alone(tools, index, queries[:34], batches=[34], threads=[1, 2], k=5)
