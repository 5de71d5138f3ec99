"""The native index equals the spec: what it keeps of each record, and every answer, distances included, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec import reference
from lethevec._native import core

METRICS = ["cosine", "l2", "ip"]
DIM = 20
FAMILIES = {
    "progressive default": {},
    "progressive 1 plane": {"bits": DIM},
    "progressive 5 planes": {"bits": 5 * DIM},
    "progressive 3 planes, 2 sweeps": {"bits": 3 * DIM, "sweeps": 2},
    "progressive svd": {"bits": 2 * DIM, "rotation": "svd", "seed": 7},
    "usr": {"family": "usr", "bits": 3 * DIM},
    "usr, fixed gain": {"family": "usr", "bits": 2 * DIM, "steps": 3, "mean_norm": 4.0},
    "superbit": {"family": "superbit", "bits": 2 * DIM},
    "superbit cut": {"family": "superbit", "bits": 2 * DIM + 7},
    "simhash": {"family": "simhash", "bits": 37},
    "faiss-lsh short": {"family": "faiss-lsh", "bits": DIM - 3},
    "faiss-lsh long": {"family": "faiss-lsh", "bits": DIM + 3},
}


def needs_vectors(arguments):
    """The one combination that is refused: usr under l2 and ip with a gain that follows, without vectors."""
    follows = arguments.get("family") == "usr" and "mean_norm" not in arguments and arguments["metric"] != "cosine"
    return follows and not arguments["keep_vectors"]


@pytest.mark.parametrize("keep", [True, False], ids=["vectors", "codes"])
@pytest.mark.parametrize("ranking", ["asymmetric", "hamming"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("metric", METRICS)
def test_records_and_answers(tools, metric, family, ranking, keep):
    arguments = {"dim": DIM, "metric": metric, "ranking": ranking, "keep_vectors": keep, **FAMILIES[family]}
    if needs_vectors(arguments):
        with pytest.raises(lethevec.errors.ParameterError):
            lethevec.Index(**arguments)
        return
    x, ids = tools.data(3000, DIM)
    queries = np.vstack([x[:2] * np.float32(0.7), tools.data(1, DIM, seed=5)[0]])
    oracle = tools.Oracle(arguments, x, ids)
    subset = np.random.default_rng(1).choice(oracle.ids, 900, replace=False)
    before = core.active_isa()
    try:
        for isa in core.supported_isas():
            core.use_isa(isa)
            index = tools.build(arguments, x, ids)
            codes, norms, factors = tools.stored(index, oracle.ids)
            np.testing.assert_array_equal(codes, oracle.records.codes)
            assert tools.same_floats(norms, oracle.records.norms)
            assert tools.same_floats(factors, oracle.records.factors)
            for k, effort in ((1, 0.05), (3, 0.3), (10, 1.0), (5, 4.0)):
                tools.assert_search_equals(index, oracle, queries, k=k, effort=effort)
            tools.assert_search_equals(index, oracle, queries[:1], k=4, effort=0.2, allow=subset)
    finally:
        core.use_isa(before)


def test_the_plan_prunes_at_the_size_above(tools):
    """Otherwise the test above would compare exhaustive searches."""
    x, ids = tools.data(3000, DIM)
    index = tools.build({"dim": DIM}, x, ids)
    work = index.search(x[:1], k=3, effort=0.3).work
    assert work.scanned == 3000
    assert 3 <= work.reranked <= work.refined < 600
    staged = tools.build({"dim": 100}, *tools.data(3000, 100)).search(tools.data(1, 100)[0], k=3).work
    assert 3 <= staged.reranked < staged.refined < 1500
    short = tools.build({"dim": DIM, "family": "simhash", "bits": 40}, x, ids).search(x[:1], k=3, effort=0.3).work
    assert short.refined == 0
    assert 3 <= short.reranked < 600


@pytest.mark.parametrize(
    ("records", "k", "effort"), [(0, 1, 1.0), (1, 10, 0.1), (5000, 10, 1e-9), (5000, 10, 1e300), (10**6, 7, 1.7)]
)
@pytest.mark.parametrize("planes", [1, 2])
def test_the_plan_is_the_specs(records, k, effort, planes):
    expected = reference.scan_plan(k, effort)
    wanted = (expected.reference, expected.missed, expected.missed_most, expected.further)
    assert core.testing.scan_plan(k, effort) == wanted
    for allowed in (records, -(-records // 3)):
        got = core.testing.scan_survivors(records, allowed, k, effort, planes > 1)
        assert got == reference.scan_survivors(records, k, effort, staged=planes > 1, allowed=allowed)


# Blocks of 32 records, groups of 4 blocks, chunks of 4,096 rows for short records.
@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257, 4095, 4096, 4097, 4129])
@pytest.mark.parametrize("ranking", ["asymmetric", "hamming"])
def test_sizes_around_blocks_and_chunks(tools, isa, n, ranking):
    x, ids = tools.data(n, 6, seed=n)
    for metric in METRICS:
        arguments = {"dim": 6, "metric": metric, "ranking": ranking}
        oracle = tools.Oracle(arguments, x, ids)
        index = tools.build(arguments, x, ids)
        for k, effort in ((3, 0.1), (12, 1.0)):
            tools.assert_search_equals(index, oracle, x[:2] + np.float32(0.1), k=k, effort=effort)


@pytest.mark.parametrize("n", [63, 64, 65, 127, 129, 200])
@pytest.mark.parametrize("keep", [True, False])
def test_long_records_have_chunks_of_64(tools, isa, n, keep):
    x, ids = tools.data(n, 2100, seed=n)
    arguments = {"dim": 2100, "metric": "l2", "bits": 4200, "keep_vectors": keep}
    oracle = tools.Oracle(arguments, x, ids)
    tools.assert_search_equals(tools.build(arguments, x, ids), oracle, x[:2] + np.float32(0.1), k=5, effort=0.01)


# First-stage bytes, nibbles, and the 128 bits that are summed in eight.
@pytest.mark.parametrize(
    "dim", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 127, 128, 129, 136, 255, 256, 257, 300]
)
def test_dimensions(tools, isa, dim):
    x, ids = tools.data(700, dim, seed=3)
    for arguments in (
        {"dim": dim, "metric": "l2", "bits": 3 * dim},
        {"dim": dim, "metric": "cosine", "keep_vectors": False, "bits": 2 * dim},
        {"dim": dim, "metric": "ip", "family": "superbit", "bits": dim + dim // 2},
        {"dim": dim, "metric": "l2", "family": "simhash", "bits": 3 * dim, "ranking": "hamming"},
    ):
        oracle = tools.Oracle(arguments, x, ids)
        index = tools.build(arguments, x, ids)
        tools.assert_search_equals(index, oracle, x[1:3] + np.float32(0.05), k=5, effort=0.3)


@pytest.mark.parametrize("bits", [128, 129, 1000, 4096, 32768, 65536])
def test_long_first_stages(tools, isa, bits):
    """Sums of many chunks, up to the most that sixteen bits count, and beyond, with smaller weights."""
    x, ids = tools.data(150, 500, seed=3)
    for metric in METRICS if bits < 4096 else ["l2"]:
        arguments = {"dim": 500, "metric": metric, "family": "superbit", "bits": bits, "keep_vectors": False}
        oracle = tools.Oracle(arguments, x, ids)
        tools.assert_search_equals(tools.build(arguments, x, ids), oracle, x[:1] * np.float32(1.5), k=4, effort=0.05)


@pytest.mark.parametrize("dim", [16_385, 65_536])
def test_wide_vectors(tools, isa, dim):
    """By default, with two planes: the first stage looks at one of them."""
    x, ids = tools.data(9, dim, seed=4)
    arguments = {"dim": dim, "metric": "l2"}
    oracle = tools.Oracle(arguments, x, ids)
    tools.assert_search_equals(tools.build(arguments, x, ids), oracle, x[:1] * np.float32(1.1), k=3, effort=0.05)


@pytest.mark.parametrize("keep", [True, False], ids=["vectors", "codes"])
@pytest.mark.parametrize("ranking", ["asymmetric", "hamming"])
@pytest.mark.parametrize("metric", METRICS)
def test_extreme_norms(tools, isa, metric, ranking, keep):
    """From about the smallest norm that is taken to the largest, in one index. No distance is NaN."""
    rng = np.random.default_rng(8)
    sizes = np.float32([1e-11, 1e-9, 1e-5, 1.0, 1e5, 1e10, 1e15, 1e17])
    x = (rng.normal(size=(400, 10)) * np.resize(sizes, (400, 1))).astype(np.float32)
    ids = rng.permutation(400).astype(np.int64)
    for family in ({}, {"family": "usr", "bits": 20, "mean_norm": 1.0}, {"family": "simhash", "bits": 30}):
        arguments = {"dim": 10, "metric": metric, "ranking": ranking, "keep_vectors": keep, **family}
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            oracle = tools.Oracle(arguments, x, ids)
            index = tools.build(arguments, x, ids)
            tools.assert_search_equals(index, oracle, x[:8], k=6, effort=0.2)
        assert not np.isnan(index.search(x[:8], k=400).distances).any()


@pytest.mark.parametrize("ranking", ["asymmetric", "hamming"])
@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("keep", [True, False])
def test_zero_vectors_and_zero_queries(tools, isa, metric, ranking, keep):
    x, ids = tools.data(500, 9)
    x[::7] = 0
    x[3] = -0.0
    for family in ({}, {"family": "usr", "bits": 18, "mean_norm": 1.0}, {"family": "simhash", "bits": 20}):
        arguments = {"dim": 9, "metric": metric, "ranking": ranking, "keep_vectors": keep, **family}
        oracle = tools.Oracle(arguments, x, ids)
        index = tools.build(arguments, x, ids)
        tools.assert_search_equals(
            index, oracle, np.vstack([np.zeros((1, 9), dtype=np.float32), x[1:2]]), k=5, effort=0.1
        )
        if keep and metric == "l2":
            hits = index.search(np.zeros(9), k=80, effort=1e9)
            zeros = np.sort(ids[~x.any(axis=1)])
            np.testing.assert_array_equal(hits.ids[0, : len(zeros)], zeros[:80])
            assert not hits.distances[0, : len(zeros)].any()


def test_only_zero_vectors(tools, isa):
    """Under usr the mean norm is then 1."""
    x, ids = np.zeros((40, 6), dtype=np.float32), np.arange(40)[::-1].astype(np.int64)
    for family in ({}, {"family": "usr", "bits": 12}):
        arguments = {"dim": 6, "metric": "l2", **family}
        index = tools.build(arguments, x, ids)
        assert index.stats()["mean_norm"] == 1.0
        tools.assert_search_equals(index, tools.Oracle(arguments, x, ids), np.ones((1, 6), dtype=np.float32), k=5)


@pytest.mark.parametrize("ranking", ["asymmetric", "hamming"])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("metric", METRICS)
def test_equal_vectors_come_by_id(tools, isa, metric, ranking, keep):
    """More equal records than any stage wants: the smallest ids, whatever the order of adding."""
    x, _ = tools.data(1, 12)
    x = np.repeat(x, 3000, axis=0)
    ids = np.random.default_rng(2).permutation(3000).astype(np.int64) - 1500
    arguments = {"dim": 12, "metric": metric, "ranking": ranking, "keep_vectors": keep}
    index = tools.build(arguments, x, ids)
    hits = index.search(x[0], k=20, effort=0.01)
    np.testing.assert_array_equal(hits.ids[0], np.arange(-1500, -1480))
    assert len(np.unique(hits.distances)) == 1
    tools.assert_search_equals(index, tools.Oracle(arguments, x, ids), x[:1] * np.float32(2), k=3, effort=0.01)


def test_the_estimate_aims_at_the_distance(tools):
    """Codes alone: the reported distances are near the true ones, so the numbers above mean something."""
    x, ids = tools.data(2000, 48)
    queries, _ = tools.data(5, 48, seed=9)
    for metric in METRICS:
        arguments = {"dim": 48, "metric": metric, "keep_vectors": False}
        oracle = tools.Oracle(arguments, x, ids)
        hits = tools.build(arguments, x, ids).search(queries, k=2000, effort=1e9)
        for row, query in zip(range(5), queries, strict=True):
            truth = dict(zip(oracle.ids.tolist(), oracle.distances(query).tolist(), strict=True))
            true = np.array([truth[id] for id in hits.ids[row].tolist()])
            assert np.corrcoef(true, hits.distances[row])[0, 1] > 0.99
            assert np.abs(true - hits.distances[row]).mean() < 0.1 * true.std()
