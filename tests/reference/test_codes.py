"""Packing, Hamming distance and asymmetric scores, against loops that nobody can misread."""

from __future__ import annotations

import numpy as np
import pytest

from lethevec import reference

BITS = (1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, 200)


def random_values(n, bits, seed=0):
    values = np.random.default_rng([seed, n, bits]).normal(size=(n, bits)).astype(np.float32)
    values[0, 0] = 0.0
    values[-1, -1] = -0.0
    return values


def naive_pack(values):
    n, bits = values.shape
    codes = np.zeros((n, (bits + 7) // 8), dtype=np.uint8)
    for i in range(n):
        for j in range(bits):
            if values[i, j] >= 0:
                codes[i, j // 8] |= 1 << (j % 8)
    return codes


def naive_bit(codes, i, j):
    return int(codes[i, j // 8]) >> (j % 8) & 1


@pytest.mark.parametrize("bits", BITS)
def test_pack(bits):
    values = random_values(5, bits)
    codes = reference.pack(values)
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, naive_pack(values))


def test_zero_of_either_sign_is_plus_one():
    codes = reference.pack(np.array([[0.0, -0.0, -1e-45, 1e-45]], dtype=np.float32))
    assert codes.tolist() == [[0b1011]]


def test_bits_past_the_end_are_zero():
    assert reference.pack(np.ones((1, 9), dtype=np.float32)).tolist() == [[255, 1]]


@pytest.mark.parametrize("bits", BITS)
def test_unpack(bits):
    codes = reference.pack(random_values(4, bits))
    b = reference.unpack(codes, bits)
    assert b.dtype == np.float32
    assert b.tolist() == [[1.0 if naive_bit(codes, i, j) else -1.0 for j in range(bits)] for i in range(4)]
    np.testing.assert_array_equal(reference.pack(b), codes)


@pytest.mark.parametrize("bits", BITS)
def test_hamming(bits):
    a, b = reference.pack(random_values(3, bits, 1)), reference.pack(random_values(4, bits, 2))
    expected = [
        [sum(naive_bit(a, i, k) != naive_bit(b, j, k) for k in range(bits)) for j in range(4)] for i in range(3)
    ]
    assert reference.hamming(a, b).tolist() == expected
    np.testing.assert_array_equal(np.diag(reference.hamming(a, a)), 0)


@pytest.mark.parametrize("bits", BITS)
def test_asymmetric(bits):
    weights, codes = random_values(3, bits, 3), reference.pack(random_values(4, bits, 4))
    expected = [
        [sum(float(weights[i, k]) * (1 if naive_bit(codes, j, k) else -1) for k in range(bits)) for j in range(4)]
        for i in range(3)
    ]
    np.testing.assert_allclose(reference.asymmetric(weights, codes), expected, rtol=1e-12, atol=1e-12)


def test_asymmetric_of_signs_is_hamming():
    """With both sides quantised the score is bits - 2 * distance: the two rankings agree where they meet."""
    a, b = reference.pack(random_values(6, 100, 5)), reference.pack(random_values(7, 100, 6))
    np.testing.assert_array_equal(reference.asymmetric(reference.unpack(a, 100), b), 100 - 2 * reference.hamming(a, b))
