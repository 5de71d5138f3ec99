"""Tables after a forget: the record is in no bucket, its bytes are nowhere, and memory is that of a fresh build."""

from dataclasses import replace

import numpy as np
import pytest

from lethevec import Index, Tables, reference
from lethevec._native import core

DIM = 80
SOURCE = Tables(tables=4, key_bits=6, probes=10)
ARGUMENTS = {"source": SOURCE}


MASK = (1 << 64) - 1


def signature_of(x, t, metric="cosine"):
    values = reference.table_values(reference.tables_frame(DIM, 4, 0), x[None], metric)
    return int.from_bytes(reference.table_signatures(values, 6)[0, t, :8].tobytes(), "little")


def signatures_in(index):
    """The first 64 bits of every signature that could lie in memory: a run has those of 32 or 64 rows byte by byte."""
    raw = np.frombuffer(core.testing.raw_memory(index._native), dtype=np.uint8).astype(np.uint64)
    all_found = set()
    for apart in (32, 64):
        places = len(raw) - 7 * apart
        found = np.zeros(places, dtype=np.uint64)
        for byte in range(8):
            found |= raw[apart * byte : apart * byte + places] << np.uint64(8 * byte)
        all_found |= set(found.tolist())
    return all_found


@pytest.mark.parametrize("keep", [True, False])
def test_nothing_of_a_forgotten_record_is_left(make_clustered, contents_of, keep):
    x = make_clustered(1, 3000, DIM)
    index = Index(DIM, keep_vectors=keep, **ARGUMENTS)
    index.add(x, ids=range(3000))
    if keep:
        there = signatures_in(index)
        assert all(signature_of(x[i], t) in there for i in (5, 2999) for t in range(4))
    mine = {i: [contents_of(index, t)[i] for t in range(4)] for i in (0, 5, 1234, 2999)}
    index.forget(list(mine))
    there = signatures_in(index)
    left = [contents_of(index, t) for t in range(4)]
    for i, places in mine.items():
        assert all(i not in table for table in left)
        for t, (_, signature) in enumerate(places):
            first = signature & MASK
            if all(first != other & MASK for _, other in left[t].values()):
                assert first not in there


def test_an_update_leaves_nothing_of_what_was_there(make_clustered, contents_of):
    x = make_clustered(2, 500, DIM)
    index = Index(DIM, metric="l2", **ARGUMENTS)
    index.add(x, ids=range(500))
    old = {signature_of(x[7], t, "l2") for t in range(4)}
    assert old <= signatures_in(index)
    index.update(-x[7:8], ids=[7])
    assert not old & signatures_in(index)
    assert (
        contents_of(index, 0)[7][0]
        == reference.table_keys(reference.table_values(reference.tables_frame(DIM, 4, 0), -x[7:8], "l2"), 6)[0, 0]
    )


def test_an_index_that_forgot_all_is_as_an_empty_one(make_clustered):
    index, empty = Index(DIM, **ARGUMENTS), Index(DIM, **ARGUMENTS)
    index.add(make_clustered(3, 4000, DIM), ids=range(4000))
    assert index.stats()["buckets_used"] > 0
    index.forget(range(4000))
    assert index.stats() == empty.stats()
    assert index.stats()["buckets_used"] == 0
    assert core.table_stats(index._native) == core.table_stats(empty._native)


@pytest.mark.parametrize(("expected", "run"), [(1000, 32), (5000, 64), (20_000, 256), (100_000, 1024)])
def test_equal_vectors_share_a_bucket_and_leave_it_one_by_one(contents_of, expected, run):
    """A crowd in one bucket: places must stay right while runs move, short ones and long ones."""
    x = np.tile(np.random.default_rng(4).normal(size=(1, DIM)).astype(np.float32), (500, 1))
    index = Index(DIM, source=replace(SOURCE, expected=expected))
    index.add(x, ids=range(500))
    assert index.stats()["buckets_used"] == 4
    left = np.random.default_rng(5).permutation(500).tolist()
    while left:
        index.forget(left.pop())
        if len(left) % 25 == 0:
            assert all(set(contents_of(index, t)) == set(left) for t in range(4))
            runs = core.table_stats(index._native)[3]
            assert runs == 4 * -(-len(left) // run)
    assert index.stats()["buckets_used"] == 0


def test_bucket_storage_is_what_the_sizes_of_buckets_need(make_clustered, contents_of):
    index = Index(DIM, source=replace(SOURCE, expected=1000))
    index.add(make_clustered(6, 2000, DIM), ids=range(2000))
    index.forget(np.random.default_rng(7).choice(2000, size=1300, replace=False))
    expected = 0
    for t in range(4):
        _, sizes = np.unique([key for key, _ in contents_of(index, t).values()], return_counts=True)
        expected += int(np.ceil(sizes / 32).sum())
    size, possible, used, runs = core.table_stats(index._native)
    assert runs == expected
    assert possible == 4 * 64
    assert size == 8 * possible + 460 * runs + 4 * 4 * 700
    assert used <= possible
