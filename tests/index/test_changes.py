"""Adding, updating, forgetting, and asking what is there."""

from __future__ import annotations

import array
import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest

import lethevec
from lethevec._native import core
from lethevec.errors import IdError, UnknownIdError, UnsupportedError

DIM = 6


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(50, DIM)).astype(np.float32)


def test_what_is_there(x):
    index = lethevec.Index(DIM, "l2")
    assert (len(index), list(index), index.ids().tolist()) == (0, [], [])
    index.add(x[:3], ids=[30, -10, 20])
    assert len(index) == 3
    assert list(index) == index.ids().tolist() == [-10, 20, 30]
    assert index.ids().dtype == np.int64
    assert all(type(id) is int for id in index)
    assert 20 in index
    assert np.int32(-10) in index
    for absent in (21, 20.0, "20", None, True, [20], 1 << 63, -(1 << 63) - 1):
        assert absent not in index
    np.testing.assert_array_equal(index.vectors([20, 30, 20]), x[[2, 0, 2]])
    np.testing.assert_array_equal(index.vectors(-10), x[1:2])
    assert (index.dim, index.metric) == (DIM, "l2")
    assert repr(index) == "<lethevec.Index of 3 vectors, dim=6, metric='l2', progressive 48 bits>"


def test_iteration_is_over_what_was_there(x):
    index = lethevec.Index(DIM)
    index.add(x[:4], ids=range(4))
    seen = []
    for id in index:
        seen.append(id)
        index.forget(id)
    assert seen == [0, 1, 2, 3]
    assert len(index) == 0


def test_ids_given_out_are_the_callers(x):
    index = lethevec.Index(DIM)
    index.add(x[:4], ids=range(4))
    index.ids()[:] = 7
    index.vectors([0])[:] = 7
    assert list(index) == [0, 1, 2, 3]
    np.testing.assert_array_equal(index.vectors([0]), x[:1])


def test_vectors_come_back_as_float32_whatever_came(x):
    index = lethevec.Index(DIM, "ip")
    forms = [x[0].astype(np.float64), x[1].tolist(), np.asfortranarray(x)[2], x[::-1][46], x.astype(">f4")[4]]
    for id, form in enumerate(forms):
        index.add(form, ids=id)
    index.add(np.float16([[1.5] * DIM]), ids=[5])
    index.add(np.arange(DIM), ids=[6])
    np.testing.assert_array_equal(index.vectors(range(5)), x[:5])
    np.testing.assert_array_equal(index.vectors([5, 6]), [[1.5] * DIM, np.arange(DIM)])


@pytest.mark.parametrize("call", ["add", "update"])
@pytest.mark.parametrize(
    "form",
    ["float32", "float64", "read-only", "strided", "array.array", "memoryview", "__array__", "array interface"],
)
def test_the_callers_data_is_not_touched(x, call, form):
    """Copies that the check makes are wiped; memory that it was lent is not."""
    lent = x[:2].copy()

    class Lender:
        def __array__(self, dtype=None, copy=None):
            return lent

    class Interface:
        __array_interface__ = lent.__array_interface__

    given = {
        "float32": lent,
        "float64": lent.astype(np.float64),
        "read-only": lent.copy(),
        "strided": np.repeat(lent, 2, axis=1)[:, ::2],
        "array.array": array.array("f", lent[0].tolist()),
        "memoryview": memoryview(lent),
        "__array__": Lender(),
        "array interface": Interface(),
    }[form]
    if form == "read-only":
        given.flags.writeable = False
    before = np.array(given, copy=True)
    index = lethevec.Index(DIM)
    ids = range(len(np.atleast_2d(before)))
    if call == "update":
        index.add(-np.atleast_2d(before), ids=ids)
    getattr(index, call)(given, ids=ids)
    np.testing.assert_array_equal(np.asarray(given), before)
    np.testing.assert_array_equal(index.vectors(ids), np.atleast_2d(before))


def test_update_replaces(x):
    index = lethevec.Index(DIM, "l2")
    index.add(x[:5], ids=range(5))
    index.update(x[10:12], ids=[3, 1])
    np.testing.assert_array_equal(index.vectors(range(5)), x[[0, 11, 2, 10, 4]])
    assert index.search(x[10], k=1).ids.tolist() == [[3]]
    assert index.search(x[3], k=1).distances[0, 0] > 0
    other = lethevec.Index(DIM, "l2")
    other.add(x[[4, 10, 2, 11, 0]], ids=[4, 3, 2, 1, 0])
    assert index.digest() == other.digest()


