"""Databases of others: rows of an SQLite file that is not ours and is only read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ..errors import FormatError

__all__ = ["rows_of"]


def rows_of(path: Path, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
    """What a query finds, row by row. A file that does not have such tables is a FormatError."""
    try:
        with closing(sqlite3.connect(path.resolve().as_uri() + "?mode=ro", uri=True)) as database:
            yield from database.execute(query, values)
    except sqlite3.Error as error:
        raise FormatError(f"{path}: expected a database with other tables, got: {error}") from None
