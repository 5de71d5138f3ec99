"""An index with a graph as its native hooks show it, and as the spec says it must be: in one form, to be compared."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lethevec import Graph, Index, reference
from lethevec._index.config import Config
from lethevec._native import core

F32 = npt.NDArray[np.float32]
#: Vertices by hash: ids, near pivots, pool, kept, edges, parent, and the list with the bytes of all that belongs to it.
State = dict[int, tuple[Any, ...]]


def native_state(index: Index) -> State:
    """Everything that the native graph holds. It checks that what is kept twice agrees."""
    state = {}
    for hash, ids, near, pool, kept, edges, parent, listed in core.testing.graph_vertices(index._native):
        belongs = {
            other: (code, np.float32(add).tobytes(), np.float32(scale).tobytes()) for other, code, add, scale in listed
        }
        assert len(belongs) == len(listed), "an edge is there twice"
        state[hash] = (sorted(ids), near, pool, kept, edges, parent, belongs)
    return state


class Spec:
    """The records of an index in the spec's index."""

    def __init__(self, config: Config, ids: npt.ArrayLike, x: F32) -> None:
        """At least one record, in any order."""
        self.index = reference.Index(json.loads(config.canonical()))
        self.index.add(x, ids)
        self.made = self.index.state.graph

    def state(self) -> State:
        made = self.made
        hashes = made.hashes.tolist()

        def named(some: npt.NDArray[np.int64]) -> list[int]:
            return [hashes[v] for v in some.tolist()]

        return {
            hashes[v]: (
                made.ids[made.rows[v]].tolist(),
                named(made.near[v]),
                named(made.pools[v]),
                named(made.kept[v]),
                named(made.edges[v]),
                hashes[made.parents[v]] if v else None,
                {
                    other: (codes.codes[i].tobytes(), codes.adds[i].tobytes(), codes.scales[i].tobytes())
                    for i, other in enumerate(named(made.lists[v]))
                },
            )
            for v, codes in enumerate(made.codes)
        }


def assert_same_state(one: State, other: State) -> None:
    assert one.keys() == other.keys()
    for name, parts in one.items():
        for what, a, b in zip(
            ("ids", "near", "pool", "kept", "edges", "parent", "list"), parts, other[name], strict=True
        ):
            assert a == b, (what, name)


def assert_equals_spec(index: Index) -> None:
    """List by list, to the last bit."""
    ids = index.ids()
    if len(ids):
        assert_same_state(native_state(index), Spec(index.config, ids, index.vectors(ids)).state())


def assert_search_equals(
    index: Index, spec: Spec, queries: F32, k: int, effort: float, allow: npt.NDArray[np.int64] | None = None
) -> None:
    """Ids and distances bit for bit, and as many estimates."""
    hits = index.search(queries, k, effort=effort, allow=allow)
    ids, distances = spec.index.search(queries, k, effort=effort, allow=allow)
    np.testing.assert_array_equal(hits.ids, ids)
    np.testing.assert_array_equal(hits.distances.view(np.uint32), distances.view(np.uint32))
    allowed = None if allow is None else np.isin(spec.made.ids, allow)
    sought = effort if allowed is None else reference.allowed_effort(len(allowed), int(allowed.sum()), effort)
    estimates = sum(reference.graph_candidates(spec.made, q[None], k, sought, allowed).estimates for q in queries)
    assert hits.work.scanned == estimates


def clustered(seed: int, n: int, dim: int) -> F32:
    """Vectors with near neighbours, uneven cells and different norms."""
    rng = np.random.default_rng([seed, dim])
    centres = np.random.default_rng(dim).normal(size=(20, dim))
    x = centres[rng.integers(len(centres), size=n)] + 0.4 * rng.normal(size=(n, dim))
    return np.asarray(x * rng.lognormal(sigma=0.3, size=(n, 1)), dtype=np.float32)


def options(**given: Any) -> dict[str, Any]:
    """Those of an index with a graph, whose parameters are among what is given."""
    own: dict[str, Any] = {"cell_size": 6, "cells": 6, "pool": 14}
    own |= {one.name: given.pop(one.name) for one in fields(Graph) if one.name in given}
    return {"source": Graph(**own), **given}


class Tools:
    """What the tests of graphs share."""

    Spec = Spec
    options = staticmethod(options)
    native_state = staticmethod(native_state)
    assert_same_state = staticmethod(assert_same_state)
    assert_equals_spec = staticmethod(assert_equals_spec)
    assert_search_equals = staticmethod(assert_search_equals)
    clustered = staticmethod(clustered)

    @staticmethod
    def build(x: F32, ids: npt.ArrayLike, **arguments: Any) -> Index:
        index = Index(x.shape[1], **options(**arguments))
        index.add(x, ids=ids)
        return index


@pytest.fixture(scope="session")
def tools() -> type[Tools]:
    return Tools
