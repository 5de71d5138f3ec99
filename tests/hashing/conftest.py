"""What the tests of the hashers share: the spec's encoder for any hasher, and a search problem on real data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from lethevec import Hasher, reference

F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]


def encoder_of(hasher: Hasher) -> reference.Encoder:
    """The spec's encoder with the public parameters of a hasher, and nothing else of it."""
    p = hasher.parameters
    return reference.Encoder(
        hasher.family,
        hasher.dim,
        hasher.bits,
        hasher.seed,
        rotation=p.get("rotation", "hadamard"),  # type: ignore[arg-type]
        T=int(p.get("steps", 1)),
        alpha=float(p.get("gain", 1.0)),
        sweeps=int(p.get("sweeps", 0)),
    )


@pytest.fixture(scope="session")
def spec() -> Callable[[Hasher], reference.Encoder]:
    return encoder_of


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
