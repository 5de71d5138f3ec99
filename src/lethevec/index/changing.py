"""Records into an index and out of it. One change at a time; searches go on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import numpy.typing as npt

from .._native import core, resolve_threads
from ..progress import Progress
from ..vectors import F32, passing_vectors
from .base import IndexBase
from .encoders import native_encoder
from .ids import I64, as_ids
from .sources import source_for

#: Records from which on a call that files them in cells shows a bar.
SHOWN_FROM = 20_000


class ChangingIndex(IndexBase):
    """The operations that add, replace and forget."""

    def add(self, vectors: npt.ArrayLike, ids: npt.ArrayLike, *, threads: int | None = None) -> None:
        """Add records. Ids that are present or given twice are refused, and then nothing is added."""
        with self._writing, self._passing(vectors) as x:
            checked = as_ids(ids, count=len(x))
            self._fit_source(len(self) + len(x))
            try:
                with _progress(self._source, len(x)) as advance:
                    self._refuse(self._native.add(x, checked, resolve_threads(threads, len(x)), advance))
            except BaseException:
                self._fit_source(len(self))
                raise
            self._count_norms(entering=x, threads=threads)

    def update(self, vectors: npt.ArrayLike, ids: npt.ArrayLike, *, threads: int | None = None) -> None:
        """Replace the vectors of records that are present."""
        with self._writing, self._passing(vectors) as x:
            checked = as_ids(ids, count=len(x))
            with self._leaving(checked) as leaving:
                self._refuse(self._native.update(x, checked, resolve_threads(threads, len(x))))
                self._count_norms(entering=x, leaving=leaving, threads=threads)

    def forget(self, ids: npt.ArrayLike, *, ignore_unknown: bool = False) -> int:
        """Forget records: afterwards the index equals one that never held them. Returns how many there were.

        An unknown id is refused, and then nothing is forgotten; `ignore_unknown=True` passes over it.
        """
        # A single record should not pay for what it does not need.
        if type(ids) is int and self._norms is None and -(1 << 63) <= ids < 1 << 63:
            with self._writing:
                if self._native.forget_one(ids):
                    self._fit_source(len(self))
                    return 1
            self._refuse(None if ignore_unknown else ("absent", ids))
            return 0
        checked = as_ids(ids, empty=ignore_unknown)
        if len(checked) == 0:
            return 0
        if self._norms is None:
            with self._writing:
                gone, refusal = self._native.forget(checked, ignore_unknown)
                self._fit_source(len(self))
            self._refuse(refusal)
            return gone
        with self._writing, self._leaving(checked) as leaving:
            gone, refusal = self._native.forget(checked, ignore_unknown)
            self._refuse(refusal)
            self._count_norms(leaving=leaving, threads=None)
            return gone

    def _fit_source(self, records: int) -> None:
        """Where the number of records decides on the source: make the other one, if it is its turn.

        Searches that have begun go on in the old one, which is wiped when the last of them ends.
        """
        chosen = source_for(self._config, records)
        if self._config.source != "auto" or chosen == self._source:
            return
        old, ids = self._native, self.ids()
        made = self._empty(chosen)
        if len(ids):
            vectors = np.empty((len(ids), self.dim), dtype=np.float32)
            try:
                self._refuse(old.get(ids, vectors))
                with _progress(chosen, len(ids)) as advance:
                    self._refuse(made.add(vectors, ids, resolve_threads(None, len(ids)), advance))
            finally:
                vectors.fill(0)
        self._native, self._source = made, chosen

    def _passing(self, vectors: npt.ArrayLike) -> AbstractContextManager[F32]:
        return passing_vectors(vectors, self.dim, nonzero=self.metric == "cosine")

    @contextmanager
    def _leaving(self, ids: I64) -> Iterator[F32 | None]:
        """The vectors that are about to leave, where the gain depends on norms; wiped when they have."""
        if self._norms is None:
            yield None
            return
        present = np.unique(ids[self._contains(ids)])
        vectors = self.get(present) if len(present) else None
        try:
            yield vectors
        finally:
            if vectors is not None:
                vectors.fill(0)

    def _count_norms(self, *, entering: F32 | None = None, leaving: F32 | None = None, threads: int | None) -> None:
        if self._norms is None:
            return
        for x, sign in ((entering, 1), (leaving, -1)):
            if x is not None:
                self._count(x, sign)
        self._follow_gain(threads)

    def _count(self, x: F32, sign: int) -> None:
        if self._norms is not None:
            norms = np.empty(len(x))
            core.norms(x, norms)
            self._norms.add(norms.astype(np.float32), sign)

    def _follow_gain(self, threads: int | None) -> bool:
        """Make all codes anew if the mean norm has moved on its grid; whether it has."""
        mean_norm = self._mean_norm if self._norms is None else self._norms.mean_norm()
        if mean_norm == self._mean_norm:
            return False
        self._mean_norm = mean_norm
        encoder = native_encoder(self._config.hasher(mean_norm), self.metric)
        with Progress(len(self), "re-encoding for a new mean norm", unit="vectors") as progress:
            self._native.reencode(encoder, resolve_threads(threads), progress.advance)
        return True


@contextmanager
def _progress(source: str, records: int) -> Iterator[Callable[[int], None] | None]:
    """A bar for what takes long: filing many records in cells."""
    if source != "pivots" or records < SHOWN_FROM:
        yield None
        return
    with Progress(records, "filing", unit="records") as progress:
        yield progress.advance
