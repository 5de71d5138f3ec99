"""How much memory this process holds, and how much there is."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys


def resident() -> int:
    """Bytes of memory that this process holds now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def available() -> int | None:
    """Bytes that new processes can have; None where the system does not say."""
    try:
        with open("/proc/meminfo") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def settled() -> int:
    """Bytes of its own that this process holds, after what is free was given back: building leaves a lot of it.

    Pages of files that are mapped (libraries, the data set) are not counted, where the system tells them apart.
    """
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        with open("/proc/self/status") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        return int(fields["RssAnon"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return resident()
