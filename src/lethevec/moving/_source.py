"""What all sources have in common: how a collection is read, and what is said about its residue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError, ParameterError

__all__ = ["F32", "UNKNOWN_METRIC", "Batch", "Residue", "Source", "as_id", "choose", "same_dim"]

F32 = npt.NDArray[np.float32]

#: A remark on sources that keep a metric with an index alone.
UNKNOWN_METRIC = "no index says which metric the vectors are for, so l2 was taken; --metric names another"


@dataclass(frozen=True)
class Batch:
    """Records as a source has them: vectors of shape (n, dim), ids, and a JSON object or None for each."""

    ids: list[int | str]
    vectors: F32
    payloads: list[dict[str, Any] | None]


@dataclass(frozen=True)
class Residue:
    """What a source still holds of records that were deleted from it.

    `records` is how many of them something is left of, `bytes` how much; None where it cannot be told. `places` has
    bytes by file, and `remark` says in words what was found, or why nothing can be.
    """

    records: int | None
    bytes: int | None
    remark: str
    places: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {"records": self.records, "bytes": self.bytes, "remark": self.remark, "places": self.places}


class Source(ABC):
    """A collection that can be read; made by `open_source`, and to be closed."""

    name: str  # of the collection
    dim: int
    metric: str  # "cosine", "l2" or "ip"
    #: What the copy cannot have, or has in another form; for people.
    remarks: tuple[str, ...] = ()
    #: Records that were passed over because they have no vector.
    without_vector: int = 0

    @abstractmethod
    def count(self) -> int:
        """How many records it holds now."""

    @abstractmethod
    def batches(self, size: int) -> Iterator[Batch]:
        """All records, at most `size` at a time."""

    @abstractmethod
    def residue(self) -> Residue:
        """What is left of deleted records. Reads files, where there are any; to be called last."""

    def close(self) -> None:  # noqa: B027 - files that are read at once have nothing to let go of
        """Let go of files and connections."""

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def choose(names: Iterable[str], wanted: str | None, location: str, what: str = "collection") -> str:
    """The collection that was asked for, or the only one there is."""
    known = sorted(names)
    if wanted is not None:
        if wanted not in known:
            raise ParameterError(f"{location}: expected a {what} named {wanted!r}, got {', '.join(known) or 'none'}")
        return wanted
    if len(known) != 1:
        got = f"{len(known)} ({', '.join(known)[:200]}); say which one" if known else "none"
        raise ParameterError(f"{location}: expected one {what}, got {got}")
    return known[0]


def as_id(value: object) -> int | str:
    """An id as a store takes it: whole numbers from 0 to 2^63 - 1 stay numbers, everything else becomes text."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value) if 0 <= int(value) < 1 << 63 else str(int(value))
    return str(value)


def same_dim(vectors: F32, dim: int, where: str) -> F32:
    """Refuse vectors of another dimension than the source says."""
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise FormatError(f"{where}: expected vectors of {dim} numbers, got an array of shape {vectors.shape}")
    return vectors
