"""Request numbers: a request that carries `Idempotency-Key` is done once, and a repeat gets the first answer again.

What is kept for a day, in a small database of the state folder: a hash of the caller's key and number, a keyed hash of
the request, and the answer. Only answers without personal data are kept: counts and receipts. A server that was killed
between doing and noting does it again, which for every call of ours that writes ends in the same records.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path

from lethevec.errors import IncompleteWriteError

from .problems import Problem

__all__ = ["Kept", "Repeats"]

_DAY = 86400.0
_MAX_KEPT = 1 << 20  # bytes of an answer; a longer one is done again

Kept = tuple[int, bytes, str]  # status, body, the number of the receipt or ""


class Repeats:
    """The numbers of the last day."""

    def __init__(self, state: Path) -> None:
        """Open the database, and make it when there is none."""
        self._lock = threading.Lock()
        self._running: set[bytes] = set()
        path = state / "requests.sqlite"
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            path.chmod(0o600)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA secure_delete = ON")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS answers (number BLOB PRIMARY KEY, request BLOB, at REAL, status INTEGER,"
                " body BLOB, receipt TEXT) WITHOUT ROWID"
            )
            self._db.execute("CREATE TABLE IF NOT EXISTS secret (value BLOB)")
            found = self._db.execute("SELECT value FROM secret").fetchone()
            if found is None:
                self._db.execute("INSERT INTO secret VALUES (?)", (secrets.token_bytes(32),))
                found = self._db.execute("SELECT value FROM secret").fetchone()
            self._secret: bytes = found[0]
        except (sqlite3.Error, OSError) as error:
            raise IncompleteWriteError(f"{path}: the request numbers could not be opened: {error}") from error

    def begin(self, caller: str, number: str, path: str, body: bytes) -> tuple[bytes, bytes] | Kept:
        """The answer that was given before, or a mark to be handed to `keep` or `drop`."""
        if not 1 <= len(number) <= 200 or not number.isascii() or not number.isprintable():
            raise Problem(400, "request_number", "Idempotency-Key: expected 1 to 200 printable ASCII characters")
        mark = hashlib.blake2b(f"{caller}\0{number}".encode(), digest_size=16, key=self._secret).digest()
        request = hashlib.blake2b(path.encode() + b"\0" + body, digest_size=16, key=self._secret).digest()
        with self._lock:
            with suppress(sqlite3.Error):  # a full disk: they go with the next one
                self._db.execute("DELETE FROM answers WHERE at < ?", (time.time() - _DAY,))
            row = self._db.execute("SELECT request, status, body, receipt FROM answers WHERE number = ?", (mark,))
            found = row.fetchone()
            if found is not None:
                if found[0] != request:
                    raise Problem(422, "request_number", "Idempotency-Key: expected a new number for another request")
                return int(found[1]), bytes(found[2]), str(found[3])
            if mark in self._running:
                raise Problem(409, "in_progress", "a request with this number is being worked on", retry_after=1)
            self._running.add(mark)
        return mark, request

    def keep(self, mark: bytes, request: bytes, answer: Kept) -> None:
        """Note the answer."""
        with self._lock:
            self._running.discard(mark)
            if len(answer[1]) > _MAX_KEPT:
                return
            with suppress(sqlite3.Error):  # a full disk: the work is done, and its answer is not held back for this
                self._db.execute(
                    "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)", (mark, request, time.time(), *answer)
                )

    def drop(self, mark: bytes) -> None:
        """It was refused or failed: a repeat may try again."""
        with self._lock:
            self._running.discard(mark)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()
