"""The gain of USR codes as a function of the records alone.

The paper's alpha needs the mean norm of the data. A running mean would remember what has been forgotten, in its
rounding and in the codes of others. Here norms are counted, in whole numbers, in fine buckets: a bucket is a float32's
exponent and the first six bits of its fraction. The mean is read off the counts and rounded to a grid of ratio
2^(1/4), so it seldom moves; when it does, every code is made anew.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

_FRACTION_BITS = 23
_KEPT_BITS = 6
_SHIFT = _FRACTION_BITS - _KEPT_BITS
STEPS_PER_OCTAVE = 4
#: Below 2^-59 the gain stops growing: float32 could not hold it.
LOWEST_STEP = -59 * STEPS_PER_OCTAVE


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
        step = round(math.log2(weighted / total) * STEPS_PER_OCTAVE)
        return float(2.0 ** (max(step, LOWEST_STEP) / STEPS_PER_OCTAVE))


def _middle(bucket: int) -> float:
    """The middle of a bucket; of the first, which holds zero, zero."""
    if bucket == 0:
        return 0.0
    edges = np.array([bucket << _SHIFT, (bucket + 1) << _SHIFT], dtype=np.uint32).view(np.float32).astype(np.float64)
    return float(edges.sum() / 2)
