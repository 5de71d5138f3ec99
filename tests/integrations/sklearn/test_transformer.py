"""The transformer: scikit-learn's own checks, its pipelines, and what is left after a forget."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed: make test-sklearn")

from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_digits, make_blobs
from sklearn.manifold import TSNE, Isomap
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from lethevec.errors import IdError, InputError, ParameterError, UnknownIdError
from lethevec.integrations.sklearn import LethevecTransformer

SOURCES = ["scan", "pivots", "tables"]


def exact(**settings) -> LethevecTransformer:
    return LethevecTransformer(effort=np.inf, **settings)


@parametrize_with_checks([LethevecTransformer(), exact(mode="connectivity", source="scan")])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:Skipping check check_array_api_input")  # of scikit-learn's own experiments
def test_no_check_fails_or_is_waived():
    results = check_estimator(LethevecTransformer(), on_fail=None)
    assert len(results) >= 40
    assert {r["check_name"] for r in results if r["status"] in ("failed", "xfail")} == set()


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_equals_scikit_learns_own(mode):
    rng = np.random.default_rng(1)
    x, q = rng.normal(size=(300, 12)).astype(np.float32), rng.normal(size=(40, 12)).astype(np.float32)
    ours = exact(n_neighbors=7, mode=mode).fit(x).transform(q)
    theirs = KNeighborsTransformer(n_neighbors=7, mode=mode, algorithm="brute").fit(x).transform(q)
    assert ours.shape == theirs.shape == (40, 300)
    assert np.array_equal(ours.indptr, theirs.indptr)
    assert np.array_equal(ours.indices, theirs.indices)
    assert np.allclose(ours.data, theirs.data, atol=1e-5)


def test_a_fitted_sample_is_its_own_first_neighbour():
    x = np.random.default_rng(2).normal(size=(500, 8)).astype(np.float32)
    graph = LethevecTransformer(n_neighbors=4).fit_transform(x)
    first = graph.indptr[:-1]
    assert np.array_equal(graph.indices[first], np.arange(500))
    assert not graph.data[first].any()
    assert (np.diff(graph.indptr) == 5).all()


@pytest.mark.parametrize("source", SOURCES)
def test_forgetting_equals_never_having_seen(source):
    rng = np.random.default_rng(3)
    x, q = rng.normal(size=(200, 8)).astype(np.float32), rng.normal(size=(20, 8)).astype(np.float32)
    gone = rng.choice(200, size=30, replace=False)
    left = np.setdiff1d(np.arange(200), gone)
    ours = LethevecTransformer(source=source).partial_fit(x[:120]).partial_fit(x[120:]).forget(gone)
    never = LethevecTransformer(source=source).partial_fit(x[left[::-1]], ids=left[::-1])
    assert ours.index_.digest() == never.index_.digest()
    assert (ours.transform(q) != never.transform(q)).nnz == 0
    # The ids are others when the rest is fitted by itself; an exact search does not depend on them.
    ours.set_params(effort=np.inf)
    assert (ours.transform(q) != exact(source=source).fit(x[left]).transform(q)).nnz == 0


def test_nothing_of_a_forgotten_sample_is_left_in_the_object_or_its_pickle():
    x = np.random.default_rng(4).normal(size=(50, 16)).astype(np.float32)
    ours = LethevecTransformer().fit(x)
    secret = x[17].tobytes()
    assert secret in pickle.dumps(ours)
    ours.forget(17)
    assert secret not in pickle.dumps(ours)
    assert pickle.dumps(ours) == pickle.dumps(
        LethevecTransformer().partial_fit(np.delete(x, 17, 0), ids=ours.sample_ids_)
    )


def test_what_the_page_says_of_a_pipelines_cache_is_true(tmp_path):
    x = np.random.default_rng(4).normal(size=(50, 16)).astype(np.float32)
    pipeline = make_pipeline(LethevecTransformer(), KNeighborsClassifier(3, metric="precomputed"), memory=str(tmp_path))
    pipeline.fit(x, np.arange(50) % 2)
    pipeline[0].forget(17)
    assert any(x[17].tobytes() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_numbers_go_on_from_the_largest_that_is_there():
    x = np.random.default_rng(5).normal(size=(6, 3)).astype(np.float32)
    ours = LethevecTransformer(n_neighbors=1).fit(x[:4]).forget([3, 0]).partial_fit(x[4:])
    assert ours.sample_ids_.tolist() == [1, 2, 3, 4]
    assert ours.transform(x[4:]).indices.tolist()[::2] == [2, 3]
    assert ours.forget([0, 1, 2, 3]).n_samples_fit_ == 0
    assert ours.partial_fit(x[:2]).sample_ids_.tolist() == [0, 1]


def test_a_refused_forget_changes_nothing():
    x = np.random.default_rng(6).normal(size=(10, 3)).astype(np.float32)
    ours = LethevecTransformer().fit(x)
    before = ours.index_.digest()
    for indices, error in (([0, 10], UnknownIdError), ([-1], UnknownIdError), ([0.5], InputError), ([[1]], InputError)):
        with pytest.raises(error):
            ours.forget(indices)
    assert ours.forget([]).index_.digest() == before
    with pytest.raises(IdError, match="present"):
        ours.partial_fit(x[:1], ids=[3])
    assert (ours.n_samples_fit_, ours.index_.digest()) == (10, before)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"n_neighbors": 0}, "n_neighbors: expected a whole number from 1 on, got 0"),
        ({"n_neighbors": True}, "got True"),
        ({"mode": "both"}, "mode: expected 'distance' or 'connectivity', got 'both'"),
        ({"metric": "ip"}, "negative"),
        ({"metric": "l1"}, "metric"),
        ({"n_neighbors": 10}, "n_samples_fit = 10"),
    ],
)
def test_bad_settings_are_refused(settings, expected):
    x = np.random.default_rng(7).normal(size=(10, 3)).astype(np.float32)
    with pytest.raises(ParameterError if "n_samples" not in expected else InputError, match=expected):
        LethevecTransformer(**settings).fit_transform(x)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_are_whole_and_their_own(copied):
    x = np.random.default_rng(8).normal(size=(30, 4)).astype(np.float32)
    ours = LethevecTransformer(metric="cosine").fit(x)
    other = copied(ours)
    assert other.index_.digest() == ours.index_.digest()
    ours.forget(0)
    assert other.n_samples_fit_ == 30
    assert not hasattr(clone(ours), "index_")
    emptied = copied(ours.forget(range(29)))
    assert emptied.n_samples_fit_ == 0


def test_a_classifier_behind_it_is_as_good_as_with_exact_neighbours():
    x, y = load_digits(return_X_y=True)
    train, test = np.arange(0, 1797, 2), np.arange(1, 1797, 2)

    def accuracy(transformer) -> float:
        pipeline = make_pipeline(transformer, KNeighborsClassifier(5, metric="precomputed"))
        return pipeline.fit(x[train], y[train]).score(x[test], y[test])

    assert accuracy(LethevecTransformer(5)) >= accuracy(KNeighborsTransformer(n_neighbors=5)) - 0.005


def test_dbscan_finds_the_clusters():
    x, y = make_blobs(300, centers=[[0, 0], [8, 0], [0, 8]], cluster_std=0.5, random_state=0)
    graph = LethevecTransformer(20).fit_transform(x)
    labels = DBSCAN(eps=1.0, min_samples=5, metric="precomputed").fit_predict(graph)
    for cluster in range(3):
        found = labels[y == cluster]
        assert len(set(found[found >= 0])) == 1
    assert len(set(labels[labels >= 0])) == 3


@pytest.mark.parametrize(
    "embedding",
    [
        TSNE(2, metric="precomputed", init="random", perplexity=10, max_iter=300, random_state=0),
        Isomap(n_neighbors=40, metric="precomputed"),
    ],
    ids=["tsne", "isomap"],
)
def test_embeddings_take_the_graph(embedding):
    x, y = load_digits(n_class=2, return_X_y=True)
    flat = make_pipeline(LethevecTransformer(80), embedding).fit_transform(x[:200])
    assert flat.shape == (200, 2)
    centres = np.stack([flat[y[:200] == digit].mean(axis=0) for digit in (0, 1)])
    nearest = np.linalg.norm(flat[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == y[:200]).mean() > 0.95
