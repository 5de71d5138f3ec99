"""What a search gives back. Always the same shape: one row per query, also for one query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Work(NamedTuple):
    """What a search did, summed over its queries.

    `scanned` records had their first bits looked at, `refined` the rest of their code, `reranked` their vector.
    `bytes_read` is what that amounts to. With pivots, the codes that say how near the nearest are count twice.
    """

    scanned: int
    refined: int
    reranked: int
    bytes_read: int


class Hits:
    """The k nearest of each query.

    `ids` (n, k) int64 and `distances` (n, k) float32, by ascending distance, then ascending id. Where an index has
    fewer than k records (or a filter lets fewer through), the rest of a row is id -1 at distance infinity. `work` is
    what the search did.
    """

    # Not a dataclass: making a frozen one takes as long as checking a query.
    __slots__ = ("distances", "ids", "work")

    def __init__(self, ids: npt.NDArray[np.int64], distances: npt.NDArray[np.float32], work: Work) -> None:
        self.ids = ids
        self.distances = distances
        self.work = work

    def __repr__(self) -> str:
        return f"Hits(ids={self.ids!r}, distances={self.distances!r})"

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
        """Rows as (ids, distances), without the places that nothing filled."""
        for ids, distances in zip(self.ids, self.distances, strict=True):
            filled = np.isfinite(distances)
            yield ids[filled], distances[filled]


@dataclass(frozen=True)
class RadiusHits:
    """All records within a radius of each query: row i is ids[offsets[i]:offsets[i + 1]], nearest first."""

    offsets: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int64]
    distances: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
        """Rows as (ids, distances)."""
        for begin, end in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.ids[begin:end], self.distances[begin:end]
