"""Sizes of vectors: answers are right for every norm that is taken, and other norms are refused, small ones too.

Squares of small numbers leave the range of float32 as those of large ones do, without an infinity to show for it.
"""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec._vectors import MAX_NORM, MIN_NORM
from lethevec.errors import VectorError

DIM, RECORDS = 24, 900
METRICS = ["cosine", "l2", "ip"]
SOURCES = ["scan", "tables", "pivots", "graph"]
PAIRS = [(metric, source) for metric in METRICS for source in SOURCES if (metric, source) != ("ip", "graph")]


def of_size(n: int, size: float, seed: int = 0) -> np.ndarray:
    """Random vectors of about one norm, none below it."""
    x = np.random.default_rng(seed).normal(size=(n, DIM))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return (x * np.linspace(1.001, 2.0, n)[:, None] * size).astype(np.float32)


def true_distances(metric: str, x: np.ndarray, q: np.ndarray) -> np.ndarray:
    """In extended precision, whose exponents nothing here leaves."""
    x, q = x.astype(np.longdouble), q.astype(np.longdouble)
    if metric == "l2":
        return np.sqrt(((x[None] - q[:, None]) ** 2).sum(axis=2))
    products = q @ x.T
    if metric == "ip":
        return -products
    return 1 - products / np.sqrt((x**2).sum(axis=1)) / np.sqrt((q**2).sum(axis=1))[:, None]


@pytest.mark.parametrize(("metric", "source"), PAIRS)
@pytest.mark.parametrize("size", [MIN_NORM, 1.0, MAX_NORM / 2.1])
def test_answers_are_right_at_either_end(metric, source, size):
    x, q = of_size(RECORDS, size), of_size(7, size, seed=1)
    index = lethevec.Index(DIM, metric=metric, source=source)
    index.add(x, ids=range(RECORDS))
    hits = index.search(q, k=10, effort=1e6)
    true = true_distances(metric, x, q)
    assert (hits.ids == np.argsort(true, axis=1)[:, :10]).mean() > 0.98  # ties apart, of float32
    found = np.take_along_axis(true, hits.ids, axis=1).astype(np.float64)
    np.testing.assert_allclose(hits.distances, found, rtol=1e-5, atol=1e-5 * float(np.abs(found).max()))
    assert index.search(q, k=10).ids.size == hits.ids.size


def test_vectors_that_float32_tells_apart_have_a_distance():
    """Two that differ in the last bits of one coordinate, at the smallest norm that is taken."""
    x = np.full((2, DIM), 1.1 * MIN_NORM / np.sqrt(DIM), dtype=np.float32)
    x[1, 0] *= np.float32(1 + 4e-7)
    index = lethevec.Index(DIM, metric="l2", source="scan")
    index.add(x, ids=[0, 1])
    distances = index.search(x[0], k=2).distances[0]
    assert distances[0] == 0
    np.testing.assert_allclose(distances[1], float(true_distances("l2", x, x[:1])[0, 1]), rtol=2e-2)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("size", [1e-13, 1e-23, 1e-40])
def test_shorter_ones_are_refused(metric, size):
    index = lethevec.Index(DIM, metric=metric)
    x = of_size(20, 1.0)
    index.add(x, ids=range(20))
    short = of_size(3, size)
    mixed = np.concatenate([x[:2], short])
    before = index.digest()
    for given in (short, mixed, short.astype(np.float64), short.tolist()):
        for call in (
            lambda v: index.add(v, ids=range(100, 100 + len(v))),
            lambda v: index.update(v, ids=range(len(v))),
            index.search,
            lambda v: index.search_radius(v, 1.0),
        ):
            with pytest.raises(VectorError, match="norms of at least 1e-12, or zero"):
                call(given)
    assert index.digest() == before


@pytest.mark.parametrize("metric", METRICS)
def test_what_only_float32_takes_for_zero_is_too_short(metric):
    index = lethevec.Index(3, metric=metric)
    with pytest.raises(VectorError, match=r"the first in row 1: 1e-50"):
        index.add([[0, 1, 0], [0, 1e-50, 0]], ids=[1, 2])
    assert len(index) == 0


@pytest.mark.parametrize(("metric", "source"), [pair for pair in PAIRS if pair[0] != "cosine"])
def test_zero_is_a_vector_like_others(metric, source):
    x = np.concatenate([np.zeros((2, DIM), dtype=np.float32), of_size(60, MIN_NORM), of_size(60, 1.0)])
    index = lethevec.Index(DIM, metric=metric, source=source)
    index.add(x, ids=range(len(x)))
    hits = index.search(np.zeros(DIM, dtype=np.float32), k=3, effort=1e6)
    assert hits.ids[0].tolist()[:2] == [0, 1]
    assert hits.distances[0].tolist()[:2] == [0, 0]
    index.update(np.zeros((1, DIM)), ids=[9])
    assert index.search(np.zeros(DIM), k=3, effort=1e6).ids[0].tolist() == ([0, 1, 9] if metric == "l2" else [0, 1, 2])


@pytest.mark.parametrize("source", SOURCES)
def test_small_and_large_in_one_index(source):
    """A query finds the nearest among records of every size; radius searches too."""
    sizes = [MIN_NORM, 1e-6, 1.0, 1e6, 1e12, 1e17]
    x = np.concatenate([of_size(50, size, seed) for seed, size in enumerate(sizes)])
    index = lethevec.Index(DIM, metric="l2", source=source)
    index.add(x, ids=range(len(x)))
    for at in range(0, len(x), 50):
        assert index.search(x[at : at + 9], k=1, effort=1e6).ids[:, 0].tolist() == list(range(at, at + 9))
    assert sorted(hit.id for hit in index.search_radius(x[0], 4 * MIN_NORM)[0]) == list(range(50))


def test_hash_codes_are_taken_of_any_size():
    x = of_size(4, 1e-30)
    codes = lethevec.hasher("superbit", dim=DIM, bits=DIM).codes
    assert (codes(x) == codes(x * np.float32(1e30))).all()
    assert (codes(x[0]) == codes(x)[:1]).all()
