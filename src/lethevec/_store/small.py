"""A small database beside stores, with the settings that the promise rests on: for the catalog of a folder."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .._durable import sync_folder
from ..errors import FileError, FormatError, IncompleteWriteError, UnsupportedError
from .checkpoint import BusyError, Checkpointer
from .connection import connect, pragma, translated, use_wal
from .files import RawFile, StoreFiles
from .forking import ProcessLock, refuse_lost, watch
from .pages import read_header, wal_state

__all__ = ["SmallDatabase"]

_PAGE_SIZE = 4096


class SmallDatabase:
    """An open database; `guard` protects the connection: one thread at a time."""

    def __init__(self, path: Path, application: int, version: int, *, read_only: bool, timeout: float) -> None:
        """Open what `create` made; a file of another kind or version is refused."""
        self.path = path
        self.read_only = read_only
        self.closed = False
        self.guard = ProcessLock()
        self._files = StoreFiles(path)
        refuse_lost(path)
        self._files.refuse_special()
        self._raw = RawFile(path, writable=not read_only)
        try:
            header = read_header(self._raw)
            if header.application_id != application:
                raise FormatError(f"{path}: expected the catalog of a folder, got another SQLite database")
            if header.user_version != version:
                raise FormatError(
                    f"{path}: expected a catalog of version {version}, got {header.user_version}; "
                    "a newer lethevec may open it; it was not touched"
                )
            log = wal_state(self._files.wal, with_pages=False).size
            mode = "rw" if not read_only else "ro" if log or os.access(path.parent, os.W_OK) else "immutable"
            self.connection: sqlite3.Connection = connect(path, mode, timeout=timeout)
            try:
                if not read_only:
                    with translated(path):
                        use_wal(self.connection, path)
                self._checkpointer = Checkpointer(self.connection, self._raw, self._files, header.page_size)
                self._checkpointer.everything = bool(log)
            except BaseException:
                self.connection.close()
                raise
        except BaseException:
            self._raw.close()
            raise
        watch(self)

    @staticmethod
    def create(path: Path, application: int, version: int, tables: str) -> None:
        """Make it: built under another name, synced, then renamed, so it is there whole or not."""
        building = StoreFiles(path).building
        try:
            for leftover in (building, building.with_name(building.name + "-journal")):
                leftover.unlink(missing_ok=True)
            with translated(building):
                connection = connect(building, "rwc")
                try:
                    pragma(connection, f"page_size={_PAGE_SIZE}")
                    pragma(connection, f"application_id={application}")
                    pragma(connection, f"user_version={version}")
                    connection.execute("BEGIN IMMEDIATE")
                    for statement in tables.split(";"):
                        if statement.strip():
                            connection.execute(statement)
                    connection.execute("COMMIT")
                finally:
                    connection.close()
            os.chmod(building, 0o600)
            os.replace(building, path)
            sync_folder(path.parent)
        except OSError as error:
            raise IncompleteWriteError(f"{path}: the catalog could not be created: {error}") from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A write transaction: committed at the end of the block, or rolled back as a whole."""
        with self.guard, translated(self.path):
            self.require_writer()
            if self.connection.in_transaction:  # it is a part of the one under way
                yield
                return
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            self._checkpointer.note_commit()

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """What a query gives."""
        with self.guard, translated(self.path):
            self.require_open()
            return self.connection.execute(sql, parameters).fetchall()

    def write(self, sql: str, *parameters: object) -> None:
        """Run a statement that changes something, in a transaction of its own or inside the one under way."""
        with self.transaction():
            self.connection.execute(sql, parameters)

    def scrub(self) -> None:
        """Empty the log and overwrite unused bytes, if nobody is in the way; else the next scrub does it."""
        with self.guard, suppress(BusyError, OSError):
            self._checkpointer.run(0.0)

    def require_open(self) -> None:
        """Refuse to work on a closed folder."""
        if self.closed:
            raise FileError(f"{self.path.parent}: expected an open folder, got a closed one")

    def require_writer(self) -> None:
        """Refuse to write through a reader."""
        self.require_open()
        if self.read_only:
            folder = self.path.parent
            raise UnsupportedError(f"{folder}: expected a folder opened for writing, got one with read_only=True")

    @property
    def between_transactions(self) -> bool:
        """Whether its connection can be closed without undoing anything."""
        return self.closed or not self.connection.in_transaction

    def let_go(self) -> None:
        """In a forked child: it is closed."""
        self.closed = True

    def drop(self) -> None:
        """In a forked child: close the connection. The parent has all locks, so this changes nothing."""
        self.connection.close()

    def close(self) -> None:
        """Close the file, with an empty log if nobody is in the way. Safe to call twice, and in a forked child."""
        if self.guard.inherited:
            return
        with self.guard:
            if self.closed:
                return
            self.closed = True
            if not self.read_only:
                with suppress(BusyError, OSError, sqlite3.Error):
                    self._checkpointer.run(0.0)
            self.connection.close()
            self._raw.close()
