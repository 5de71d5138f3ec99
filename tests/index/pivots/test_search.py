"""What a search with pivots promises: recall, more with more effort, filters, never too few, all in the end."""

import threading

import numpy as np
import pytest

from lethevec import Index, Pivots
from lethevec.reference import ranking

METRICS = ["cosine", "l2", "ip"]
N = 4000
EFFORTS = [1e-9, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 20.0, 1e3, 1e18]


@pytest.fixture(scope="module")
def problem(tools):
    return tools.clustered(1, N, 32), tools.clustered(2, 25, 32)


@pytest.fixture(params=[False, True], ids=["pivots", "refined"])
def refine(request):
    return request.param


def built(tools, x, **arguments):
    return tools.build(x, np.arange(len(x)) + 1000, **{"cell_size": 20, "probes": 40, **arguments})


def exact(x, queries, metric, k, allow=None):
    """The k nearest by brute force: ids and distances, for each query."""
    norms = np.linalg.norm(x.astype(np.float64), axis=1).astype(np.float32)
    ids = np.arange(len(x)) + 1000
    records = ranking.Records(ids, np.empty((0, 0), np.uint8), norms, norms, x)
    rows = np.arange(len(x)) if allow is None else np.flatnonzero(np.isin(ids, allow))
    return [ranking.answer(ranking.true_distances(q[None], records, rows, metric), ids[rows], k) for q in queries]


def recall(hits, truth):
    return np.mean([np.isin(ids, true).mean() for ids, (true, _) in zip(hits.ids, truth, strict=True)])


@pytest.mark.parametrize("metric", METRICS)
def test_recall_rises_and_no_record_is_lost(tools, problem, metric, refine):
    """Query by query, neighbour by neighbour: a true neighbour that was found is found with every larger effort."""
    x, queries = problem
    index = built(tools, x, metric=metric, refine=refine)
    truth = exact(x, queries, metric, 10)
    found, last, work, recalls, scanned = [frozenset()] * len(queries), None, 0, [], []
    for effort in EFFORTS:
        hits = index.search(queries, 10, effort=effort)
        scanned.append(hits.work.scanned)
        assert all(len(set(row)) == 10 for row in hits.ids.tolist())
        now = [frozenset(a.tolist()) & frozenset(b.tolist()) for a, (b, _) in zip(hits.ids, truth, strict=True)]
        assert all(a <= b for a, b in zip(found, now, strict=True)), effort
        assert last is None or (hits.distances <= last.distances).all()
        assert hits.work.reranked >= work
        found, last, work = now, hits, hits.work.reranked
        recalls.append(recall(hits, truth))
    assert scanned == sorted(scanned)
    assert scanned[0] < scanned[-1]
    # The largest inner products of this set are with few long vectors, which the first cells have.
    assert recalls[0] < recalls[-1] or metric == "ip"
    assert recalls[EFFORTS.index(1.0)] > 0.9
    for ids, distances, (true, far) in zip(hits.ids, hits.distances, truth, strict=True):
        np.testing.assert_array_equal(ids, true)
        np.testing.assert_array_equal(distances, far)


def test_it_looks_at_part_of_the_records(tools, problem):
    x, queries = problem
    hits = built(tools, x).search(queries, 5)
    assert hits.work.scanned < 0.5 * N * len(queries)
    assert hits.work.reranked <= hits.work.refined <= hits.work.scanned
    assert hits.work.reranked < 0.1 * N * len(queries)


def test_refinement_finds_more_with_the_same_probes(tools, unit_words):
    """What refine=True is for."""
    x, queries = unit_words[:5000], unit_words[5000:5100]
    truth = exact(x, queries, "cosine", 10)
    plain, refined = (
        recall(built(tools, x, cell_size=40, probes=16, refine=step).search(queries, 10), truth)
        for step in (False, True)
    )
    assert refined > plain + 0.01


def test_real_data(tools, unit_words):
    """Word vectors: the defaults reach a recall worth having, at a part of the work of a scan."""
    x, queries = unit_words[:8000], unit_words[8000:8100]
    index = Index(100, source=Pivots())
    index.add(x, ids=np.arange(len(x)) + 1000)
    hits = index.search(queries, 10)
    assert recall(hits, exact(x, queries, "cosine", 10)) > 0.9
    assert hits.work.scanned < len(x) * len(queries)


