"""The spec's graph: reachable whatever the data, the same whatever the order, and monotone in effort."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethevec import reference
from lethevec.reference import Graph, GraphSettings, graph_candidates, graph_pool, vector_hash, walk
from lethevec.reference.constants import DEGREE

KEY = (0x0706050403020100, 0x0F0E0D0C0B0A0908)


def settings_for(d, *, metric="l2", cell_size=4, cells=5, pool=12):
    return GraphSettings(reference.make_frame(d, 1, 7, "hadamard"), metric, KEY, cell_size, cells, pool)


def make(x, ids=None, **options):
    x = np.asarray(x, dtype=np.float32)
    return Graph(settings_for(x.shape[1], **options), np.arange(len(x)) if ids is None else ids, x)


def blobs(rng, n, d):
    centres = rng.normal(size=(6, d)) * 4
    return centres[rng.integers(6, size=n)] + 0.3 * rng.normal(size=(n, d))


#: Data on which graphs come apart: copies, lines, grids, clumps far from each other, and numbers so small that squares
#: of differences are zero.
ADVERSARIAL = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "blobs": blobs,
    "copies": lambda rng, n, d: np.where(rng.random((n, 1)) < 0.6, 1.0, rng.normal(size=(n, d))),
    "all copies": lambda rng, n, d: np.ones((n, d)),
    "line": lambda rng, n, d: np.outer(np.arange(n), np.ones(d)),
    "grid": lambda rng, n, d: rng.integers(0, 3, size=(n, d)),
    "clumps": lambda rng, n, d: 1e3 * rng.integers(0, 3, size=(n, 1)) + 1e-3 * rng.normal(size=(n, d)),
    "star": lambda rng, n, d: np.vstack([np.zeros((1, d)), 9 * rng.normal(size=(n - 1, d))]),
    "tiny": lambda rng, n, d: 1e-30 * rng.normal(size=(n, d)),
}


def reached(graph):
    """The vertices that can be reached from the root along the lists."""
    seen, todo = {0}, [0]
    while todo:
        for y in graph.lists[todo.pop()].tolist():
            if y not in seen:
                seen.add(y)
                todo.append(y)
    return seen


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("n", [1, 2, 40, 220])
def test_every_record_is_reachable(name, metric, n):
    rng = np.random.default_rng(n)
    x = ADVERSARIAL[name](rng, n, 6).astype(np.float32)
    if metric == "cosine":
        x = x + np.float32(0.5 if name != "tiny" else 1e-31)
    graph = make(x, metric=metric)
    assert reached(graph) == set(range(len(graph)))
    assert sorted(np.concatenate(graph.rows).tolist()) == list(range(n))


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(ADVERSARIAL)), st.integers(2, 90))
@settings(max_examples=25, deadline=None)
def test_it_is_reachable_after_any_history_and_does_not_remember_it(seed, name, n):
    rng = np.random.default_rng(seed)
    x = ADVERSARIAL[name](rng, n, 5).astype(np.float32)
    ids = rng.permutation(1000)[:n]
    stay = rng.random(n) < 0.7
    stay[rng.integers(n)] = True
    kept, order = np.flatnonzero(stay), rng.permutation(int(stay.sum()))
    one, other = make(x[kept], ids[kept]), make(x[kept[order]], ids[kept[order]])
    assert reached(one) == set(range(len(one)))
    for a, b in zip(one.lists, other.lists, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.parents, other.parents)


def test_what_the_definition_says():
    rng = np.random.default_rng(3)
    graph = make(blobs(rng, 150, 4))
    d = ((graph.z[:, None].astype(np.float64) - graph.z) ** 2).sum(axis=2)
    assert np.all(np.diff(graph.hashes.astype(object)) > 0)
    assert len(graph.pivots) > 5
    for x in range(len(graph)):
        near = graph.near[x]
        assert set(near.tolist()) == set(graph.pivots[np.argsort(d[x][graph.pivots])[:5]].tolist())
        cells = {y for y in range(len(graph)) if graph.near[y][0] in near and y != x}
        assert graph.pools[x].tolist() == sorted(cells, key=lambda y: d[x][y])[:12]
        kept = graph.kept[x].tolist()
        for y in graph.pools[x].tolist():
            nearer = [f for f in kept if d[x][f] < d[x][y] and d[f][y] < d[x][y]]
            assert (y in kept) == (not nearer)
        around = set(kept) | {y for y in range(len(graph)) if x in graph.kept[y]}
        assert set(graph.edges[x].tolist()) == around or len(graph.edges[x]) == DEGREE
        if x:
            lower = [y for y in {*graph.pools[x].tolist(), *near.tolist()} if y < x and x not in graph.pivots]
            assert graph.parents[x] == (min(lower, key=lambda y: d[x][y]) if lower else 0)
            assert x in graph.lists[graph.parents[x]]


def test_a_list_is_pruned_to_the_degree_before_children_are_added():
    rng = np.random.default_rng(4)
    graph = make(ADVERSARIAL["star"](rng, 200, 64), cell_size=64, cells=8, pool=199)
    hub = next(x for x in range(len(graph)) if not graph.z[x].any())
    assert len(graph.edges[hub]) == DEGREE
    assert all(len(edges) <= DEGREE for edges in graph.edges)


def test_copies_are_one_vertex_and_change_nothing():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 5)).astype(np.float32)
    alone = make(x)
    doubled = make(np.vstack([np.repeat(x[:3], 30, axis=0) * np.float32(1), x]))
    for a, b in zip(alone.lists, doubled.lists, strict=True):
        np.testing.assert_array_equal(a, b)
    assert sorted(len(rows) for rows in doubled.rows)[-3:] == [31, 31, 31]
    # Under cosine, what points the same way is a copy.
    assert len(make(np.vstack([x, 2 * x, 4 * x]), metric="cosine")) == 60


def test_vector_hash_is_siphash_of_the_bytes():
    """The published vectors of SipHash-2-4: the message 00 01 02 ... of 4 and of 8 bytes."""
    for length, expected in ((4, 0xCF2794E0277187B7), (8, 0x93F5F5799A932462)):
        row = np.frombuffer(bytes(range(length)), dtype="<f4")[None]
        assert int(vector_hash(KEY, row)[0]) == expected


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_estimates_are_near_the_distances(metric):
    rng = np.random.default_rng(6)
    graph = make(rng.normal(size=(200, 64)), metric=metric)
    q = rng.normal(size=64)
    q = q / np.linalg.norm(q) if metric == "cosine" else q
    errors = []
    for x, codes in enumerate(graph.codes):
        y = graph.z[graph.lists[x]].astype(np.float64)
        turned = reference.superbit(graph.settings.frame, q[None].astype(np.float32), 64)[0]
        along = np.where(codes.bits, turned, -turned).sum(axis=1)
        estimate = ((q - graph.z[x]) ** 2).sum() + codes.adds - codes.scales * along
        errors.extend((estimate - ((q - y) ** 2).sum(axis=1)) / ((q - y) ** 2).sum(axis=1))
    assert abs(np.mean(errors)) < 0.02
    assert np.std(errors) < 0.3


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_less_effort_is_a_prefix_of_more(metric):
    rng = np.random.default_rng(8)
    graph = make(blobs(rng, 300, 8), metric=metric)
    for q in rng.normal(size=(5, 1, 8)).astype(np.float32):
        walks = [walk(graph, q, size)[0] for size in (1, 2, 5, 17, 60, 300, 20_000)]
        for less, more in itertools.pairwise(walks):
            assert more[: len(less)] == less
            assert len(set(more)) == len(more)
        assert sorted(walks[-1]) == list(range(len(graph)))


def test_a_search_finds_the_nearest():
    rng = np.random.default_rng(9)
    x = blobs(rng, 600, 16).astype(np.float32)
    graph = make(x, cell_size=16, cells=8, pool=40)
    found = 0
    for q in blobs(np.random.default_rng(9), 620, 16)[600:].astype(np.float32):
        true = np.argsort(((x - q) ** 2).sum(axis=1))[:10]
        walked = graph_candidates(graph, q[None], 10, 1.0)
        assert 10 <= len(walked.rows) < 300
        assert walked.estimates > 0
        found += len(set(true.tolist()) & set(walked.rows.tolist()))
    assert found >= 190


def test_an_allow_list_gives_as_many_as_there_are():
    rng = np.random.default_rng(10)
    x = blobs(rng, 500, 8).astype(np.float32)
    graph = make(x)
    for share in (0.005, 0.1, 0.6, 1.0):
        allowed = rng.random(500) < share
        allowed[0] = True
        walked = graph_candidates(graph, x[:1] + 0.01, 5, 0.5, allowed)
        assert allowed[walked.rows].all()
        assert len(walked.rows) >= min(5, int(allowed.sum()))
    # Where what may be found lies far from the query, all of it is looked at.
    far = ((x - x[0]) ** 2).sum(axis=1) > np.median(((x - x[0]) ** 2).sum(axis=1))
    walked = graph_candidates(graph, x[:1], 5, 0.1, far)
    assert len(walked.rows) == int(far.sum())
    assert graph_pool(500, int(far.sum()), 5, 0.1) > 0
