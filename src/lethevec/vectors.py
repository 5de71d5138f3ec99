"""The check: the only place that takes array-likes. What passes is float32, C-contiguous, (n, dim), finite.

Anything that NumPy reads as real numbers is converted: float16/32/64, integers, lists, other strides and byte orders.
One vector of shape (dim,) counts as a batch of one. Norms go up to MAX_NORM, so that no square or sum overflows later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ._native import core
from .errors import VectorError

F32 = npt.NDArray[np.float32]

_ARRAY = np.ndarray  # looked up once: a single vector waits for it

#: Beyond this, squares of distances leave the range of float32.
MAX_NORM = 1e18


def as_vectors(vectors: npt.ArrayLike, dim: int, *, name: str = "vectors", nonzero: bool = False) -> F32:
    """Check and convert; `nonzero` refuses vectors without a direction, as the cosine metric must.

    >>> as_vectors([1, 2, 3], 3)
    array([[1., 2., 3.]], dtype=float32)
    """
    # What needs no conversion, nearly everything: a single vector should not wait for questions about the rest.
    if type(vectors) is _ARRAY:
        rows = vectors[None] if vectors.ndim == 1 else vectors
        if core.passes(rows, dim, MAX_NORM, nonzero):
            return rows
    return _check(vectors, dim, name, nonzero)[0]


@contextmanager
def passing_vectors(vectors: npt.ArrayLike, dim: int, *, nonzero: bool = False) -> Iterator[F32]:
    """The same for vectors that are on their way into an index: a copy that had to be made is wiped afterwards."""
    x, ours = _check(vectors, dim, "vectors", nonzero)
    try:
        yield x
    finally:
        if ours:
            x.fill(0)


def _check(vectors: npt.ArrayLike, dim: int, name: str, nonzero: bool) -> tuple[F32, bool]:
    """The checked array, and whether it is a copy that nobody else has."""
    if type(vectors) is _ARRAY and core.passes(vectors, dim, MAX_NORM, nonzero):
        return vectors, False
    array = vectors if type(vectors) is np.ndarray else _as_array(vectors, name)
    # What NumPy makes of lists is new; of anything else with an array inside it may be that array.
    read_from_lists = isinstance(vectors, list | tuple)
    if array.dtype.kind not in "fiu":
        raise VectorError(f"{name}: expected real numbers (float or int), got dtype {array.dtype}")
    if array.ndim == 1 and array.shape[0] == dim:
        array = array[None, :]
    if array.ndim != 2 or array.shape[1] != dim:
        raise VectorError(f"{name}: expected shape (n, {dim}) or ({dim},), got {array.shape}")
    if array.shape[0] == 0:
        raise VectorError(f"{name}: expected at least one vector, got shape {array.shape}")
    converted, ours = array, read_from_lists
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        # Conversion may overflow to infinity; the check below then names the value as it came.
        with np.errstate(over="ignore", invalid="ignore"):
            converted, ours = np.array(array, dtype=np.float32, order="C"), True
    try:
        _refuse_sizes(converted, array, name, nonzero)
    except VectorError:
        if ours:
            converted.fill(0)
        raise
    finally:
        if read_from_lists and converted is not array:
            array.fill(0)
    return converted, ours


def _refuse_sizes(converted: F32, array: npt.NDArray[Any], name: str, nonzero: bool) -> None:
    smallest, largest = core.norm_range(converted)
    # Not "largest > MAX_NORM": NaN must not pass.
    if not largest <= MAX_NORM:
        _refuse_large(converted, array, name)
    if nonzero and smallest == 0.0:
        zero = ~converted.any(axis=1)
        raise VectorError(
            f"{name}: expected nonzero vectors (cosine needs a direction), got {int(zero.sum())} zero, "
            f"the first in row {int(zero.argmax())}"
        )


def _as_array(vectors: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    rows = vectors if isinstance(vectors, list | tuple) else ()
    if np.ma.is_masked(vectors) or any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in rows):
        raise VectorError(f"{name}: expected numbers everywhere, got a masked array with masked entries")
    try:
        return np.asarray(vectors)
    except (ValueError, TypeError) as error:
        raise VectorError(f"{name}: expected rows of equal length, got something NumPy cannot read: {error}") from None


def _refuse_large(converted: F32, original: npt.NDArray[Any], name: str) -> None:
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