@pytest.mark.parametrize("metric", METRICS)
def test_never_fewer_than_asked_for(tools, problem, metric, refine):
    """One small cell is planned: the search goes on until it has k, or has everything."""
    x, queries = problem
    index = built(tools, x, metric=metric, refine=refine, cell_size=4, probes=1)
    for k in (1, 30, 500, N, N + 1):
        hits = index.search(queries[:3], k, effort=1e-6)
        assert (np.isfinite(hits.distances).sum(axis=1) == min(k, N)).all()
        assert all(len(set(row[:N])) == min(k, N) for row in hits.ids.tolist())
    assert (hits.ids[:, N] == -1).all()
    for row, (ids, _) in enumerate(exact(x, queries[:3], metric, N)):
        np.testing.assert_array_equal(hits.ids[row, :N], ids)


@pytest.mark.parametrize("metric", METRICS)
def test_filters(tools, problem, metric, refine):
    x, queries = problem
    index = built(tools, x, metric=metric, refine=refine)
    ids = np.arange(N) + 1000
    rng = np.random.default_rng(5)
    for share in (0.5, 0.1, 0.04):
        allow = ids[rng.random(N) < share]
        hits = index.search(queries, 10, allow=allow)
        assert np.isin(hits.ids, allow).all()
        assert recall(hits, exact(x, queries, metric, 10, allow)) > 0.85
        mask = index.search(queries, 10, allow=np.isin(ids, allow))
        np.testing.assert_array_equal(mask.ids, hits.ids)
        np.testing.assert_array_equal(mask.distances, hits.distances)
    narrow = ids[::100]
    for found, (best, _) in zip(
        index.search(queries, 10, allow=narrow).ids, exact(x, queries, metric, 10, narrow), strict=True
    ):
        np.testing.assert_array_equal(found, best)
    assert (index.search(queries, 3, allow=[1, 2]).ids == -1).all()
    some = index.search(queries, 3, allow=[1, 1000, 1001])
    assert (np.sort(some.ids, axis=1) == [-1, 1000, 1001]).all()
    assert (index.search(queries, 3, allow=[]).ids == -1).all()


def test_filters_and_effort(tools, problem, refine):
    """More effort never loses a record, whatever may be found."""
    x, queries = problem
    index = built(tools, x, refine=refine, probes=10)
    for share in (0.5, 0.05):
        allow = (np.arange(N) + 1000)[np.random.default_rng(6).random(N) < share]
        last = None
        for effort in EFFORTS:
            hits = index.search(queries, 5, effort=effort, allow=allow)
            assert last is None or (hits.distances <= last.distances).all()
            last = hits


@pytest.mark.parametrize("metric", METRICS)
def test_radius_search_looks_at_everything(tools, problem, metric, refine):
    x, queries = problem
    index = built(tools, x, metric=metric, refine=refine)
    truth = exact(x, queries[:4], metric, N)
    radius = truth[0][1][20]
    for answers, (every, far) in zip(index.search_radius(queries[:4], float(radius)), truth, strict=True):
        assert [hit.id for hit in answers] == every[far <= radius].tolist()
        assert [hit.distance for hit in answers] == far[far <= radius].tolist()
    allow = np.arange(1000, 1000 + N, 3)
    some = index.search_radius(queries[:1], float(radius), allow=allow)
    np.testing.assert_array_equal(some.ids[0], [id for id in truth[0][0][:21].tolist() if id % 3 == 1000 % 3])


@pytest.mark.parametrize("metric", METRICS)
def test_duplicates_come_by_id(tools, metric, refine):
    """More equal records than any stage wants, pivots among them: the smallest ids, whatever the order of adding."""
    x = np.repeat(tools.clustered(3, 2, 12), 1500, axis=0)
    ids = np.random.default_rng(4).permutation(3000) - 1500
    index = tools.build(x, ids, metric=metric, refine=refine)
    hits = index.search(x[0], k=20, effort=0.01)
    np.testing.assert_array_equal(hits.ids[0], np.sort(ids[:1500])[:20])
    assert len(np.unique(hits.distances)) == 1


def test_a_record_finds_itself(tools, problem, refine):
    """Pivots too: their distance to the first centre may be zero."""
    x, _ = problem
    for metric in ("cosine", "l2"):
        index = built(tools, x, metric=metric, refine=refine)
        rows = np.concatenate([np.arange(100), tools.pivots_among(index.config, index.ids())[:100] - 1000])
        np.testing.assert_array_equal(index.search(x[rows], 1, effort=0.5).ids[:, 0], rows + 1000)