def test_forget_says_how_many(x):
    index = lethevec.Index(DIM)
    index.add(x[:10], ids=range(10))
    assert index.forget(3) == 1
    assert index.forget([1, 2]) == 2
    assert index.forget(np.array([], dtype=np.int64), ignore_unknown=True) == 0
    assert index.forget([], ignore_unknown=True) == 0
    assert index.forget([99], ignore_unknown=True) == 0
    assert index.forget(99, ignore_unknown=True) == 0
    assert index.forget(np.int64(99), ignore_unknown=True) == 0
    with pytest.raises(UnknownIdError, match="got 99"):
        index.forget(99)
    assert index.forget([99, 4, 98, 5, 99], ignore_unknown=True) == 2
    assert list(index) == [0, 6, 7, 8, 9]
    index.add(x[1:3], ids=[1, 2])
    assert len(index) == 7


REFUSED = {
    "present": ("add", [7, 3, 8], IdError, ["new ids", "got 3", "update()"]),
    "given twice": ("add", [7, 8, 7], IdError, ["each id once", "got 7 more than once"]),
    "update of absent": ("update", [0, 77, 1], UnknownIdError, ["present", "got 77"]),
    "update given twice": ("update", [0, 1, 0], IdError, ["each id once", "got 0"]),
    "forget absent": ("forget", [0, 77, 1], UnknownIdError, ["present", "got 77"]),
    "forget one absent": ("forget", 77, UnknownIdError, ["present", "got 77"]),
    "forget given twice": ("forget", [0, 1, 0], IdError, ["each id once", "got 0"]),
    "get absent": ("get", [0, 77], UnknownIdError, ["present", "got 77"]),
    "get one of another type": ("get", [0, "1"], IdError, ["integers", "<U"]),
}


@pytest.mark.parametrize("configuration", [{}, {"family": "usr", "bits": 2 * DIM}, {"ranking": "hamming"}])
@pytest.mark.parametrize("case", REFUSED)
def test_refused_ids_change_nothing(x, case, configuration):
    call, ids, error, fragments = REFUSED[case]
    index = lethevec.Index(DIM, "l2", **configuration)
    index.add(x[:5], ids=range(5))
    before = (index.digest(), index.stats(), core.testing.raw_memory(index._native))
    arguments = (100 * x[: len(ids)], ids) if call in ("add", "update") else (ids,)
    with pytest.raises(error) as caught:
        getattr(index, call)(*arguments)
    for fragment in fragments:
        assert fragment in str(caught.value)
    assert (index.digest(), index.stats()) == before[:2]
    np.testing.assert_array_equal(index.vectors(range(5)), x[:5])


def test_many_refused_at_the_end_of_a_batch(x):
    """All or nothing, also when the refusal comes after thousands of good ids and several chunks."""
    many = np.random.default_rng(1).normal(size=(20_000, DIM)).astype(np.float32)
    index = lethevec.Index(DIM)
    index.add(x, ids=range(50))
    before, stats = index.digest(), index.stats()
    with pytest.raises(IdError, match="got 7, which is present"):
        index.add(many, ids=[*range(1000, 20_999), 7])
    assert (index.digest(), index.stats(), len(index)) == (before, stats, 50)
    assert index.search(x[:1], k=60, effort=1e9).ids[0, 50:].tolist() == [-1] * 10


def test_no_vectors_without_keeping_them(x):
    index = lethevec.Index(DIM, keep_vectors=False)
    index.add(x, ids=range(50))
    with pytest.raises(UnsupportedError, match="not kept"):
        index.vectors([0])
    assert index.stats()["bytes_vectors"] == 0


