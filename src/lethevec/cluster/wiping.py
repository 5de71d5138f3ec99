"""Overwriting what was decrypted, so that it does not stay in the heap of a process that Ray runs.

Python cannot overwrite a `bytes`, and frees it without wiping. Messages are in the clear for the length of one call;
then their bytes are set to zero here, where they lie. Only objects that nobody else can hold may be given: a message
that was just decrypted, a key that was just derived.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import numpy.typing as npt

__all__ = ["scrub_small_arrays", "wipe", "wipe_arrays"]

_CPYTHON = sys.implementation.name == "cpython"
_HEAD = sys.getsizeof(b"") - 1  # of a bytes object: what stands before its content; the 1 is the zero at its end
_KEPT_SIZE, _KEPT = 1024, 7  # NumPy keeps so many freed arrays of each size below this for the next that ask
_SHARED = 2  # shorter ones are kept by Python itself and shared


def wipe(content: bytes | bytearray) -> None:
    """Set bytes to zero where they lie; elsewhere than on CPython, bytes that cannot be changed are left."""
    if isinstance(content, bytearray):
        content[:] = bytes(len(content))
    elif _CPYTHON and len(content) >= _SHARED:
        ctypes.memset(id(content) + _HEAD, 0, len(content))


def wipe_arrays(arrays: list[npt.NDArray[np.generic]]) -> None:
    """Set arrays to zero that are ours."""
    for array in arrays:
        if array.flags.writeable:
            array.fill(0)


def scrub_small_arrays() -> None:
    """Overwrite the memory of small arrays that NumPy keeps after they were freed.

    It never reaches the allocator, which would overwrite it. Arrays that are made now get exactly that memory.
    """
    for size in range(1, _KEPT_SIZE):
        taken = [np.empty(size, dtype=np.uint8) for _ in range(_KEPT)]
        for array in taken:
            array.fill(0)
