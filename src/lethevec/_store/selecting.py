"""Which records a filter lets through: the only place that answers that question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .ids import check_text
from .session import Session
from .where import compile_where

__all__ = ["Selection", "Selector"]

I64 = npt.NDArray[np.int64]


class Selection:
    """A filter, checked: what `where` says about subject and payload, and a subject."""

    def __init__(self, where: Mapping[str, Any] | None = None, subject: str | None = None) -> None:
        """Check what a caller gave; None is everything."""
        parts = [] if where is None else [compile_where(where)]
        if subject is not None:
            parts.append(("(subject IS NOT NULL AND subject = ?)", [check_text(subject, "subject")]))
        self.everything = not parts
        self.sql = " AND ".join(sql for sql, _ in parts) or "1"
        self.parameters = [value for _, values in parts for value in values]


class Selector:
    """Finds the records that a selection lets through. The caller holds the guard."""

    def __init__(self, session: Session) -> None:
        """Of an open store."""
        self._connection = session.connection

    def numbers(self, selection: Selection) -> I64 | None:
        """The numbers of the records, in no particular order; None for all."""
        return None if selection.everything else self._column("number", selection)

    def slots(self, selection: Selection) -> I64:
        """The slots of the records, ascending."""
        return np.sort(self._column("slot", selection))

    def _column(self, name: str, selection: Selection) -> I64:
        found = self._connection.execute(f"SELECT {name} FROM records WHERE {selection.sql}", selection.parameters)
        return np.array([value for (value,) in found.fetchall()], dtype=np.int64)
