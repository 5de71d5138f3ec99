"""The mean norm that the gain of USR follows, against the sentence of the design that describes it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lethevec import reference
from lethevec.reference import constants


def by_the_sentence(norms):
    """Norms cut to six bits of fraction, the mean of the middles of their buckets, rounded on a grid of ratio 2^(1/4).

    Written from that sentence with logarithms, where the spec looks at the bits of a float32.
    """
    exponent = np.floor(np.log2(norms, out=np.zeros(len(norms)), where=norms > 0))
    width = 2.0**exponent / 64
    middles = np.where(norms > 0, (np.floor(norms / width) + 0.5) * width, 0.0)
    mean = math.fsum(middles.tolist()) / len(norms)
    return 2.0 ** (round(math.log2(mean) * 4) / 4) if mean > 0 else 1.0


@pytest.mark.parametrize("sizes", [[1.0], [0.0, 0.0, 3.0], [1e-30] * 3 + [1e15], [5.0] * 10, [1e-3, 1.0, 1e3], [0.0]])
def test_the_mean_is_what_the_design_says(sizes):
    norms = np.float32(sizes)
    assert reference.mean_norm(norms) == by_the_sentence(norms)


def test_random_norms():
    rng = np.random.default_rng(1)
    for _ in range(100):
        norms = rng.lognormal(sigma=rng.uniform(0, 10), size=rng.integers(1, 200)).astype(np.float32)
        assert reference.mean_norm(norms) == by_the_sentence(norms)
        # Half a step of the grid, and half a bucket.
        assert abs(np.log2(reference.mean_norm(norms) / norms.astype(np.float64).mean())) <= 0.125 + 0.012


def test_the_grid_ends():
    lowest = 2.0 ** (constants.GAIN_LOWEST_STEP / constants.GAIN_STEPS_PER_OCTAVE)
    assert reference.mean_norm(np.float32([1e-30, 1e-35])) == lowest
    assert reference.mean_norm(np.float32([])) == 1.0
