"""The hash families as objects: tables drawn by the spec, work done by the native core.

Each is a pure function of its parameters and the vector: the same values and codes alone or in a batch, on any number
of threads, with any instruction set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from .. import reference
from .._native import core, resolve_threads
from ..errors import ParameterError, UnsupportedError, VectorError
from ..vectors import MAX_NORM, as_vectors

F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]

Encode = Callable[[F32, F32 | None, U8 | None, int], None]
Alone = Callable[[object], object]

_UINT8 = np.dtype(np.uint8)  # looked up once: a single vector waits for it
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
        x = as_vectors(vectors, self._dim)
        values = np.empty((len(x), self._bits), dtype=np.float32)
        self._encode(x, values, None, resolve_threads(threads, len(x)))
        return values

    def codes(self, vectors: npt.ArrayLike, *, threads: int | None = None) -> U8:
        """The packed codes, (n, ceil(bits/8)) uint8: bit j is bit j % 8 of byte j // 8, 1 where the value is >= 0."""
        # A single vector takes less time to encode than to hand over in several calls. What this one refuses goes on.
        if threads is None or (type(threads) is int and threads == 1):
            alone: U8 | None = self._alone(vectors)  # type: ignore[assignment]
            if alone is not None:
                return alone
        x = as_vectors(vectors, self._dim)
        n = len(x)
        codes: U8 = _empty((n, self._code_bytes), _UINT8)
        self._encode(x, None, codes, resolve_threads(threads, n))
        return codes

    def reconstruct(self, codes: npt.ArrayLike, *, threads: int | None = None) -> F32:
        """The vectors that codes stand for, (n, dim): of their directions, or for `usr` of the vectors themselves."""
        raise UnsupportedError(f"{self.family}: its codes have no reconstruction; superbit, usr and progressive do")

    @property
    @abstractmethod
    def _encode(self) -> Encode:
        """The native call, with all that does not depend on the vectors given to it once."""

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


class SimHash(Hasher):
    """sign(W x) for a Gaussian W (Charikar)."""

    family = "simhash"

    @cached_property
    def matrix(self) -> F32:
        """W, (dim, bits)."""
        return reference.gaussian_matrix(self._dim, self._bits, self._seed)

    @cached_property
    def native_projection(self) -> core.Projection:
        """W in the form that the kernels read."""
        return core.Projection(self.matrix)

    @cached_property
    def _encode(self) -> Encode:
        return partial(core.project, self.native_projection)

    @cached_property
    def _alone(self) -> Alone:
        return partial(core.project_alone, self.native_projection, MAX_NORM)


class _FrameHasher(Hasher):
    """A family over a frame of rotations."""

    @property
    def expansion(self) -> int:
        """m: how many rotations."""
        return -(-self._bits // self._dim)

    @cached_property
    def _spec_frame(self) -> reference.HadamardFrame | reference.DenseFrame:
        rotation = self._parameters["rotation"]
        return reference.make_frame(self._dim, self.expansion, self._seed, rotation)  # type: ignore[arg-type]

    @cached_property
    def native_frame(self) -> core.Frame:
        """The rotations in the form that the kernels read."""
        spec = self._spec_frame
        return core.Frame.hadamard(spec.sign) if isinstance(spec, reference.HadamardFrame) else core.Frame.dense(spec.S)

    @property
    def frame(self) -> F32:
        """W without its 1/sqrt(m), as a (dim, bits) matrix: R_i side by side, made on each call."""
        identity = np.eye(self._dim, dtype=np.float32)
        return np.ascontiguousarray(reference.analysis(self._spec_frame, identity)[:, : self._bits])

    def _decode(self, codes: npt.ArrayLike, weights: F32, scale: float, threads: int | None) -> F32:
        checked = self._checked_codes(codes)
        x = np.empty((len(checked), self._dim), dtype=np.float32)
        core.decode(self.native_frame, weights, scale, checked, x, resolve_threads(threads, len(x)))
        return x


class SuperBit(_FrameHasher):
    """The signs of stacked random rotations of x (Ji et al.); any number of bits, the last rotation cut."""

    family = "superbit"

    @cached_property
    def _encode(self) -> Encode:
        return partial(core.superbit, self.native_frame, self._bits)

    @cached_property
    def _alone(self) -> Alone:
        return partial(core.superbit_alone, self.native_frame, self._bits, MAX_NORM)

    def reconstruct(self, codes: npt.ArrayLike, *, threads: int | None = None) -> F32:
        """An estimate of x/|x|. Needs whole blocks: bits a multiple of dim."""
        if self._bits % self._dim:
            raise UnsupportedError(
                f"{self.family}: reconstruct expected bits to be a multiple of dim={self._dim}, got {self._bits}"
            )
        m = self.expansion
        return self._decode(codes, np.ones(m, dtype=np.float32), reference.superbit_scale(self._dim, m), threads)


class Usr(_FrameHasher):
    """The paper's hash: T unfolded steps of self-reconstruction (USR-LSH)."""

    family = "usr"

    @property
    def gain(self) -> float:
        """alpha."""
        return float(self._parameters["gain"])

    @property
    def steps(self) -> int:
        """T."""
        return int(self._parameters["steps"])

    @cached_property
    def _encode(self) -> Encode:
        return partial(core.usr, self.native_frame, self._entry_gain, self.steps)

    @cached_property
    def _alone(self) -> Alone:
        return partial(core.usr_alone, self.native_frame, self._entry_gain, self.steps, MAX_NORM)

    @property
    def _entry_gain(self) -> float:
        return float(np.float32(self.gain / np.sqrt(self.expansion)))

    def reconstruct(self, codes: npt.ArrayLike, *, threads: int | None = None) -> F32:
        """An estimate of x."""
        m = self.expansion
        return self._decode(codes, np.ones(m, dtype=np.float32), reference.usr_scale(m, self.gain), threads)


class Progressive(_FrameHasher):
    """Bit-planes of falling weight, each the signs of what the planes before left over. Codes the direction of x."""

    family = "progressive"

    @property
    def sweeps(self) -> int:
        """Passes of block descent after the first."""
        return int(self._parameters["sweeps"])

    @cached_property
    def weights(self) -> F32:
        """c_i: the weight of each plane."""
        return reference.plane_weights(self._dim, self.expansion)

    @cached_property
    def _encode(self) -> Encode:
        return partial(core.progressive, self.native_frame, self.weights, self.sweeps)

    @cached_property
    def _alone(self) -> Alone:
        return partial(core.progressive_alone, self.native_frame, self.weights, self.sweeps, MAX_NORM)

    def reconstruct(self, codes: npt.ArrayLike, *, threads: int | None = None) -> F32:
        """An estimate of x/|x|."""
        return self._decode(codes, self.weights, 1.0, threads)


class _ByFaissRule(Hasher):
    """Shared by the two classes below, which differ from their parents in name only."""

    family = "faiss-lsh"


class FaissLshShort(_ByFaissRule, SimHash):
    """The paper's account of Faiss's LSH, bits < dim: simHash."""


class FaissLshLong(_ByFaissRule, SuperBit):
    """The paper's account of Faiss's LSH, bits >= dim: Super-Bit."""


def refuse_unknown(family: str, params: dict[str, object]) -> None:
    """Parameters that a family does not have."""
    if params:
        raise ParameterError(f"{family}: unexpected parameter {', '.join(sorted(params))}")
