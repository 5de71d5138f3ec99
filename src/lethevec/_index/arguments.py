"""The arguments of an index's calls, checked: the only place that takes ids, k and filters.

Every call checks all of its arguments here before it changes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._hashing.parameters import SMALLEST, as_float, integer, is_integer
from .._native import core
from .._shown import shown
from ..errors import IdError, ParameterError

I64 = npt.NDArray[np.int64]

#: Answers that a search may be asked for when k is larger than the index.
MAX_PADDED = 1 << 28
MAX_K = 1 << 31
_LOWEST_ID, _HIGHEST_ID = -(1 << 63), (1 << 63) - 1


def read_array(given: object, name: str) -> npt.NDArray[Any]:
    """Whatever NumPy makes of it; but it would make ids of what lies under a mask."""
    try:
        if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
            raise IdError(f"{name}: expected integers everywhere, got a masked array with masked entries")
        return np.asarray(given)
    except IdError:
        raise
    except Exception as error:  # whatever the conversion of somebody's object raises
        raise IdError(f"{name}: expected integers, got something NumPy cannot read: {error}") from None


def as_ids(ids: object, *, name: str = "ids", count: int | None = None) -> I64:
    """Check and convert to int64, C-contiguous, (n,).

    One integer counts as a list of one; bools and floats are refused.

    >>> as_ids([3, 1])
    array([3, 1])
    """
    array = read_array(ids, name)
    if array.ndim == 0:
        array = array[None]
    if array.ndim != 1:
        raise IdError(f"{name}: expected a list of ids, got shape {array.shape}")
    if count is not None and len(array) != count:
        raise IdError(f"{name}: expected {count} ids, one for each vector, got {len(array)}")
    if len(array) == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise IdError(f"{name}: expected integers that fit int64, got dtype {array.dtype}")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and int(array.max()) > _HIGHEST_ID:
        raise IdError(f"{name}: expected integers that fit int64, got {int(array.max())}")
    return np.ascontiguousarray(array, dtype=np.int64)


def one_id(given: object) -> int | None:
    """What could be an id, for `in`; None for anything else, which is in no index."""
    if not is_integer(given):
        return None
    id = int(given)
    return id if _LOWEST_ID <= id <= _HIGHEST_ID else None


def as_effort(effort: object) -> float:
    """A number above zero; infinity is one.

    >>> as_effort(float("inf")), as_effort(2)
    (inf, 2.0)
    """
    number = as_float(effort)
    if not number >= SMALLEST:
        raise ParameterError(f"effort: expected a number of {SMALLEST:g} or more, got {shown(effort)}")
    return number


def as_k(given: object, queries: int, records: int) -> int:
    """How many answers are asked for; refused if they would be little but padding."""
    k = integer("k", given, 1, MAX_K)
    if queries * k > MAX_PADDED and k > records:
        raise ParameterError(
            f"k: expected at most {max(records, MAX_PADDED // queries)} for {queries} queries of {records} "
            f"records, got {k}: the answer would be nearly all padding"
        )
    return k


def refuse_wide(queries: int, longest: int) -> None:
    """Refuse a radius search whose arrays, as wide for all queries as for one, would be absurd."""
    if queries > 1 and queries * longest > MAX_PADDED:
        raise ParameterError(
            f"queries: expected at most {MAX_PADDED // longest} for this radius, got {queries}: one has {longest} "
            f"answers, and the arrays are as wide for all of them"
        )


def as_allowed(allow: object, all_ids: Callable[[], I64]) -> I64 | core.SelectedRows:
    """The ids that a filter lets through; it is a list of ids, or a mask with a boolean for each of `all_ids`.

    What the native core has selected by itself goes back to it as it is.
    """
    if isinstance(allow, core.SelectedRows):
        return allow
    mask = read_array(allow, "allow")
    if mask.dtype != np.bool_:
        return as_ids(mask, name="allow")
    ids = all_ids()
    if mask.shape != ids.shape:
        raise IdError(f"allow: expected a mask with one boolean for each of the {len(ids)} ids, got {mask.shape}")
    return np.ascontiguousarray(ids[mask])
