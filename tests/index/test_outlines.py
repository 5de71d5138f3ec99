"""Outlines of long vectors, kept beside fields: they change no answer, and nothing of a record stays in them."""

from __future__ import annotations

import numpy as np
import pytest

from lethevec import Graph, Index, Pivots, Tables
from lethevec._native import core

N = 900
SOURCES = {
    "scan": "scan",
    "tables": Tables(key_bits=4),
    "pivots": Pivots(cell_size=12),
    "refined": Pivots(cell_size=12, refine=True),
    "graph": Graph(),
}


def vectors(kind, n, dim, seed=0):
    rng = np.random.default_rng([seed, n, dim])
    x = rng.normal(size=(n, dim))
    if kind == "groups":  # and many that are equal
        centres = np.random.default_rng(dim).normal(size=(12, dim))
        x = centres[rng.integers(12, size=n)] + 0.01 * x * (rng.random((n, 1)) < 0.5)
    if kind == "counts":
        x = np.floor(np.abs(x) * 90)
        x[:, 0] += 1
    if kind == "spikes":  # one number that is far larger than the others
        x[np.arange(n), rng.integers(dim, size=n)] *= 1000
    if kind == "lengths":
        x *= 10.0 ** rng.uniform(-11, 15, size=(n, 1))
    if kind == "long":
        x *= 1e16
    return x.astype(np.float32)


def pair(dim, metric, source, x, ids):
    """Two indexes with the same records; the second has outlines."""
    made = []
    for outlines in (False, True):
        index = Index(dim, metric, source=source)
        if outlines:
            index._native.keep_fields(None)
        index.add(x, ids=ids)
        made.append(index)
    return made


def assert_same(one, two, queries, allow):
    for how in ({"k": 10}, {"k": 1, "effort": 0.5}, {"k": 60, "effort": 3.0}, {"k": 10, "effort": np.inf}):
        for some in (allow, None):
            a, b = (index.search(queries, allow=some, **how) for index in (one, two))
            np.testing.assert_array_equal(a.ids, b.ids)
            np.testing.assert_array_equal(a.distances.view(np.uint32), b.distances.view(np.uint32))
            assert a.work == b.work
    for rank in (0, 5, 400):
        far = one.search(queries[:1], N, effort=np.inf).distances[0]
        radius = float(far[min(rank, len(one) - 1)])
        for query in (queries[0], queries[-1]):
            for some in (allow, None):
                a, b = (index.search_radius(query, radius, allow=some) for index in (one, two))
                np.testing.assert_array_equal(a.ids, b.ids)
                assert a.work == b.work


@pytest.mark.parametrize("kind", ["any", "groups", "counts", "spikes", "lengths", "long"])
@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_no_answer_is_another_one(isa, metric, kind):
    for dim in (32, 41, 104, 105, 260):
        x, queries = vectors(kind, N, dim), vectors(kind, 6, dim, seed=1)
        queries[0] = x[5]
        ids = np.random.default_rng(dim).permutation(N) - 30
        if metric != "cosine":
            x[7], x[8], queries[1] = 0, 0, 0
        one, two = pair(dim, metric, "scan", x, ids)
        assert_same(one, two, queries, ids[::2])


@pytest.mark.parametrize("source", SOURCES)
def test_they_follow_every_change(source):
    dim, rng = 50, np.random.default_rng(3)
    x = vectors("groups", N, dim)
    one, two = pair(dim, "l2", SOURCES[source], x, np.arange(N))
    for step in range(4):
        gone, moved = np.split(rng.choice(two.ids(), size=150, replace=False), [90])
        new, fresh = vectors("groups", 60, dim, seed=step), vectors("groups", 70, dim, seed=10 + step)
        for index in (one, two):
            index.forget(gone[:1])
            index.forget(gone[1:])
            index.update(new, ids=moved)
            index.add(fresh, ids=np.arange(70) + 10_000 * (step + 1))
            with pytest.raises(Exception, match="expected"):
                index.add(fresh[:5], ids=[1, 2, 3, 10_000_000, int(moved[0])])
        assert_same(one, two, vectors("groups", 5, dim, seed=20 + step), two.ids()[::2])


@pytest.mark.parametrize("dim", [32, 100, 131])
@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_a_bound_is_never_above_the_distance_and_not_far_below(isa, metric, dim):
    for kind in ("any", "groups", "counts"):
        x, q = vectors(kind, 300, dim).astype(np.float64), vectors(kind, 1, dim, seed=1)[0].astype(np.float64)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        q /= np.linalg.norm(q)
        x, q = x.astype(np.float32), q.astype(np.float32)
        bounds = np.array(core.testing.outline_bounds(metric, q.tolist(), x.ravel().tolist()))
        products = x.astype(np.float64) @ q.astype(np.float64)
        true = {"ip": -products, "cosine": 1 - products, "l2": 2 - 2 * products}[metric]
        assert (bounds <= true).all()
        assert (true - bounds).mean() < (0.4 if metric == "l2" else 0.2)


def test_nothing_of_a_record_stays_in_them():
    dim = 100
    x, ids = vectors("any", N, dim), np.arange(N)
    index = Index(dim, "l2", source="scan")
    index.add(x, ids=ids)
    outlines = [core.testing.outline(row.tolist())[:50] for row in x]

    def there():
        memory = bytes(core.testing.raw_memory(index._native))
        return [row for row, outline in enumerate(outlines) if outline in memory]

    assert there() == []
    index._native.keep_fields(None)
    assert there() == list(range(N))
    index.forget([3])
    index.forget(np.arange(100, 300))
    left = [row for row in range(N) if row != 3 and not 100 <= row < 300]
    assert there() == left
    index.update(vectors("any", 2, dim, seed=9), ids=[0, 899])
    assert there() == left[1:-1]
    index.forget(np.arange(10, 890), ignore_unknown=True)
    assert there() == [row for row in left[1:-1] if not 10 <= row < 890]
    index._native.keep_fields([])
    assert there() == []


@pytest.mark.parametrize(
    "arguments",
    [{"dim": 31}, {"dim": 64, "keep_vectors": "int8"}, {"dim": 64, "keep_vectors": "float16"}],
    ids=["short", "int8", "float16"],
)
def test_where_there_are_none(arguments):
    """Short vectors and small forms are read in about the same time."""
    x = vectors("any", 50, arguments["dim"])
    index = Index(metric="l2", source="scan", **arguments)
    index.add(x, ids=np.arange(50))
    index._native.keep_fields(None)
    memory = bytes(core.testing.raw_memory(index._native))
    assert not [row for row in x if core.testing.outline(row.tolist())[: len(row) // 2] in memory]