# --- Stats -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("ranking", ["asymmetric", "hamming"])
def test_bytes_per_record(keep, ranking):
    """No more than code, kept vector and 64 bytes; and by part what the parts need."""
    rng = np.random.default_rng(0)
    index = lethevec.Index(100, keep_vectors=keep, ranking=ranking)
    n = 20_000
    index.add(rng.normal(size=(n, 100)), ids=range(n))
    stats = index.stats()
    assert stats["records"] == n
    assert stats["bytes_vectors"] == (400 * n if keep else 0)
    assert stats["bytes_total"] == stats["bytes_vectors"] + stats["bytes_codes"] + stats["bytes_ids"]
    code = -(-index.config.bits // 8)
    assert code <= stats["bytes_codes"] / n <= code + 24
    assert stats["bytes_per_record"] == stats["bytes_total"] / n <= code + (400 if keep else 0) + 64
    # And the memory that is really taken is that, but for a chunk that is not full yet.
    assert index._native.bytes()[3] <= stats["bytes_total"] + (4 << 20)
    assert lethevec.Index(100).stats()["bytes_per_record"] == 0.0


def test_memory_is_given_back():
    rng = np.random.default_rng(0)
    index = lethevec.Index(64)
    sizes = []
    for n in (0, 30_000, 15_000, 0):
        while len(index) > n:
            index.forget(index.ids()[:5000])
        if len(index) < n:
            index.add(rng.normal(size=(n, 64)), ids=range(n))
        sizes.append(index._native.bytes()[3])
    assert sizes[0] == sizes[3] < sizes[2] < sizes[1]


def test_the_map_survives_growing_and_shrinking():
    """The id map splits and joins one bucket at a time: every id is found at every size on the way, and no other."""
    rng = np.random.default_rng(5)
    ids = rng.integers(-(1 << 62), 1 << 62, size=9000)
    x = rng.normal(size=(9000, 2)).astype(np.float32)
    index = lethevec.Index(2, "l2")
    cuts = [0, 1, 15, 16, 17, 31, 33, 64, 500, 4095, 8191, 8193, 9000]
    for low, high in pairwise(cuts):
        index.add(x[low:high], ids=ids[low:high])
        assert index._records.contains(ids).tolist() == [i < high for i in range(9000)]
    order = rng.permutation(9000)
    for high in reversed(cuts):
        index.forget(ids[order[high : len(index)]], ignore_unknown=True)
        gone = np.ones(9000, dtype=bool)
        gone[order[:high]] = False
        np.testing.assert_array_equal(index._records.contains(ids), ~gone)
        if high:
            np.testing.assert_array_equal(index.vectors(ids[order[:high]]), x[order[:high]])
    assert len(index) == 0


def test_an_emptied_index_is_all_zeros():
    """Rows, buckets and chains alike: nothing of an id, not even its hash, stays where it was."""
    rng = np.random.default_rng(6)
    ids = rng.integers(-(1 << 62), 1 << 62, size=6000)
    index = lethevec.Index(3, "l2")
    index.add(rng.normal(size=(6000, 3)), ids=ids)
    order = rng.permutation(ids)
    index.forget(order[:2500])
    for one in order[2500:4000].tolist():
        index.forget(one)
    index.forget(order[4000:])
    assert not any(core.testing.raw_memory(index._native))


@pytest.mark.parametrize("nothing", [[], (), np.empty(0, dtype=np.int64), np.empty(0)], ids=repr)
def test_of_nothing(x, nothing):
    """No ids are no error: whoever computes a list need not ask whether it is empty."""
    index = lethevec.Index(DIM, "l2")
    index.add(x[:5], ids=range(5))
    before = index.digest()
    assert index.forget(nothing) == index.forget(nothing, ignore_unknown=True) == 0
    assert index.get(nothing) == []
    assert index.vectors(nothing).shape == (0, DIM)
    assert index.digest() == before


def test_get_gives_records(x):
    index = lethevec.Index(DIM, "l2")
    index.add(x[:5], ids=range(5))
    records = index.get([3, 1, 3])
    assert [type(record) for record in records] == [lethevec.Record] * 3
    assert [(record.id, record.subject, record.payload) for record in records] == [(i, None, None) for i in (3, 1, 3)]
    assert [type(record.id) for record in records] == [int] * 3
    np.testing.assert_array_equal([record.vector for record in records], x[[3, 1, 3]])


def test_update_needs_vectors_and_ids(x):
    index = lethevec.Index(DIM, "l2")
    index.add(x[:5], ids=range(5))
    before = index.digest()
    for given, word in (({"ids": [1]}, "vectors"), ({"vectors": x[:1]}, "ids"), ({}, "vectors")):
        with pytest.raises(lethevec.errors.InputError, match=f"{word}: expected"):
            index.update(**given)
    with pytest.raises(lethevec.errors.VectorError, match="vectors: expected"):
        index.update(lethevec.KEEP, ids=[1])
    assert index.digest() == before
    index.update(x[5:6], [1])
    np.testing.assert_array_equal(index.vectors([1]), x[5:6])


# --- Copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["scan", "tables", "pivots", "graph"])
@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lethevec.Index.copy], ids=["copy", "deepcopy", "method"])
def test_a_change_to_a_copy_leaves_the_original_alone(x, source, how):
    index = lethevec.Index(DIM, "l2", source=source)
    index.add(x[:40], ids=range(40))
    made = how(index)
    assert type(made) is lethevec.Index
    assert made.config == index.config
    assert made.digest() == index.digest()
    assert made.search(x[:5], k=7).ids.tolist() == index.search(x[:5], k=7).ids.tolist()
    before, answers, stats = index.digest(), index.search(x[:5], k=7), index.stats()
    made.add(x[40:], ids=range(40, 50))
    made.update(x[:1] + 1, ids=[3])
    made.forget(range(0, 40, 2))
    assert index.digest() == before
    assert index.stats() == stats
    again = index.search(x[:5], k=7)
    assert again.ids.tolist() == answers.ids.tolist()
    assert again.distances.tolist() == answers.distances.tolist()
    index.forget(range(40))
    assert len(index) == 0
    assert len(made) == 30
    np.testing.assert_array_equal(made.vectors([41]), x[41:42])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_index_is_not_pickled(x, protocol):
    index = lethevec.Index(DIM, "l2")
    index.add(x[:5], ids=range(5))
    for what in (index, [index], {"index": index}):
        with pytest.raises(UnsupportedError, match="save"):
            pickle.dumps(what, protocol=protocol)
