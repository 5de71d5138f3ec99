"""Effort: more never gives less. The candidates of less effort are among those of more, so recall can only rise."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import lethevec

GRID = [
    0.01,
    0.03,
    0.07,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.8,
    0.9,
    1.0,
    1.1,
    1.3,
    1.6,
    2.0,
    3.0,
    5.0,
    8.0,
    20.0,
    1e3,
    math.inf,
]
K = 10


def truth_of(x, queries, metric):
    if metric == "cosine":
        x, queries = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, queries))
    x, queries = x.astype(np.float64), queries.astype(np.float64)
    scores = -queries @ x.T
    if metric == "l2":
        scores = (x**2).sum(axis=1) + 2 * scores
    return np.argsort(scores, axis=1, kind="stable")[:, :K]


def found_of(hits, truth):
    """For each query, which of its true neighbours were found."""
    return [frozenset(a) & frozenset(b) for a, b in zip(hits.ids.tolist(), truth.tolist(), strict=True)]


def split(vectors, queries):
    rng = np.random.default_rng(0)
    order = rng.permutation(len(vectors))
    return vectors[order[queries:]], vectors[order[:queries]]


CONFIGURATIONS = {
    "progressive": {},
    "progressive 1 plane": {"bits": 100},
    "progressive 4 planes": {"bits": 400},
    "superbit": {"family": "superbit", "bits": 250},
    "usr hamming": {"family": "usr", "bits": 200, "ranking": "hamming", "steps": 5},
    "simhash hamming": {"family": "simhash", "bits": 200, "ranking": "hamming"},
}


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("source", ["words", "random"])
def test_more_effort_never_finds_less(word_vectors, source, name, metric):
    """Query by query, neighbour by neighbour: a true neighbour that was found is found with every larger effort."""
    if source == "words":
        x, queries = split(word_vectors[:5000], 25)
    else:
        rng = np.random.default_rng(4)
        x = (rng.normal(size=(4000, 100)) * rng.lognormal(size=(4000, 1))).astype(np.float32)
        queries = rng.normal(size=(25, 100)).astype(np.float32)
    index = lethevec.Index(100, metric, **CONFIGURATIONS[name])
    index.add(x, ids=np.arange(len(x)))
    truth = truth_of(x, queries, metric)
    before, work = [frozenset()] * len(queries), 0
    recalls = []
    for effort in GRID:
        hits = index.search(queries, K, effort=effort)
        found = found_of(hits, truth)
        assert all(a <= b for a, b in zip(before, found, strict=True)), effort
        assert hits.work.reranked >= work
        before, work = found, hits.work.reranked
        recalls.append(sum(map(len, found)) / truth.size)
    # Something was lost at the low end, and the high end is a search of everything.
    assert recalls[0] < recalls[-1]
    assert hits.work.reranked == len(x) * len(queries)
    assert recalls[-1] >= 0.998  # two neighbours at the same distance in float32 may trade places


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
@pytest.mark.parametrize("name", ["progressive", "progressive 4 planes", "superbit", "simhash hamming"])
def test_candidates_are_nested(tools, word_vectors, name, metric):
    """What is reranked is a subset of what more effort reranks: in the spec, of which the index has the same number."""
    x, queries = split(word_vectors[:3000], 3)
    arguments = {"dim": 100, "metric": metric, **CONFIGURATIONS[name]}
    ids = np.arange(len(x))
    index, oracle = tools.build(arguments, x, ids), tools.Oracle(arguments, x, ids)
    for query in queries:
        candidates = []
        for effort in (0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 1.0, 1.7, 4.0, 1e4, 1e9):
            candidates.append(oracle.candidates(query, 5, effort))
            assert index.search(query, k=5, effort=effort).work.reranked == len(candidates[-1])
        assert all(less <= more for less, more in pairwise(candidates))
        assert len(candidates[0]) < len(candidates[-1])


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_infinite_effort_is_exact(tools, metric):
    """It is a brute-force search, whatever the source and its codes, and with every kind of input."""
    x, ids = tools.data(4000, 30)
    for family in (
        {},
        {"source": "tables"},
        {"source": lethevec.Pivots(cell_size=50)},
        {"family": "superbit", "bits": 45},
        {"family": "usr", "bits": 60, "ranking": "hamming"},
    ):
        arguments = {"dim": 30, "metric": metric, **family}
        index, oracle = tools.build(arguments, x, ids), tools.Oracle(arguments, x, ids)
        queries, _ = tools.data(4, 30, seed=2)
        for given in (queries, queries.astype(np.float64)):  # the second does not go the direct way
            hits = index.search(given, k=25, effort=math.inf)
            assert hits.work.reranked == len(x) * len(queries)
            for row, query in enumerate(queries):
                distances = oracle.distances(query)
                best = np.lexsort((oracle.ids, distances))[:25]
                np.testing.assert_array_equal(hits.ids[row], oracle.ids[best])
                assert tools.same_floats(hits.distances[row], distances[best])


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_the_defaults_reach_recall_095_on_real_data(word_vectors, metric):
    x, queries = split(word_vectors, 200)
    index = lethevec.Index(dim=100, metric=metric)
    index.add(x, ids=np.arange(len(x)))
    hits = index.search(queries)
    found = sum(map(len, found_of(hits, truth_of(x, queries, metric))))
    assert found / (K * len(queries)) >= 0.95
    assert hits.work.reranked < 0.05 * len(x) * len(queries)


def test_recall_of_codes_alone(word_vectors):
    """Without vectors the default code is longer; recall is what the design measured, not 0.95."""
    x, queries = split(word_vectors, 100)
    index = lethevec.Index(dim=100, keep_vectors=False)
    index.add(x, ids=np.arange(len(x)))
    truth = truth_of(x, queries, "cosine")
    assert sum(map(len, found_of(index.search(queries, effort=10.0), truth))) / truth.size >= 0.9
