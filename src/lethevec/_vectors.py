"""The check: the only place that takes array-likes. What passes is float32, C-contiguous, (n, dim), finite.

Anything that NumPy reads as real numbers is converted: float16/32/64, integers, lists, other strides and byte orders;
and so are data frames, Arrow data and tensors (see `_frames`).
One vector of shape (dim,) counts as a batch of one. Norms are between MIN_NORM and MAX_NORM, so that no square or sum
leaves the range of float32 later, or they are zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ._frames import Read, as_array, stacked
from ._native import core
from .errors import VectorError

F32 = npt.NDArray[np.float32]

_ABOVE_ZERO = 5e-324
_ARRAY = np.ndarray  # looked up once: a single vector waits for it

#: Beyond this, squares of distances leave the range of float32.
MAX_NORM = 1e18
#: Below this, they do so at the other end: vectors that float32 can tell apart would have a distance of zero. Down to
#: here all that is lost in squares is less than what float32 cannot tell apart, for every dimension that is taken.
MIN_NORM = 1e-12


def as_vectors(
    vectors: npt.ArrayLike, dim: int, *, name: str = "vectors", nonzero: bool = False, smallest: float = MIN_NORM
) -> F32:
    """Check and convert; `nonzero` refuses vectors without a direction, as the cosine metric must.

    A norm that is below `smallest` and not zero is refused. Who takes no distances of vectors may take any.

    >>> as_vectors([1, 2, 3], 3)
    array([[1., 2., 3.]], dtype=float32)
    """
    # What needs no conversion, nearly everything: a single vector should not wait for questions about the rest.
    if type(vectors) is _ARRAY:
        rows = vectors[None] if vectors.ndim == 1 else vectors
        if core.passes(rows, dim, max(smallest, _ABOVE_ZERO if nonzero else 0.0), MAX_NORM):
            return rows
    return _check(vectors, dim, name, nonzero, smallest)[0]


@contextmanager
def passing_vectors(vectors: npt.ArrayLike, dim: int, *, nonzero: bool = False) -> Iterator[F32]:
    """The same for vectors that are on their way into an index: a copy that had to be made is wiped afterwards."""
    x, ours = _check(vectors, dim, "vectors", nonzero, MIN_NORM)
    try:
        yield x
    finally:
        if ours:
            x.fill(0)


def _check(vectors: npt.ArrayLike, dim: int, name: str, nonzero: bool, smallest: float) -> tuple[F32, bool]:
    """The checked array, and whether it is a copy that nobody else has."""
    if type(vectors) is _ARRAY and core.passes(vectors, dim, max(smallest, _ABOVE_ZERO), MAX_NORM):
        return vectors, False
    array, fresh = (vectors, False) if type(vectors) is np.ndarray else _as_array(vectors, name)
    if array.dtype == object and array.ndim == 1 and len(array):  # a column of vectors, as data frames have them
        array, fresh = stacked(array, name)
    if array.dtype.kind not in "fiu":
        raise VectorError(f"{name}: expected real numbers (float or int), got dtype {array.dtype}")
    if array.ndim == 1 and array.shape[0] == dim:
        array = array[None, :]
    if array.ndim != 2 or array.shape[1] != dim:
        raise VectorError(f"{name}: expected shape (n, {dim}) or ({dim},), got {array.shape}")
    if array.shape[0] == 0:
        raise VectorError(f"{name}: expected at least one vector, got shape {array.shape}")
    converted, ours = array, fresh
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        # Conversion may overflow to infinity; the check below then names the value as it came.
        with np.errstate(over="ignore", invalid="ignore"):
            converted, ours = np.array(array, dtype=np.float32, order="C"), True
    try:
        _refuse_sizes(converted, array, name, nonzero, smallest)
    except VectorError:
        if ours:
            converted.fill(0)
        raise
    finally:
        if fresh and converted is not array:
            array.fill(0)
    return converted, ours


def _refuse_sizes(converted: F32, array: npt.NDArray[Any], name: str, nonzero: bool, smallest: float) -> None:
    least, largest = core.norm_range(converted)
    # Not "largest > MAX_NORM": NaN must not pass.
    if not largest <= MAX_NORM:
        _refuse_large(converted, array, name)
    if least < smallest:
        _refuse_small(converted, array, name, smallest)
    if nonzero and least == 0.0:
        zero = ~converted.any(axis=1)
        raise VectorError(
            f"{name}: expected nonzero vectors (cosine needs a direction), got {int(zero.sum())} zero, "
            f"the first in row {int(zero.argmax())}"
        )


def _refuse_small(converted: F32, original: npt.NDArray[Any], name: str, smallest: float) -> None:
    """Refuse vectors that are too short, but not those that are zero; what only float32 takes for zero is too short."""
    norms = np.empty(len(converted))
    core.norms(converted, norms)
    short = (norms < smallest) & original.any(axis=1)
    if short.any():
        row = int(short.argmax())
        norm = float(np.sqrt(np.square(original[row], dtype=np.longdouble).sum()))
        raise VectorError(
            f"{name}: expected norms of at least {smallest:g}, or zero, since float32 cannot hold the squares of "
            f"smaller ones, got {int(short.sum())} below, the first in row {row}: {norm:.3g}; "
            "multiply all vectors by one number"
        )


def _as_array(vectors: npt.ArrayLike, name: str) -> Read:
    """As an array; what is made of lists is new, of anything else with an array inside it may be that array."""
    rows = vectors if isinstance(vectors, list | tuple) else ()
    if np.ma.is_masked(vectors) or any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in rows):
        raise VectorError(f"{name}: expected numbers everywhere, got a masked array with masked entries")
    if not isinstance(vectors, list | tuple | np.ndarray):
        read = as_array(vectors, name)
        if read is not None:
            return read
    try:
        return Read(np.asarray(vectors), isinstance(vectors, list | tuple))
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
