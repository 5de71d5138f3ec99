"""Who may not be written, and whose records may not be changed. A store of its own has no such rules; a folder does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["Rules"]


def _anybody(subjects: Iterable[str | None]) -> None:
    """No rule."""


@dataclass(frozen=True)
class Rules:
    """Both are given the subjects of some records, before anything changes, and refuse by raising."""

    #: Before records are added for these subjects.
    may_write: Callable[[Iterable[str | None]], None] = _anybody
    #: Before records of these subjects are replaced or deleted.
    may_change: Callable[[Iterable[str | None]], None] = _anybody
