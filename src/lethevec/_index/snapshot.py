"""Snapshots: one file, the same bytes for the same configuration and records.

    magic       8 bytes   "LETHEVEC"
    version     uint32    1
    config      uint32    length, then that many bytes of canonical JSON
    records     uint64    n
    ids         int64     n, ascending
    vectors     float32   (n, dim), when vectors are kept; in a small form, their bytes as `native/rows/vector_form.h`
                          has them, uint8 (n, 2 dim) or (n, 4 + dim); otherwise
      norms, factors      float32, n each; then codes uint8 (n, ceil(bits/8))
    checksum    32 bytes  BLAKE2b-256 of all that comes before

All numbers little-endian. Codes of kept vectors are not in the file: they follow from vectors and configuration.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._durable import kind_of, mode_to_keep, open_regular, sync_folder
from .._vectors import MAX_NORM, MIN_NORM
from ..errors import FormatError, IncompleteWriteError
from .config import Config, parse_config, refuse_costly

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

MAGIC = b"LETHEVEC"
VERSION = 1
_HEAD = struct.Struct("<8sII")
_COUNT = struct.Struct("<Q")
_CHECKSUM = 32
_MAX_CONFIG = 1 << 16
_PIECE = 1 << 22
_MAX_FACTOR = 1e6  # far beyond any that a code has


def write(path: Path, config: Config, columns: list[npt.NDArray[Any]]) -> None:
    """Write to a temporary file beside `path`, sync, rename, sync the folder: the old file or the new one, whole.

    A file that is there keeps its mode; a new one is for its owner alone. What is no regular file, such as a link or a
    device, is refused. What a save that was killed has left there, with records in it, is removed first.
    """
    described = config.canonical()
    parts = [_HEAD.pack(MAGIC, VERSION, len(described)), described, _COUNT.pack(len(columns[0]))]
    temporary = None
    try:
        mode = mode_to_keep(path)
        _remove_unfinished(path)
        handle, temporary = _temporary(path)
        if mode is not None:
            os.chmod(handle if os.chmod in os.supports_fd else temporary, mode)
        # No buffer of Python's: it would keep a copy of what went through it.
        with os.fdopen(handle, "wb", buffering=0) as file:
            checksum = hashlib.blake2b(digest_size=_CHECKSUM)
            for part in parts:
                checksum.update(part)
                _write_all(file, memoryview(part))
            for column in columns:
                if column.size == 0:  # which a memoryview cannot cast
                    continue
                data = memoryview(column.astype(column.dtype.newbyteorder("<"), copy=False)).cast("B")
                for at in range(0, len(data), _PIECE):
                    checksum.update(data[at : at + _PIECE])
                    _write_all(file, data[at : at + _PIECE])
            _write_all(file, memoryview(checksum.digest()))
            _forget_input(checksum)
            os.fsync(file.fileno())
            os.replace(temporary, path)  # while the lock is held
        temporary = None
        sync_folder(path.parent)
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise IncompleteWriteError(
            f"{path}: the snapshot could not be written, what was there is unharmed: {error}"
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> tuple[int, Path]:
    """A new file beside `path`, locked for as long as it is open: who finds it without a lock may remove it."""
    import tempfile  # not with the package, whose import it would slow down by a tenth

    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        if fcntl is None:
            return handle, Path(name)
        with suppress(OSError):  # a file system without locks: then nobody removes it either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:  # nobody was faster
            return handle, Path(name)
        os.close(handle)


def _remove_unfinished(path: Path) -> None:
    """Remove temporary files of saves to `path` that died; those of saves that go on are locked."""
    if fcntl is None:
        return
    pattern = re.compile(re.escape(f".{path.name}.") + r"[a-z0-9_]{8}\.tmp")
    for name in os.listdir(path.absolute().parent):
        if pattern.fullmatch(name):
            with suppress(OSError):  # gone meanwhile, locked, or not ours to remove
                handle = open_regular(path.with_name(name), os.O_RDWR)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path.with_name(name))
                finally:
                    os.close(handle)


def _forget_input(checksum: hashlib.blake2b) -> None:
    """Overwrite the buffer of a hash, which holds the end of what went through it."""
    checksum.update(bytes(256))


def _write_all(file: FileIO, data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]


def read(path: Path, max_setup: int) -> tuple[Config, list[npt.NDArray[Any]]]:
    """The configuration and the columns of a snapshot, checked in full before anything is built from them."""
    try:
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise FormatError(f"expected a snapshot in a regular file, got {kind_of(found.st_mode)}")
            return _read(file, found.st_size, max_setup)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise FormatError(f"{path}: expected a snapshot, got a file that cannot be read: {error}") from error


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting, as one would for whoever writes to a named pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _read(file: FileIO, size: int, max_setup: int) -> tuple[Config, list[npt.NDArray[Any]]]:
    checksum = hashlib.blake2b(digest_size=_CHECKSUM)

    def take(count: int) -> bytes:
        # Sizes are checked against what the file has before a byte is asked for.
        if count > size - _CHECKSUM - file.tell():
            raise FormatError(f"expected {count} more bytes, got a file that ends: it is cut or damaged")
        data = bytearray(count)
        if not _read_all(file, memoryview(data)):
            raise FormatError("expected more bytes, got a file that shrank while it was read")
        checksum.update(data)
        return bytes(data)

    magic, version, config_size = _HEAD.unpack(take(_HEAD.size))
    if magic != MAGIC:
        raise FormatError(f"expected a snapshot of lethevec, which begins with {MAGIC!r}, got {magic!r}")
    if version != VERSION:
        raise FormatError(f"expected format version {VERSION}, got {version}; a newer version of lethevec may read it")
    if config_size > _MAX_CONFIG:
        raise FormatError(f"expected a configuration of at most {_MAX_CONFIG} bytes, got {config_size}")
    config = parse_config(take(config_size))
    (n,) = _COUNT.unpack(take(_COUNT.size))
    per_record = 8 + (config.form.row_bytes(config.dim) if config.keep_vectors else 8 + config.code_bytes)
    if n * per_record != size - _CHECKSUM - file.tell():
        raise FormatError(f"expected {n} records of {per_record} bytes, got {size - _CHECKSUM - file.tell()} bytes")
    refuse_costly(config, n, size, max_setup)

    def column(dtype: str, *shape: int) -> npt.NDArray[Any]:
        data = np.empty(shape, dtype=dtype)
        view = memoryview(data.reshape(-1)).cast("B") if data.size else memoryview(b"")
        for at in range(0, len(view), _PIECE):
            if not _read_all(file, view[at : at + _PIECE]):
                raise FormatError("expected more bytes, got a file that shrank while it was read")
            checksum.update(view[at : at + _PIECE])
        return data.astype(data.dtype.newbyteorder("="), copy=False)

    columns = [column("<i8", n)]
    if config.form.small:
        columns.append(column("|u1", n, config.form.row_bytes(config.dim)))
    elif config.keep_vectors:
        columns.append(column("<f4", n, config.dim))
    else:
        columns += [column("<f4", n), column("<f4", n), column("|u1", n, config.code_bytes)]
    expected = checksum.digest()
    _forget_input(checksum)
    if file.read() != expected:
        raise FormatError("expected the checksum of its content, got another: it is damaged")
    _refuse_impossible(config, columns)
    return config, columns


def _read_all(file: FileIO, view: memoryview) -> bool:
    """Fill the view; False when the file ends before that."""
    while view:
        got = file.readinto(view)
        if not got:
            return False
        view = view[got:]
    return True


def _refuse_impossible(config: Config, columns: list[npt.NDArray[Any]]) -> None:
    """What a checksum cannot tell: a file made by hand, whole but not one that `write` gives."""
    # Compared, not subtracted: the difference of two ids may be beyond int64.
    if (columns[0][1:] <= columns[0][:-1]).any():
        raise FormatError("expected ids that ascend, got others")
    for floats in columns[1:]:
        if floats.dtype.kind == "f" and not np.isfinite(floats).all():
            raise FormatError("expected finite numbers, got others")
    if not config.keep_vectors and len(columns[0]):
        norms, factors, codes = columns[1:]
        unused = -config.bits % 8
        if (
            np.signbit(norms).any()
            or (norms > MAX_NORM).any()
            or ((norms > 0) & (norms < np.float32(MIN_NORM))).any()
            or np.signbit(factors).any()
            or (factors > _MAX_FACTOR).any()
            or (unused and (codes[:, -1] >> (8 - unused)).any())
        ):
            raise FormatError("expected codes with norms and factors in their range, got others")
