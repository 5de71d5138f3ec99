"""Files that an index keeps its vectors in, where these are too many for memory.

Such a file is working memory and no format. The index makes it, for its owner alone, and holds a lock on it; nobody
else reads it. When the index goes away, or the process ends, the core overwrites the file and removes it. What a
process has left that was killed is recognised by its mark and by the lock that nobody holds: it is overwritten and
removed by whoever next wants a file of this name. A file without the mark, be it empty, is somebody else's and is never
touched. So a file of ours gets its name when it has its mark, and loses the mark after its name.

An index that is made again (see `records`) has two files for a while, so there are several names.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .._durable import as_path, open_regular, sync_folder
from .._native import core
from .._shown import shown
from ..errors import FileError, IncompleteWriteError, ParameterError, UnsupportedError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["UnsettledError", "VectorFiles", "as_vector_files", "names_of", "remove_leftovers"]

MARK = b"LETHEVEC vectors of a process that is running\n"
#: Names that are tried. A store has as many at the most, since each of them is looked for in a search of its files.
MOST, MOST_OF_STORE = 1000, 8
_PIECE = 1 << 20

_kept: weakref.WeakSet[core.Index] = weakref.WeakSet()  # those of this process whose vectors are in files


class UnsettledError(FileError):
    """A change was made, but the disk has not confirmed that what it overwrote in the file is overwritten."""


def names_of(base: Path, most: int = MOST_OF_STORE) -> list[Path]:
    """The names that files of an index can have."""
    return [base, *(base.with_name(f"{base.name}-{number}") for number in range(2, most + 1))]


class VectorFiles:
    """Where the core indexes of one index keep their vectors."""

    def __init__(self, base: Path, most: int = MOST) -> None:
        """Files of this name, or of this name with a number, so many at most; nothing is made yet."""
        self._base = base.absolute()
        self._most = most

    def index(self, make: Callable[[int, bytes], core.Index]) -> core.Index:
        """A core index that `make` makes with the descriptor and the path of a new file."""
        try:
            remove_leftovers(self._base)
            path, descriptor = self._new_file()
        except OSError as error:
            raise IncompleteWriteError(f"{self._base}: the file of vectors could not be made: {error}") from error
        try:
            made = make(descriptor, os.fsencode(path))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)  # the core has one of its own
        _kept.add(made)
        return made

    def _new_file(self) -> tuple[Path, int]:
        try:
            path, descriptor = self._mark_and_name()
        except FileExistsError:
            raise
        except OSError:  # not every file system has files without a name
            return self._name_and_mark()
        try:
            sync_folder(path.parent)
        except BaseException:
            path.unlink(missing_ok=True)
            os.close(descriptor)
            raise
        return path, descriptor

    def _mark_and_name(self) -> tuple[Path, int]:
        descriptor = os.open(self._base.parent, os.O_RDWR | os.O_CLOEXEC | os.O_TMPFILE, 0o600)
        try:
            _locked(descriptor)
            os.pwrite(descriptor, MARK, 0)
            for path in names_of(self._base, self._most):
                with suppress(FileExistsError):
                    # `src_dir_fd` has no meaning here but that the link in /proc is followed.
                    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
                    return path, descriptor
            raise self._no_name()
        except BaseException:
            os.close(descriptor)
            raise

    def _name_and_mark(self) -> tuple[Path, int]:
        """The second best: what a process leaves that is killed between the two is an empty file, which stays."""
        for path in names_of(self._base, self._most):
            try:
                descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                continue
            try:
                if _locked(descriptor) and _has_name(descriptor, path):  # nobody took it for a leftover
                    os.pwrite(descriptor, MARK, 0)
                    sync_folder(path.parent)
                    return path, descriptor
            except BaseException:
                path.unlink(missing_ok=True)
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise self._no_name()

    def _no_name(self) -> OSError:
        return OSError(errno.EEXIST, f"{self._most} files of this name are there and in use")


def remove_leftovers(base: Path) -> None:
    """Overwrite and remove what killed processes have left. What is in use, or is not ours, stays."""
    pattern = re.compile(re.escape(base.name) + r"(-[1-9][0-9]*)?")
    for name in os.listdir(base.absolute().parent):
        if pattern.fullmatch(name):
            path = base.with_name(name)
            with suppress(FileNotFoundError if path == base else OSError):  # another name is passed over
                _remove_leftover(path)


def _remove_leftover(path: Path) -> None:
    if fcntl is None:
        return
    descriptor = open_regular(path, os.O_RDWR, alone=True)
    try:
        begin = os.pread(descriptor, len(MARK), 0)
        if os.fstat(descriptor).st_uid != os.geteuid() or begin != MARK:
            raise OSError(errno.EEXIST, f"expected a free name, got {path}, which is not a file of ours")
        if not _locked(descriptor):
            return
        if _has_name(descriptor, path):
            _overwrite(descriptor, len(MARK))
            os.unlink(path)
            sync_folder(path.parent)
            os.pwrite(descriptor, bytes(len(MARK)), 0)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _has_name(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at this path."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    own = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)


def _overwrite(descriptor: int, at: int) -> None:
    """Overwrite all from here on."""
    size, zeros = os.fstat(descriptor).st_size, bytes(_PIECE)
    while at < size:
        at += os.pwrite(descriptor, zeros[: size - at], at)
    os.fsync(descriptor)


def as_vector_files(vectors: object, kept: bool | str = True) -> VectorFiles | None:
    """Where vectors are to be kept, as the caller says it; None is memory. `kept` is the argument `keep_vectors`."""
    if isinstance(vectors, str) and vectors == "memory":
        return None
    if not isinstance(vectors, str | os.PathLike):
        raise ParameterError(f"vectors: expected 'memory', 'file' or the path of a file, got {shown(vectors)}")
    if not kept:
        raise UnsupportedError("vectors: expected 'memory', since keep_vectors=False keeps none that a file could have")
    if not core.FILES_OF_VECTORS:
        raise UnsupportedError("vectors: expected 'memory', since files of vectors need Linux")
    if isinstance(vectors, str) and vectors == "file":
        import tempfile  # not with the package, whose import it would slow down by a tenth

        return VectorFiles(Path(tempfile.gettempdir()) / f"lethevec-{os.geteuid()}.vectors")
    base = as_path(vectors, "vectors")
    if not base.absolute().parent.is_dir():
        raise FileError(f"{base}: expected the path of a file in a folder, got one whose folder is not there")
    return VectorFiles(base)


def _at_exit() -> None:
    for index in list(_kept):
        with suppress(Exception):
            index.overwrite_file()


def _in_child() -> None:
    for index in list(_kept):
        index.let_go_of_file()
    _kept.clear()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
