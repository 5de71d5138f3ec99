"""Vectors of a store's index in a file beside the database: which file, and how an erasure searches it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._forgetting.residue import Finding, Needle, Paged, Source
from .._index import Index
from .._index.vector_files import MOST_OF_STORE, VectorFiles, as_vector_files
from .._native import core
from .._shown import shown
from ..errors import ParameterError, UnsupportedError
from .files import RawFile

if TYPE_CHECKING:
    from .session import Session

__all__ = ["VectorsInFile", "check_vectors", "vector_files"]


def check_vectors(vectors: object, *, read_only: bool) -> bool:
    """Whether vectors are to be in a file."""
    if not isinstance(vectors, str) or vectors not in ("memory", "file"):
        raise ParameterError(f"vectors: expected 'memory' or 'file', got {shown(vectors)}")
    in_file = as_vector_files(vectors) is not None  # it says where there are none
    if in_file and read_only:
        # It would have records in a file of its own that the writer's erasures do not reach.
        raise UnsupportedError("vectors: expected 'memory' with read_only=True: only the writer keeps them in a file")
    return in_file


def vector_files(session: Session, in_file: bool) -> VectorFiles | None:
    """The files of a store's index; None where vectors are in memory."""
    if not in_file:
        return None
    if session.tables.sealed:
        raise UnsupportedError(
            f"{session.path}: vectors: expected 'memory', since this store is encrypted, and a file of vectors would "
            "have them in the clear"
        )
    return VectorFiles(session.files.vectors, MOST_OF_STORE)


class VectorsInFile:
    """The file that the vectors of an index are in now."""

    def __init__(self, index: Index) -> None:
        """Of this index, which has one."""
        self._index = index
        self._searched: _Parts | None = None
        self._rewritten: list[tuple[int, int]] = []  # parts for which nobody has signed
        self._of: weakref.ref[core.Index] | None = None  # the native index whose parts these are

    def traces(self, vector: bytes) -> list[Needle]:
        """What the file has of a record's vector: its numbers as the tables have them, unless its form is small."""
        form = self._index.config.form
        return [Needle(f"vector {form.name}", self._kept(vector))] if form.small else []

    def _kept(self, vector: bytes) -> bytes:
        form = self._index.config.form
        with form.rounding(np.frombuffer(vector, dtype="<f4").astype(np.float32).reshape(1, -1)) as rounded:
            return form.pack(rounded).tobytes() if form.small else vector

    def explains(self, finding: Finding, session: Session) -> bool:
        """Whether something that was found is where a living record has its vector, with that vector there."""
        if self._searched is None or finding.source != self._searched.name:
            return False
        size = self._index.config.form.row_bytes(self._index.dim)
        place = self._searched.place(finding.offset // size * size)
        number = self._index._native.id_at(place)
        if number is None:
            return False
        found = session.connection.execute("SELECT slot FROM records WHERE number = ?", (number,)).fetchall()
        living = [record.vector for record in session.tables.read_slots([slot for (slot,) in found])]
        there = self._searched.read(place, size)
        return any(vector is not None and self._kept(vector) == there for vector in living)

    def sources(self, *, rewritten: bool) -> list[Source]:
        """The file, or what was rewritten in it since `signed`: all is too long to be read at every forget."""
        native = self._index._native
        if not native.in_file():
            return []
        path = Path(os.fsdecode(native.file_path()))
        self._note_rewritten(native, path)
        parts = _Parts(path, self._rewritten if rewritten else native.parts_of_file(False))
        row = self._index.config.form.row_bytes(self._index.dim)
        self._searched = parts
        return [Paged(parts, row, row)]

    def signed(self) -> None:
        """Receipts are signed for what was rewritten so far: the next ones need not search it again."""
        self._rewritten = []

    def _note_rewritten(self, native: core.Index, path: Path) -> None:
        """Take over what the core has noted as rewritten, which it says once. One search of many must not use it up."""
        if self._of is None or self._of() is not native:  # the index was made again, in another file
            self._of, self._rewritten = weakref.ref(native), []
        end = path.stat().st_size  # what the file was shortened by since is not there to be searched
        kept = [(start, count) for start, count in self._rewritten if start + count <= end]
        self._rewritten = _union([*kept, *native.parts_of_file(True)])


def _union(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts in order, each byte once."""
    found: list[tuple[int, int]] = []
    for start, count in sorted(parts):
        if found and start < sum(found[-1]):
            first = found[-1][0]
            found[-1] = first, max(sum(found[-1]), start + count) - first
        else:
            found.append((start, count))
    return found


@dataclass(frozen=True)
class _Parts:
    """Some parts of a file, each of whole rows, as if they were one after the other."""

    path: Path
    parts: list[tuple[int, int]]

    @property
    def name(self) -> str:
        """What findings call it."""
        return self.path.name

    @property
    def length(self) -> int:
        """How many bytes there are."""
        return sum(count for _, count in self.parts)

    def place(self, offset: int) -> int:
        """Where in the file an offset is."""
        for start, count in self.parts:
            if offset < count:
                return start + offset
            offset -= count
        return 0

    def read(self, place: int, count: int) -> bytes:
        """Some bytes of the file."""
        raw = RawFile(self.path)
        try:
            return raw.read(place, count)
        finally:
            raw.close()

    def blocks(self, size: int) -> Iterator[tuple[int, bytes]]:
        """The parts, in order."""
        raw = RawFile(self.path)
        before = 0
        try:
            for offset, count in self.parts:
                for at in range(0, count, size):
                    yield before + at, raw.read(offset + at, min(size, count - at))
                before += count
        finally:
            raw.close()
