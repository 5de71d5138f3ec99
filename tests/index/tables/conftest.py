"""What the tests of hash tables share: their contents, natively and by the spec, and data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lethevec import Index, reference
from lethevec._native import core
from lethevec.reference.constants import LOOKED_BITS

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


def contents(index: Index, table: int) -> dict[int, tuple[int, int]]:
    """Everything in a native table: id to (key, signature). The native side checks that each row lies where it says."""
    c = index.config
    bits = min(c.dim, LOOKED_BITS) - c.source.key_bits
    n = len(index)
    ids, keys, signatures = np.empty(n, np.int64), np.empty(n, np.uint32), np.empty((n, -(-bits // 8)), np.uint8)
    core.testing.table_contents(index._native, table, ids, keys, signatures)
    pairs = zip(keys.tolist(), as_numbers(signatures), strict=True)
    found = dict(zip(ids.tolist(), pairs, strict=True))
    assert len(found) == n, "an id lies in a table twice"
    return found


def as_numbers(signatures: npt.NDArray[np.uint8]) -> list[int]:
    return [int.from_bytes(row.tobytes(), "little") for row in signatures]


class Spec:
    """The same records in the spec's index."""

    def __init__(self, index: Index, vectors: F32) -> None:
        """`vectors` belong to the ids of the index in ascending order."""
        self.index = reference.Index(json.loads(index.config.canonical()))
        self.index.add(vectors, index.ids())

    def table(self, t: int) -> dict[int, tuple[int, int]]:
        """Everything in a table: id to (key, signature)."""
        tables = self.index.state.tables
        pairs = zip(tables.keys[:, t].tolist(), as_numbers(tables.signatures[:, t]), strict=True)
        return dict(zip(self.index.ids().tolist(), pairs, strict=True))


def assert_search_equals(index: Index, spec: Spec, queries: F32, k: int, **how: Any) -> None:
    """Ids and distances, bit for bit."""
    hits = index.search(queries, k, **how)
    ids, distances = spec.index.search(queries, k, **how)
    np.testing.assert_array_equal(hits.ids, ids)
    np.testing.assert_array_equal(hits.distances.view(np.uint32), distances.view(np.uint32))


def clustered(seed: int, n: int, dim: int) -> F32:
    """Vectors with near neighbours, uneven buckets and different norms."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(max(1, n // 20), dim))
    x = centres[rng.integers(len(centres), size=n)] + 0.4 * rng.normal(size=(n, dim))
    return np.asarray(x * rng.lognormal(sigma=0.3, size=(n, 1)), dtype=np.float32)


@pytest.fixture(scope="session")
def make_clustered():  # type: ignore[no-untyped-def]
    return clustered


@pytest.fixture(scope="session")
def spec_of():  # type: ignore[no-untyped-def]
    return Spec


@pytest.fixture(scope="session")
def contents_of():  # type: ignore[no-untyped-def]
    return contents


@pytest.fixture(scope="session")
def search_equals():  # type: ignore[no-untyped-def]
    return assert_search_equals
