"""How much memory this process holds."""

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


def settled() -> int:
    """`resident`, after what is free was given back to the system: building leaves a lot of it."""
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)
    return resident()