def test_threads_and_batches_change_nothing(tools, problem, refine):
    x, queries = problem
    index = built(tools, x, refine=refine)
    batch, many = index.search(queries, 7), index.search(queries, 7, threads=5)
    np.testing.assert_array_equal(batch.ids, many.ids)
    np.testing.assert_array_equal(batch.distances, many.distances)
    assert batch.work == many.work
    for row, query in enumerate(queries):
        alone = index.search(query, 7)
        assert alone.ids.shape == (1, 7)
        np.testing.assert_array_equal(alone.ids[0], batch.ids[row])
        np.testing.assert_array_equal(alone.distances[0], batch.distances[row])


def test_an_empty_index():
    index = Index(8, source="pivots")
    hits = index.search(np.ones((2, 8)), 3)
    assert (hits.ids == -1).all()
    assert np.isinf(hits.distances).all()
    assert [len(answers) for answers in index.search_radius(np.ones((2, 8)), 10.0)] == [0, 0]


@pytest.mark.parametrize("refine", [False, True])
def test_tune(tools, problem, refine):
    x, queries = problem
    index = built(tools, x, refine=refine)
    before = index.digest(), index.stats()
    tuned = index.tune(queries, target_recall=0.9, k=5)
    assert (index.digest(), index.stats()) == before
    assert tuned.recall >= 0.9
    assert recall(index.search(queries, 5, effort=tuned.effort), exact(x, queries, "cosine", 5)) >= 0.89
    assert index.tune(queries, target_recall=1.0, k=5).effort >= tuned.effort


@pytest.mark.parametrize("metric", METRICS)
def test_searches_while_records_come_and_go(tools, metric, refine):
    """Pivots among them, so that cells are taken apart under the eyes of searches. The forgotten stays forgotten."""
    dim = 16

    def vectors_of(ids):
        """The vector of an id, so that an answer can be checked without asking anybody."""
        return np.stack([np.random.default_rng(id).normal(size=dim) for id in ids]).astype(np.float32)

    index = Index(dim, metric, source=Pivots(cell_size=8, probes=8, refine=refine))
    index.add(vectors_of(range(300)), ids=range(300))
    gone: list[int] = []  # appended to when forget has returned; ids never come back
    finished, errors, searches = threading.Event(), [], []

    def write():
        rng = np.random.default_rng(0)
        alive, fresh = list(range(300)), 300
        for _ in range(40):
            new = list(range(fresh, fresh + int(rng.integers(1, 40))))
            fresh = new[-1] + 1
            index.add(vectors_of(new), ids=new, threads=int(rng.integers(1, 3)))
            alive += new
            pivots = tools.pivots_among(index.config, alive).tolist()
            leaving = {*pivots[:3], *rng.choice(alive, size=15).tolist()}
            index.forget(sorted(leaving))
            alive = [id for id in alive if id not in leaving]
            gone.extend(leaving)
        assert sorted(alive) == index.ids().tolist()

    def search(threads):
        while not finished.is_set():
            before = len(gone)
            asked = gone[max(0, before - 3) : before] or [7]  # what was forgotten last would be the nearest
            queries = vectors_of(asked)
            hits = index.search(queries, 5, effort=[0.1, 1.0, 100.0][len(searches) % 3], threads=threads)
            assert not set(hits.ids.ravel().tolist()) & set(gone[:before])
            assert (np.diff(hits.distances) >= 0).all()
            assert all(len(set(row)) == 5 for row in hits.ids.tolist())
            found = vectors_of([hits.ids[0, 0]])[0].astype(np.float64)
            q = queries[0].astype(np.float64)
            cosine = q @ found / np.linalg.norm(q) / np.linalg.norm(found)
            true = {"cosine": 1 - cosine, "ip": -(q @ found), "l2": np.linalg.norm(q - found)}[metric]
            assert abs(hits.distances[0, 0] - true) < 1e-4
            searches.append(before)

    def run(function, *arguments):
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(error)
        finally:
            if function is write:
                finished.set()

    team = [threading.Thread(target=run, args=args) for args in ((write,), (search, 1), (search, 2))]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    assert len(searches) > 3
    left = index.ids()
    fresh = Index(dim, metric, source=Pivots(cell_size=8, probes=8, refine=refine))
    fresh.add(vectors_of(left.tolist()), ids=left)
    tools.assert_same_state(tools.native_state(index), tools.native_state(fresh))
