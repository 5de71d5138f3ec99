"""What a forgotten record leaves in an index with a graph: nothing of itself, nor of the edges that led to it.

Each test first shows that the patterns it looks for are there while the record is.
"""

import numpy as np
import pytest

from lethevec import reference
from lethevec._native import core

DIM, N = 100, 500


def occurrences(index, needles):
    """Names of the patterns that are in memory: in one piece, or byte by byte among the 32 neighbours of a block."""
    memory = core.testing.raw_memory(index._native)
    lanes = [memory[r::32] for r in range(32)]
    return {
        name
        for name, needle in needles.items()
        if needle in memory or ("interleaved" in name and any(needle in lane for lane in lanes))
    }


def of_record(spec, id):
    """What the graph holds of a record: the vector that is searched, its hash, and what belongs to edges that lead to
    it and away from it."""
    made = spec.made
    row = int(np.flatnonzero(made.ids == id)[0])
    v = next(v for v, rows in enumerate(made.rows) if row in rows)
    x, z = made.vectors[row], made.z[v]
    needles = {
        "id": int(id).to_bytes(8, "little", signed=True),
        "vector, first": x[:4].tobytes(),
        "vector, last": x[-4:].tobytes(),
        "z, first": z[:4].tobytes(),
        "z, last": z[-4:].tobytes(),
        "hash": int(made.hashes[v]).to_bytes(8, "little"),
    }
    for y in range(len(made)):
        at = np.flatnonzero(made.lists[y] == v)
        if len(at):
            needles[f"code from {y}, interleaved"] = made.codes[y].codes[at[0]].tobytes()
            needles[f"number from {y}"] = made.codes[y].adds[at[0]].tobytes()
    for i, y in enumerate(made.lists[v].tolist()):
        needles[f"code to {y}, interleaved"] = made.codes[v].codes[i].tobytes()
    return needles


def passing_by(spec, id):
    """What is computed on the way and has no business to stay: residuals and what they are when turned."""
    made = spec.made
    row = int(np.flatnonzero(made.ids == id)[0])
    v = next(v for v, rows in enumerate(made.rows) if row in rows)
    r = made.z[made.lists[v][0]] - made.z[v]
    frame = made.settings.frame
    rows = {
        "residual": r,
        "residual, turned": reference.superbit(frame, r[None], DIM)[0],
        "turned": reference.superbit(frame, made.z[v : v + 1], DIM)[0],
    }
    return {name: one[:4].tobytes() for name, one in rows.items()}


@pytest.fixture(params=["cosine", "l2"])
def problem(request, tools):
    x = tools.clustered(1, N, DIM)
    ids = reference.words(9, 1, N).view(np.int64)
    index = tools.build(x, ids, metric=request.param, cell_size=12, cells=5, pool=20)
    return index, dict(zip(ids.tolist(), x, strict=True))


def spec_now(tools, index, records):
    left = index.ids()
    return tools.Spec(index.config, left, np.stack([records[id] for id in left.tolist()]))


def pivots(spec):
    return [int(spec.made.ids[spec.made.rows[v][0]]) for v in spec.made.pivots]


@pytest.mark.parametrize("kind", ["pivot", "other", "root"])
def test_one_record(problem, tools, kind):
    index, records = problem
    spec = spec_now(tools, index, records)
    centres = pivots(spec)
    chosen = {"pivot": centres[3], "root": centres[0], "other": next(id for id in records if id not in centres)}[kind]
    needles = of_record(spec, chosen)
    assert occurrences(index, needles) == set(needles)
    assert len(needles) >= 8
    needles |= passing_by(spec, chosen)
    index.forget(chosen)
    assert occurrences(index, needles) == set()
    tools.assert_equals_spec(index)


