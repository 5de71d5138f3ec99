"""Connections to SQLite with the settings that the promise rests on, each read back; and SQLite's errors in our words.

| setting | why |
|---|---|
| `secure_delete=ON` | deleted cells and freed pages are overwritten |
| `journal_mode=WAL` | readers do not stop a forget from being seen; the log is emptied by a checkpoint |
| `wal_autocheckpoint=0` | only the store checkpoints, because it then also scrubs the pages (see `pages`) |
| `synchronous=FULL` | what is acknowledged survives a power cut |
| `temp_store=MEMORY` | nothing spills into temporary files |
| `mmap_size=0`, `trusted_schema=OFF`, `cell_size_check=ON` | a damaged or hostile file raises, it does not crash |
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from ..errors import FileError, FormatError, IncompleteWriteError, StoreLockedError, UnsupportedError

__all__ = ["connect", "let_go_of_values", "pragma", "translated", "use_wal"]

_STATEMENTS = 100  # that a connection keeps ready
_MIN_SQLITE = (3, 35, 0)

# setting, value to write, value to read back
_SETTINGS: tuple[tuple[str, str, Any], ...] = (
    ("secure_delete", "ON", 1),
    ("synchronous", "FULL", 2),
    ("temp_store", "MEMORY", 2),
    ("wal_autocheckpoint", "0", 0),
    ("trusted_schema", "OFF", 0),
    ("cell_size_check", "ON", 1),
)


def connect(path: Path, mode: str, *, timeout: float = 5.0) -> sqlite3.Connection:
    """Open as "rw", "ro", "rwc" (create), or "immutable" (nobody writes). Transactions are explicit."""
    if sqlite3.sqlite_version_info < _MIN_SQLITE:
        raise UnsupportedError(f"expected SQLite 3.35 or newer, got {sqlite3.sqlite_version}")
    query = "immutable=1&mode=ro" if mode == "immutable" else f"mode={mode}"
    with translated(path):
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?{query}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=timeout,
            cached_statements=_STATEMENTS,
        )
        try:
            for name, value, expected in _SETTINGS:
                pragma(connection, f"{name}={value}")
                got = pragma(connection, name)
                if got != expected:
                    raise UnsupportedError(f"SQLite {sqlite3.sqlite_version}: expected {name}={expected}, got {got}")
            pragma(connection, "mmap_size=0")
            pragma(connection, "cache_size=-32768")  # kB; index pages of a bulk load would thrash the default of 2 MB
            pragma(connection, "fullfsync=ON")
            pragma(connection, "checkpoint_fullfsync=ON")
        except BaseException:
            connection.close()
            raise
    return connection


def use_wal(connection: sqlite3.Connection, path: Path) -> None:
    """Turn the write-ahead log on, and make sure that it is."""
    mode = pragma(connection, "journal_mode=WAL")
    if mode != "wal":
        raise UnsupportedError(
            f"{path}: expected a file system on which SQLite can keep a log (WAL), got mode {mode!r}"
        )


def pragma(connection: sqlite3.Connection, text: str) -> Any:
    """Run a pragma; its single value, or None."""
    row = connection.execute(f"PRAGMA {text}").fetchone()
    return None if row is None else row[0]


def let_go_of_values(connection: sqlite3.Connection) -> None:
    """Drop the statements that a connection keeps ready: each holds the values that it was last given.

    Python has no call for it, but keeps so many of them and no more. What SQLite frees with them is overwritten where
    the process runs with what the server runs with.
    """
    for place in range(_STATEMENTS):
        connection.execute(f"SELECT {place}").fetchone()


class translated:  # noqa: N801 (used like a function)
    """Turn SQLite's errors into ours, with the path in front. Every read passes here: a generator would take longer."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        """The path that errors name."""
        self._path = path

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Raise ours from theirs."""
        if error is None:
            return
        if isinstance(error, sqlite3.Error):
            raise _translate(self._path, error) from error
        if isinstance(error, UnicodeDecodeError):
            # Python decodes SQLite's messages, which may quote a damaged schema.
            raise FormatError(f"{self._path}: expected a whole lethevec store, got a damaged file ({error})") from error


def _translate(path: Path, error: sqlite3.Error) -> FileError:
    text = str(error)
    lowered = text.lower()
    if any(sign in lowered for sign in ("not a database", "malformed", "no such table", "no such column", "decode")):
        return FormatError(f"{path}: expected a whole lethevec store, got a damaged or foreign file ({text})")
    if "locked" in lowered or "busy" in lowered:
        return StoreLockedError(f"{path}: another program holds the database ({text})")
    if "full" in lowered or "disk i/o" in lowered:
        return IncompleteWriteError(f"{path}: could not be written ({text}); what was there before is unharmed")
    if "readonly" in lowered or "unable to open" in lowered:
        return FileError(f"{path}: could not be opened as asked ({text})")
    return FileError(f"{path}: SQLite refused ({text})")
