"""The tables, their version, and what is kept beside the records.

| table | holds |
|---|---|
| `store` | one row: configuration, number of writes, next slot, state of the digest, whether pages may need a scrub |
| `records` | a row per record: slot, row (the index's number of it), name (a string id), subject, payload |
| `vectors` | slot, float32 LE bytes |
| `removals` | for each bucket of 4,096 slots, the write that last took something out of it, for readers |
| `erasures` | forgets that are committed but not yet complete: the draft of the receipt, tags only |
| `receipts` | the chain; it outlives the records |

**Slots.** The key of `records` and `vectors` is a counter that is never used twice, not the id: SQLite keeps keys of
deleted rows as signposts inside its b-trees, and a slot tells nothing about anybody. Ids are in an index b-tree, where
a deleted entry really goes. Slots also let readers see what is new: everything above the last one they read.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from ..errors import FileError, FormatError, IncompleteWriteError
from ..forgetting.multiset import MultisetHash
from .connection import PAGE_SIZE, connect, pragma, translated
from .files import RawFile, StoreFiles, sync_folder
from .pages import read_header

__all__ = ["APPLICATION_ID", "VERSION", "StoreRow", "check_header", "create_tables", "new_database", "read_store_row"]

APPLICATION_ID = 0x4C657468  # "Leth"
VERSION = 1

_TABLES = """
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    configuration TEXT NOT NULL,
    version INTEGER NOT NULL,
    next_slot INTEGER NOT NULL,
    digest BLOB NOT NULL,
    unscrubbed INTEGER NOT NULL
);
CREATE TABLE records (
    slot INTEGER PRIMARY KEY,
    row INTEGER NOT NULL,
    name TEXT,
    subject TEXT,
    payload TEXT
);
CREATE TABLE vectors (slot INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE removals (bucket INTEGER PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE erasures (number INTEGER PRIMARY KEY, draft TEXT NOT NULL);
CREATE TABLE receipts (sequence INTEGER PRIMARY KEY, receipt TEXT NOT NULL);
CREATE UNIQUE INDEX records_row ON records (row);
CREATE INDEX records_subject ON records (subject) WHERE subject IS NOT NULL;
"""


@dataclass
class StoreRow:
    """The row of the table `store`. `version` counts writes; `next_slot` is the first slot never used."""

    configuration: str
    version: int
    next_slot: int
    digest: MultisetHash
    unscrubbed: bool


def create_tables(connection: sqlite3.Connection, digest: MultisetHash, next_slot: int, version: int) -> None:
    """Make the tables of an empty database and its `store` row, inside the caller's transaction."""
    for statement in _TABLES.split(";"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(
        "INSERT INTO store VALUES (1, ?, ?, ?, ?, 0)",
        (digest.configuration.decode(), version, next_slot, digest.to_bytes()),
    )


def new_database(files: StoreFiles, configuration: str) -> None:
    """Make an empty store at its path: built under another name, synced, then renamed, so it is there whole or not."""
    digest = MultisetHash(configuration.encode())
    path = files.building
    try:
        for leftover in (path, path.with_name(path.name + "-journal")):
            leftover.unlink(missing_ok=True)  # of an attempt that died
        with translated(path):
            connection = connect(path, "rwc")
            try:
                pragma(connection, f"page_size={PAGE_SIZE}")
                pragma(connection, f"application_id={APPLICATION_ID}")
                pragma(connection, f"user_version={VERSION}")
                connection.execute("BEGIN IMMEDIATE")
                create_tables(connection, digest, next_slot=1, version=0)
                connection.execute("COMMIT")
            finally:
                connection.close()
        os.chmod(path, 0o600)
        os.replace(path, files.database)  # the writer's lock is held: nobody makes it meanwhile
        sync_folder(files.database.parent)
    except OSError as error:
        raise IncompleteWriteError(f"{files.database}: the store could not be created: {error}") from error


def check_header(raw: RawFile) -> int:
    """Whether the file is one of ours and of a version we know; its page size."""
    header = read_header(raw)
    if header.application_id != APPLICATION_ID:
        raise FormatError(
            f"{raw.path}: expected a lethevec store, got an SQLite database of another program "
            f"(application id {header.application_id:#010x} instead of {APPLICATION_ID:#010x}); it was not touched"
        )
    if header.user_version > VERSION:
        raise FormatError(
            f"{raw.path}: expected a store of version {VERSION} or older, got version {header.user_version}; "
            "a newer lethevec can open it; it was not touched"
        )
    if header.user_version < 1:
        raise FormatError(f"{raw.path}: expected a store version of at least 1, got {header.user_version}")
    return header.page_size


def read_store_row(connection: sqlite3.Connection, path: Path) -> StoreRow:
    """Read and check the `store` row."""
    with translated(path):
        row = connection.execute(
            "SELECT configuration, version, next_slot, digest, unscrubbed FROM store WHERE one = 1"
        ).fetchone()
    if row is None:
        raise FormatError(f"{path}: expected the row of the table store, got none")
    text, version, next_slot, state, unscrubbed = row
    numbers = (version, next_slot, unscrubbed)
    if (
        not all(isinstance(n, int) and n >= 0 for n in numbers)
        or not isinstance(text, str)
        or not isinstance(state, bytes)
    ):
        raise FormatError(f"{path}: expected text, bytes and counts in the table store, got other types")
    return StoreRow(text, version, next_slot, MultisetHash.from_bytes(text.encode(), state), bool(unscrubbed))


def check_not_truncated(raw: RawFile) -> None:
    """With an empty log, the file must be as long as its header says."""
    header = read_header(raw)
    expected = header.pages * header.page_size
    if raw.size < expected:
        raise FormatError(f"{raw.path}: expected {expected:,} bytes, got {raw.size:,}: the file was cut short")


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring an older store to this version. Version 1 is the first: there is nothing to do yet."""
    found = pragma(connection, "user_version")
    if found != VERSION:
        raise FileError(f"{path}: expected store version {VERSION}, got {found}, for which there is no migration")
