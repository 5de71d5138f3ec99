"""What makes files last through a power cut and names mean what they say, for everything that reads or writes files."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from .errors import FileError, ParameterError

__all__ = ["as_path", "kind_of", "mode_to_keep", "open_regular", "read_regular", "replace_secret", "sync_folder"]

_IMPOSSIBLE = {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ}
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP}


def as_path(given: object, name: str = "path", *, folder: bool = False) -> Path:
    """What a caller gave as the path of a file, or of a `folder`, which may be the present one."""
    if not isinstance(given, str | os.PathLike):
        raise ParameterError(f"{name}: expected a path, got {type(given).__name__}")
    try:
        path = Path(given)
        os.lstat(path)
    except (TypeError, ValueError) as error:  # of bytes; with half a character, or with one that ends a text in C
        raise ParameterError(f"{name}: expected a path, got one that no file can have: {error}") from None
    except OSError as error:
        if error.errno in _IMPOSSIBLE:
            raise ParameterError(f"{name}: expected a path, got one that no file can have: {error.strerror}") from None
        if error.errno not in _NOT_THERE:
            raise FileError(f"{path}: expected a path that can be looked at, got {error.strerror}") from None
    if not path.name and not folder:
        raise ParameterError(f"{name}: expected the path of a file, got {str(given)!r}, which names none")
    return path


def mode_to_keep(path: Path) -> int | None:
    """The mode of the file that is to be replaced; None if there is none. What is no regular file is refused."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"expected a regular file or none, got {kind_of(found.st_mode)}")
    return stat.S_IMODE(found.st_mode)


def sync_folder(folder: Path) -> None:
    """Make a created, renamed or removed name durable."""
    if os.name == "nt":  # which opens no folders; its file system keeps a journal of names
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_secret(path: Path, text: str) -> None:
    """Write a file that its owner alone can read. There is the old one or the new one, also after a power cut. What is
    no regular file, such as a link, is not replaced.

    When it fails, with an `OSError`, the new one is gone again, unless only the folder could not be synced.
    """
    temporary = path.with_name(path.name + ".new")
    mode_to_keep(path)
    try:
        # An earlier attempt may have died and left one; O_EXCL then makes sure that nobody else made it meanwhile.
        temporary.unlink(missing_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def open_regular(path: Path, flags: int, *, alone: bool = False) -> int:
    """Open a regular file, and nothing else that has its name: no link, no device, and no pipe to wait at.

    With `alone` it must have no second name either, by which what is written to it would reach somebody else's file.
    """
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):  # not every system has all of them
        flags |= getattr(os, name, 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if path.is_symlink():
            raise OSError(f"expected a regular file at {path}, got a symbolic link") from error
        raise
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and not (alone and found.st_nlink > 1):
        return descriptor
    os.close(descriptor)
    what = "one with several names" if stat.S_ISREG(found.st_mode) else kind_of(found.st_mode)
    raise OSError(f"expected a regular file at {path}, got {what}")


def read_regular(path: Path, most: int) -> bytes:
    """Up to so many bytes of a regular file, which a link may lead to; nobody waits at a pipe."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"expected a regular file at {path}, got {kind_of(found.st_mode)}")
        return file.read(most)


def kind_of(mode: int) -> str:
    """In words what a file's mode says it is."""
    kinds = {
        stat.S_ISREG: "a regular file",
        stat.S_ISLNK: "a symbolic link",
        stat.S_ISDIR: "a folder",
        stat.S_ISFIFO: "a named pipe",
        stat.S_ISSOCK: "a socket",
    }
    return next((name for is_kind, name in kinds.items() if is_kind(mode)), "a device")
