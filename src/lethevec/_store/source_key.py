"""The key of the hash that picks pivots, drawn at random for each store and kept beside its records.

An index draws its key from the seed, so that two made alike are comparable. Whoever may choose ids for a store must not
be able to choose ones that become pivots, so a store has a key that cannot be guessed. It is in a table of its own and
part of neither the configuration nor the digest nor a backup: stores with the same records stay comparable. A store
without the table (an older one, or a backup) has the key from the seed until it is first opened for writing.

It is drawn only where the index could have pivots and nobody has chosen a key.
"""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path

from ..errors import FormatError
from .connection import translated

__all__ = ["draw_key", "put_key", "read_key"]

_SIZE = 16
_TABLE = "CREATE TABLE source_key (one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL)"


def draw_key() -> bytes:
    """A new one, from the system's source of randomness."""
    return secrets.token_bytes(_SIZE)


def put_key(connection: sqlite3.Connection, key: bytes) -> None:
    """Make the table, with this key in it, inside the caller's transaction."""
    connection.execute(_TABLE)
    connection.execute("INSERT INTO source_key VALUES (1, ?)", (key,))


def read_key(connection: sqlite3.Connection, path: Path) -> bytes | None:
    """The store's key; None if it has no table for one."""
    with translated(path):
        known = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'source_key'"
        if connection.execute(known).fetchone() is None:
            return None
        found = connection.execute("SELECT key FROM main.source_key").fetchall()
    if len(found) != 1:
        raise FormatError(f"{path}: expected one row in the table source_key, got {len(found)}: the file is damaged")
    (key,) = found[0]
    if not isinstance(key, bytes) or len(key) != _SIZE:
        what = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        raise FormatError(f"{path}: expected a key of {_SIZE} bytes in the table source_key, got {what}")
    return key
