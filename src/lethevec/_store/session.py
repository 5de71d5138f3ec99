"""An open store below its records: files, connection, state, transactions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import FileError, IncompleteWriteError, UnsupportedError
from .checkpoint import BusyError, Checkpointer
from .connection import connect, pragma, translated, use_wal
from .files import RawFile, StoreFiles
from .forking import ProcessLock, watch
from .pages import wal_state
from .plain import PlainTables
from .schema import State, check_header, check_not_truncated, check_version, read_state, vault_of
from .sealed import SealedTables
from .tables import RecordTables
from .vault import Vault

if TYPE_CHECKING:
    from .vectors import VectorsInFile

__all__ = ["Participant", "Session", "Transaction"]

_LOG_LIMIT = 4 << 20  # bytes of log after which it is emptied


class Participant(Protocol):
    """Who has something in memory that must go back when a transaction does."""

    def mark(self) -> Any:
        """What `undo` needs to come back to where things are now."""
        ...

    def undo(self, mark: Any) -> None:
        """The tables are as they were when the mark was set: be so too."""
        ...


class Transaction:
    """A write transaction under way. `state` is what the `store` row will say when it is committed."""

    def __init__(self, state: State) -> None:
        """One that has changed nothing yet."""
        self.state = replace(state, digest=state.digest.copy())
        self.changed = False
        self.forgot = False  # whether copies of the old state are to tell nothing about what is gone
        self.failed = False  # whether SQLite has rolled it back by itself

    def write(self, *, forgets: bool = False) -> State:
        """The state, for one more write to the records."""
        self.changed = True
        self.forgot |= forgets
        self.state.version += 1
        return self.state


class Session:
    """The machinery that all operations share. `guard` protects the connection: one thread at a time."""

    def __init__(self, files: StoreFiles, vault: Path, *, read_only: bool, timeout: float) -> None:
        """Open an existing store; `vault` is where its keys are if its records are sealed."""
        self.files = files
        self.path = files.database
        self.read_only = read_only
        self.timeout = timeout
        self.guard = ProcessLock()
        self.closed = False
        #: Changes when a transaction ends in whose middle the index was in no state that the store ever had: one that
        #: was rolled back, or that wrote several times.
        self.epoch = 0
        self.participants: list[Participant] = []
        self.vectors: VectorsInFile | None = None  # where the index has a file for them
        self._transaction: Transaction | None = None
        self._marked = False  # whether the tables say that pages were rewritten
        self.raw = RawFile(self.path, writable=not read_only)
        try:
            self.page_size = check_header(self.raw).page_size
            if not wal_state(files.wal, with_pages=False).size:
                check_not_truncated(self.raw)
            self.connection = connect(self.path, self._mode(), timeout=timeout)
            try:
                self.tables = self._open_tables(vault)
                try:
                    self._state = self._read_state()
                except BaseException:
                    self.tables.close()
                    raise
            except BaseException:
                self.connection.close()
                raise
        except BaseException:
            self.raw.close()
            raise
        self.participants.append(self.tables)
        self.checkpointer = Checkpointer(self.connection, self.raw, files, self.page_size)
        self.checkpointer.everything = self._state.unscrubbed or bool(wal_state(files.wal, with_pages=False).size)
        watch(self)

    def _mode(self) -> str:
        if not self.read_only:
            return "rw"
        # SQLite reads a log only with its -shm file beside it. Where that cannot be made there must be no log to read.
        folder_writable = os.access(self.path.parent, os.W_OK)
        if not folder_writable and not wal_state(self.files.wal, with_pages=False).size:
            return "immutable"
        return "ro"

    def _open_tables(self, vault: Path) -> RecordTables:
        with translated(self.path):
            check_version(self.connection, self.path)
            vault_id = vault_of(self.connection, self.path)
            if vault_id is None:
                return PlainTables(self.connection, self.path)
            opened = Vault(vault, writable=not self.read_only)
            try:
                return SealedTables(self.connection, self.path, opened, vault_id)
            except BaseException:
                opened.close()
                raise

    def _read_state(self) -> State:
        with translated(self.path):
            if not self.read_only:
                use_wal(self.connection, self.path)
            return read_state(self.connection, self.path, self.tables)

    @property
    def state(self) -> State:
        """The `store` row: as the transaction under way has it, or as it was last committed or read."""
        return self._state if self._transaction is None else self._transaction.state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is under way."""
        return self._transaction is not None

    def searchable(self) -> list[Path]:
        """Every file that could hold a record or its key, but for one of our own index, which is read in parts."""
        own = [] if self.vectors is None else self.files.vector_files()
        return [*(path for path in self.files.searchable() if path not in own), *self.tables.files()]

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A write transaction: committed at the end of the block, or rolled back as a whole.

        Inside another one it is a part of that, which can be rolled back by itself. Everything that every transaction
        must do is done here: the mark that pages were rewritten, the `store` row, and what participants have to undo.
        """
        with self.guard:
            self.require_writer()
            with translated(self.path):
                if self._transaction is None:
                    yield from self._outermost()
                else:
                    yield from self._part(self._transaction)

    def _outermost(self) -> Iterator[Transaction]:
        pragma(self.connection, f"busy_timeout={int(self.timeout * 1000)}")
        transaction = Transaction(self._state)
        marks = self._marks()
        committing = False
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            self._transaction = transaction
            if not self._marked:
                self.connection.execute("UPDATE store SET unscrubbed = 1 WHERE one = 1")
            yield transaction
            if transaction.failed:
                raise IncompleteWriteError(f"{self.path}: the transaction was rolled back when one of its calls failed")
            if transaction.changed:
                self._write_state(transaction)
            self.tables.before_commit()
            committing = True
            self.connection.execute("COMMIT")
            self._committed(transaction)
        except BaseException as error:
            # A failed commit (a full disk) may have rolled back by itself; an interrupt may come just after one that
            # was done.
            if committing and not self.connection.in_transaction and not isinstance(error, sqlite3.Error):
                self._committed(transaction)
                raise
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            self._transaction = None
            self._undo(marks)
            # Pages of a large transaction may have gone to the log before it failed: do not leave them there.
            if self.checkpointer.grew():
                with suppress(BusyError, FileError, OSError):
                    self.checkpointer.run(0.0)
            raise

    def _part(self, outer: Transaction) -> Iterator[Transaction]:
        if outer.failed:
            raise IncompleteWriteError(f"{self.path}: the transaction was rolled back when one of its calls failed")
        self.connection.execute("SAVEPOINT part")
        part = Transaction(outer.state)
        marks = self._marks()
        try:
            self._transaction = part
            yield part
            self.connection.execute("RELEASE part")
            outer.state = part.state
            outer.changed |= part.changed
            outer.forgot |= part.forgot
            outer.failed |= part.failed
        except BaseException:
            self._transaction = outer
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK TO part")
                self.connection.execute("RELEASE part")
            else:
                outer.failed = True
            self._undo(marks)
            raise
        finally:
            self._transaction = outer

    def _committed(self, transaction: Transaction) -> None:
        self.epoch += transaction.state.version - self._state.version > 1
        self._state = transaction.state
        self._transaction = None
        self._marked = True
        self.checkpointer.note_commit()

    def _marks(self) -> list[tuple[Participant, Any]]:
        return [(participant, participant.mark()) for participant in self.participants]

    def _undo(self, marks: list[tuple[Participant, Any]]) -> None:
        self.epoch += 1
        for participant, mark in marks:
            with suppress(FileError, sqlite3.Error):
                participant.undo(mark)

    def _write_state(self, transaction: Transaction) -> None:
        state = transaction.state
        kept = self.tables.keep_digest(state.digest, renew=transaction.forgot)
        sql = "UPDATE store SET version = ?, next_slot = ?, digest = ? WHERE one = 1"
        self.connection.execute(sql, (state.version, state.next_slot, kept))

    def empty_long_log(self) -> None:
        """Empty the log if it is long and nobody is in the way: a forget has to look at every page in it."""
        if self._transaction is None and self.checkpointer.wal_size() > _LOG_LIMIT:
            with suppress(BusyError):
                self.checkpointer.run(0.0)

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

    def require_no_transaction(self, call: str) -> None:
        """Refuse what cannot be a part of a transaction."""
        if self._transaction is not None:
            raise UnsupportedError(f"{call}: expected no transaction under way, got a call inside of one")

    @property
    def between_transactions(self) -> bool:
        """Whether its connection can be closed without undoing anything."""
        return self.closed or not self.connection.in_transaction

    def let_go(self) -> None:
        """In a forked child: give up what would keep other writers out when the parent has ended."""
        self.closed = True
        self.tables.close()

    def drop(self) -> None:
        """In a forked child: close the connection. The parent has all locks, so this changes nothing."""
        self.connection.close()

    def close(self) -> None:
        """Close the connection, leaving an empty, scrubbed log if nobody is in the way. Safe to call twice.

        In a forked child there is nothing to do.
        """
        if self.guard.inherited:
            return
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
