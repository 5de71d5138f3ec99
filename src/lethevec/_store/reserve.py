"""A little disk space kept back, so that forgetting works on a full disk.

Deleting needs space: the rewritten pages go to the log before they go to the database. A writer therefore keeps a file
of zeros beside the store and gives it up when a forget finds the disk full. It is as large as 64 pages, and at least a
megabyte: enough for some records that lie apart, many more that lie together. A larger forget on a full disk is refused
as a whole.
"""

from __future__ import annotations

import os
from pathlib import Path

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
            if self._path.exists() and self._path.stat().st_size == self._size:
                return
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
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
            size = self._path.stat().st_size
            self._path.unlink()
        except OSError:
            return False
        return size > 0
