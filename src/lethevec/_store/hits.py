"""What a search gives back: always lists of n lines of k, whatever the number of queries or of records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .ids import Id

__all__ = ["Hit", "Hits"]


@dataclass(frozen=True)
class Hit:
    """One answer."""

    id: Id
    distance: float
    subject: str | None
    payload: dict[str, Any] | None


@dataclass(frozen=True)
class Hits:
    """The answers to n queries, nearest first, ties by ascending id (see `ids`).

    `ids` is an (n, k) object array of ints and strings, None where there are fewer than k; `distances` is (n, k)
    float32, +inf there; `subjects` and `payloads` are (n, k) object arrays. `hits[i]` is a list of `Hit` without the
    empty places.
    """

    ids: npt.NDArray[np.object_]
    distances: npt.NDArray[np.float32]
    subjects: npt.NDArray[np.object_]
    payloads: npt.NDArray[np.object_]

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.ids)

    def __getitem__(self, query: int) -> list[Hit]:
        """The answers to one query."""
        line = zip(self.ids[query], self.distances[query], self.subjects[query], self.payloads[query], strict=True)
        return [Hit(id, float(distance), subject, payload) for id, distance, subject, payload in line if id is not None]

    def __iter__(self) -> Iterator[list[Hit]]:
        """The answers to each query in turn."""
        return (self[query] for query in range(len(self)))
