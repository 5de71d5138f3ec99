"""One writer at a time: an exclusive `flock` on a file beside the database.

The system drops it when the process ends, however it ends, so there are no stale locks. The file stays and holds the
number of the writing process, for the error message alone.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from .._durable import open_regular
from ..errors import FileError, StoreLockedError
from .forking import watch_lock

__all__ = ["WriterLock"]


class WriterLock:
    """Held from construction to `release`."""

    def __init__(self, path: Path) -> None:
        """Take the lock, or say who has it."""
        try:
            descriptor = open_regular(path, os.O_RDWR | os.O_CREAT, alone=True)
        except OSError as error:
            raise FileError(
                f"{path}: a writer needs its lock file, which could not be made: {error}; read_only=True needs none"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise StoreLockedError(
                f"{path}: expected to be the only writer, got a store that process {owner} writes to "
                f"(this is process {os.getpid()}); open it with read_only=True, or wait until it is closed"
            ) from None
        # For the error message alone: on a full disk there is none.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        self._descriptor: int | None = descriptor
        watch_lock(self)

    def release(self) -> None:
        """Let the next writer in."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None

    def drop(self) -> None:
        """In a forked child: let go of the descriptor, which would keep the lock when the parent has ended."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
