"""The tanh of the spec and of every instruction set: how far from the true one, and that they are the same."""

from __future__ import annotations

import numpy as np
import pytest

from lethevec import reference
from lethevec._native import core


def sweep():
    """Every magnitude that matters, both signs, and the edges of the clamp."""
    dense = np.linspace(-9, 9, 1_500_001).astype(np.float32)
    tiny = (10.0 ** np.linspace(-45, 1, 20_001)).astype(np.float32)
    limit = np.float32(7)
    edges = [0.0, -0.0, limit, np.nextafter(limit, np.float32(8)), np.nextafter(limit, np.float32(0)), 3e38, 1e-45]
    edges = np.array(edges, dtype=np.float32)
    return np.concatenate([dense, tiny, -tiny, edges, -edges])


def native_tanh(x):
    out = np.empty_like(x)
    core.testing.activate(x, out)
    return out


def worst(y, x):
    return float(np.abs(y.astype(np.float64) - np.tanh(x.astype(np.float64))).max())


def test_the_spec_keeps_its_stated_error():
    x = sweep()
    error = worst(reference.tanh(x), x)
    assert error <= reference.TANH_ERROR
    # And the statement is not an empty one: the error is most of what is allowed.
    assert error > reference.TANH_ERROR / 2


def test_native_keeps_the_stated_error(isa):
    x = sweep()
    assert worst(native_tanh(x), x) <= reference.TANH_ERROR


def test_native_equals_the_spec(isa):
    x = sweep()
    np.testing.assert_array_equal(native_tanh(x).view(np.uint32), reference.tanh(x).view(np.uint32))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33])
def test_native_tails(isa, n):
    x = np.linspace(-8, 8, n, dtype=np.float32)
    np.testing.assert_array_equal(native_tanh(x).view(np.uint32), reference.tanh(x).view(np.uint32))


def test_it_is_odd_and_strictly_inside():
    x = sweep()
    y = reference.tanh(x)
    assert np.abs(y).max() < 1
    np.testing.assert_array_equal(reference.tanh(-x).view(np.uint32), (-y).view(np.uint32))


def test_it_keeps_the_sign():
    """The code is the sign of the last tanh, so no value may lose its sign on the way, not even the smallest."""
    x = sweep()
    np.testing.assert_array_equal(np.sign(reference.tanh(x)), np.sign(x))
    np.testing.assert_array_equal(np.signbit(reference.tanh(x)), np.signbit(x))


def test_it_rises():
    """Up to its own error: a fitted quotient may wobble in the last bits, not more."""
    y = reference.tanh(np.linspace(-9, 9, 200_001).astype(np.float32)).astype(np.float64)
    assert np.diff(y).min() > -2 * reference.TANH_ERROR
