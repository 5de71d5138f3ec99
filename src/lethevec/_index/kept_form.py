"""The forms in which vectors are kept: as they came, or smaller.

A small form is no property of memory alone: a vector is rounded to it before anything is made from it, and the rounded
one is the record. See `reference.kept_form` for the forms, `native/rows/vector_form.h` for the core's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from .._native import core, resolve_threads
from .._shown import shown
from .._vectors import F32, MAX_NORM, MIN_NORM
from ..errors import ParameterError, VectorError

__all__ = ["SMALL_FORMS", "KeptForm", "as_kept_form"]

#: By their names in `keep_vectors`.
SMALL_FORMS = ("float16", "int8")
_LARGEST = float(np.finfo(np.float16).max)


def as_kept_form(given: object) -> bool | str:
    """The argument `keep_vectors`: True, False, or the name of a small form.

    >>> as_kept_form("int8"), as_kept_form(True)
    ('int8', True)
    """
    if isinstance(given, bool) or (isinstance(given, str) and given in SMALL_FORMS):
        return given
    names = ", ".join(map(repr, SMALL_FORMS))
    raise ParameterError(f"keep_vectors: expected True, False or one of {names}, got {shown(given)}")


class KeptForm:
    """How an index keeps its vectors. `name` is "none", "float32", "float16" or "int8"."""

    def __init__(self, keep_vectors: bool | str, metric: str) -> None:
        """What the argument of this name says."""
        self.small = isinstance(keep_vectors, str)
        self.name = keep_vectors if isinstance(keep_vectors, str) else "float32" if keep_vectors else "none"
        self._cosine = metric == "cosine"

    def row_bytes(self, dim: int) -> int:
        """Bytes of a vector."""
        return {"none": 0, "float32": 4 * dim, "float16": 2 * dim, "int8": 4 + dim}[self.name]

    @contextmanager
    def rounding(self, x: F32) -> Iterator[F32]:
        """Checked vectors as the form can hold them; a copy that had to be made is wiped afterwards."""
        if not self.small:
            yield x
            return
        made = np.empty_like(x)
        try:
            core.round_vectors(x, self.name, made, resolve_threads(None, len(x)))
            self._refuse_lost(x, made)
            yield made
        finally:
            made.fill(0)

    def check(self, x: F32) -> None:
        """Refuse vectors of which the form cannot hold enough."""
        with self.rounding(x):
            pass

    def pack(self, vectors: F32) -> npt.NDArray[np.uint8]:
        """The bytes of vectors that have been rounded."""
        packed = np.empty((len(vectors), self.row_bytes(vectors.shape[1])), dtype=np.uint8)
        if len(vectors):
            core.pack_vectors(vectors, self.name, packed)
        return packed

    def unpack(self, packed: npt.NDArray[np.uint8], dim: int) -> F32:
        """The vectors of such bytes, whatever they are."""
        vectors = np.empty((len(packed), dim), dtype=np.float32)
        if len(packed):
            core.unpack_vectors(packed, self.name, vectors)
        return vectors

    def _refuse_lost(self, x: F32, made: F32) -> None:
        least, largest = core.norm_range(made)
        if not largest <= MAX_NORM:
            self._refuse_large(x, made)
        if least >= MIN_NORM:
            return
        norms = np.empty(len(made))
        core.norms(made, norms)
        short = (norms < MIN_NORM) & ((norms > 0) | self._cosine)  # where zero is a vector, rounding may come to it
        if short.any():
            row = int(short.argmax())
            raise VectorError(
                f"vectors: keep_vectors={self.name!r} expected vectors of which rounding leaves a norm of at least "
                f"{MIN_NORM:g}, got {int(short.sum())} others, the first in row {row}; multiply all vectors by one "
                "number"
            )

    def _refuse_large(self, x: F32, made: F32) -> NoReturn:
        beyond = ~np.isfinite(made)
        if beyond.any():
            row, column = (int(i) for i in np.argwhere(beyond)[0])
            raise VectorError(
                f"vectors: keep_vectors={self.name!r} expected numbers up to {_LARGEST:g} in size, got "
                f"{int(beyond.sum())} beyond, the first at row {row}, column {column}: {x[row, column]:g}; multiply "
                "all vectors by one number, or keep_vectors='int8'"
            )
        raise VectorError(f"vectors: expected norms up to {MAX_NORM:g} after rounding to {self.name}, got a larger one")
