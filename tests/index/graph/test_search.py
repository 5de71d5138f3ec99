"""What users see of searches in a graph: recall, effort, allow-lists, threads."""

import threading

import numpy as np
import pytest

from lethevec import Graph, Index
from lethevec.errors import UnknownIdError

N, DIM = 3000, 32


@pytest.fixture(scope="module", params=["cosine", "l2"])
def problem(request, tools):
    x = tools.clustered(1, N, DIM)
    index = Index(DIM, metric=request.param, source=Graph(pool=64, cells=16))
    index.add(x, ids=np.arange(N))
    exact = Index(DIM, metric=request.param, source="scan")
    exact.add(x, ids=np.arange(N))
    return index, exact, tools.clustered(8, 60, DIM)


def recall(found, true):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), true.tolist(), strict=True)])


def test_recall(problem):
    index, exact, queries = problem
    true = exact.search(queries, k=10, effort=1e9).ids
    assert recall(index.search(queries, k=10).ids, true) > 0.9
    assert recall(index.search(queries, k=10, effort=4.0).ids, true) > 0.97
    np.testing.assert_array_equal(index.search(queries, k=10, effort=1e9).ids, true)


def test_more_effort_never_gives_less(problem):
    index, _, queries = problem
    before = None
    for effort in np.geomspace(0.02, 40, 45):
        distances = index.search(queries, k=10, effort=float(effort)).distances
        assert np.isfinite(distances).all()
        if before is not None:
            assert (distances <= before).all()
        before = distances


def test_k_may_be_larger_than_the_pool(problem):
    index, exact, queries = problem
    hits = index.search(queries[:5], k=400, effort=0.01)
    assert (np.sort(hits.ids, axis=1)[:, 0] >= 0).all()
    everything = index.search(queries[:2], k=N + 10)
    np.testing.assert_array_equal(everything.ids, exact.search(queries[:2], k=N + 10, effort=1e9).ids)


@pytest.mark.parametrize("share", [0.002, 0.05, 0.3, 0.9])
def test_allow_lists(problem, share):
    """Whether the walk or all of the allowed records are cheaper: recall is as without a list."""
    index, exact, queries = problem
    allow = np.flatnonzero(np.random.default_rng(3).random(N) < share)
    true = exact.search(queries, k=5, effort=1e9, allow=allow).ids
    found = index.search(queries, k=5, allow=allow)
    assert np.isin(found.ids, allow).all()
    assert recall(found.ids, true) > 0.9


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_an_allow_list_costs_no_recall(problem, share):
    """Of records that have nothing to do with the queries: beside the same searches without a list."""
    index, exact, queries = problem
    allow = np.flatnonzero(np.random.default_rng(4).random(N) < share)
    without = recall(index.search(queries, k=10).ids, exact.search(queries, k=10, effort=1e9).ids)
    true = exact.search(queries, k=10, effort=1e9, allow=allow).ids
    assert recall(index.search(queries, k=10, allow=allow).ids, true) > without - 0.02


def test_an_allow_list_far_from_the_query(problem):
    index, exact, queries = problem
    for query in queries[:10]:
        order = exact.search(query, k=N, effort=1e9).ids[0]
        far = order[N // 2 :]
        found = index.search(query, k=5, allow=far)
        np.testing.assert_array_equal(found.ids[0], exact.search(query, k=5, effort=1e9, allow=far).ids[0])


def test_searches_go_on_while_records_come_and_go(tools):
    x = tools.clustered(4, 1500, DIM)
    index = Index(DIM, source=Graph(pool=24, cells=6))
    index.add(x[:1000], ids=np.arange(1000))
    failures, done = [], threading.Event()
    gone = set()

    def look():
        while not done.is_set():
            known = set(gone)
            ids = index.search(x[:20], k=10, effort=0.3).ids
            if known & set(ids.ravel().tolist()):
                failures.append("a forgotten record was found")

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(200):
        index.forget(i)
        gone.add(i)
        index.add(x[1000 + i : 1001 + i], ids=[1000 + i])
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []
    with pytest.raises(UnknownIdError):
        index.forget(3)
