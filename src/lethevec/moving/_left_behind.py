"""The residue search in the files of others: which files hold the vectors of deleted records, and unused bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .._forgetting.residue import search, vector_needles

__all__ = ["Prints", "bytes_by_file", "files_below", "unused_bytes"]

_CLOSE = 2e-6  # of a vector's length: what a scaling to length 1 in another library may round differently
_MOST = 1000  # vectors that are searched for, evenly spread over those that were deleted


@dataclass(frozen=True)
class FileSource:
    """A file as the residue search reads it."""

    path: Path
    name: str

    @property
    def length(self) -> int:
        """How many bytes there are."""
        return self.path.stat().st_size

    def blocks(self, size: int) -> Iterator[tuple[int, bytes]]:
        """The content, in order."""
        with self.path.open("rb") as file:
            at = 0
            while block := file.read(size):
                yield at, block
                at += len(block)


class Prints:
    """Vectors to be recognized in the files of others: three numbers of each, its products with fixed directions.

    With `unit`, vectors are compared by their direction alone, as libraries keep them that scale to length 1.
    """

    def __init__(self, vectors: npt.NDArray[np.float32], *, unit: bool) -> None:
        """These vectors; `add` takes more."""
        self._unit = unit
        drawn = np.random.default_rng(0).normal(size=(vectors.shape[1], 3))
        self._directions = drawn / np.linalg.norm(drawn, axis=0)
        self._parts = [self._of(vectors)]
        self._sorted: npt.NDArray[np.float64] | None = None

    def add(self, vectors: npt.NDArray[np.float32]) -> None:
        """More of them."""
        self._parts.append(self._of(vectors))
        self._sorted = None

    def has(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """For each of these, whether it is one of them."""
        if self._sorted is None:
            # Equal ones are one: many equal neighbours in the order would all have to be looked at.
            every = np.unique(np.concatenate(self._parts), axis=0)
            self._parts, self._sorted = [every], every
        known, asked = self._sorted, self._of(vectors)
        close = _CLOSE * np.maximum(1.0 if self._unit else np.linalg.norm(vectors, axis=1), 1e-30)
        place = np.searchsorted(known[:, 0], asked[:, 0] - close)
        end = np.searchsorted(known[:, 0], asked[:, 0] + close, side="right")
        found = np.zeros(len(asked), dtype=np.bool_)
        while (open := np.flatnonzero(~found & (place < end))).size:
            found[open] = (
                np.abs(known[place[open]] - asked[open]).max(axis=1) <= np.broadcast_to(close, found.shape)[open]
            )
            place[open] += 1
        return found

    def _of(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        values = vectors.astype(np.float64)
        if self._unit:
            values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-30)
        # Not a matrix product: it may round differently with the number of rows, and equal ones would not be equal.
        return np.stack([np.einsum("ij,j->i", values, direction) for direction in self._directions.T], axis=1)


def files_below(folder: Path) -> list[FileSource]:
    """All files of a folder."""
    return [FileSource(path, str(path.relative_to(folder))) for path in sorted(folder.rglob("*")) if path.is_file()]


def bytes_by_file(vectors: npt.NDArray[np.float32], sources: list[FileSource]) -> dict[str, int]:
    """How many bytes of these vectors each file holds, as float32; of a sample, where there are many."""
    picked = vectors[np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), _MOST)).astype(np.int64))]
    # Equal vectors are looked for once: all of them would be found at each of their places, which takes long.
    different, times = np.unique(picked, axis=0, return_counts=True)
    needles = [
        needle
        for number, vector in enumerate(different)
        for needle in vector_needles(vector, str(number), own_only=True)
    ]
    found: dict[str, int] = {}
    for source in sources:
        by_label = search([source], needles).bytes_by_label  # a label is the number and the form of the vector
        held = sum(n * int(times[int(label.partition(" ")[0])]) for label, n in by_label.items())
        if held:
            found[source.name] = held
    return found


def unused_bytes(path: Path) -> int:
    """Bytes that are not zero in the unused parts of an SQLite database: what was deleted and not overwritten.

    These are the free pages, and in the pages of tables and indexes the gap between pointers and cells.
    """
    with path.open("rb") as file:
        head = file.read(100)
        if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
            return 0
        size = int.from_bytes(head[16:18], "big")
        size = 65536 if size == 1 else size
        free = _free_pages(path, size, int.from_bytes(head[32:36], "big"))
        file.seek(0)
        held = 0
        number = 0
        while page := file.read(size):
            number += 1
            start, end = free.get(number, _gap(page, number))
            held += sum(map(bool, page[start:end]))
    return held


def _free_pages(path: Path, size: int, trunk: int) -> dict[int, tuple[int, int]]:
    """The pages of the free list, and the part of each that is unused."""
    free: dict[int, tuple[int, int]] = {}
    with path.open("rb") as file:
        while trunk and trunk not in free:  # a list that leads back into itself ends here
            file.seek((trunk - 1) * size)
            page = file.read(size)
            if len(page) < size:
                break
            following, count = struct.unpack_from(">II", page)
            count = min(count, size // 4 - 2)
            free[trunk] = (8 + 4 * count, size)
            free.update(dict.fromkeys(struct.unpack_from(f">{count}I", page, 8), (0, size)))
            trunk = following
    return free


def _gap(page: bytes, number: int) -> tuple[int, int]:
    """What is unused between the pointers and the cells of a b-tree page; nothing of another page."""
    at = 100 if number == 1 else 0
    kind = page[at] if len(page) > at + 12 else 0
    if kind not in (2, 5, 10, 13):
        return 0, 0
    cells, content = struct.unpack_from(">HH", page, at + 3)
    start = at + (12 if kind in (2, 5) else 8) + 2 * cells
    return start, max(start, content or 65536)
