"""What a search takes and gives: shapes, filters, k beyond the index, radius, threads, and what it says it did."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import lethevec

CONFIGURATIONS = {
    "default": {},
    "codes": {"keep_vectors": False},
    "hamming": {"ranking": "hamming"},
    "hamming codes": {"ranking": "hamming", "keep_vectors": False},
    "one stage": {"family": "superbit", "bits": 40},
}
DIM = 16


@pytest.fixture(params=CONFIGURATIONS)
def arguments(request):
    return {"dim": DIM, "metric": "l2", **CONFIGURATIONS[request.param]}


@pytest.fixture
def made(tools, arguments):
    x, ids = tools.data(2500, DIM)
    return tools.build(arguments, x, ids), tools.Oracle(arguments, x, ids)


@pytest.mark.parametrize("k", [1, 7])
def test_always_the_same_shape(made, k):
    index, oracle = made
    for queries, rows in ((oracle.x[0], 1), (oracle.x[:1], 1), (oracle.x[:3], 3), (oracle.x[0].tolist(), 1)):
        hits = index.search(queries, k)
        assert hits.ids.shape == hits.distances.shape == (rows, k)
        assert (hits.ids.dtype, hits.distances.dtype) == (np.int64, np.float32)
        assert len(hits) == rows
        assert (np.diff(hits.distances) >= 0).all()
    assert [len(answers) for answers in index.search(oracle.x[:2], k)] == [k, k]


def test_of_nothing(arguments):
    index = lethevec.Index(**arguments)
    hits = index.search(np.ones((2, DIM)), k=3)
    np.testing.assert_array_equal(hits.ids, np.full((2, 3), -1))
    np.testing.assert_array_equal(hits.distances, np.full((2, 3), np.inf))
    assert [len(answers) for answers in hits] == [0, 0]
    assert (hits.work.scanned, hits.work.refined, hits.work.reranked, hits.work.bytes_read) == (0, 0, 0, 0)
    assert index.search_radius(np.ones(DIM), 1e9).ids.shape == (1, 0)
    assert index.search(np.ones(DIM), allow=[]).ids.tolist() == [[-1] * 10]
    assert index.search(np.ones(DIM), allow=np.empty(0, dtype=bool)).ids.tolist() == [[-1] * 10]


@pytest.mark.parametrize("n", [1, 5, 40])
def test_k_beyond_the_index(tools, arguments, n):
    x, ids = tools.data(n, DIM)
    index, oracle = tools.build(arguments, x, ids), tools.Oracle(arguments, x, ids)
    for effort in (1e-6, 1.0, 1e6):
        tools.assert_search_equals(index, oracle, x[:1], k=n + 3, effort=effort)
        hits = index.search(x[0], k=n + 3, effort=effort)
        assert sorted(hits.ids[0, :n]) == sorted(ids)
        assert hits.ids[0, n:].tolist() == [-1] * 3
        assert np.isinf(hits.distances[0, n:]).all()
        assert [len(answers) for answers in hits] == [n]


def test_an_id_of_minus_one_is_an_id(arguments):
    """It is told from an empty place by its distance."""
    index = lethevec.Index(**arguments)
    index.add(np.ones((1, DIM)), ids=[-1])
    assert [[hit.id for hit in answers] for answers in index.search(np.ones(DIM), k=3)] == [[-1]]


@pytest.mark.parametrize("id", [-(1 << 63), (1 << 63) - 1, 0])
def test_the_ends_of_the_ids(arguments, id):
    index = lethevec.Index(**arguments)
    index.add(np.ones((1, DIM)), ids=[id])
    assert id in index
    assert index.search(np.ones(DIM), k=1).ids.tolist() == [[id]]
    assert index.forget(id) == 1
    assert id not in index


# --- Filters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.001, 0.02, 0.3, 0.9, 1.0])
def test_a_filter_equals_the_spec_on_the_subset(tools, isa, made, share):
    index, oracle = made
    rng = np.random.default_rng(int(share * 1000))
    mask = rng.random(len(oracle.ids)) < share
    mask[rng.integers(len(mask))] = True
    allowed = oracle.ids[mask]
    for k, effort in ((3, 0.1), (10, 1.0)):
        how = {"k": k, "effort": effort}
        tools.assert_search_equals(index, oracle, oracle.x[:2], allow=rng.permutation(allowed), **how)
        by_ids = index.search(oracle.x[:2], allow=allowed.tolist(), **how)
        by_mask = index.search(oracle.x[:2], allow=mask, **how)
        np.testing.assert_array_equal(by_ids.ids, by_mask.ids)
        assert tools.same_floats(by_ids.distances, by_mask.distances)


def test_unknown_and_repeated_ids_in_a_filter(made):
    index, oracle = made
    known = oracle.ids[:2].tolist()
    hits = index.search(oracle.x[5], k=4, allow=[*known, *known, 10**15, known[0]])
    assert sorted(hits.ids[0].tolist()) == sorted([-1, -1, *known])
    assert index.search(oracle.x[5], k=2, allow=[10**15]).ids.tolist() == [[-1, -1]]
    assert index.search(oracle.x[5], k=2, allow=[]).ids.tolist() == [[-1, -1]]
    assert index.search(oracle.x[5], k=1, allow=known[0]).ids.tolist() == [[known[0]]]


# --- Radius ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
@pytest.mark.parametrize("ranking", ["asymmetric", "hamming"])
def test_radius_is_exact_over_vectors(tools, isa, metric, ranking):
    arguments = {"dim": DIM, "metric": metric, "ranking": ranking}
    x, ids = tools.data(900, DIM)
    index, oracle = tools.build(arguments, x, ids), tools.Oracle(arguments, x, ids)
    queries = oracle.x[:3] * np.float32(1.1)
    expected = [oracle.distances(query) for query in queries]
    # A distance that occurs is within itself: the edge belongs to the ball.
    radius = float(np.sort(expected[0])[60])
    hits = index.search_radius(queries, radius)
    assert len(hits) == 3
    longest = 0
    for got_ids, got, truth in zip(hits.ids, hits.distances, expected, strict=True):
        inside = np.flatnonzero(truth <= np.float32(radius))
        order = inside[np.lexsort((oracle.ids[inside], truth[inside]))]
        np.testing.assert_array_equal(got_ids[: len(order)], oracle.ids[order])
        assert tools.same_floats(got[: len(order)], truth[order])
        assert (got_ids[len(order) :] == -1).all()
        assert np.isposinf(got[len(order) :]).all()
        longest = max(longest, len(order))
    assert hits.ids.shape == hits.distances.shape == (3, longest)
    assert hits.work == (0, 0, 3 * 900, 3 * 900 * 4 * DIM)
    some = oracle.ids[::3]
    within = index.search_radius(queries, radius, allow=[*some, *some, -12345])
    assert within.work.reranked == 3 * len(some)
    for answers, truth in zip(within, expected, strict=True):
        assert {hit.id for hit in answers} == set(oracle.ids[truth <= np.float32(radius)]) & set(some)


def test_radius_equals_a_search_for_everything(tools, made):
    """Also where the distances are estimates or counts of bits."""
    index, oracle = made
    everything = index.search(oracle.x[:2] * np.float32(1.2), k=len(oracle.ids), effort=1e9)
    within = index.search_radius(oracle.x[:2] * np.float32(1.2), np.inf)
    np.testing.assert_array_equal(within.ids, everything.ids)
    assert tools.same_floats(within.distances, everything.distances)


def test_empty_balls(made):
    index, oracle = made
    hits = index.search_radius(oracle.x[:2], -1.0)
    assert hits.ids.shape == hits.distances.shape == (2, 0)
    assert (hits.ids.dtype, hits.distances.dtype) == (np.int64, np.float32)
    assert [len(answers) for answers in hits] == [0, 0]


# --- Threads and batches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3, 8, None])
def test_threads_and_batches_change_nothing(tools, made, threads):
    index, oracle = made
    queries = oracle.x[:37] * np.float32(0.9)
    together = index.search(queries, k=4, effort=0.2, threads=threads)
    for i, query in enumerate(queries):
        alone = index.search(query, k=4, effort=0.2)
        np.testing.assert_array_equal(together.ids[i], alone.ids[0])
        assert tools.same_floats(together.distances[i], alone.distances[0])


# --- What it did -----------------------------------------------------------------------------------------------------


def test_work_adds_up(made):
    index, oracle = made
    n = len(oracle.ids)
    hits = index.search(oracle.x[:5], k=3, effort=0.1)
    assert hits.work.scanned == 5 * n
    assert hits.work.refined + hits.work.reranked > 0 or not index.config.keep_vectors
    assert 0 <= hits.work.reranked < 5 * n
    assert hits.work.bytes_read > 0
    assert "work" not in repr(hits)


def test_work_does_not_depend_on_history(tools, arguments):
    """What a search did can be seen too, so it must follow from the records, not from the order of rows."""
    n = 16_640
    x = np.random.default_rng(0).normal(size=(n, DIM)).astype(np.float32)
    ids = np.arange(n)
    near = np.argsort(((x - x[0]) ** 2).sum(axis=1))
    # Rows are scanned in blocks of 32: spread the near ones evenly, first, last, or all into every fourth block.
    places = np.argsort(np.arange(n) // 32 % 4, kind="stable")
    gathered = np.empty(n, dtype=np.int64)
    gathered[places] = near
    works = set()
    for order in (np.arange(n), near, near[::-1], gathered):
        index = tools.build(arguments, x[order], ids[order])
        works.add(index.search(x[:1], k=2, effort=0.3).work)
    assert len(works) == 1, works


# --- Memory that a thread keeps ---------------------------------------------------------------------------------------


def test_the_search_before_does_not_matter(tools):
    """A thread keeps the memory of its last search, which may have been of another index altogether."""
    indexes = []
    for dim in (3, DIM, 150):
        x, ids = tools.data(400, dim)
        for number, extra in enumerate([*CONFIGURATIONS.values(), {"source": "pivots"}, {"source": "tables"}]):
            metric = ("cosine", "l2", "ip")[number % 3]
            if extra != CONFIGURATIONS["one stage"] or dim == DIM:
                indexes.append((tools.build({"dim": dim, "metric": metric, **extra}, x, ids), x[:3]))
    indexes.append((tools.build({"dim": 2}, *tools.data(40_000, 2)), np.ones((1, 2), dtype=np.float32)))

    def answer(index, queries):
        hits = index.search(queries, k=20)
        return hits.ids.tolist(), hits.distances.tobytes(), hits.work

    def in_a_new_thread(index, queries):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(answer, index, queries).result()

    expected = [in_a_new_thread(*one) for one in indexes]
    for before in indexes:
        for after, answers in zip(indexes, expected, strict=True):
            before[0].search(before[1], k=300, effort=9.0)
            assert answer(*after) == answers
            before[0].search_radius(before[1][:1], 1e9)
            assert answer(*after) == answers
