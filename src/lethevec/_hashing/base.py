"""`Hasher`: what all hash functions share. The families are in `families`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .._native import resolve_threads
from .._vectors import as_vectors
from ..errors import UnsupportedError, VectorError

F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]

#: The native call that encodes: vectors, then where values and codes go (or None), then the number of threads.
Encode = Callable[[F32, F32 | None, U8 | None, int], None]
#: The native call for a single vector: it gives a code, or None for anything that has to be converted or refused.
Alone = Callable[[object], object]

# Looked up once, because a single vector waits for it.
_UINT8 = np.dtype(np.uint8)
_empty = np.empty


class Hasher(ABC):
    """A hash function h: vectors (n, dim) to codes (n, ceil(bits/8)).

    Made by `lethevec.hasher`. Two are equal when they give the same codes: same family and parameters.
    """

    family: str

    def __init__(self, dim: int, bits: int, seed: int, **parameters: float | int | str) -> None:
        self._dim, self._bits, self._seed = dim, bits, seed
        self._code_bytes = (bits + 7) // 8
        self._parameters = parameters

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self._dim

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return self._bits

    @property
    def seed(self) -> int:
        """What the random tables were drawn from."""
        return self._seed

    @property
    def code_bytes(self) -> int:
        """Bytes of a packed code."""
        return self._code_bytes

    @property
    def parameters(self) -> dict[str, float | int | str]:
        """The family's own parameters."""
        return dict(self._parameters)

    def values(self, vectors: npt.ArrayLike, *, threads: int | None = None) -> F32:
        """The numbers whose signs are the code, (n, bits) float32."""
        x = as_vectors(vectors, self._dim, smallest=0.0)
        values = np.empty((len(x), self._bits), dtype=np.float32)
        self._encode(x, values, None, resolve_threads(threads, len(x)))
        return values

    def codes(self, vectors: npt.ArrayLike, *, threads: int | None = None) -> U8:
        """The packed codes, (n, ceil(bits/8)) uint8: bit j is bit j % 8 of byte j // 8, 1 where the value is >= 0."""
        # A single vector takes less time to encode than to pass through several calls, so this is one native call. It
        # gives None for what it cannot take, and that goes the longer way below.
        if threads is None or (type(threads) is int and threads == 1):
            alone: U8 | None = self._alone(vectors)  # type: ignore[assignment]
            if alone is not None:
                return alone
        x = as_vectors(vectors, self._dim, smallest=0.0)
        n = len(x)
        codes: U8 = _empty((n, self._code_bytes), _UINT8)
        self._encode(x, None, codes, resolve_threads(threads, n))
        return codes

    def reconstruct(self, codes: npt.ArrayLike, *, threads: int | None = None) -> F32:
        """What codes stand for, (n, dim): estimates of vectors for usr, of directions for superbit and progressive."""
        raise UnsupportedError(f"{self.family}: its codes have no reconstruction; superbit, usr and progressive do")

    @property
    @abstractmethod
    def _encode(self) -> Encode:
        """The native call, with everything that does not depend on the vectors already filled in."""

    @property
    @abstractmethod
    def _alone(self) -> Alone:
        """The same for the code of a single vector; it gives None for anything that has to be converted or refused."""

    def _checked_codes(self, codes: npt.ArrayLike) -> U8:
        try:
            array = np.asarray(codes)
        except (ValueError, TypeError) as error:
            raise VectorError(f"codes: expected rows of equal length, got what NumPy cannot read: {error}") from None
        if array.ndim == 1:
            array = array[None, :]
        if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != self.code_bytes or len(array) == 0:
            raise VectorError(
                f"codes: expected uint8 of shape (n, {self.code_bytes}) with n >= 1, got {array.dtype} of {array.shape}"
            )
        return np.ascontiguousarray(array)

    def _key(self) -> tuple[object, ...]:
        return self.family, self._dim, self._bits, self._seed, tuple(sorted(self._parameters.items()))

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Hasher) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        own = "".join(f", {name}={value!r}" for name, value in self._parameters.items())
        return f"hasher({self.family!r}, dim={self._dim}, bits={self._bits}, seed={self._seed}{own})"
