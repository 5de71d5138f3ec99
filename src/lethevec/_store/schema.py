"""The tables, their version, and what is kept beside the records.

| table | holds |
|---|---|
| `store` | one row: configuration, number of writes, next slot, digest, whether pages may need a scrub, vault |
| `records` | for each record: slot, number (the index's id of it), name (a string id), subject, payload |
| `vectors` | slot, float32 LE bytes; none for a record without a vector |
| `removals` | for each bucket of 4,096 slots, the write that last took something out of it, for readers |
| `erasures` | forgets that are committed but not yet complete: the draft of the receipt, tags only |
| `receipts` | the chain; it outlives the records |
| `source_key` | the key that decides which records are pivots; only where there can be any, see `source_key` |
| `codes` | slot, what is kept of the record's code; only where codes are slow to make, see `codes` |

A store whose records are sealed (its `store` row names a vault, see `sealed`) has neither `records` nor `vectors`, but

| table | holds |
|---|---|
| `sealed` | slot, the sealed record |
| `shredding` | numbers of keys that are to be destroyed, until they are |

**Slots.** The key of `records` and `vectors` is a counter that is never used twice, not the id: SQLite keeps keys of
deleted rows as signposts inside its b-trees, and a slot tells nothing about anybody. Ids are in index b-trees, where
a deleted entry really goes. Slots also let readers see what is new: everything above the last one they read.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from .._durable import sync_folder
from .._forgetting.multiset import MultisetHash
from .._index import Config
from .._index.kept import worth_keeping
from ..errors import FormatError, IncompleteWriteError
from .codes import make_codes
from .connection import connect, pragma, translated
from .files import RawFile, StoreFiles
from .page_size import page_size_for
from .pages import Header, read_header
from .records_table import create_records, record_indexes
from .source_key import put_key
from .tables import RecordTables

__all__ = [
    "APPLICATION_ID",
    "VERSION",
    "State",
    "check_header",
    "check_version",
    "create_tables",
    "new_database",
    "prepare_file",
    "read_state",
    "vault_of",
]

APPLICATION_ID = 0x4C657468  # "Leth"
VERSION = 1

_COMMON = (
    """
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    configuration TEXT NOT NULL,
    version INTEGER NOT NULL,
    next_slot INTEGER NOT NULL,
    digest BLOB NOT NULL,
    unscrubbed INTEGER NOT NULL,
    vault TEXT
)""",
    "CREATE TABLE removals (bucket INTEGER PRIMARY KEY, version INTEGER NOT NULL)",
    "CREATE TABLE erasures (number INTEGER PRIMARY KEY, draft TEXT NOT NULL)",
    "CREATE TABLE receipts (sequence INTEGER PRIMARY KEY, receipt TEXT NOT NULL)",
)
_PLAIN = (create_records(), "CREATE TABLE vectors (slot INTEGER PRIMARY KEY, vector BLOB NOT NULL)", *record_indexes())
_SEALED = (
    "CREATE TABLE sealed (slot INTEGER PRIMARY KEY, record BLOB NOT NULL)",
    "CREATE TABLE shredding (number INTEGER PRIMARY KEY)",
)


@dataclass
class State:
    """The row of the table `store`. `version` counts writes; `next_slot` is the first slot never used.

    Without `digest_known` the digest is that of no records: a sealed backup has none, and has to be counted again.
    """

    configuration: str
    version: int
    next_slot: int
    digest: MultisetHash
    unscrubbed: bool
    digest_known: bool = True


def prepare_file(connection: sqlite3.Connection, dim: int, *, sealed: bool) -> None:
    """What a new database says about itself before it has tables."""
    pragma(connection, f"page_size={page_size_for(dim, sealed=sealed)}")
    pragma(connection, f"application_id={APPLICATION_ID}")
    pragma(connection, f"user_version={VERSION}")


def create_tables(
    connection: sqlite3.Connection, configuration: str, digest: bytes, next_slot: int, vault: str | None
) -> None:
    """Make the tables of an empty database and its `store` row, inside the caller's transaction.

    With the id of a vault they are those of a sealed store.
    """
    for statement in (*_COMMON, *(_PLAIN if vault is None else _SEALED)):
        connection.execute(statement)
    values = (1, configuration, 0, next_slot, digest, 0, vault)
    connection.execute(f"INSERT INTO store VALUES ({','.join('?' * len(values))})", values)


def new_database(files: StoreFiles, config: Config, vault: str | None, key: bytes | None) -> None:
    """Make an empty store at its path: built under another name, synced, then renamed, so it is there whole or not.

    `key` is the one that was drawn for its pivots, if it can have any.
    """
    configuration = config.canonical().decode()
    digest = MultisetHash(configuration.encode()).to_bytes() if vault is None else b""
    path = files.building
    try:
        for leftover in (path, path.with_name(path.name + "-journal")):
            leftover.unlink(missing_ok=True)  # of an attempt that died
        with translated(path):
            connection = connect(path, "rwc")
            try:
                prepare_file(connection, config.dim, sealed=vault is not None)
                connection.execute("BEGIN IMMEDIATE")
                create_tables(connection, configuration, digest, next_slot=1, vault=vault)
                if key is not None:
                    put_key(connection, key)
                if worth_keeping(config):
                    make_codes(connection)
                connection.execute("COMMIT")
            finally:
                connection.close()
        os.chmod(path, 0o600)
        os.replace(path, files.database)  # the writer's lock is held: nobody makes it meanwhile
        sync_folder(files.database.parent)
    except OSError as error:
        raise IncompleteWriteError(f"{files.database}: the store could not be created: {error}") from error


def check_header(raw: RawFile) -> Header:
    """Whether the file is one of ours and of the version we know; what it says about itself."""
    header = read_header(raw)
    if header.application_id != APPLICATION_ID:
        raise FormatError(
            f"{raw.path}: expected a lethevec store, got an SQLite database of another program "
            f"(application id {header.application_id:#010x} instead of {APPLICATION_ID:#010x}); it was not touched"
        )
    _check_version(header.user_version, raw.path)
    return header


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """The version once more, as the log has it: the header in the file may be older."""
    _check_version(pragma(connection, "user_version"), path)


def _check_version(found: int, path: Path) -> None:
    if found != VERSION:
        newer = "; a newer lethevec can open it" if found > VERSION else ""
        raise FormatError(
            f"{path}: expected a store of version {VERSION}, got version {found}{newer}; it was not touched"
        )


def vault_of(connection: sqlite3.Connection, path: Path) -> str | None:
    """The id of the vault that has the keys of the records; None if they are not sealed."""
    with translated(path):
        found = connection.execute("SELECT vault FROM store WHERE one = 1").fetchone()
    if found is None:
        raise FormatError(f"{path}: expected the row of the table store, got none")
    (vault,) = found
    if vault is not None and not isinstance(vault, str):
        raise FormatError(f"{path}: expected the id of a vault in the table store, got {type(vault).__name__}")
    return vault


def read_state(connection: sqlite3.Connection, path: Path, tables: RecordTables) -> State:
    """Read and check the `store` row."""
    with translated(path):
        row = connection.execute(
            "SELECT configuration, version, next_slot, digest, unscrubbed FROM store WHERE one = 1"
        ).fetchone()
    if row is None:
        raise FormatError(f"{path}: expected the row of the table store, got none")
    text, version, next_slot, kept, unscrubbed = row
    numbers = (version, next_slot, unscrubbed)
    if (
        not all(isinstance(n, int) and n >= 0 for n in numbers)
        or not isinstance(text, str)
        or not isinstance(kept, bytes)
    ):
        raise FormatError(f"{path}: expected text, bytes and counts in the table store, got other types")
    opened = tables.read_digest(kept)
    configuration = text.encode()
    digest = MultisetHash(configuration) if opened is None else MultisetHash.from_bytes(configuration, opened)
    return State(text, version, next_slot, digest, bool(unscrubbed), digest_known=opened is not None)


def check_not_truncated(raw: RawFile) -> None:
    """With an empty log, the file must be as long as its header says."""
    header = read_header(raw)
    expected = header.pages * header.page_size
    if raw.size < expected:
        raise FormatError(f"{raw.path}: expected {expected:,} bytes, got {raw.size:,}: the file was cut short")
