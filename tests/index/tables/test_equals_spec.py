"""Buckets and answers of the native index equal those of the spec, bit for bit, with every instruction set."""

import numpy as np
import pytest

from lethevec import Index, Tables, reference

N = 700
CONFIGURATIONS = {
    "cosine": {"dim": 40},
    "l2": {"dim": 33, "metric": "l2", "bits": 99},
    "ip": {"dim": 40, "metric": "ip"},
    "no room for a signature": {"dim": 7},
    "a short signature": {"dim": 24, "seed": 5},
    "usr l2": {"dim": 40, "metric": "l2", "family": "usr", "bits": 80, "steps": 3},
    "usr hamming": {"dim": 40, "family": "usr", "bits": 80, "steps": 3, "ranking": "hamming"},
    "codes": {"dim": 100, "keep_vectors": False},
    "codes l2": {"dim": 40, "metric": "l2", "keep_vectors": False, "bits": 120},
    "codes ip superbit": {"dim": 40, "metric": "ip", "family": "superbit", "bits": 80, "keep_vectors": False},
    "codes usr hamming": {
        "dim": 40,
        "family": "usr",
        "bits": 160,
        "steps": 3,
        "ranking": "hamming",
        "keep_vectors": False,
    },
}


@pytest.fixture(params=CONFIGURATIONS)
def arguments(request):
    return {"source": Tables(tables=3, key_bits=7, probes=25), **CONFIGURATIONS[request.param]}


def test_buckets_and_answers(arguments, isa, make_clustered, spec_of, contents_of, search_equals):
    dim = arguments["dim"]
    x, queries = make_clustered(1, N, dim), make_clustered(2, 6, dim)
    queries[0] = x[17]
    ids = np.arange(N) * 7 - 100
    index = Index(**arguments)
    index.add(x, ids=ids)
    spec = spec_of(index, x)
    for t in range(3):
        assert contents_of(index, t) == spec.table(t)
    allowed = np.random.default_rng(3).choice(ids, size=400, replace=False)
    for k, effort, allow in [(5, 0.1, None), (5, 1.0, None), (1, 2.0, None), (20, 0.02, None), (5, 1.0, allowed)]:
        search_equals(index, spec, queries, k, effort=effort, allow=allow)


@pytest.mark.parametrize("effort", [0.05, 0.2, 0.3])
def test_groups_of_many_buckets(effort, make_clustered, spec_of, search_equals):
    """The first group has 50 buckets, more than the core asks for at once, and none may end in its middle."""
    x, queries = make_clustered(8, N, 40), make_clustered(9, 6, 40)
    index = Index(40, source=Tables(tables=3, key_bits=9, probes=400))
    index.add(x, ids=range(N))
    spec = spec_of(index, x)
    for k in (1, 10):
        search_equals(index, spec, queries, k, effort=effort)


def test_a_record_lies_in_its_own_home_buckets(make_clustered, contents_of):
    """Under cosine whatever its length: the direction is hashed on both sides."""
    x = make_clustered(4, 50, 40)
    index = Index(40, source=Tables(tables=4, key_bits=12))
    index.add(x * np.float32(37.5), ids=range(50))
    values = reference.table_values(reference.tables_frame(40, 4, 0), x * np.float32(37.5), "cosine")
    for t in range(4):
        homes = [next(p for p in reference.probing(v[:, :12]) if p.table == t).key for v in values]
        assert [contents_of(index, t)[i][0] for i in range(50)] == homes


def test_usr_of_a_short_key_is_superbit():
    """What docs/tables.md says of keys shorter than the dimension: the step of USR leaves the signs of W^T x."""
    x = np.random.default_rng(5).normal(size=(20, 30))
    rotation, _ = np.linalg.qr(np.random.default_rng(6).normal(size=(30, 30)))
    w = rotation[:, :12]
    y = np.zeros((20, 12))
    for _ in range(17):
        y = np.tanh(0.8 * x @ w + y - (y @ w.T) @ w)
    np.testing.assert_array_equal(y >= 0, x @ w >= 0)


def test_tables_do_not_depend_on_batches_threads_or_order(make_clustered, contents_of):
    x = make_clustered(7, 5000, 20)
    arguments = {"dim": 20, "metric": "l2", "source": Tables(tables=5, key_bits=6)}
    one, other = Index(**arguments), Index(**arguments)
    one.add(x, ids=range(5000), threads=3)
    for at in reversed(range(0, 5000, 613)):
        other.add(x[at : at + 613], ids=range(at, min(5000, at + 613)), threads=1)
    for t in range(5):
        assert contents_of(one, t) == contents_of(other, t)
    assert one.stats() == other.stats()
