"""An open store below its records: files, connection, transactions; and how a path becomes one."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from .._index import Config
from ..errors import FileError, InputError, ParameterError, UnsupportedError
from .checkpoint import BusyError, Checkpointer
from .connection import connect, pragma, translated, use_wal
from .engine import Factory, new_configuration, read_configuration
from .files import RawFile, StoreFiles
from .lock import WriterLock
from .pages import wal_state
from .schema import (
    StoreRow,
    check_header,
    check_not_truncated,
    check_version,
    is_sealed,
    new_database,
    read_store_row,
)
from .sealed import SealedTables
from .source_key import draw_key
from .tables import PlainTables
from .vault import Vault

__all__ = ["Session", "open_session"]


class Session:
    """The machinery that all operations share. `guard` protects the connection: one thread at a time."""

    def __init__(self, files: StoreFiles, vault: Path, *, read_only: bool, timeout: float) -> None:
        """Open an existing store; `vault` is where its keys are if its records are sealed."""
        self.files = files
        self.path = files.database
        self.read_only = read_only
        self.timeout = timeout
        self.guard = threading.RLock()
        self.closed = False
        self.committed = False  # whether the last transaction was, even if an interrupt came right after
        self.raw = RawFile(self.path, writable=not read_only)
        try:
            header = check_header(self.raw)
            self.page_size = header.page_size
            if not wal_state(files.wal, with_pages=False).size:
                check_not_truncated(self.raw)
            self.connection = connect(self.path, self._mode(), timeout=timeout)
            try:
                self.tables = self._open_tables(header.user_version, vault)
                try:
                    self.row = self._prepare()
                except BaseException:
                    self.tables.close()
                    raise
            except BaseException:
                self.connection.close()
                raise
        except BaseException:
            self.raw.close()
            raise
        self.checkpointer = Checkpointer(self.connection, self.raw, files, self.page_size)
        self.checkpointer.everything = self.row.unscrubbed or bool(wal_state(files.wal, with_pages=False).size)

    def _mode(self) -> str:
        if not self.read_only:
            return "rw"
        # SQLite reads a log only with its -shm file beside it. Where that cannot be made there must be no log to read.
        folder_writable = os.access(self.path.parent, os.W_OK)
        if not folder_writable and not wal_state(self.files.wal, with_pages=False).size:
            return "immutable"
        return "ro"

    def _open_tables(self, layout: int, vault: Path) -> PlainTables:
        if not is_sealed(layout):
            with translated(self.path):
                return PlainTables(self.connection, self.path)
        opened = Vault(vault, writable=not self.read_only)
        try:
            with translated(self.path):
                return SealedTables(self.connection, self.path, opened)
        except BaseException:
            opened.close()
            raise

    def searchable(self) -> list[Path]:
        """Every file that could hold a record or its key."""
        return [*self.files.searchable(), *self.tables.files()]

    def _prepare(self) -> StoreRow:
        with translated(self.path):
            check_version(self.connection, self.path)
            if not self.read_only:
                use_wal(self.connection, self.path)
            return read_store_row(self.connection, self.path, self.tables)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: committed at the end of the block, or rolled back as a whole."""
        with self.guard:
            self.committed = False
            self.require_writer()
            with translated(self.path):
                pragma(self.connection, f"busy_timeout={int(self.timeout * 1000)}")
                self.connection.execute("BEGIN IMMEDIATE")
                self.tables.begin()
                try:
                    yield self.connection
                    self.tables.before_commit()
                    self.connection.execute("COMMIT")
                except BaseException as error:
                    # A failed commit (a full disk) may have rolled back by itself; an interrupt may come just after
                    # one that was done.
                    self.committed = not self.connection.in_transaction and not isinstance(error, sqlite3.Error)
                    if self.connection.in_transaction:
                        self.connection.execute("ROLLBACK")
                    if not self.committed:
                        with suppress(FileError):
                            self.tables.undo()
                    # Pages of a large transaction may have gone to the log before it failed: do not leave them there.
                    if self.checkpointer.grew():
                        with suppress(BusyError, FileError, OSError):
                            self.checkpointer.run(0.0)
                    raise
                self.committed = True
                self.checkpointer.note_commit()

    def write_row(self, row: StoreRow, *, renew: bool = False) -> None:
        """Put the `store` row, inside a transaction. The caller sets `row` here once that is committed.

        `renew` after a forget: copies of the old row are to tell nothing about what is gone.
        """
        self.connection.execute(
            "UPDATE store SET version = ?, next_slot = ?, digest = ?, unscrubbed = 1 WHERE one = 1",
            (row.version, row.next_slot, self.tables.keep_state(row.digest, renew=renew)),
        )

    def data_version(self) -> int:
        """A number that changes when another connection has committed."""
        with self.guard, translated(self.path):
            return int(pragma(self.connection, "data_version"))

    def require_open(self) -> None:
        """Refuse to work on a closed store."""
        if self.closed:
            raise FileError(f"{self.path}: expected an open store, got a closed one")

    def require_writer(self) -> None:
        """Refuse to write through a reader."""
        self.require_open()
        if self.read_only:
            raise UnsupportedError(f"{self.path}: expected a store opened for writing, got one with read_only=True")

    def close(self) -> None:
        """Close the connection, leaving an empty, scrubbed log if nobody is in the way. Safe to call twice."""
        with self.guard:
            if self.closed:
                return
            self.closed = True
            try:
                if not self.read_only:
                    self._tidy()
            finally:
                self.connection.close()
                self.raw.close()
                self.tables.close()

    def _tidy(self) -> None:
        """Mark the store as scrubbed, so that the next open need not look at every page."""
        try:
            self.checkpointer.run(0.0)
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.execute("UPDATE store SET unscrubbed = 0 WHERE one = 1")
            self.connection.execute("COMMIT")
            self.checkpointer.run(0.0)
        except (BusyError, sqlite3.Error, OSError):
            # A reader, or a full disk: the mark stays, and the next open does the work.
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")


