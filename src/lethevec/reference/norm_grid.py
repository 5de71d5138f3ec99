"""The gain of USR codes under l2 and ip, as a function of the records alone.

The paper's alpha (eq. 11) needs the mean norm of the data. The exact mean would move with every record, and all codes
with it. So norms are counted in fine buckets, the mean is read off the counts, and it is rounded to a coarse grid.
"""

from __future__ import annotations

import math

import numpy as np

from .constants import GAIN_LOWEST_STEP, GAIN_STEPS_PER_OCTAVE, NORM_FRACTION_BITS
from .vectors import F32, F64

_SHIFT = 23 - NORM_FRACTION_BITS  # a float32 has 23 bits of fraction


def mean_norm(norms: F32) -> float:
    """The mean of norms (n,), on the grid; 1.0 when none is above zero.

    >>> mean_norm(np.full(10, 5.0, dtype=np.float32)) == 2 ** 2.25
    True
    >>> mean_norm(np.zeros(3, dtype=np.float32))
    1.0
    """
    total = math.fsum(bucket_middles(norms).tolist())
    if total == 0.0:
        return 1.0
    step = round(math.log2(total / len(norms)) * GAIN_STEPS_PER_OCTAVE)
    return float(2.0 ** (max(step, GAIN_LOWEST_STEP) / GAIN_STEPS_PER_OCTAVE))


def bucket_middles(norms: F32) -> F64:
    """The middle of the bucket of each norm: of all float32 with its exponent and its first bits of fraction.

    The first bucket, which holds zero, counts as zero.

    >>> bucket_middles(np.float32([1.0, 1.015, 0.0])).tolist()
    [1.0078125, 1.0078125, 0.0]
    """
    bucket = np.ascontiguousarray(norms).view(np.uint32) >> np.uint32(_SHIFT)
    low, high = ((bucket + np.uint32(i)) << np.uint32(_SHIFT) for i in (0, 1))
    middle = (low.view(np.float32).astype(np.float64) + high.view(np.float32).astype(np.float64)) / 2
    return np.where(bucket == 0, 0.0, middle)
