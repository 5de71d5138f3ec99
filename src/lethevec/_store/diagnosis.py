"""Whether the SQLite of this machine will do: tried on a database of its own, not read off a version number."""

from __future__ import annotations

import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import LethevecError
from .connection import connect, pragma, use_wal

__all__ = ["SqliteFacts", "sqlite_facts"]

_NAMES = {0: "off", 1: "on", 2: "fast"}


@dataclass(frozen=True)
class SqliteFacts:
    """What was found: `secure_delete` as the store sets it, and as it is if nobody does.

    `problem` is None if a store can be kept, and otherwise says why not.
    """

    version: str
    secure_delete: str
    secure_delete_default: str
    journal_mode: str
    problem: str | None


def sqlite_facts(folder: str | Path | None = None) -> SqliteFacts:
    """Open a database in a folder (a temporary one unless given) with the store's settings, and look.

    >>> sqlite_facts().secure_delete
    'on'
    """
    bare = sqlite3.connect(":memory:")
    try:
        default = _NAMES.get(pragma(bare, "secure_delete"), "unknown")
    finally:
        bare.close()
    found, mode, problem = "unknown", "unknown", None
    try:
        with tempfile.TemporaryDirectory(prefix="lethevec-doctor-", dir=folder) as place:
            path = Path(place, "try.lethe")
            connection = connect(path, "rwc")
            try:
                use_wal(connection, path)
                found = _NAMES.get(pragma(connection, "secure_delete"), "unknown")
                mode = str(pragma(connection, "journal_mode"))
            finally:
                connection.close()
    except (LethevecError, OSError) as error:
        problem = str(error)
    return SqliteFacts(sqlite3.sqlite_version, found, default, mode, problem)
