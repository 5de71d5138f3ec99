"""A search in one call and a search in several: the same answers, and the same errors, whatever is asked for."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest

import lethevec
from lethevec import Auto, Hits, Pivots, Tables, Work
from lethevec._index import arguments
from lethevec._index import index as index_module

DIM, N = 12, 300
CONFIGURATIONS = {
    "default": {},
    "codes": {"keep_vectors": False},
    "hamming": {"ranking": "hamming"},
    "tables": {"source": Tables(key_bits=3)},
    "pivots": {"source": Pivots(cell_size=9)},
    "auto": {"source": Auto(pivots_from=N // 2)},
}
X = np.random.default_rng(3).normal(size=(N, DIM)).astype(np.float32)
X.flags.writeable = False


class Subclass(np.ndarray):
    pass


def changed(value):
    x = X[:3].copy()
    x[1, 2] = value
    return x


# What can be taken as it is,
DIRECT = {
    "one": X[5],
    "a batch of one": X[5:6],
    "a batch": X[:7],
    "writable": X[:7].copy(),
    "a view of rows": X[3:9],
    "not aligned": np.frombuffer(b"." + X[:2].tobytes(), dtype=np.float32, offset=1).reshape(2, DIM),
    "the longest": np.full(DIM, 2.8e17, dtype=np.float32),
    "the shortest": np.full(DIM, 3e-13, dtype=np.float32),
}
# and what has to be converted or refused.
OTHERS = {
    "zeros": np.zeros((2, DIM), dtype=np.float32),  # refused under cosine
    "short of the range": np.full(DIM, 2e-13, dtype=np.float32),
    "float64": X[:2].astype(np.float64),
    "float16": X[:2].astype(np.float16),
    "integers": np.arange(DIM),
    "int32, which is as long": np.arange(DIM, dtype=np.int32),
    "big-endian": X[:2].astype(">f4"),
    "Fortran order": np.asfortranarray(X[:4]),
    "every second row": X[:8:2],
    "every second column": np.repeat(X[:2], 2, axis=1)[:, ::2],
    "a column": np.repeat(X[:1].T, 2, axis=1)[:, 0],
    "a list": X[5].tolist(),
    "lists": X[:2].tolist(),
    "a subclass": X[:2].view(Subclass),
    "a masked array": np.ma.array(X[:2], mask=False),
    "masked": np.ma.array(X[:2], mask=[[True] + [False] * (DIM - 1)] * 2),
    "no rows": X[:0],
    "no columns": np.empty((2, 0), dtype=np.float32),
    "nothing at all": np.empty(0, dtype=np.float32),
    "a number": np.float32(1),
    "no dimensions": np.array(1, dtype=np.float32),
    "too short": X[0, :-1],
    "too many columns": np.ones((2, DIM + 1), dtype=np.float32),
    "as many numbers": np.ones((DIM, 2), dtype=np.float32),
    "3-D": X[:2, None],
    "NaN": changed(np.nan),
    "infinity": changed(-np.inf),
    "too long": changed(1.1e18),
    "None": None,
    "a string": "query",
    "an object": object(),
}
ARGUMENTS = {
    "k": [1, N, N + 9, True, 0, -1, 3.0, np.int64(3), None, "3", 1 << 31, (1 << 31) + 1, 1 << 70, -(1 << 70)],
    "effort": [
        1e-18,
        0.2,
        1e18,
        1e-19,
        1e19,
        1,
        True,
        0.0,
        -1.0,
        np.nan,
        np.inf,
        np.float64(2),
        np.float32(2),
        None,
        "1",
    ],
    "threads": [2, 1024, 1025, None, 0, -1, True, 1.0, np.int64(1), 1 << 70, "1"],
    "allow": [[], [1, 2, 999], np.arange(N) % 2 == 0, [True], 1.5, np.array([3])],
}


@pytest.fixture(params=CONFIGURATIONS, scope="module")
def configuration(request):
    return CONFIGURATIONS[request.param]


@pytest.fixture(params=["cosine", "l2", "ip"], scope="module")
def index(request, configuration):
    made = lethevec.Index(DIM, request.param, **configuration)
    made.add(X, ids=np.arange(N) * 7 - 50)
    return made


def outcome(index, *given, **arguments):
    """All that a caller can see."""
    try:
        hits = index.search(*given, **arguments)
    except Exception as error:
        return type(error), str(error)
    assert type(hits) is Hits
    assert type(hits.work) is Work
    assert all(type(number) is int for number in hits.work)
    for array, dtype in ((hits.ids, np.int64), (hits.distances, np.float32)):
        assert type(array) is np.ndarray
        assert array.dtype == dtype
        assert array.base is None
        assert array.flags.owndata
        assert array.flags.writeable
        assert array.flags.c_contiguous
    return hits.ids.shape, hits.ids.tolist(), hits.distances.tobytes(), hits.work


@pytest.fixture
def both(index, monkeypatch):
    """What comes out must be the same without the one call."""

    def look(*given, **arguments):
        seen = outcome(index, *given, **arguments)
        with monkeypatch.context() as without:
            without.setattr(index_module, "_search_directly", lambda *_: None)
            assert outcome(index, *given, **arguments) == seen

    return look


@pytest.mark.parametrize("case", DIRECT | OTHERS)
def test_queries(both, case):
    both((DIRECT | OTHERS)[case])
    both((DIRECT | OTHERS)[case], 3, effort=0.2)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(both, name):
    for value in ARGUMENTS[name]:
        for queries in (X[0], X[:3], X[:2].tolist()):
            both(queries, **{name: value})


def test_of_several_errors_the_same_is_told(both):
    for k in (3, 0):
        for effort in (1.0, -1.0):
            for threads in (1, 0):
                for queries in (X[0], changed(np.nan)):
                    both(queries, k, effort=effort, threads=threads)


def test_what_goes_in_one_call(index):
    """And that the rest does not: the comparisons above would say nothing if all of it went one way."""
    direct = index_module._search_directly
    for queries in DIRECT.values():
        assert type(direct(index._native, queries, 3, 1.0, 1)) is Hits
    for name, queries in OTHERS.items():
        if name != "zeros" or index.metric == "cosine":
            assert direct(index._native, queries, 3, 1.0, 1) is None, name
    for k, effort, threads in (
        (True, 1.0, 1),
        (3, 1, 1),
        (3, 1.0, None),
        (3, 1.0, 1025),
        (1 << 31, 1.0, 1),
        (0, 1.0, 1),
    ):
        assert direct(index._native, X[0], k, effort, threads) is None


def test_many_answers_go_the_long_way(index):
    """Whether there are too many depends on the records: that is asked in one place."""
    rows = 5
    k = arguments.MAX_PADDED // rows + 1
    assert index_module._search_directly(index._native, X[:rows], k, 1.0, 1) is None
    with pytest.raises(lethevec.errors.ParameterError, match="nearly all padding"):
        index.search(X[:rows], k)


def test_an_index_without_records(configuration):
    empty = lethevec.Index(DIM, "l2", **configuration)
    hits = empty.search(X[:2], k=3)
    assert hits.ids.tolist() == [[-1] * 3] * 2
    assert hits.work == Work(0, 0, 0, 0)


def test_hits_are_like_any_others(index):
    hits = index.search(X[:2], k=3)
    made = Hits(hits.ids, hits.distances, hits.work)
    assert repr(hits) == repr(made)
    assert hits.work._asdict() == made.work._asdict()
    assert hits.work._replace(scanned=1) == (1, *hits.work[1:])
    for again in (copy.copy(hits), copy.deepcopy(hits), pickle.loads(pickle.dumps(hits))):
        assert type(again) is Hits
        np.testing.assert_array_equal(again.ids, hits.ids)
        np.testing.assert_array_equal(again.distances, hits.distances)
        assert (type(again.work), again.work) == (Work, hits.work)
    hits.work = Work(1, 2, 3, 4)
    assert hits.work.bytes_read == 4


def references(*objects):
    return [sys.getrefcount(one) for one in objects]


def test_nothing_is_held_on_to(index):
    query = X[0].copy()
    shared = Hits, Work, np.dtype(np.int64), np.dtype(np.float32)
    held, before = references(query), references(*shared)
    for _ in range(100):
        hits = index.search(query)
    fresh = Hits(np.empty(1, np.int64), np.empty(1, np.float32), Work(1, 2, 3, 4))
    assert references(hits.ids, hits.distances, hits.work) == references(fresh.ids, fresh.distances, fresh.work)
    assert references(query) == held
    assert max(np.subtract(references(*shared), before)) < 50  # a few for what is still there
    for bad in (changed(np.nan), X[0, :-1], X[:0]):
        held = references(bad)
        assert index_module._search_directly(index._native, bad, 3, 1.0, 1) is None
        assert references(bad) == held
