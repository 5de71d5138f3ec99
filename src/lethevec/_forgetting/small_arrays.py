"""Memory that NumPy keeps for itself: a few small blocks of each size and thread, as they were when an array ended."""

from __future__ import annotations

import numpy as np

__all__ = ["wipe_small_arrays"]

_SMALL = 1024  # bytes; NumPy gives larger blocks back
_KEPT = 8  # of each size at least; it keeps seven


def wipe_small_arrays() -> None:
    """Overwrite what arrays of this thread have left there: short vectors, and parts of long ones."""
    for size in range(4, _SMALL, 4):
        [np.zeros(size, dtype=np.uint8) for _ in range(_KEPT)]
