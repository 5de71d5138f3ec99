"""The vault of a sealed store: a random key for each record, in a file of its own that no backup ever holds.

A header of 64 bytes (magic, version, the vault's id), then 32 bytes for each number from 0 on. A key is written once,
at the end of the file. Destroying it overwrites those 32 bytes with zeros, in place, syncs, and reads them back. There
is no log, no tree and no other copy: nothing moves, so nothing is left where it was. Numbers are never used twice, so
zeros mean "destroyed" for good, and the file grows by 32 bytes for each record that was ever added.

The first two numbers are not for records: the keys of the digest's state take turns there (see `sealed`), so that there
is one of them and never an older one.

Readers read without a lock: 32 bytes that lie within one sector are there or they are zeros.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .._durable import open_regular, sync_folder
from ..errors import FileError, IncompleteWriteError, KeysError, StoreLockedError
from .files import sync_file

__all__ = ["STATES", "Vault", "VaultBlocks", "vault_path"]

KEY = 32
HEADER = 64
STATES = 2
_MAGIC = b"LETHEKEY"
_VERSION = 1
_ID = slice(16, 32)
_DESTROYED = bytes(KEY)
_MOST = 1 << 20  # keys read or written at once


def vault_path(keys: Path) -> Path:
    """The vault lies beside the key file: whoever keeps one apart from the store keeps both."""
    return keys.with_name(keys.name + "-vault")


class Vault:
    """An open vault. A writer holds it alone; `close` gives it up."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        """Open an existing vault and check its header."""
        self.path = path
        self._dirty = False
        try:
            self._descriptor = open_regular(path, os.O_RDWR if writable else os.O_RDONLY)
        except FileNotFoundError:
            raise KeysError(
                f"{path}: expected the vault with the keys of the records, got nothing there; keys= says where it is, "
                "and without it nobody can read the records"
            ) from None
        except OSError as error:
            raise KeysError(f"{path}: the vault could not be opened: {error}") from error
        try:
            self.id = self._read_header()
            if writable:
                self._lock()
            # Past a key that a crash cut short.
            self.next = max(STATES, (self._size() - HEADER + KEY - 1) // KEY)
        except BaseException:
            os.close(self._descriptor)
            raise

    @staticmethod
    def create(path: Path) -> str:
        """Make an empty vault and return its id. One that is there is taken if it is empty, and never overwritten."""
        if path.exists():
            vault = Vault(path, writable=True)
            vault.close()
            if vault.next > STATES:
                raise KeysError(
                    f"{path}: expected no vault, or an empty one, for a new store, got one with "
                    f"{vault.next - STATES} keys; it may belong to another store and was not touched"
                )
            return vault.id
        id = secrets.token_bytes(16)
        header = (_MAGIC + _VERSION.to_bytes(4, "little") + bytes(4) + id).ljust(HEADER, b"\0")
        building = path.with_name(path.name + ".new")
        try:
            building.unlink(missing_ok=True)
            descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                _write(descriptor, header, 0)
                sync_file(descriptor)
            finally:
                os.close(descriptor)
            os.replace(building, path)
            sync_folder(path.parent)
        except OSError as error:
            raise IncompleteWriteError(f"{path}: the vault could not be created: {error}") from error
        return id.hex()

    def put(self, count: int) -> range:
        """Add so many new keys and return their numbers. They are safe once `sync` has returned."""
        numbers = range(self.next, self.next + count)
        try:
            for start in range(0, count, _MOST):
                keys = secrets.token_bytes(KEY * min(_MOST, count - start))
                _write(self._descriptor, keys, HEADER + KEY * (self.next + start))
        except OSError as error:
            raise IncompleteWriteError(f"{self.path}: the keys of new records could not be written: {error}") from error
        self.next = numbers.stop
        self._dirty = True
        return numbers

    def renew(self, number: int) -> bytes:
        """Put a new key in the place of one for states, and return it; safe once `sync` has returned."""
        key = secrets.token_bytes(KEY)
        try:
            _write(self._descriptor, key, HEADER + KEY * number)
        except OSError as error:
            raise IncompleteWriteError(f"{self.path}: a key could not be written: {error}") from error
        self._dirty = True
        return key

    def sync(self) -> None:
        """Wait until the disk has every key: before the records that need them are committed."""
        if self._dirty:
            try:
                sync_file(self._descriptor)
            except OSError as error:
                raise IncompleteWriteError(f"{self.path}: the vault could not be synced: {error}") from error
            self._dirty = False

    def get(self, numbers: Sequence[int]) -> list[bytes | None]:
        """The keys with these numbers; None for one that was destroyed or never was."""
        if not numbers:
            return []
        first, last = min(numbers), max(numbers)
        if last - first < 4 * len(numbers) + 64:  # they lie close together: one read instead of many
            block = self._read(first, last - first + 1)
            keys = [block[KEY * (number - first) : KEY * (number - first + 1)] for number in numbers]
        else:
            keys = [self._read(number, 1) for number in numbers]
        return [key if len(key) == KEY and key != _DESTROYED else None for key in keys]

    def destroy(self, numbers: Iterable[int]) -> int:
        """Overwrite these keys with zeros, sync, and see that they are; how many there were to destroy."""
        runs = _runs(sorted({number for number in numbers if 0 <= number < self.next}))
        try:
            for run in runs:
                _write(self._descriptor, bytes(KEY * len(run)), HEADER + KEY * run.start)
            if runs:
                sync_file(self._descriptor)
            left = [run for run in runs if any(self._read(run.start, len(run)))]
        except OSError as error:
            raise FileError(f"{self.path}: keys could not be destroyed: {error}") from error
        if left:
            raise FileError(f"{self.path}: expected zeros in place of destroyed keys, got something else")
        return sum(map(len, runs))

    def close(self) -> None:
        """Give the file up, and with it the lock. Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def _read(self, number: int, count: int) -> bytes:
        wanted, parts = KEY * count, []
        offset = HEADER + KEY * number
        while wanted and (part := os.pread(self._descriptor, wanted, offset)):
            parts.append(part)
            wanted, offset = wanted - len(part), offset + len(part)
        return b"".join(parts)

    def _read_header(self) -> str:
        head = os.pread(self._descriptor, HEADER, 0)
        version = int.from_bytes(head[8:12], "little")
        if len(head) < HEADER or not head.startswith(_MAGIC):
            raise KeysError(f"{self.path}: expected a vault, got something else")
        if version != _VERSION:
            raise KeysError(
                f"{self.path}: expected a vault of version {_VERSION}, got {version}; a newer lethevec may read it"
            )
        return head[_ID].hex()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreLockedError(
                f"{self.path}: expected to be the only writer with this vault, got one that another store, perhaps a "
                "copy of this one, has open; open this one with read_only=True"
            ) from None


class VaultBlocks:
    """The blocks of a vault around some of its keys, as a source for the residue search."""

    _KEYS = 128  # of one block: 4,096 bytes

    def __init__(self, vault: Vault, numbers: Iterable[int]) -> None:
        """The blocks that hold these numbers."""
        self.name = vault.path.name
        self._vault = vault
        self._blocks = sorted({number // self._KEYS for number in numbers if 0 <= number < vault.next})

    @property
    def length(self) -> int:
        """About how many bytes there are: the last block of the file may be shorter."""
        return KEY * self._KEYS * len(self._blocks)

    def blocks(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Each block with its offset in the file."""
        for block in self._blocks:
            first = block * self._KEYS
            yield HEADER + KEY * first, self._vault._read(first, self._KEYS)


def _write(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _runs(numbers: Sequence[int]) -> list[range]:
    """Numbers that follow on each other, as ranges of at most `_MOST`."""
    runs: list[range] = []
    for number in numbers:
        if runs and runs[-1].stop == number and len(runs[-1]) < _MOST:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return runs
