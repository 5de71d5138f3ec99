"""What the spec says of an index with source "tables": its buckets and its answers, from configuration and records."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pytest

from lethevec import Index, reference
from lethevec._native import core
from lethevec.reference import ranking

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

frame_of = lru_cache(maxsize=None)(reference.make_frame)
tables_frame_of = lru_cache(maxsize=None)(reference.tables_frame)


def contents(index: Index, table: int) -> dict[int, tuple[int, int]]:
    """Everything in a native table: id to (key, signature). The native side checks that each row lies where it says."""
    c = index.config
    bits = min(c.dim, reference.tables.LOOKED_BITS) - int(dict(c.source_params)["key_bits"])
    n = len(index)
    ids, keys, signatures = np.empty(n, np.int64), np.empty(n, np.uint32), np.empty((n, -(-bits // 8)), np.uint8)
    core.table_contents(index._native, table, ids, keys, signatures)
    pairs = zip(keys.tolist(), as_numbers(signatures), strict=True)
    found = dict(zip(ids.tolist(), pairs, strict=True))
    assert len(found) == n, "an id lies in a table twice"
    return found


def as_numbers(signatures: npt.NDArray[np.uint8]) -> list[int]:
    return [int.from_bytes(row.tobytes(), "little") for row in signatures]


class Spec:
    """The same records by brute force. Codes are taken from the index: that they equal the spec is tested elsewhere."""

    def __init__(self, index: Index, vectors: F32) -> None:
        """`vectors` belong to the ids of the index in ascending order."""
        c = self.config = index.config
        self.params = dict(c.source_params)
        self.ids = index.ids()
        codes = np.empty((len(self.ids), -(-c.bits // 8)), np.uint8)
        norms, factors = np.empty(len(self.ids), np.float32), np.empty(len(self.ids), np.float32)
        index._native.export_codes(self.ids, codes, norms, factors)
        self.records = ranking.Records(self.ids, codes, norms, factors, vectors if c.keep_vectors else None)
        self.hasher = index.config.hasher(index.stats()["mean_norm"])
        self.frame = tables_frame_of(c.dim, self.params["tables"], c.seed)
        hashed = vectors if c.keep_vectors else self.decoded()
        self.values = reference.table_values(self.frame, hashed, c.metric)
        self.keys = reference.table_keys(self.values, self.params["key_bits"])
        self.signatures = reference.table_signatures(self.values, self.params["key_bits"])

    @property
    def code_frame(self) -> reference.HadamardFrame | reference.DenseFrame:
        c = self.config
        return frame_of(c.dim, -(-c.bits // c.dim), c.seed, dict(c.params).get("rotation", "hadamard"))

    def decoded(self) -> F32:
        """The vectors that the codes stand for, up to a factor."""
        c, m = self.config, self.config.bits // self.config.dim
        weights = reference.plane_weights(c.dim, m) if c.family == "progressive" else np.ones(m, np.float32)
        b = reference.unpack(self.records.codes, c.bits).reshape(-1, m, c.dim) * weights[:, None]
        return reference.synthesis(self.code_frame, b.reshape(len(b), -1))

    def table(self, t: int) -> dict[int, tuple[int, int]]:
        pairs = zip(self.keys[:, t].tolist(), as_numbers(self.signatures[:, t]), strict=True)
        return dict(zip(self.ids.tolist(), pairs, strict=True))

    def search(self, query: F32, k: int, effort: float, allow: I64 | None = None) -> tuple[I64, F32]:
        """The answer for one query (dim,)."""
        c, q = self.config, query[None]
        values = reference.table_values(self.frame, q, c.metric)[0]
        rows, first = reference.table_candidates(
            self.values >= 0,
            values,
            b=self.params["key_bits"],
            k=k,
            effort=effort,
            probes=self.params["probes"],
            allowed=None if allow is None else np.isin(self.ids, allow),
        )
        assert len(np.unique(rows)) == len(rows)
        keys, distances = self.estimates(q, rows)
        if c.keep_vectors:
            rows = rows[reference.pass_filter(keys, first, reference.filter_rank(k, effort))]
            distances = ranking.true_distances(q, self.records, rows, c.metric)
        return ranking._answer(distances, self.ids[rows], k)

    def estimates(self, q: F32, rows: I64) -> tuple[F32, F32]:
        """What the codes of rows say: keys, larger is nearer, and distances."""
        c, records = self.config, self.records
        if c.ranking == "hamming":
            hashed = reference.directions(q) if c.metric == "cosine" and c.family == "usr" else q
            differ = reference.hamming(self.hasher.codes(hashed), records.codes[rows])[0].astype(np.float32)
            return -differ, differ
        v = reference.analysis(self.code_frame, reference.directions(q))[0, : c.bits]
        if c.family == "progressive":
            m = c.bits // c.dim
            v = (v.reshape(m, c.dim) * reference.plane_weights(c.dim, m)[:, None]).reshape(-1)
        tail = ranking.tail_weights(v)
        agreement = tail.agreement(reference.unpack(records.codes[rows], c.bits) > 0)
        estimate = agreement.astype(np.float32) * np.float32(tail.unit) * records.factors[rows]
        size, q_norm = records.norms[rows], float(reference.norms(q)[0])
        keys = ranking._refined_keys(estimate, size, c.metric, q_norm)
        return keys, ranking.estimated_distances(estimate, size, q_norm, c.metric)


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
