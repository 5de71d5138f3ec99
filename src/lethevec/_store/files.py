"""The files of a store, and raw access to them beside SQLite.

| file | what it is |
|---|---|
| `people.lethe` | the SQLite database: records, receipts |
| `people.lethe-wal`, `-shm` | SQLite's write-ahead log, empty after a forget, and its index (page numbers only) |
| `people.lethe-lock` | whose lock keeps a second writer out |
| `people.lethe-reserve` | a megabyte of zeros while a writer is there (see `reserve`) |
| `people.lethe-copy-...` | where a backup or an export is being written (see `copying`) |
| `people.lethe-vectors`, `-vectors-2`, ... | with `vectors="file"`, those of the index while a writer is there |
| `people.lethe-keys` | the keys, unless they are kept elsewhere |
| `people.lethe-keys-vault` | the keys of sealed records, beside the others (see `vault`) |

**Why raw descriptors are shared and kept.** POSIX drops all locks that a process has on a file when it closes *any*
descriptor of it. SQLite holds such locks on the database, so a careless open, read and close of it beside SQLite would
take them away. Here each database has one entry per process, whose descriptors are closed only when the last store on
it has closed its connection.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .._durable import kind_of, open_regular
from .._index.vector_files import names_of
from ..errors import FileError

__all__ = ["CATALOG", "FileSource", "RawFile", "StoreFiles", "sync_file"]

CATALOG = "lethevec.catalog"  # in a folder of collections


@dataclass(frozen=True)
class StoreFiles:
    """The names, all made from the path of the database."""

    database: Path

    @property
    def wal(self) -> Path:
        """SQLite's write-ahead log."""
        return self._beside("-wal")

    @property
    def lock(self) -> Path:
        """The writer's lock."""
        return self._beside("-lock")

    @property
    def keys(self) -> Path:
        """Where the keys are unless they are kept apart."""
        return self._beside("-keys")

    @property
    def reserve(self) -> Path:
        """A little space for a full disk, while a writer is there."""
        return self._beside("-reserve")

    @property
    def vectors(self) -> Path:
        """The first name of the files that the index keeps its vectors in, if it does."""
        return self._beside("-vectors")

    def vector_files(self) -> list[Path]:
        """Those of them that are there."""
        return [path for path in names_of(self.vectors) if path.exists()]

    @property
    def building(self) -> Path:
        """A new database until it is complete."""
        return self._beside("-new")

    def refuse_special(self) -> None:
        """Refuse links, devices and the like in place of a file that SQLite opens: it would follow them."""
        for suffix in ("", "-wal", "-shm", "-journal"):
            path = self._beside(suffix)
            try:
                found = os.lstat(path)
            except OSError:
                continue  # none there, or none that can be looked at: whoever opens it will say so
            if not stat.S_ISREG(found.st_mode):
                raise FileError(f"{path}: expected a regular file or none, got {kind_of(found.st_mode)}")
            if suffix and found.st_nlink > 1:
                raise FileError(f"{path}: expected a regular file or none, got one with several names")

    def searchable(self) -> list[Path]:
        """Every file that could hold a record, as far as they exist. SQLite's `-shm` holds page numbers only."""
        names = ("", "-wal", "-journal", "-new", "-new-journal", "-reserve", "-lock", "-keys", "-keys.new")
        return [*(path for path in (self._beside(name) for name in names) if path.exists()), *self.vector_files()]

    def everything(self) -> list[Path]:
        """Every file that belongs to the store, as far as they exist, keys apart."""
        names = ("", "-wal", "-shm", "-journal", "-new", "-new-journal", "-reserve", "-lock")
        return [path for path in (self._beside(name) for name in names) if path.exists()]

    def _beside(self, suffix: str) -> Path:
        return self.database.with_name(self.database.name + suffix)


class _Entry:
    def __init__(self) -> None:
        self.users = 0
        self.descriptors: dict[int, int] = {}  # by open flags


_entries: dict[tuple[int, int], _Entry] = {}
_guard = threading.Lock()


def forget_descriptors() -> None:
    """In a forked child: what is noted here is the parent's, and a thread of the parent may have been at it."""
    global _guard
    _guard = threading.Lock()
    _entries.clear()


class RawFile:
    """A database's bytes beside SQLite. Make it before the connection, `close` it after."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        """Open the file; a missing one is a `FileError`."""
        flags = os.O_RDWR if writable else os.O_RDONLY
        with _guard:
            try:
                status = os.lstat(path)
                self._key = (status.st_dev, status.st_ino)
                entry = _entries.get(self._key) or _Entry()
                if flags not in entry.descriptors:
                    entry.descriptors[flags] = open_regular(path, flags)
            except OSError as error:
                raise FileError(f"{path}: could not be opened: {error}") from error
            _entries[self._key] = entry
            entry.users += 1
            self._descriptor = entry.descriptors[flags]
        self.path = path
        self._open = True

    def close(self) -> None:
        """Give the file up; its descriptors are closed with its last user."""
        if not self._open:
            return
        self._open = False
        with _guard:
            entry = _entries.get(self._key)
            if entry is None:  # in a forked child, whose parent goes on with it
                return
            entry.users -= 1
            if entry.users == 0:
                for descriptor in entry.descriptors.values():
                    os.close(descriptor)
                del _entries[self._key]

    @property
    def descriptor(self) -> int:
        """For the native core, to read from; it stays open as long as this does."""
        return self._descriptor

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from an offset: fewer than `length` only at the end."""
        return os.pread(self._descriptor, length, offset)

    def write(self, offset: int, data: bytes) -> None:
        """Overwrite bytes."""
        while data:
            written = os.pwrite(self._descriptor, data, offset)
            data, offset = data[written:], offset + written

    def sync(self) -> None:
        """Wait until the disk has it."""
        sync_file(self._descriptor)


@dataclass(frozen=True)
class FileSource:
    """A file for the residue search, read without disturbing the locks of a store that this process has open."""

    path: Path

    @property
    def name(self) -> str:
        """What findings call it."""
        return self.path.name

    @property
    def length(self) -> int:
        """How many bytes there are; none of a file that has just gone, which `blocks` will tell."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def blocks(self, size: int) -> Iterator[tuple[int, bytes]]:
        """The content, in order."""
        raw = RawFile(self.path)
        try:
            offset = 0
            while block := raw.read(offset, size):
                yield offset, block
                offset += len(block)
        finally:
            raw.close()


def sync_file(descriptor: int) -> None:
    """Wait until the disk has it; on macOS also until the drive has emptied its own cache."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        fcntl.fcntl(descriptor, full)
    else:
        os.fsync(descriptor)
