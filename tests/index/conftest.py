"""What the tests of the index share: data, and the spec's index with the same records to compare with."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lethevec import Index, reference

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class Oracle:
    """The spec's index with these records. `arguments` are those of `Index`; rows are by ascending id."""

    def __init__(self, arguments: dict[str, Any], vectors: F32, ids: I64) -> None:
        self.arguments = dict(arguments)
        self.spec = spec_of(Index(**arguments))
        self.spec.add(vectors, ids)
        self.ids, self.x = self.spec.ids(), np.ascontiguousarray(vectors[np.argsort(ids)])

    @property
    def records(self) -> reference.Records:
        """Codes, norms and factors as they must be."""
        return self.spec.state.records

    def candidates(self, query: F32, k: int, effort: float) -> set[int]:
        """The ids that get their true distance, for one query (dim,)."""
        state = self.spec.state
        return set(state.ids[state.candidates(state.query(query[None]), k, effort)].tolist())

    def distances(self, query: F32) -> F32:
        """True distances of one query (dim,) to all records, in the order of `ids`."""
        kept = replace(self.records, vectors=self.x)
        return reference.true_distances(query[None], kept, np.arange(len(self.ids)), self.spec.state.metric)


def spec_of(index: Index) -> reference.Index:
    """An empty index of the spec with the same configuration."""
    return reference.Index(json.loads(index.config.canonical()))


def stored(index: Index, ids: I64) -> tuple[npt.NDArray[np.uint8], F32, F32]:
    """Codes, norms and factors as the native index holds them."""
    codes = np.empty((len(ids), -(-index.config.bits // 8)), dtype=np.uint8)
    norms, factors = np.empty(len(ids), dtype=np.float32), np.empty(len(ids), dtype=np.float32)
    assert index._native.export_codes(ids, codes, norms, factors) is None
    return codes, norms, factors


def same_floats(a: F32, b: F32) -> bool:
    """Equal to the last bit; the two zeros differ."""
    return a.dtype == b.dtype == np.float32 and bool(np.array_equal(a.view(np.uint32), b.view(np.uint32)))


class Tools:
    """What the tests of the index share."""

    Oracle = Oracle
    stored = staticmethod(stored)
    same_floats = staticmethod(same_floats)
    spec_of = staticmethod(spec_of)

    @staticmethod
    def data(n: int, dim: int, seed: int = 0, spread: float = 2.0) -> tuple[F32, I64]:
        """Vectors around a few centres, of different norms, some equal; ids in no order, some of them negative."""
        rng = np.random.default_rng([seed, n, dim])
        centres = rng.normal(size=(max(1, n // 50), dim))
        x = centres[rng.integers(len(centres), size=n)] + 0.6 * rng.normal(size=(n, dim))
        x = (x * rng.uniform(1 / spread, spread, size=(n, 1))).astype(np.float32)
        x[rng.integers(n, size=n // 20)] = x[0]
        ids = rng.choice(np.arange(-10 * n, 10 * n), size=n, replace=False).astype(np.int64)
        return x, ids

    @staticmethod
    def build(arguments: dict[str, Any], x: F32, ids: I64, **more: Any) -> Index:
        index = Index(**arguments)
        index.add(x, ids=ids, **more)
        return index

    @staticmethod
    def assert_search_equals(index: Index, oracle: Oracle, queries: F32, **how: Any) -> None:
        """Ids and distances, bit for bit."""
        hits = index.search(queries, **how)
        ids, distances = oracle.spec.search(queries, **how)
        np.testing.assert_array_equal(hits.ids, ids, err_msg=f"{oracle.arguments} {how}")
        assert same_floats(hits.distances, distances), f"{oracle.arguments} {how}"


@pytest.fixture(scope="session")
def tools() -> type[Tools]:
    return Tools
