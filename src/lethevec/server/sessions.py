"""Sessions of the console: a person shows a key once, and a cookie stands for it until the session ends.

The page never has the key: it sends it once, and the browser keeps a random token that no script can read (`HttpOnly`)
and that goes to no other site (`SameSite=Strict`). What is kept here is the hash of the token, the key's id and two
times, in a small database that all processes share, so that a session outlives a restart.

A session ends when nothing was done for `session_idle` seconds, `session_longest` seconds after it began, when its
person ends it, and when its key is withdrawn or expires. What a page asks by itself (live plots) does not prolong it.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lethevec.errors import FileError, IncompleteWriteError, StoreLockedError

from .keys import Key
from .origins import CONSOLE, of_the_console

if TYPE_CHECKING:
    from .calls import Call, Headers
    from .core import Core

__all__ = ["Session", "Sessions"]

_WAIT = 5.0  # seconds for another process that writes
_STEP = 5.0  # seconds by which the last time somebody did something may be out of date


@dataclass(frozen=True)
class Session:
    """One session: whose key, and how many seconds are left if nothing is done, and in any case."""

    key: str
    idle_left: float
    left: float


class Sessions:
    """The sessions that have not ended."""

    def __init__(self, core: Core) -> None:
        """Open the database, and make it when there is none."""
        settings = core.settings
        self._core = core
        self._idle = settings.session_idle
        self._longest = settings.session_longest
        self._secure = settings.tls or settings.behind_proxy
        # With TLS a name that browsers accept from nobody but this very host. Cookies do not tell ports apart, so
        # without it two servers on one machine have two names.
        self._name = "__Host-lethevec" if self._secure else f"lethevec-{settings.port}"
        self._lock = threading.Lock()
        path = settings.state_folder / "sessions.sqlite"
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=_WAIT)
            path.chmod(0o600)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA secure_delete = ON")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS sessions (token BLOB PRIMARY KEY, key TEXT, began REAL, seen REAL)"
                " WITHOUT ROWID"
            )
        except (sqlite3.Error, OSError) as error:
            raise IncompleteWriteError(f"{path}: the sessions could not be opened: {error}") from error

    def begin(self, key: Key) -> Headers:
        """A new session of this key: the header that hands it to the browser."""
        token = secrets.token_urlsafe(32)
        now = time.time()
        with self._database() as db:
            db.execute("DELETE FROM sessions WHERE seen < ? OR began < ?", (now - self._idle, now - self._longest))
            db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", (_hash(token), key.id, now, now))
        return (self._cookie(token),)

    def caller(self, call: Call) -> Key | None:
        """The key that a request of the console stands for, or None; and note that somebody did something."""
        token = self._token(call)
        if not token or not of_the_console(call):
            return None
        session = self._find(token)
        if session is None:
            return None
        key = self._core.door.live(session.key)
        out_of_date = self._idle - session.idle_left > min(_STEP, self._idle / 4)
        if key is not None and out_of_date and call.header(CONSOLE) == "act":
            # On a full disk the session is not prolonged; what was asked for, an erasure perhaps, goes on.
            with suppress(IncompleteWriteError, StoreLockedError), self._database() as db:
                db.execute("UPDATE sessions SET seen = ? WHERE token = ?", (time.time(), _hash(token)))
        return key

    def of(self, call: Call) -> Session | None:
        """The session that a request belongs to."""
        token = self._token(call)
        return self._find(token) if token else None

    def end(self, call: Call) -> Headers:
        """End it: the header that takes the cookie away."""
        token = self._token(call)
        if token:
            with self._database() as db:
                db.execute("DELETE FROM sessions WHERE token = ?", (_hash(token),))
        return (self._cookie("", "; Max-Age=0"),)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """The database, for one thread at a time; its errors as ours, which callers are told apart by status."""
        with self._lock:
            try:
                yield self._db
            except sqlite3.Error as error:
                text = f"sessions.sqlite: {error}"
                if "locked" in str(error):
                    raise StoreLockedError(text) from error
                if "full" in str(error) or "readonly" in str(error):
                    raise IncompleteWriteError(text) from error
                raise FileError(text) from error

    def _find(self, token: str) -> Session | None:
        with self._database() as db:
            row = db.execute("SELECT key, began, seen FROM sessions WHERE token = ?", (_hash(token),)).fetchone()
        if row is None:
            return None
        key, began, seen = row
        now = time.time()
        left = began + self._longest - now
        idle_left = min(seen + self._idle - now, left)
        return Session(key, idle_left, left) if idle_left > 0 else None

    def _token(self, call: Call) -> str:
        for part in call.header(b"cookie").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self._name and len(value) <= 100:
                return value
        return ""

    def _cookie(self, value: str, more: str = "") -> tuple[bytes, bytes]:
        """Without a date: it goes when the browser is closed, if not before."""
        secure = "; Secure" if self._secure else ""
        text = f"{self._name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}"
        return b"set-cookie", text.encode()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()
