"""The spec's answer for any hasher, computed from the hasher's public parameters and nothing else of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lethevec import Hasher, reference

F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]


class Spec:
    """`lethevec.reference`, asked for what a hasher should give. Frames are kept, being slow to draw."""

    frame = staticmethod(lru_cache(maxsize=None)(reference.make_frame))
    matrix = staticmethod(lru_cache(maxsize=None)(reference.gaussian_matrix))

    def frame_of(self, hasher: Hasher) -> Any:
        m = -(-hasher.bits // hasher.dim)
        return self.frame(hasher.dim, m, hasher.seed, hasher.parameters["rotation"])

    def values(self, hasher: Hasher, x: F32) -> F32:
        name, p = hasher.family, hasher.parameters
        if name == "faiss-lsh":
            name = reference.faiss_rule(hasher.dim, hasher.bits)
        if name == "simhash":
            return reference.simhash(self.matrix(hasher.dim, hasher.bits, hasher.seed), x)
        frame = self.frame_of(hasher)
        if name == "superbit":
            return reference.superbit(frame, x, hasher.bits)
        if name == "usr":
            return reference.usr(frame, x, int(p["steps"]), float(p["gain"]))
        assert name == "progressive"
        return reference.progressive(frame, x, int(p["sweeps"]))

    def reconstruct(self, hasher: Hasher, codes: U8) -> F32:
        frame = self.frame_of(hasher)
        if hasher.family == "usr":
            return reference.usr_reconstruct(frame, codes, float(hasher.parameters["gain"]))
        if hasher.family == "progressive":
            return reference.progressive_reconstruct(frame, codes)
        return reference.superbit_reconstruct(frame, codes)


@pytest.fixture(scope="session")
def spec() -> Spec:
    return Spec()


class Words:
    """A search problem on the bundled words: 300 queries, 5,700 others, the 10 true neighbours of each by cosine."""

    def __init__(self, units: F32) -> None:
        units = units[:6000]
        is_query = np.arange(len(units)) % 20 == 0
        self.base, self.queries = units[~is_query], units[is_query]
        self.truth = np.argsort(-(self.queries @ self.base.T), axis=1, kind="stable")[:, :10]

    def ranked(self, base_codes: U8, query_codes: U8, bits: int, k: int = 100) -> npt.NDArray[np.int64]:
        """The k nearest by Hamming distance, ties by id."""
        b, q = reference.unpack(base_codes, bits), reference.unpack(query_codes, bits)
        distance = ((bits - q @ b.T) / 2).astype(np.int64)  # small integers, exact in float32
        keys = distance * len(b) + np.arange(len(b))
        return np.sort(np.partition(keys, k, axis=1)[:, :k], axis=1) % len(b)

    def pr_auc(self, ranked: npt.NDArray[np.int64]) -> float:
        """The paper's measure: mean precision and recall for 1 to 100 results, |Y| = 10; the area under the curve."""
        hit = (ranked[:, :, None] == self.truth[:, None, :]).any(axis=2)
        found = hit.cumsum(axis=1).mean(axis=0)
        precision, recall = found / np.arange(1, ranked.shape[1] + 1), found / self.truth.shape[1]
        precision, recall = np.concatenate([precision[:1], precision]), np.concatenate([[0.0], recall])
        return float(((precision[1:] + precision[:-1]) / 2 * np.diff(recall)).sum())

    def recall_at_10(self, ranked: npt.NDArray[np.int64]) -> float:
        return float((ranked[:, :10, None] == self.truth[:, None, :]).any(axis=2).mean())

    def rank(self, hasher: Hasher) -> npt.NDArray[np.int64]:
        return self.ranked(hasher.codes(self.base), hasher.codes(self.queries), hasher.bits)


@pytest.fixture(scope="session")
def words(unit_words: F32) -> Words:
    return Words(unit_words)
