"""The spec's account of an index: records and answers computed by `lethevec.reference` from the arguments alone."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lethevec import Index, reference
from lethevec.reference import ranking

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

frame_of = lru_cache(maxsize=None)(reference.make_frame)
matrix_of = lru_cache(maxsize=None)(reference.gaussian_matrix)


class Oracle:
    """An index of these records, by brute force. `arguments` are those of `Index`."""

    def __init__(self, arguments: dict[str, Any], vectors: F32, ids: I64) -> None:
        self.arguments = dict(arguments)
        order = np.argsort(ids)
        self.ids, self.x = ids[order], np.ascontiguousarray(vectors[order])
        given = self.arguments.get
        self.dim: int = arguments["dim"]
        self.metric: str = given("metric", "cosine")
        self.family: str = given("family", "progressive")
        self.keep: bool = given("keep_vectors", True)
        self.hamming = given("ranking", "asymmetric") == "hamming"
        planes = 2 if self.keep and self.family == "progressive" else 8
        self.bits: int = given("bits", planes * self.dim)
        if self.family == "faiss-lsh":
            self.family = reference.faiss_rule(self.dim, self.bits)
        self.m = -(-self.bits // self.dim)
        self.norms = reference.norms(self.x)
        self.mean_norm = 1.0
        if (
            self.family == "usr"
            and self.metric != "cosine"
            and "gain" not in arguments
            and "mean_norm" not in arguments
        ):
            self.mean_norm = mean_on_grid(self.norms.astype(np.float32))
        codes, factors = self.encode(self.x)
        self.records = ranking.Records(
            self.ids,
            codes,
            self.norms.astype(np.float32),
            np.zeros_like(factors) if self.hamming else factors,
            self.x if self.keep else None,
        )

    @property
    def frame(self) -> Any:
        return frame_of(self.dim, self.m, self.arguments.get("seed", 0), self.arguments.get("rotation", "hadamard"))

    @property
    def gain(self) -> float:
        mean_norm = self.arguments.get("mean_norm", self.mean_norm)
        return float(self.arguments.get("gain", reference.gain(self.dim, self.m, mean_norm)))

    def encode(self, x: F32) -> tuple[npt.NDArray[np.uint8], F32]:
        """Codes, and the factor of the estimate: 1/<x̂, x/|x|>."""
        size = reference.norms(x)
        if self.family == "simhash":
            values = reference.simhash(matrix_of(self.dim, self.bits, self.arguments.get("seed", 0)), x)
            along, scale = reference.alignment(values, values, np.ones(1, dtype=np.float32)), size
        elif self.family == "superbit":
            values = reference.superbit(self.frame, x, self.bits)
            along, scale = np.zeros(len(x)), size
            for at in range(0, self.bits, self.dim):
                block = values[:, at : at + self.dim]
                along = along + reference.alignment(block, block, np.ones(1, dtype=np.float32))
        elif self.family == "usr":
            of_direction = self.metric == "cosine"
            u = reference.directions(x) if of_direction else x
            entry = np.float32(self.gain / np.sqrt(self.m))
            values = reference.usr(self.frame, u, self.arguments.get("steps", 17), self.gain)
            along = reference.alignment(
                reference.analysis(self.frame, u * entry), values, np.ones(self.m, dtype=np.float32)
            )
            scale = (np.ones(len(x)) if of_direction else size) * np.float64(entry)
        else:
            values = reference.progressive(self.frame, x, self.arguments.get("sweeps", 0))
            coordinates = reference.analysis(self.frame, reference.directions(x))
            along = reference.alignment(coordinates, values, reference.plane_weights(self.dim, self.m))
            scale = np.ones(len(x))
        factors = np.divide(scale, along, out=np.zeros_like(scale), where=along > 0)
        return reference.pack(values), factors.astype(np.float32)

    def search(self, query: F32, k: int, effort: float, allow: I64 | None = None) -> tuple[I64, F32]:
        """The answer for one query (dim,)."""
        records = self.records if allow is None else subset(self.records, np.isin(self.ids, allow))
        if len(records.ids) == 0:
            return np.full(k, -1, dtype=np.int64), np.full(k, np.inf, dtype=np.float32)
        q = query[None, :]
        if self.hamming:
            codes, _ = self.encode(q)
            differing = reference.hamming(codes, records.codes)[0]
            return ranking.search_hamming(q, differing, records, metric=self.metric, k=k, effort=effort)
        first_bits, first_weight = self.bits, 1.0
        u = reference.directions(q)
        if self.family == "simhash":
            v = reference.simhash(matrix_of(self.dim, self.bits, self.arguments.get("seed", 0)), u)[0]
        else:
            v = reference.analysis(self.frame, u)[0, : self.bits]
        if self.family == "progressive":
            weights = reference.plane_weights(self.dim, self.m)
            v = (v.reshape(self.m, self.dim) * weights[:, None]).reshape(-1)
            first_bits, first_weight = self.dim, float(weights[0])
        return ranking.search_asymmetric(
            q,
            v,
            records,
            dim=self.dim,
            first_bits=first_bits,
            first_weight=first_weight,
            metric=self.metric,
            k=k,
            effort=effort,
        )

    def distances(self, query: F32) -> F32:
        """True distances of one query to all records, in the order of `ids`."""
        records = ranking.Records(self.ids, self.records.codes, self.records.norms, self.records.factors, self.x)
        return ranking.true_distances(query[None, :], records, np.arange(len(self.ids)), self.metric)


def subset(records: ranking.Records, mask: npt.NDArray[np.bool_]) -> ranking.Records:
    vectors = None if records.vectors is None else records.vectors[mask]
    return ranking.Records(records.ids[mask], records.codes[mask], records.norms[mask], records.factors[mask], vectors)


def mean_on_grid(norms: F32) -> float:
    """The mean norm as the design describes it: float32 norms cut to six bits of fraction, mean of the bucket middles,
    rounded on a grid of ratio 2^(1/4). Written from that sentence, not from the code."""
    exponent = np.floor(np.log2(norms, out=np.zeros(len(norms)), where=norms > 0))
    width = 2.0**exponent / 64
    middles = np.where(norms > 0, (np.floor(norms / width) + 0.5) * width, 0.0)
    mean = math.fsum(middles.tolist()) / len(norms) if len(norms) else 0.0
    return 2.0 ** (round(math.log2(mean) * 4) / 4) if mean > 0 else 1.0


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
    mean_on_grid = staticmethod(mean_on_grid)

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
        allow = how.get("allow")
        hits = index.search(queries, **how)
        for i, query in enumerate(queries):
            ids, distances = oracle.search(query, how["k"], how.get("effort", 1.0), allow)
            np.testing.assert_array_equal(hits.ids[i], ids, err_msg=f"{oracle.arguments} {how} query {i}")
            assert same_floats(hits.distances[i], distances), f"{oracle.arguments} {how} query {i}"


@pytest.fixture(scope="session")
def tools() -> type[Tools]:
    return Tools
