"""Ids: the caller's, int64. The only place that takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import IdError

I64 = npt.NDArray[np.int64]


def read_array(ids: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    """Whatever NumPy makes of it; but it would make ids of what lies under a mask."""
    if isinstance(ids, np.ma.MaskedArray) and np.ma.is_masked(ids):
        raise IdError(f"{name}: expected integers everywhere, got a masked array with masked entries")
    try:
        return np.asarray(ids)
    except (ValueError, TypeError, OverflowError) as error:
        raise IdError(f"{name}: expected integers, got something NumPy cannot read: {error}") from None


def as_ids(ids: npt.ArrayLike, *, name: str = "ids", count: int | None = None, empty: bool = False) -> I64:
    """Check and convert to int64, C-contiguous, (n,).

    One integer counts as a list of one; bools and floats are refused.

    >>> as_ids([3, 1])
    array([3, 1])
    """
    array = read_array(ids, name)
    if array.ndim == 0:
        array = array[None]
    if array.size == 0 and empty:
        return np.empty(0, dtype=np.int64)
    if array.size == 0:
        raise IdError(f"{name}: expected a list of at least one id, got shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise IdError(f"{name}: expected integers that fit int64, got dtype {array.dtype}")
    if array.ndim != 1:
        raise IdError(f"{name}: expected a list of ids, got shape {array.shape}")
    if count is not None and len(array) != count:
        raise IdError(f"{name}: expected {count} ids, one for each vector, got {len(array)}")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and int(array.max()) > np.iinfo(np.int64).max:
        raise IdError(f"{name}: expected integers that fit int64, got {int(array.max())}")
    return np.ascontiguousarray(array, dtype=np.int64)