@pytest.mark.parametrize("some", [40, 300])
def test_many_records(problem, tools, some):
    """A few are found out of their neighbours' lists; for most of all records the graph is built again."""
    index, records = problem
    spec = spec_now(tools, index, records)
    gone = list(records)[:some]
    needles = {f"{name} of {id}": one for id in gone[:3] for name, one in of_record(spec, id).items()}
    assert occurrences(index, needles) == set(needles)
    index.forget(gone)
    assert occurrences(index, needles) == set()


def test_an_update_leaves_nothing_of_what_was(problem, tools):
    index, records = problem
    spec = spec_now(tools, index, records)
    id = next(iter(records))
    needles = of_record(spec, id)
    del needles["id"]
    index.update(-records[id] * np.float32(1.5), ids=[id])
    assert occurrences(index, needles) == set()


def test_of_equal_vectors_the_last_one_takes_it_along(tools):
    x = tools.clustered(2, 200, DIM)
    x[50:60] = x[40]
    ids = reference.words(9, 1, 200).view(np.int64)
    index = tools.build(x, ids, metric="l2")
    spec = tools.Spec(index.config, ids, x)
    needles = of_record(spec, int(ids[40]))
    for i in (40, *range(50, 59)):
        before = tools.native_state(index)
        index.forget(int(ids[i]))
        after = tools.native_state(index)
        # Nothing but the list of ids has changed.
        assert [parts[1:] for parts in before.values()] == [parts[1:] for parts in after.values()]
        assert occurrences(index, {"id": int(ids[i]).to_bytes(8, "little", signed=True)}) == set()
    assert "z, first" in occurrences(index, needles)
    index.forget(int(ids[59]))
    assert occurrences(index, needles) == set()
    tools.assert_equals_spec(index)


def test_of_equal_vectors_no_row_is_left_in_the_list_of_copies(tools):
    x = tools.clustered(3, 100, DIM)
    copies = [17, 36, 58, 72, 91]
    x[copies] = x[3]
    index = tools.build(x, range(100), metric="l2")
    needles = {f"rows from {i}": np.array(copies[i : i + 3], dtype=np.uint32).tobytes() for i in range(3)}
    assert occurrences(index, needles) == set(needles)
    index.forget(copies)
    assert occurrences(index, needles) == set()


def test_memory_follows_from_the_records(problem, tools):
    index, records = problem
    ids = list(records)
    other = tools.build(
        np.stack([records[id] for id in ids[:200]]),
        ids[:200],
        metric=index.config.metric,
        cell_size=12,
        cells=5,
        pool=20,
    )
    for id in ids[200:]:
        index.forget(id)
    assert index.stats() == other.stats()
    assert index.digest() == other.digest()


def test_pools_that_become_shorter_leave_nothing_behind_their_end(tools):
    """About as many bytes that are not zero as in an index that never held more. So that little else differs, caches
    hold all there is, and the record with the vertex and the row of number 0 stays."""
    n, left = 200, 60
    x = tools.clustered(3, n, 16)
    arguments = {"metric": "l2", "pool": 255, "cells": 64, "cell_size": 20}
    first = int(tools.Spec(tools.build(x, range(n), **arguments).config, np.arange(n), x).made.rows[0][0])
    order = [first, *(id for id in range(n) if id != first)]
    x, ids = x[order], np.array(order) + 1

    def bytes_in_use(index):
        memory = np.frombuffer(core.testing.raw_memory(index._native), dtype=np.uint8)
        return int(np.count_nonzero(memory))

    index, fresh = tools.build(x, ids, **arguments), tools.build(x[:left], ids[:left], **arguments)
    full = bytes_in_use(index)
    for id in np.random.default_rng(4).permutation(ids[left:]).tolist():
        index.forget(id)
    tools.assert_same_state(tools.native_state(index), tools.native_state(fresh))
    # Numbers are others, and some of their bytes are zero in one of the two; what was left of 140 vectors was ten times
    # as many bytes as are allowed here.
    assert abs(bytes_in_use(index) - bytes_in_use(fresh)) < 300 < full - bytes_in_use(fresh)
