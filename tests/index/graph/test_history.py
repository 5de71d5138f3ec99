"""Whatever the history: the graph equals, list by list, one that was built from the records that are left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethevec import Graph, Index, reference

SHAPES = {
    "clustered": lambda rng, n, d: rng.normal(size=(8, d))[rng.integers(8, size=n)] + 0.3 * rng.normal(size=(n, d)),
    "grid": lambda rng, n, d: rng.integers(1, 4, size=(n, d)),
    "copies": lambda rng, n, d: rng.normal(size=(max(1, n // 4), d))[rng.integers(max(1, n // 4), size=n)],
    "line": lambda rng, n, d: np.outer(rng.permutation(n) + 1, np.ones(d)) + 0.01 * rng.normal(size=(n, d)),
    "hub": lambda rng, n, d: rng.normal(size=(n, d)) * np.where(rng.random((n, 1)) < 0.1, 0.01, 5.0),
}
#: Cells, pools and lists that are short, so that little of a graph is near to everything; and the usual ones.
SETTINGS = [
    {"cell_size": 4, "cells": 3, "pool": 6},
    {"cell_size": 8, "cells": 5, "pool": 20},
    {"cell_size": 2, "cells": 8, "pool": 40},
    {},
]


def rebuilt(tools, index):
    ids = index.ids()
    fresh = Index(index.config.dim, metric=index.config.metric, source=index.config.source)
    if len(ids):
        fresh.add(index.vectors(ids), ids=ids)
    return fresh


def is_pivot(index, x):
    """Which vectors would be pivots."""
    z = reference.directions(x) if index.config.metric == "cosine" else x
    key = reference.pivot_key(bytes.fromhex(index.config.source.key))
    return reference.vector_hash(key, z) < np.uint64(2**64 // index.config.source.cell_size)


def run(tools, seed, shape, options, metric, n, steps, most):
    """A history of adds, updates and forgets, one by one and in batches; the graph is compared after every step."""
    rng = np.random.default_rng(seed)
    x = SHAPES[shape](rng, 3 * n, 7).astype(np.float32)
    index = Index(7, metric=metric, source=Graph(**options))
    index.add(x[:n], ids=np.arange(n))
    free = list(range(n, 3 * n))
    for _ in range(steps):
        held = index.ids()
        some = int(rng.integers(1, most + 1))
        what = rng.random()
        if what < 0.4 and len(free) >= some:
            taken = [free.pop(int(rng.integers(len(free)))) for _ in range(some)]
            index.add(x[taken], ids=np.array(taken))
        elif what < 0.5 and len(held) >= some:
            chosen = rng.choice(held, size=some, replace=False)
            index.update(x[rng.integers(3 * n, size=some)], ids=chosen)
        elif len(held) > some:
            # Pivots, on purpose, half of the time.
            pivots = held[is_pivot(index, index.vectors(held))]
            from_these = pivots if rng.random() < 0.5 and len(pivots) > some else held
            gone = rng.choice(from_these, size=some, replace=False)
            index.forget(gone)
            free.extend(int(id) for id in gone)
        tools.assert_same_state(tools.native_state(index), tools.native_state(rebuilt(tools, index)))
    return index


@pytest.mark.parametrize("options", SETTINGS)
@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_by_one(tools, shape, metric, options):
    index = run(tools, 11, shape, options, metric, 110, 25, 1)
    tools.assert_equals_spec(index)


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from(sorted(SHAPES)),
    options=st.sampled_from(SETTINGS),
    metric=st.sampled_from(["l2", "cosine"]),
    n=st.integers(1, 200),
    most=st.sampled_from([1, 4, 12]),
)
@settings(max_examples=40, deadline=None)
def test_any_history(tools, seed, shape, options, metric, n, most):
    run(tools, seed, shape, options, metric, n, 10, most)


def test_down_to_nothing_and_up_again(tools):
    x = tools.clustered(1, 60, 7)
    index = tools.build(x, np.arange(60))
    for id in np.random.default_rng(2).permutation(60).tolist():
        index.forget(id)
        tools.assert_same_state(tools.native_state(index), tools.native_state(rebuilt(tools, index)))
    assert tools.native_state(index) == {}
    for id in range(60):
        index.add(x[id : id + 1], ids=[id])
    tools.assert_equals_spec(index)


def test_the_root_is_forgotten(tools):
    x = tools.clustered(3, 150, 7)
    index = tools.build(x, np.arange(150))
    for _ in range(5):
        state = tools.native_state(index)
        root = next(parts[0] for parts in state.values() if parts[5] is None)
        index.forget(root)
        tools.assert_same_state(tools.native_state(index), tools.native_state(rebuilt(tools, index)))


def test_entries_change_at_a_power_of_two(tools):
    """With cells of two, half of all are pivots, and beyond 1,024 vertices not all of these are entries."""
    x = tools.clustered(6, 1040, 8)
    index = Index(8, metric="l2", source=Graph(pool=10, cells=4, cell_size=2))
    index.add(x[:1022], ids=np.arange(1022))
    for id in range(1022, 1030):
        index.add(x[id : id + 1], ids=[id])
    tools.assert_same_state(tools.native_state(index), tools.native_state(rebuilt(tools, index)))
    for id in range(9):
        index.forget(id)
    tools.assert_same_state(tools.native_state(index), tools.native_state(rebuilt(tools, index)))
    index.add(x[1030:1040], ids=np.arange(1030, 1040))
    tools.assert_same_state(tools.native_state(index), tools.native_state(rebuilt(tools, index)))
    index.forget(np.arange(100, 130))
    tools.assert_same_state(tools.native_state(index), tools.native_state(rebuilt(tools, index)))


def test_longer_histories_in_a_larger_graph(tools):
    rng = np.random.default_rng(4)
    x = tools.clustered(5, 2600, 16)
    index = Index(16, source=Graph(pool=24, cells=8, cell_size=16))
    index.add(x[:1800], ids=np.arange(1800))
    held, free = set(range(1800)), list(range(1800, 2600))
    for _ in range(60):
        gone = rng.choice(sorted(held), size=int(rng.integers(1, 25)), replace=False)
        index.forget(gone)
        held.difference_update(gone.tolist())
        new = [free.pop() for _ in range(min(len(free), int(rng.integers(1, 25))))]
        if new:
            index.add(x[new], ids=new)
            held.update(new)
    tools.assert_same_state(tools.native_state(index), tools.native_state(rebuilt(tools, index)))


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_every_vertex_can_be_reached_after_a_history(tools, shape):
    """From the root, by the lists that a search goes through, where thousands of records have come and gone one by one
    and in batches: pivots, entries and the root among them."""
    rng = np.random.default_rng([7, len(shape)])
    x = SHAPES[shape](rng, 4500, 9).astype(np.float32)
    index = Index(9, metric="l2", source=Graph(pool=24, cells=8, cell_size=16))
    index.add(x[:3000], ids=np.arange(3000))
    index.forget(rng.permutation(3000)[:90])
    index.add(x[3000:3090], ids=np.arange(3000, 3090))
    for step in range(350):
        held = index.ids()
        index.forget(held[rng.integers(len(held))])
        index.add(x[3090 + step : 3091 + step], ids=[3090 + step])
        if step % 50 == 0:  # the root, and with it a pivot and an entry
            state = tools.native_state(index)
            index.forget(next(ids for ids, *_, parent, _ in state.values() if parent is None))
    state = tools.native_state(index)
    assert sum(len(ids) for ids, *_ in state.values()) == len(index) > 2000
    reached = [next(name for name, (*_, parent, _) in state.items() if parent is None)]
    seen = set(reached)
    for name in reached:
        others = set(state[name][-1]) - seen
        seen |= others
        reached += others
    assert seen == state.keys()
