"""An open store below its records: files, connection, transactions; and how a path becomes one."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import FileError, ParameterError, UnsupportedError
from .checkpoint import BusyError, Checkpointer
from .connection import connect, pragma, translated, use_wal
from .engine import Factory, new_configuration, read_configuration
from .files import RawFile, StoreFiles
from .lock import WriterLock
from .pages import wal_state
from .schema import StoreRow, check_header, check_not_truncated, migrate, new_database, read_store_row

__all__ = ["Session", "open_session"]


class Session:
    """The machinery that all operations share. `guard` protects the connection: one thread at a time."""

    def __init__(self, files: StoreFiles, *, read_only: bool, timeout: float) -> None:
        """Open an existing store."""
        self.files = files
        self.path = files.database
        self.read_only = read_only
        self.timeout = timeout
        self.guard = threading.RLock()
        self.closed = False
        self.raw = RawFile(self.path, writable=not read_only)
        try:
            self.page_size = check_header(self.raw)
            if not wal_state(files.wal, with_pages=False).size:
                check_not_truncated(self.raw)
            self.connection = connect(self.path, self._mode(), timeout=timeout)
            try:
                self.row = self._prepare()
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

    def _prepare(self) -> StoreRow:
        with translated(self.path):
            if not self.read_only:
                migrate(self.connection, self.path)
                use_wal(self.connection, self.path)
            return read_store_row(self.connection, self.path)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: committed at the end of the block, or rolled back as a whole."""
        with self.guard:
            self.require_writer()
            with translated(self.path):
                pragma(self.connection, f"busy_timeout={int(self.timeout * 1000)}")
                self.connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self.connection
                    self.connection.execute("COMMIT")
                except BaseException:
                    # A failed commit (a full disk) may have rolled back by itself.
                    if self.connection.in_transaction:
                        self.connection.execute("ROLLBACK")
                    # Pages of a large transaction may have gone to the log before it failed: do not leave them there.
                    if self.checkpointer.grew():
                        with suppress(BusyError, FileError, OSError):
                            self.checkpointer.run(0.0)
                    raise
                self.checkpointer.note_commit()

    def write_row(self, row: StoreRow) -> None:
        """Put the `store` row, inside a transaction. The caller sets `row` here once that is committed."""
        self.connection.execute(
            "UPDATE store SET version = ?, next_slot = ?, digest = ?, unscrubbed = 1 WHERE one = 1",
            (row.version, row.next_slot, row.digest.to_bytes()),
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
            new_database(files, new_configuration(factory, dim, metric, options))
        session = Session(files, read_only=read_only, timeout=timeout)
        try:
            _check_same(session, dim, metric, options)
        except BaseException:
            session.close()
            raise
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    return session, lock


def _check_same(session: Session, dim: int | None, metric: str | None, options: dict[str, Any] | None) -> None:
    """What was asked for must be what the store is."""
    configuration = read_configuration(session.row.configuration, session.path)
    asked = {"dim": dim, "metric": metric, **(options or {})}
    for name, value in asked.items():
        if value is not None and configuration.get(name) != value:
            raise ParameterError(
                f"{session.path}: expected {name}={configuration.get(name)!r}, as the store was created, got {value!r}"
            )
