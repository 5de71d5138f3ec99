"""The hash families as objects: the spec draws their tables, the native core does the work.

Each is a pure function of its parameters and the vector. It gives the same values and codes for a vector alone or in a
batch, on any number of threads, with any instruction set.
"""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from .. import reference
from .._native import core, resolve_threads
from .._vectors import MAX_NORM
from ..errors import UnsupportedError
from .base import F32, Alone, Encode, Hasher


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


class FrameHasher(Hasher):
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


class SuperBit(FrameHasher):
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


class Usr(FrameHasher):
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
        return partial(core.usr, self.native_frame, self.entry_gain, self.steps)

    @cached_property
    def _alone(self) -> Alone:
        return partial(core.usr_alone, self.native_frame, self.entry_gain, self.steps, MAX_NORM)

    @property
    def entry_gain(self) -> float:
        """alpha/sqrt(m), as the kernels multiply by it."""
        return float(np.float32(self.gain / np.sqrt(self.expansion)))

    def reconstruct(self, codes: npt.ArrayLike, *, threads: int | None = None) -> F32:
        """An estimate of x."""
        m = self.expansion
        return self._decode(codes, np.ones(m, dtype=np.float32), reference.usr_scale(m, self.gain), threads)


class Progressive(FrameHasher):
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
    """What the two classes below differ from their parents in: the name."""

    family = "faiss-lsh"


class FaissLshShort(_ByFaissRule, SimHash):
    """The paper's account of Faiss's LSH, bits < dim: simHash."""


class FaissLshLong(_ByFaissRule, SuperBit):
    """The paper's account of Faiss's LSH, bits >= dim: Super-Bit."""