def open_session(
    path: str | os.PathLike[str],
    dim: int | None,
    metric: str | None,
    options: dict[str, Any] | None,
    *,
    factory: Factory,
    read_only: bool,
    timeout: float,
    vault: Path,
    encrypt: bool | None,
) -> tuple[Session, WriterLock | None]:
    """Open or create the store at a path. A writer gets its lock; a reader creates nothing."""
    files = StoreFiles(Path(path))
    if not read_only:
        if not files.database.parent.is_dir():
            raise FileError(f"{files.database.parent}: expected a folder to put the store in, got none")
        lock = WriterLock(files.lock)
    else:
        lock = None
    try:
        if not files.database.exists():
            if read_only:
                raise FileError(f"{files.database}: expected a store to read, got nothing there")
            configuration = new_configuration(factory, dim, metric, options)
            key = draw_key() if factory.draws_key(configuration) else None
            made = Vault.create(vault) if encrypt else None
            new_database(files, configuration, made, key, codes=factory.keeps_codes(configuration))
        session = Session(files, vault, read_only=read_only, timeout=timeout)
        try:
            _check_same(session, factory, dim, metric, options)
            if encrypt is not None and encrypt != session.tables.sealed:
                raise ParameterError(
                    f"{session.path}: expected encrypt={session.tables.sealed}, as the store was created, got {encrypt}"
                )
        except BaseException:
            session.close()
            raise
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    return session, lock


def _check_same(
    session: Session, factory: Factory, dim: int | None, metric: str | None, options: dict[str, Any] | None
) -> None:
    """What was asked for must be what the store is, or what makes such a store: "auto" may have become "scan"."""
    created = read_configuration(session.row.configuration, session.path)
    asked = {"dim": dim, "metric": metric, **(options or {})}
    asked = {name: value for name, value in asked.items() if value is not None}
    known = {one.name: getattr(created, one.name) for one in fields(created)} | dict(created.params)
    different = [name for name, value in asked.items() if name not in known or known[name] != value]
    if different and not _makes(factory, session.row.configuration, created, asked):
        name = different[0]
        raise ParameterError(
            f"{session.path}: expected {name}={known.get(name)!r}, as the store was created, got {asked[name]!r}"
        )


def _makes(factory: Factory, configuration: str, created: Config, asked: dict[str, Any]) -> bool:
    """Whether a new store that is asked for like this would have the same configuration."""
    given = {"dim": created.dim, "metric": created.metric, **asked}
    try:
        return factory.describe(given.pop("dim"), given.pop("metric"), given) == configuration
    except (InputError, TypeError):
        return False
