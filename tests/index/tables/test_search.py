"""What a search with tables promises: unique answers, more with more effort, filters, never too few, all in the end."""

import numpy as np
import pytest

from lethevec import Index, Tables
from lethevec.reference import ranking

METRICS = ("cosine", "l2", "ip")
MODES = {"vectors": {}, "codes": {"keep_vectors": False}, "hamming": {"ranking": "hamming", "family": "superbit"}}


def built(x, **arguments):
    own = {name: arguments.pop(name) for name in ("key_bits", "probes") if name in arguments}
    source = Tables(**{"tables": 4, "key_bits": 8, "probes": 20, **own})
    index = Index(x.shape[1], source=source, **arguments)
    index.add(x, ids=np.arange(len(x)) + 1000)
    return index


@pytest.fixture(scope="module")
def problem(make_clustered):
    return make_clustered(1, 3000, 32), make_clustered(2, 25, 32)


def exact(x, queries, metric, k):
    norms = np.linalg.norm(x.astype(np.float64), axis=1).astype(np.float32)
    records = ranking.Records(np.arange(len(x)) + 1000, np.empty((0, 0), np.uint8), norms, norms, x)
    rows = np.arange(len(x))
    return [ranking.answer(ranking.true_distances(q[None], records, rows, metric), records.ids, k) for q in queries]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("metric", METRICS)
def test_more_effort_never_loses_a_record(problem, metric, mode):
    x, queries = problem
    index = built(x, metric=metric, **MODES[mode])
    k = 8
    last = None
    for effort in [0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 20.0, 50.0, 1e6]:
        hits = index.search(queries, k, effort=effort)
        assert all(len(set(row)) == k for row in hits.ids.tolist())
        if last is not None:
            # Every place is at least as near as it was: no record that was found is missing without a nearer one.
            assert (hits.distances <= last.distances).all()
        last = hits


@pytest.mark.parametrize("metric", METRICS)
def test_all_effort_is_exact(problem, metric):
    x, queries = problem
    hits = built(x, metric=metric).search(queries, 10, effort=1e18)
    for found, distances, (ids, true) in zip(hits.ids, hits.distances, exact(x, queries, metric, 10), strict=True):
        np.testing.assert_array_equal(found, ids)
        np.testing.assert_array_equal(distances, true)


@pytest.mark.parametrize(("dim", "centres"), [(32, 2000), (128, 2000), (48, 100)])
def test_effort_one_finds_most_by_default(dim, centres):
    """As with the other sources it is meant for a recall of 0.95; here without a look at all records."""
    rng = np.random.default_rng(dim)
    n, asked = 60_000, 50
    middles = rng.normal(size=(centres, dim))[rng.integers(0, centres, n + asked)]
    points = (middles + 0.5 * rng.normal(size=(n + asked, dim))).astype(np.float32)
    x, queries = points[:n], points[n:]
    index = Index(dim, metric="l2", source=Tables(expected=n))
    index.add(x, ids=range(n))
    hits = index.search(queries, 10)
    squares = (x.astype(np.float64) ** 2).sum(axis=1) - 2.0 * queries.astype(np.float64) @ x.T.astype(np.float64)
    true = np.argpartition(squares, 10, axis=1)[:, :10]
    found = [len(set(one) & set(other)) for one, other in zip(hits.ids.tolist(), true.tolist(), strict=True)]
    assert np.mean(found) >= 9.5
    assert hits.work.scanned < 0.97 * n * asked


def test_it_looks_at_part_of_the_records_and_finds_most(problem):
    x, queries = problem
    index = built(x, key_bits=8, probes=120)
    hits = index.search(queries, 5)
    truth = exact(x, queries, "cosine", 5)
    found = np.mean([np.isin(ids, true).mean() for ids, (true, _) in zip(hits.ids, truth, strict=True)])
    assert found > 0.8
    assert hits.work.refined < 0.5 * len(x) * len(queries)
    assert hits.work.reranked <= hits.work.refined


@pytest.mark.parametrize("mode", MODES)
def test_never_fewer_than_asked_for(problem, mode):
    """One bucket is planned and holds less: the search goes on until it has k, or has everything."""
    x, queries = problem
    index = built(x, key_bits=12, probes=1, **MODES[mode])
    for k in (1, 30, 500, 3000, 3001):
        hits = index.search(queries[:3], k, effort=1e-6)
        assert (np.isfinite(hits.distances).sum(axis=1) == min(k, 3000)).all()
        assert all(len(set(row[:3000])) == min(k, 3000) for row in hits.ids.tolist())


def test_small_indexes_are_exact(make_clustered):
    x, queries = make_clustered(3, 60, 16), make_clustered(4, 5, 16)
    hits = built(x, metric="l2").search(queries, 60)
    for found, (ids, _) in zip(hits.ids, exact(x, queries, "l2", 60), strict=True):
        np.testing.assert_array_equal(found, ids)


def test_filters(problem):
    x, queries = problem
    index = built(x)
    ids = np.arange(3000) + 1000
    wide = ids[np.random.default_rng(5).random(3000) < 0.5]
    hits = index.search(queries, 10, allow=wide)
    assert np.isin(hits.ids, wide).all()
    mask = index.search(queries, 10, allow=np.isin(ids, wide))
    np.testing.assert_array_equal(mask.ids, hits.ids)
    narrow = ids[::40]
    truth = exact(x, queries, "cosine", 3000)
    for found, (order, _) in zip(index.search(queries, 10, allow=narrow).ids, truth, strict=True):
        np.testing.assert_array_equal(found, order[np.isin(order, narrow)][:10])
    assert (index.search(queries, 3, allow=[1, 2]).ids == -1).all()
    some = index.search(queries, 3, allow=[1, 1000, 1001])
    assert (np.sort(some.ids, axis=1) == [-1, 1000, 1001]).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("mode", MODES)
def test_radius_search_looks_at_everything(problem, isa, metric, mode):
    x, queries = problem
    index = built(x, metric=metric, **MODES[mode])
    all_of_them = index.search(queries[:4], 3000, effort=1e18)
    within = all_of_them.distances <= all_of_them.distances[0, 20]
    for row, answers in enumerate(index.search_radius(queries[:4], float(all_of_them.distances[0, 20]))):
        assert [hit.id for hit in answers] == all_of_them.ids[row][within[row]].tolist()
        assert [hit.distance for hit in answers] == all_of_them.distances[row][within[row]].tolist()


def test_threads_change_nothing(problem):
    x, queries = problem
    index = built(x)
    one, many = index.search(queries, 7), index.search(queries, 7, threads=5)
    np.testing.assert_array_equal(one.ids, many.ids)
    np.testing.assert_array_equal(one.distances, many.distances)
    assert one.work == many.work


def test_an_empty_index():
    index = Index(8, source="tables")
    hits = index.search(np.ones((2, 8)), 3)
    assert (hits.ids == -1).all()
    assert np.isinf(hits.distances).all()
