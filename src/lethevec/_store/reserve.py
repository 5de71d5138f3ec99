"""A little disk space kept back, so that forgetting works on a full disk.

Deleting needs space: the rewritten pages go to the log before they go to the database. A writer therefore keeps a file
of zeros beside the store and gives it up when a forget finds the disk full. It is as large as 64 pages, and at least a
megabyte: enough for some records that lie apart, many more that lie together. A larger forget on a full disk is refused
as a whole.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .._durable import open_regular

__all__ = ["Reserve"]

PAGES = 64
LEAST = 1 << 20


class Reserve:
    """The file of zeros; having none is never an error."""

    def __init__(self, path: Path, page_size: int) -> None:
        """Nothing is made yet."""
        self._path = path
        self._size = max(LEAST, PAGES * page_size)

    def ensure(self) -> None:
        """Make it if it is not there and there is space."""
        try:
            descriptor = open_regular(self._path, os.O_WRONLY | os.O_CREAT, alone=True)
            try:
                if os.fstat(descriptor).st_size == self._size:
                    return
                os.ftruncate(descriptor, 0)
                # Written, not just promised: macOS has no posix_fallocate, and some file systems do not keep its word.
                written = 0
                while written < self._size:
                    written += os.write(descriptor, bytes(min(1 << 20, self._size - written)))
            finally:
                os.close(descriptor)
        except OSError:
            self.release()

    def release(self) -> bool:
        """Give the space up; whether there was any."""
        try:
            status = self._path.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                return False  # not ours
            self._path.unlink()
        except OSError:
            return False
        return status.st_size > 0
