"""The catalog of a folder: which collections there are, the chain of receipts, what waits, holds and blocks.

| file in the folder | what it is |
|---|---|
| `lethevec.catalog` | this SQLite database |
| `lethevec.catalog-wal`, `-shm`, `-lock` | its log, and the lock that keeps a second writer out of the whole folder |
| `lethevec.catalog-keys` | the keys, unless they are kept elsewhere |
| `c-<id>.lethe`, and what belongs to it | a collection; its id is random: a name can change, and is in no file name |

| table | holds |
|---|---|
| `collections` | id, name and default retention of each; one that is being made, or was dropped, is not `ready` |
| `receipts` | the chain of the whole folder |
| `intents` | erasures that were begun and have no receipt yet: tags only |
| `holds`, `blocks` | tags of subjects; the reason of a hold in words |
| `origin` | in a copy that `backup` wrote: the receipt up to which it goes |

Ids, subjects and payloads are never in it, only names of collections and reasons of holds; when one of these goes, the
file is scrubbed like a store's.
"""

from __future__ import annotations

import re
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from .._durable import sync_folder
from .._store.files import CATALOG, StoreFiles
from .._store.lock import WriterLock
from .._store.reserve import Reserve
from .._store.retention import check_duration
from .._store.small import SmallDatabase
from ..errors import FileError, FormatError, ParameterError
from .names import check_name

__all__ = ["Catalog", "Entry", "Intent"]

_APPLICATION = 0x4C657466  # "Letf"
_VERSION = 1
_TABLES = """
CREATE TABLE collections (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, expires REAL, ready INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE receipts (sequence INTEGER PRIMARY KEY, receipt TEXT NOT NULL, request TEXT);
CREATE INDEX receipts_request ON receipts (request) WHERE request IS NOT NULL;
CREATE TABLE intents (request TEXT PRIMARY KEY, kind TEXT NOT NULL, draft TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE holds (
    number INTEGER PRIMARY KEY, hold TEXT NOT NULL UNIQUE, audit_key TEXT NOT NULL, subject TEXT NOT NULL,
    reason TEXT NOT NULL, since TEXT NOT NULL
);
CREATE TABLE blocks (
    audit_key TEXT NOT NULL, subject TEXT NOT NULL, since TEXT NOT NULL, PRIMARY KEY (audit_key, subject)
) WITHOUT ROWID;
CREATE TABLE origin (sequence INTEGER NOT NULL, hash TEXT NOT NULL);
"""


_ENTRIES = "SELECT id, name, expires FROM collections "


class Entry(NamedTuple):
    """A collection as the catalog knows it; `expires` is its default retention in seconds."""

    id: str
    name: str
    expires: float | None


class Intent(NamedTuple):
    """An erasure that was begun."""

    request: str
    kind: str
    draft: str


class Catalog(SmallDatabase):
    """The open catalog of a folder. A writer holds the folder's lock."""

    def __init__(self, folder: Path, *, read_only: bool, timeout: float) -> None:
        """Open the catalog; a writer makes it in a folder that is new or empty."""
        self.folder = folder
        self.files = StoreFiles(folder / CATALOG)
        self._lock: WriterLock | None = None
        path = self.files.database
        if read_only:
            if not path.is_file():
                raise FileError(f"{folder}: expected a folder of collections to read, got {_content(folder)}")
        else:
            _make_folder(folder)
            self._lock = WriterLock(self.files.lock)
        try:
            if not path.exists():
                _refuse_others(folder)
                self.create(path, _APPLICATION, _VERSION, _TABLES)
            super().__init__(path, _APPLICATION, _VERSION, read_only=read_only, timeout=timeout)
        except BaseException:
            self._release()
            raise
        self.reserve = Reserve(self.files.reserve, 0)
        if not read_only:
            self.reserve.ensure()

    def close(self) -> None:
        """Close the file and let the next writer in. Safe to call twice."""
        try:
            if not self.closed and not self.read_only and not self.guard.inherited:
                self.reserve.release()
            super().close()
        finally:
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    # Collections

    def entries(self) -> list[Entry]:
        """All collections, by name."""
        return [self._checked(*row) for row in self.rows(_ENTRIES + "WHERE ready ORDER BY name")]

    def find(self, name: str) -> Entry | None:
        """The collection of that name."""
        rows = self.rows(_ENTRIES + "WHERE ready AND name = ?", name)
        return self._checked(*rows[0]) if rows else None

    def unready(self) -> list[str]:
        """The ids of collections that were being made, or dropped, when a process died."""
        return [self._checked_id(id) for (id,) in self.rows("SELECT id FROM collections WHERE NOT ready")]

    def _checked(self, id: object, name: object, expires: Any) -> Entry:
        """A row, unless somebody else wrote it: an id that leads out of the folder must not become a path."""
        try:
            name = check_name(name)
        except ParameterError as error:
            raise FormatError(f"{self.path}: expected names of collections, got another: {error}") from None
        try:
            if expires is not None:
                check_duration(timedelta(seconds=expires))
        except (ParameterError, TypeError, ValueError, OverflowError):
            raise FormatError(f"{self.path}: expected how long records are kept, got {expires!r:.40}") from None
        return Entry(self._checked_id(id), name, expires)

    def _checked_id(self, id: object) -> str:
        if not isinstance(id, str) or re.fullmatch("[0-9a-f]{32}", id) is None:
            raise FormatError(f"{self.path}: expected ids of collections of 32 hexadecimal digits, got {id!r:.80}")
        return id

    def path_of(self, id: str) -> Path:
        """The database file of a collection."""
        return self.folder / f"c-{id}.lethe"

    @staticmethod
    def new_id() -> str:
        """A random id for a collection, a hold or a request."""
        return secrets.token_hex(16)

    # Intents

    def intents(self) -> list[Intent]:
        """Erasures that were begun and have no receipt."""
        return [Intent(*row) for row in self.rows("SELECT request, kind, draft FROM intents ORDER BY request")]


def _make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder}: expected a folder of collections, got a file; lethevec.open opens a single store")
    if folder.is_dir():
        if not (folder / CATALOG).exists():
            _refuse_others(folder)
        return
    try:
        folder.mkdir(mode=0o700)
        sync_folder(folder.absolute().parent)
    except FileExistsError:
        return
    except OSError as error:
        raise FileError(f"{folder}: expected a folder that can be made, got {error}") from None


def _refuse_others(folder: Path) -> None:
    """A folder without a catalog must be empty, but for what a creation that died has left."""
    ours = {CATALOG + suffix for suffix in ("-lock", "-new", "-new-journal", "-keys", "-keys.new", "-reserve")}
    others = sorted(path.name for path in folder.iterdir() if path.name not in ours)
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise FileError(
            f"{folder}: expected a folder of collections, or an empty one, got one that holds {others[0]!r:.80}{more}; "
            "it was not touched"
        )


def _content(folder: Path) -> str:
    if not folder.exists():
        return "nothing there"
    return "one without a catalog" if folder.is_dir() else "a file; lethevec.open opens a single store"
