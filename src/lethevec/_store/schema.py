"""The tables, their version, and what is kept beside the records.

| table | holds |
|---|---|
| `store` | one row: configuration, number of writes, next slot, state of the digest, whether pages may need a scrub |
| `records` | a row per record: slot, row (the index's number of it), name (a string id), subject, payload |
| `vectors` | slot, float32 LE bytes |
| `removals` | for each bucket of 4,096 slots, the write that last took something out of it, for readers |
| `erasures` | forgets that are committed but not yet complete: the draft of the receipt, tags only |
| `receipts` | the chain; it outlives the records |
| `source_key` | the key that decides which records are pivots; only where there can be any, see `source_key` |

A store whose records are sealed (version 2, see `sealed`) has no `records`; its `vectors` hold sealed records, its
`store` row names the vault as well, and one table more is there:

| table | holds |
|---|---|
| `shredding` | numbers of keys that are to be destroyed, until they are |

Versions 3 and 4 are 1 and 2 with one table more, for indexes whose codes are dear to make (see `codes`). A program that
does not know of it must not open such a store: it would forget a record and leave its code.

| table | holds |
|---|---|
| `codes` | slot, what is kept of the record's code; sealed in version 4 |

A store gets the lowest version that has what it needs, and so does a backup, which has no codes.

**Slots.** The key of `records` and `vectors` is a counter that is never used twice, not the id: SQLite keeps keys of
deleted rows as signposts inside its b-trees, and a slot tells nothing about anybody. Ids are in an index b-tree, where
a deleted entry really goes. Slots also let readers see what is new: everything above the last one they read.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .._durable import sync_folder
from .._forgetting.multiset import MultisetHash
from ..errors import FormatError, IncompleteWriteError
from .codes import has_codes, make_codes
from .connection import PAGE_SIZE, connect, pragma, translated
from .files import RawFile, StoreFiles
from .pages import Header, read_header
from .source_key import put_key

__all__ = [
    "APPLICATION_ID",
    "CODES",
    "PLAIN",
    "SEALED",
    "VERSION",
    "StoreRow",
    "add_codes",
    "check_header",
    "check_version",
    "create_tables",
    "is_sealed",
    "new_database",
    "prepare_file",
    "read_store_row",
]

APPLICATION_ID = 0x4C657468  # "Leth"
PLAIN, SEALED = 1, 2  # the two layouts
CODES = 2  # what is added to the version of a layout when it has codes
VERSION = SEALED + CODES  # the newest

_STORE = """
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    configuration TEXT NOT NULL,
    version INTEGER NOT NULL,
    next_slot INTEGER NOT NULL,
    digest BLOB NOT NULL,
    unscrubbed INTEGER NOT NULL
);
"""
_SEALED_STORE = _STORE.replace("\n);", ",\n    vault TEXT NOT NULL\n);")
_RECORDS = """
CREATE TABLE records (
    slot INTEGER PRIMARY KEY,
    row INTEGER NOT NULL,
    name TEXT,
    subject TEXT,
    payload TEXT
);
"""
_COMMON = """
CREATE TABLE vectors (slot INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE removals (bucket INTEGER PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE erasures (number INTEGER PRIMARY KEY, draft TEXT NOT NULL);
CREATE TABLE receipts (sequence INTEGER PRIMARY KEY, receipt TEXT NOT NULL);
"""
_INDEXES = """
CREATE UNIQUE INDEX records_row ON records (row);
CREATE INDEX records_subject ON records (subject) WHERE subject IS NOT NULL;
"""
_SHREDDING = """
CREATE TABLE shredding (number INTEGER PRIMARY KEY);
"""
_LAYOUTS = {
    PLAIN: _STORE + _RECORDS + _COMMON + _INDEXES,
    SEALED: _SEALED_STORE + _COMMON + _SHREDDING,
}


@dataclass
class StoreRow:
    """The row of the table `store`. `version` counts writes; `next_slot` is the first slot never used.

    Without `digest_known` the digest is that of no records: a sealed backup has none, and has to be counted anew.
    """

    configuration: str
    version: int
    next_slot: int
    digest: MultisetHash
    unscrubbed: bool
    digest_known: bool = True


class States(Protocol):
    """Who can read what the `store` row keeps of the digest."""

    def read_state(self, kept: bytes) -> bytes | None:
        """The state, or None."""
        ...


def prepare_file(connection: sqlite3.Connection, layout: int) -> None:
    """What a new database says about itself before it has tables."""
    pragma(connection, f"page_size={PAGE_SIZE}")
    pragma(connection, f"application_id={APPLICATION_ID}")
    pragma(connection, f"user_version={layout}")


def create_tables(
    connection: sqlite3.Connection, configuration: str, digest: bytes, next_slot: int, vault: str | None
) -> None:
    """Make the tables of an empty database and its `store` row, inside the caller's transaction.

    With the id of a vault they are those of a sealed store.
    """
    for statement in _LAYOUTS[PLAIN if vault is None else SEALED].split(";"):
        if statement.strip():
            connection.execute(statement)
    values = [1, configuration, 0, next_slot, digest, 0, *([] if vault is None else [vault])]
    connection.execute(f"INSERT INTO store VALUES ({','.join('?' * len(values))})", values)


def new_database(files: StoreFiles, configuration: str, vault: str | None, key: bytes | None, *, codes: bool) -> None:
    """Make an empty store at its path: built under another name, synced, then renamed, so it is there whole or not.

    `key` is the one that was drawn for its pivots, if it can have any; `codes` says whether it keeps codes.
    """
    digest = MultisetHash(configuration.encode()).to_bytes() if vault is None else b""
    path = files.building
    try:
        for leftover in (path, path.with_name(path.name + "-journal")):
            leftover.unlink(missing_ok=True)  # of an attempt that died
        with translated(path):
            connection = connect(path, "rwc")
            try:
                prepare_file(connection, PLAIN if vault is None else SEALED)
                connection.execute("BEGIN IMMEDIATE")
                create_tables(connection, configuration, digest, next_slot=1, vault=vault)
                if key is not None:
                    put_key(connection, key)
                if codes:
                    add_codes(connection)
                connection.execute("COMMIT")
            finally:
                connection.close()
        os.chmod(path, 0o600)
        os.replace(path, files.database)  # the writer's lock is held: nobody makes it meanwhile
        sync_folder(files.database.parent)
    except OSError as error:
        raise IncompleteWriteError(f"{files.database}: the store could not be created: {error}") from error


def check_header(raw: RawFile) -> Header:
    """Whether the file is one of ours and of a version we know; what it says about itself."""
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
    return header


def read_store_row(connection: sqlite3.Connection, path: Path, states: States) -> StoreRow:
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
    opened = states.read_state(state)
    configuration = text.encode()
    digest = MultisetHash(configuration) if opened is None else MultisetHash.from_bytes(configuration, opened)
    return StoreRow(text, version, next_slot, digest, bool(unscrubbed), digest_known=opened is not None)


def check_not_truncated(raw: RawFile) -> None:
    """With an empty log, the file must be as long as its header says."""
    header = read_header(raw)
    expected = header.pages * header.page_size
    if raw.size < expected:
        raise FormatError(f"{raw.path}: expected {expected:,} bytes, got {raw.size:,}: the file was cut short")


def add_codes(connection: sqlite3.Connection) -> None:
    """Give a store the table `codes`, and the version that has it, inside the caller's transaction."""
    make_codes(connection)
    pragma(connection, f"user_version={pragma(connection, 'user_version') + CODES}")


def is_sealed(version: int) -> bool:
    """Whether stores of this version are sealed."""
    return version in (SEALED, SEALED + CODES)


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """The version once more, as the log has it: the header in the file may be older."""
    found = pragma(connection, "user_version")
    if not 1 <= found <= VERSION:
        raise FormatError(f"{path}: expected store version 1 to {VERSION}, got {found}; it was not touched")
    if found > SEALED and not has_codes(connection):
        raise FormatError(f"{path}: expected the table codes in a store of version {found}, got none: damaged")
