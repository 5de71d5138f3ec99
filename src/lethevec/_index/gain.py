"""The gain of USR codes as a function of the records alone.

The paper's alpha needs the mean norm of the data. A running mean would remember what has been forgotten, in its
rounding and in the codes of others. Here norms are counted, in whole numbers, in fine buckets: a bucket is a float32's
exponent and the first bits of its fraction. The mean is read off the counts and rounded to a grid of ratio
2^(1/4), so it seldom moves; when it does, every code is made again.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .._native import core
from .._progress import Progress
from .._vectors import F32
from ..reference.constants import GAIN_LOWEST_STEP, GAIN_STEPS_PER_OCTAVE, NORM_FRACTION_BITS
from .config import Config
from .encoders import native_encoder

_SHIFT = 23 - NORM_FRACTION_BITS  # a float32 has 23 bits of fraction


class NormCounts:
    """How many records have a norm in each bucket. Adding and subtracting are exact."""

    def __init__(self) -> None:
        """No records."""
        self._counts: dict[int, int] = {}

    def add(self, norms: npt.NDArray[np.float32], sign: int = 1) -> None:
        """Count norms in, or with sign -1 out."""
        buckets, numbers = np.unique(norms.view(np.uint32) >> np.uint32(_SHIFT), return_counts=True)
        for bucket, number in zip(buckets.tolist(), numbers.tolist(), strict=True):
            left = self._counts.get(bucket, 0) + sign * number
            if left:
                self._counts[bucket] = left
            else:
                del self._counts[bucket]

    def copy(self) -> NormCounts:
        """An independent copy: what a change is tried on."""
        other = NormCounts()
        other._counts = dict(self._counts)
        return other

    def mean_norm(self) -> float:
        """The mean norm, on the grid; 1.0 when there is no record with a norm above zero.

        >>> counts = NormCounts()
        >>> counts.add(np.full(10, 5.0, dtype=np.float32))
        >>> counts.mean_norm() == 2 ** 2.25
        True
        """
        total = sum(self._counts.values())
        weighted = math.fsum(number * _middle(bucket) for bucket, number in self._counts.items())
        if total == 0 or weighted == 0.0:
            return 1.0
        step = round(math.log2(weighted / total) * GAIN_STEPS_PER_OCTAVE)
        return float(2.0 ** (max(step, GAIN_LOWEST_STEP) / GAIN_STEPS_PER_OCTAVE))


def _middle(bucket: int) -> float:
    """The middle of a bucket; of the first, which holds zero, zero."""
    if bucket == 0:
        return 0.0
    edges = np.array([bucket << _SHIFT, (bucket + 1) << _SHIFT], dtype=np.uint32).view(np.float32).astype(np.float64)
    return float(edges.sum() / 2)


def norms_of(x: F32) -> F32:
    """The norms of vectors as records have them."""
    norms = np.empty(len(x))
    core.norms(x, norms)
    return norms.astype(np.float32)


class Gain:
    """The mean norm that the codes of an index are made with.

    It follows the records where `follows` is true (usr codes under `l2` and `ip`), and is 1.0 for all others. `counts`
    is how their norms are counted now.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self.counts = NormCounts()
        self.follows = config.gain_follows
        self.mean_norm = 1.0

    def encoder(self) -> core.Encoder:
        """What makes codes with this gain."""
        return native_encoder(self._config.hasher(self.mean_norm), self._config.metric)

    def after(self, *, entering: F32 | None = None, leaving: F32 | None = None) -> NormCounts:
        """How norms would be counted if these vectors came and those went."""
        counts = self.counts.copy()
        for x, sign in ((entering, 1), (leaving, -1)):
            if x is not None:
                counts.add(norms_of(x), sign)
        return counts

    def count(self, counts: NormCounts, native: core.Index, threads: int) -> bool:
        """From now on norms are counted like this; all codes are made again if the mean has moved. Whether it has.

        If that cannot be done, or is interrupted, nothing has changed.
        """
        moved = self.follows and self._set_mean(counts.mean_norm(), native, threads)
        self.counts = counts
        return moved

    def count_without_following(self, x: F32) -> None:
        """Count vectors that have come, and leave the mean where it is until `catch_up`."""
        if self.follows:
            self.counts = self.after(entering=x)

    def catch_up(self, native: core.Index, threads: int) -> bool:
        """Let the mean follow what was counted without; whether it has moved."""
        return self.count(self.counts, native, threads)

    def guess_mean(self, mean_norm: float, native: core.Index) -> None:
        """Begin with this mean norm, in an index without records."""
        self._set_mean(mean_norm, native, 1)

    def _set_mean(self, mean_norm: float, native: core.Index, threads: int) -> bool:
        """Make all codes again for this mean norm, if it is another one; whether it is. All of them or none."""
        if mean_norm == self.mean_norm:
            return False
        encoder = native_encoder(self._config.hasher(mean_norm), self._config.metric)
        with Progress(len(native), "re-encoding for a new mean norm", unit="vectors") as progress:
            native.reencode(encoder, threads, progress.advance)
        self.mean_norm = mean_norm
        return True
