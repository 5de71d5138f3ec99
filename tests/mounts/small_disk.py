"""A small file system of its own for a test: it can be filled to the last byte, and be made read-only."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

PAGE = 4096  # what a tmpfs gives space by


class SmallDisk:
    """A tmpfs at a folder. `MountError` where this process may not mount."""

    def __init__(self, folder: Path, size: int) -> None:
        """Mount it."""
        self.folder = folder
        self._ballast = folder / "ballast"
        _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))

    @property
    def free(self) -> int:
        """How many bytes can still be written."""
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Leave so many bytes (a multiple of 4,096) free."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in (1 << 16, PAGE, 1):
                with suppress(OSError):
                    while True:
                        ballast.write(bytes(size))
        assert self.free == 0
        if leave:
            os.truncate(self._ballast, max(0, -(-self._ballast.stat().st_size // PAGE) * PAGE - leave))

    def empty(self) -> None:
        """Give the space back."""
        self._ballast.unlink(missing_ok=True)

    def read_only(self, yes: bool = True) -> None:
        """Let nobody write to it; no file of it may be open for writing."""
        _run("mount", "-o", f"remount,{'ro' if yes else 'rw'}", str(self.folder))

    def close(self) -> None:
        """Unmount it, whoever still uses it."""
        subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)


class MountError(Exception):
    """No file system can be mounted here."""


def _run(*command: str) -> None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise MountError(str(error)) from None
    if result.returncode:
        raise MountError(result.stderr.strip())
