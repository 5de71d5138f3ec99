"""The records of an index in native memory, in the source that their number calls for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from .._native import core, resolve_threads
from .._progress import Progress
from .._vectors import F32
from ..errors import IdError, UnknownIdError
from .arguments import I64
from .config import Config
from .sources import Auto, Chosen, chosen, native_source
from .vector_files import UnsettledError, VectorFiles

#: Records from which on a call that files them in cells shows a bar.
SHOWN_FROM = 20_000


class Records:
    """The native index. With the source "auto" it is made again when the number of records passes the threshold.

    Whoever changes it holds the lock for changes; searches need none.
    """

    def __init__(self, config: Config, encoder: core.Encoder, files: VectorFiles | None = None) -> None:
        self._config = config
        self._files = files  # where vectors are, if not in memory
        self._encoder = encoder
        self.source: Chosen = chosen(config, 0)
        self.native = self._empty(self.source)

    def _empty(self, source: Chosen) -> core.Index:
        config = self._config
        hamming = config.ranking == "hamming"

        def make(descriptor: int = -1, path: bytes = b"") -> core.Index:
            return core.Index(
                self._encoder, config.metric, hamming, config.form.name, native_source(config, source), descriptor, path
            )

        return make() if self._files is None else self._files.index(make)

    def empty(self) -> None:
        """Let go of all records; with them goes the file of vectors, when the searches that have begun are over."""
        self._files = None
        self.source = chosen(self._config, 0)
        self.native = self._empty(self.source)

    def __len__(self) -> int:
        return len(self.native)

    def ids(self) -> I64:
        """All ids, ascending."""
        return np.asarray(self.native.ids())

    def contains(self, ids: I64) -> npt.NDArray[np.bool_]:
        """Which of these ids are present."""
        found = np.empty(len(ids), dtype=np.bool_)
        self.native.contains(ids, found)
        return found

    def vectors(self, ids: I64) -> F32:
        """The vectors of these records, in this order."""
        vectors = np.empty((len(ids), self._config.dim), dtype=np.float32)
        if len(ids):
            refuse(self.native.get(ids, vectors))
        return vectors

    def add(self, x: F32, ids: I64, threads: int) -> None:
        """Add records; if they are refused, or the call is interrupted, nothing has changed."""
        if self._passes_threshold(len(x)):
            self._refuse_known(ids)  # before everything is made again for nothing
            made, source = self._made_again(len(self) + len(x), self.ids())
            _add(made, source, x, ids, threads)
            self.native, self.source = made, source
        else:
            _add(self.native, self.source, x, ids, threads)

    def expect(self, records: int) -> None:
        """Be empty, in the source that so many records call for."""
        source = chosen(self._config, records)
        if source != self.source:
            self.native, self.source = self._empty(source), source

    def file_loaded(self, image: bytes | None, rows: npt.NDArray[np.uint32] | None, threads: int) -> bool:
        """File what was loaded into the native index; whether that was done by the image."""
        with _progress(self.source, 0 if image else SHOWN_FROM) as advance:
            restored = self.native.file_loaded(image, rows, threads, advance)
        if self._passes_threshold(0):  # others came than were expected
            self.native, self.source = self._made_again(len(self), self.ids())
        return restored

    def forget(self, ids: I64, *, ignore_unknown: bool = False) -> int:
        """Forget records; how many there were. If the call is interrupted, nothing has changed."""
        leaving = len(ids)
        if isinstance(self._config.source, Auto):
            present = self.contains(ids)
            leaving = int(present.sum())
            if self._passes_threshold(-leaving):
                left = self._without(ids, present, ignore_unknown)
                made, source = self._made_again(len(left), left)
                if self._files is not None:
                    self._forget_in_file(ids, made, source)
                self.native, self.source = made, source
                return leaving
        gone, refusal = self.native.forget(ids, ignore_unknown, resolve_threads(None, leaving))
        refuse(refusal)
        return gone

    def _forget_in_file(self, ids: I64, made: core.Index, source: Chosen) -> None:
        """Forget records in an index that is replaced by this one: its file may be there until searches end."""
        try:
            refuse(self.native.forget(ids, True, resolve_threads(None, len(ids)))[1])
        except UnsettledError:
            self.native, self.source = made, source
            raise

    def forget_one(self, id: int) -> bool:
        """Forget a single record, faster; whether there was one."""
        if self._passes_threshold(-1):
            return self.forget(np.array([id], dtype=np.int64), ignore_unknown=True) == 1
        return self.native.forget_one(id)

    def columns(self) -> list[npt.NDArray[Any]]:
        """Everything that a snapshot holds of the records: by ascending id, ids and vectors, or ids and the bytes that
        are kept of vectors, or ids, norms, factors and codes. All but the ids are to be wiped after use."""
        ids, form = self.ids(), self._config.form
        if not self._config.keep_vectors:
            return [ids, *self._codes(ids)]
        vectors = self.vectors(ids)
        if not form.small:
            return [ids, vectors]
        try:
            return [ids, form.pack(vectors)]
        finally:
            vectors.fill(0)

    def _codes(self, ids: I64) -> tuple[F32, F32, npt.NDArray[np.uint8]]:
        codes = np.empty((len(ids), self._config.code_bytes), dtype=np.uint8)
        norms, factors = np.empty(len(ids), dtype=np.float32), np.empty(len(ids), dtype=np.float32)
        refuse(self.native.export_codes(ids, codes, norms, factors))
        return norms, factors, codes

    def take_codes(self, columns: list[npt.NDArray[Any]]) -> None:
        """Fill an empty index whose vectors are not kept with what `columns` gave."""
        ids, norms, factors, codes = columns
        refuse(self.native.add_codes(codes, norms, factors, ids, resolve_threads(None)))

    def _passes_threshold(self, more: int) -> bool:
        """Whether so many more records, or fewer, are for another source."""
        return isinstance(self._config.source, Auto) and chosen(self._config, len(self) + more) != self.source

    def _refuse_known(self, ids: I64) -> None:
        known = self.contains(ids)
        if known.any():
            refuse(("present", int(ids[known.argmax()])))
        _refuse_repeated(ids)

    def _without(self, ids: I64, present: npt.NDArray[np.bool_], ignore_unknown: bool) -> I64:
        """The ids of all records but these, which are refused if they cannot be forgotten. No copy of them is left."""
        if not (ignore_unknown or present.all()):
            refuse(("absent", int(ids[present.argmin()])))
        everything = self.ids()
        try:
            places = np.searchsorted(everything, ids)[present]
            unique, counts = np.unique(places, return_counts=True)
            if len(unique) < len(places):
                refuse(("repeated", int(everything[unique[(counts > 1).argmax()]])))
            return np.delete(everything, places)
        finally:
            everything.fill(0)

    def _made_again(self, records: int, ids: I64) -> tuple[core.Index, Chosen]:
        """Where the number of records decides on the source: another index, for as many records, with these in it.

        Searches that have begun go on in the old one, which is wiped when the last of them ends. `ids` is a list of our
        own, which is wiped too: a record in it may be forgotten later.
        """
        source = chosen(self._config, records)
        made = self._empty(source)
        try:
            if len(ids):
                vectors = self.vectors(ids)
                try:
                    _add(made, source, vectors, ids, resolve_threads(None, len(ids)))
                finally:
                    vectors.fill(0)
        finally:
            ids.fill(0)
        return made, source


def _add(native: core.Index, source: Chosen, x: F32, ids: I64, threads: int) -> None:
    with _progress(source, len(x)) as advance:
        refuse(native.add(x, ids, threads, advance))


def _refuse_repeated(ids: I64) -> None:
    ordered = np.array(ids)  # not np.unique, which leaves a sorted copy of the ids in memory
    try:
        ordered.sort()
        twice = ordered[1:] == ordered[:-1]
        if twice.any():
            refuse(("repeated", int(ordered[twice.argmax()])))
    finally:
        ordered.fill(0)


def refuse(refusal: tuple[str, int] | None) -> None:
    """Raise what the native index refused, if it did."""
    if refusal is None:
        return
    why, id = refusal
    if why == "absent":
        raise UnknownIdError(f"ids: expected ids that are present, got {id}, which is not; nothing was changed")
    if why == "present":
        raise IdError(
            f"ids: expected new ids, got {id}, which is present; update() replaces records; nothing was changed"
        )
    raise IdError(f"ids: expected each id once, got {id} more than once; nothing was changed")


@contextmanager
def _progress(source: Chosen, records: int) -> Iterator[Callable[[int], None] | None]:
    """A bar for what takes long: filing many records in cells, or finding their neighbours."""
    if source.name not in ("pivots", "graph") or records < SHOWN_FROM:
        yield None
        return
    with Progress(records, "filing", unit="records") as progress:
        yield progress.advance
