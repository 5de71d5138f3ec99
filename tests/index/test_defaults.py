"""With nothing said but dim, metric and source, recall@10 is 0.95 or more, whatever the data are like.

The defaults were chosen on real sets. These are made up, of kinds that once got less or that a rule for the usual case
may miss. Hash tables are left out: with their defaults some of these kinds get far less.
"""

from __future__ import annotations

import numpy as np
import pytest

import lethevec

K, QUERIES, N = 10, 40, 9000


def latent(rng, n, inner, dim, noise=0.3):
    """Vectors of few degrees of freedom in many dimensions, bent, as embeddings are."""
    values = np.tanh(1.5 * rng.normal(size=(n, inner)) @ rng.normal(size=(inner, 64)) / np.sqrt(inner))
    return values @ rng.normal(size=(64, dim)) / 8 + noise * rng.normal(size=(n, dim)) / np.sqrt(dim)


def clusters(rng, labels, dim, spread):
    centres = rng.normal(size=(labels.max() + 1, dim))
    sizes = spread * np.exp(0.5 * rng.normal(size=len(centres)))
    return centres[labels] + sizes[labels, None] * rng.normal(size=(len(labels), dim))


def few_dimensions(rng, n):
    return rng.random((n, 8))


def many_dimensions(rng, n):
    return latent(rng, n // 3, 24, 1024)


def many_degrees_of_freedom(rng, n):
    return latent(rng, n, 40, 256)


def tight_clusters(rng, n):
    return clusters(rng, rng.integers(n // 100, size=n), 48, 0.05)


def uneven_clusters(rng, n):
    weights = 1.0 / np.arange(1, 201)
    return clusters(rng, rng.choice(200, size=n, p=weights / weights.sum()), 64, 0.4)


def one_direction(rng, n):
    """All vectors point about the same way: what sets them apart is small beside what they have in common."""
    return 0.2 * latent(rng, n, 16, 96) + 2.0 * rng.normal(size=96)


def each_three_times(rng, n):
    return np.repeat(latent(rng, n // 3, 16, 64), 3, axis=0)[rng.permutation(n // 3 * 3)]


def lengths_that_differ(rng, n):
    return latent(rng, n, 16, 96) * np.exp(0.4 * rng.normal(size=(n, 1)))


KINDS = [
    few_dimensions,
    many_dimensions,
    many_degrees_of_freedom,
    tight_clusters,
    uneven_clusters,
    one_direction,
    each_three_times,
    lengths_that_differ,
]


def farthest_of(x, queries, metric):
    """How far the k-th neighbour of each query is."""
    x, queries = x.astype(np.float64), queries.astype(np.float64)
    if metric == "cosine":
        x, queries = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, queries))
        away = 1 - queries @ x.T
    elif metric == "ip":
        away = -queries @ x.T
    else:
        away = np.stack([np.linalg.norm(x - q, axis=1) for q in queries])
    return np.partition(away, K - 1, axis=1)[:, K - 1 : K]


def recall(index, x, queries, metric):
    """By distance: which of several equally near records are found makes no difference."""
    farthest = farthest_of(x, queries, metric)
    return float((index.search(queries, k=K).distances <= farthest + 1e-5 * np.abs(farthest) + 1e-6).mean())


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
@pytest.mark.parametrize("source", ["scan", "pivots"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_recall_is_095_on_any_kind_of_data(kind, source, metric):
    x = kind(np.random.default_rng(7), N + QUERIES).astype(np.float32)
    x, queries = x[:-QUERIES], x[-QUERIES:]
    index = lethevec.Index(x.shape[1], metric, source=source)
    index.add(x, ids=np.arange(len(x)))
    assert recall(index, x, queries, metric) >= 0.95


@pytest.mark.parametrize("kind", [few_dimensions, each_three_times, many_degrees_of_freedom])
def test_recall_of_a_graph(kind):
    """Not of tight clusters, nor of vectors that all point about the same way: there it gives less."""
    x = kind(np.random.default_rng(7), N // 3 + QUERIES).astype(np.float32)
    x, queries = x[:-QUERIES], x[-QUERIES:]
    index = lethevec.Index(x.shape[1], "l2", source="graph")
    index.add(x, ids=np.arange(len(x)))
    assert recall(index, x, queries, "l2") >= 0.95


@pytest.mark.parametrize("source", ["scan", "pivots"])
def test_clusters_that_come_and_go_one_by_one(source):
    """As in a stream: at each step one more cluster is there, and from the middle on the oldest leaves."""
    rng = np.random.default_rng(8)
    labels = np.sort(rng.integers(40, size=N))
    x = clusters(rng, labels, 48, 0.1).astype(np.float32)
    queries = x[rng.permutation(N)[:QUERIES]] + 0.02 * rng.normal(size=(QUERIES, 48)).astype(np.float32)
    index = lethevec.Index(48, "l2", source=source)
    for step in range(40):
        index.add(x[labels == step], ids=np.flatnonzero(labels == step))
        if step >= 20:
            index.forget(np.flatnonzero(labels == step - 20))
        if step % 8 == 7:
            there = (labels <= step) & (labels > (step - 20 if step >= 20 else -1))
            assert recall(index, x[there], queries, "l2") >= 0.95, step
