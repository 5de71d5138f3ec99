"""A hasher of the public API as the encoder that the native index uses."""

from __future__ import annotations

from .._hashing import Hasher
from .._hashing.families import Progressive, SimHash, SuperBit, Usr
from .._native import core


def native_encoder(hasher: Hasher, metric: str) -> core.Encoder:
    """The same codes; USR under cosine is of directions, since its gain is for norm 1."""
    if isinstance(hasher, SimHash):
        return core.Encoder.simhash(hasher.native_projection)
    if isinstance(hasher, SuperBit):
        return core.Encoder.superbit(hasher.native_frame, hasher.bits)
    if isinstance(hasher, Progressive):
        return core.Encoder.progressive(hasher.native_frame, hasher.weights, hasher.sweeps)
    if isinstance(hasher, Usr):
        return core.Encoder.usr(hasher.native_frame, hasher.entry_gain, hasher.steps, metric == "cosine")
    raise TypeError(f"expected a hasher made by lethevec.hasher, got {hasher!r}")
