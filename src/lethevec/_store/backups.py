"""Canonical copies, and what to do when an old one comes back.

A backup is a fresh database: records by ascending number (see `ids`) in slots from 1, no receipts, no erasures,
counters as if the records had been added once and nothing else. The same configuration and records give the same bytes
(under the same version of SQLite, whose number is in every file header).

A backup of a sealed store has the sealed records as they are, by the number of their keys, and no digest; it opens with
the vault alone. The same sealed records give the same bytes.

Opening a backup for writing makes it a store of its own, with new keys, or with the old ones if their file is put
there. The key that picks pivots (see `source_key`) is not in a backup either, and is always a new one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .._durable import sync_folder
from .._forgetting.keys import KeyRing
from .._forgetting.receipts import Receipt
from .._progress import Progress
from .._record import Record
from ..errors import FileError, FormatError, IncompleteWriteError, KeysError, ReceiptError
from .configuration import read_configuration
from .connection import connect, pragma, translated
from .copying import building
from .files import RawFile
from .ids import Id
from .schema import create_tables, prepare_file, read_state, vault_of
from .session import Session

if TYPE_CHECKING:
    import sqlite3

__all__ = ["matching_ids", "write_backup"]

_PART = 2000


def write_backup(session: Session, path: Path) -> None:
    """Write the copy under another name, sync, rename. An existing file is refused."""
    if os.path.lexists(path):
        raise FileError(f"{path}: expected a new file for the backup, got one that is there already")
    try:
        with building(session.path, path) as place:
            _write(session, place)
            os.replace(place, path)
            sync_folder(path.absolute().parent)
    except OSError as error:
        raise IncompleteWriteError(f"{path}: the backup could not be written: {error}") from error


def _write(session: Session, path: Path) -> None:
    """Write the copy, synced."""
    with translated(path):
        connection = connect(path, "rwc")
        try:
            dim = read_configuration(session.state.configuration, session.path).dim
            prepare_file(connection, dim, sealed=session.tables.sealed)
            # If it dies, the half-written file is thrown away, so a journal would protect nothing.
            pragma(connection, "journal_mode=OFF")
            connection.execute("BEGIN IMMEDIATE")
            _copy(session, connection)
            connection.execute("COMMIT")
        finally:
            connection.close()
    os.chmod(path, 0o600)
    raw = RawFile(path)
    raw.sync()
    raw.close()


def _copy(session: Session, target: sqlite3.Connection) -> None:
    # One snapshot of the source for all parts: a writer may go on meanwhile, though its erasures wait for us.
    session.connection.execute("BEGIN")
    try:
        state = read_state(session.connection, session.path, session.tables)
        # The digest of a sealed store stays out: it would tell something about records that are forgotten later.
        vault = vault_of(session.connection, session.path)
        digest = state.digest.to_bytes() if vault is None else b""
        (count,) = session.connection.execute(f"SELECT count(*) FROM {session.tables.main_table}").fetchone()
        create_tables(target, state.configuration, digest, next_slot=count + 1, vault=vault)
        with Progress(count, "copying", unit="records") as progress:
            for written in session.tables.copy_to(target, _PART):
                progress.advance(written)
    finally:
        session.connection.execute("ROLLBACK")
    expected = state.digest.count if state.digest_known else count
    if progress.done != expected:
        raise FormatError(f"{session.path}: expected {expected} records, got {progress.done}: the file is damaged")


def matching_ids(records: Iterable[Record], keys: KeyRing, receipts: Sequence[Receipt]) -> list[Id]:
    """The ids of records that these receipts say were erased, by their tags."""
    tags: dict[str, set[str]] = {}
    subjects: dict[str, set[str]] = {}
    for receipt in receipts:
        if not receipt.erases:
            continue
        if receipt["store"] != keys.store:
            raise ReceiptError(f"receipts: expected those of store {keys.store}, got one of {receipt['store']}")
        audit = receipt["audit_key"]
        if audit not in keys.audit_keys:
            raise KeysError(f"receipts: expected tags of an audit key that the key file has, got {audit}")
        tags.setdefault(audit, set()).update(receipt["erased"])
        if receipt["asked"].get("subject") is not None:
            subjects.setdefault(audit, set()).add(receipt["asked"]["subject"])
    found: list[Id] = []
    for record in records:
        for audit, wanted in tags.items():
            key = keys.audit_keys[audit]
            belongs = record.subject is not None and key.tag_subject(record.subject) in subjects.get(audit, ())
            if belongs or key.tag_id(record.id) in wanted:
                found.append(record.id)
                break
    return found
