"""The check: the only place that takes array-likes. What passes is float32, C-contiguous, (n, dim), finite.

Anything that NumPy reads as real numbers is converted: float16/32/64, integers, lists, other strides and byte orders. One
vector of shape (dim,) counts as a batch of one. Norms go up to MAX_NORM, so that no square or sum overflows later.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._native import core
from .errors import VectorError

F32 = npt.NDArray[np.float32]

#: Beyond this, squares of distances leave the range of float32.
MAX_NORM = 1e18


def as_vectors(vectors: npt.ArrayLike, dim: int, *, name: str = "vectors", nonzero: bool = False) -> F32:
    """Check and convert; `nonzero` refuses vectors without a direction, as the cosine metric must.

    >>> as_vectors([1, 2, 3], 3)
    array([[1., 2., 3.]], dtype=float32)
    """
    array = vectors if type(vectors) is np.ndarray else _as_array(vectors, name)
    if array.dtype.kind not in "fiu":
        raise VectorError(f"{name}: expected real numbers (float or int), got dtype {array.dtype}")
    if array.ndim == 1 and array.shape[0] == dim:
        array = array[None, :]
    if array.ndim != 2 or array.shape[1] != dim:
        raise VectorError(f"{name}: expected shape (n, {dim}) or ({dim},), got {array.shape}")
    if array.shape[0] == 0:
        raise VectorError(f"{name}: expected at least one vector, got shape {array.shape}")
    converted = array
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        # Conversion may overflow to infinity; the check below then names the value as it came.
        with np.errstate(over="ignore", invalid="ignore"):
            converted = np.ascontiguousarray(array, dtype=np.float32)
    smallest, largest = core.norm_range(converted)
    # Not "largest > MAX_NORM": NaN must not pass.
    if not largest <= MAX_NORM:
        _refuse_size(converted, array, name)
    if nonzero and smallest == 0.0:
        zero = ~converted.any(axis=1)
        raise VectorError(
            f"{name}: expected nonzero vectors (cosine needs a direction), got {int(zero.sum())} zero, "
            f"the first in row {int(zero.argmax())}"
        )
    return converted


def _as_array(vectors: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    if np.ma.is_masked(vectors):
        raise VectorError(f"{name}: expected numbers everywhere, got a masked array with masked entries")
    try:
        return np.asarray(vectors)
    except (ValueError, TypeError) as error:
        raise VectorError(f"{name}: expected rows of equal length, got something NumPy cannot read: {error}") from None


def _refuse_size(converted: F32, original: npt.NDArray[Any], name: str) -> None:
    """Say which number is not finite, or which row is too long."""
    bad = ~np.isfinite(converted)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        value = original[row, column]
        kind = "a number beyond the range of float32" if np.isfinite(value) else str(value)
        raise VectorError(
            f"{name}: expected finite numbers, got {int(bad.sum())} that are not, the first at row {row}, "
            f"column {column}: {kind}"
        )
    norms = np.sqrt(np.einsum("ij,ij->i", converted, converted, dtype=np.float64))
    row = int(norms.argmax())
    raise VectorError(
        f"{name}: expected norms up to {MAX_NORM:g}, whose squares float32 can hold, got {norms[row]:g} in row {row}"
    )
