"""Searches: in the index in memory, among what a filter lets through, described from the tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import numpy.typing as npt

from .._hits import Hits
from .._native import core
from ..errors import FormatError
from .connection import translated
from .mirror import Mirror
from .reading import Reader
from .selecting import Selection, Selector
from .session import Session

__all__ = ["Searcher"]

Search = Callable[[npt.NDArray[np.int64] | core.SelectedRows | None], Hits]
_ATTEMPTS = 100  # searches that lose a race against a forget before a damaged file is the likelier cause
_PATIENCE = 3  # of them, those during which other threads may change records


class Searcher:
    """Runs the index's searches for a store. Other threads go on meanwhile: only the tables are guarded."""

    def __init__(self, session: Session, mirror: Mirror, selector: Selector, reader: Reader) -> None:
        """Of an open store."""
        self._session = session
        self._mirror = mirror
        self._selector = selector
        self._reader = reader

    def run(
        self,
        search: Search,
        selection: Selection,
        catch_up: Callable[[], None],
        radius: float | None = None,
    ) -> Hits:
        """The answers of `search`, which is given what an index may find, or None for everything.

        With a radius, those within it alone.
        """
        session = self._session
        for attempt in range(_ATTEMPTS):
            # Nearly always the first one does. Against a thread that changes records without a pause, others wait.
            with session.guard if attempt >= _PATIENCE else nullcontext():
                with session.guard, translated(session.path):
                    catch_up()
                    epoch = session.epoch
                    allow = self._selector.allowed(selection)
                try:
                    found = search(allow)
                except core.RowsMoved:  # since the filter chose them: another thread has changed records
                    continue
                if radius is not None:
                    found = _within(found, radius)
                with session.guard, translated(session.path):
                    hits = self._reader.described(found) if session.epoch == epoch else None
            if hits is not None:
                return hits
            # A record went between the two steps, or the search may have seen the middle of a transaction.
        raise FormatError(
            f"{session.path}: expected every record of the index in the tables, got some that are not there"
        )


def _within(hits: Hits, radius: float) -> Hits:
    """The answers up to a distance; padding takes the places of the others, which are the last of each query."""
    near = hits.distances <= radius
    ids, distances = np.where(near, hits.ids, -1), np.where(near, hits.distances, np.float32(np.inf))
    return Hits(ids, distances, hits.work)
