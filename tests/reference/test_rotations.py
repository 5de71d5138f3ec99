"""The rotations are orthogonal, chained, and W W^T = I. That they are random enough is for test_rotation_law.py."""

from __future__ import annotations

import numpy as np
import pytest

from lethevec import reference
from lethevec.reference import rotations

DIMS = (1, 2, 3, 25, 96, 100, 127, 128, 129, 384, 784, 1536)
DENSE_DIMS = tuple(d for d in DIMS if d <= 384)
CASES = [("hadamard", d) for d in (*DIMS, 4095, 4096)] + [
    (rotation, d) for rotation in ("svd", "gram-schmidt") for d in DENSE_DIMS
]


def identity_error(matrix):
    return np.abs(matrix - np.eye(len(matrix))).max()


def matrix_of(frame, i):
    """R_i, (d, d): row k is R_i^T e_k."""
    return reference.analysis(frame, np.eye(frame.d, dtype=np.float32))[:, i * frame.d : (i + 1) * frame.d]


@pytest.mark.parametrize(("rotation", "d"), CASES)
def test_w_wt_is_the_identity(rotation, d):
    """Of all rows of W, or where it is large of a few: first, last and some between."""
    m = 3 if d <= 384 else 2
    rows = np.unique(np.linspace(0, d - 1, min(d, 200)).astype(int))
    some = np.zeros((len(rows), d), dtype=np.float32)
    some[np.arange(len(rows)), rows] = 1
    W = reference.analysis(reference.make_frame(d, m, 5, rotation), some) / np.sqrt(m)
    assert W.shape == (len(rows), m * d)
    assert identity_error(W.astype(np.float64) @ W.astype(np.float64).T) < 4e-6


@pytest.mark.parametrize(("rotation", "d"), [c for c in CASES if c[1] <= 384])
def test_every_block_is_orthonormal(rotation, d):
    """Super-Bit's blocks: columns of length 1, at right angles, in each R_i by itself."""
    frame = reference.make_frame(d, 4, 6, rotation)
    for i in range(4):
        R = matrix_of(frame, i).astype(np.float64)
        assert identity_error(R.T @ R) < 4e-6


@pytest.mark.parametrize("rotation", ["hadamard", "svd", "gram-schmidt"])
@pytest.mark.parametrize("d", [1, 3, 100, 128, 129])
def test_backward_undoes_forward(rotation, d):
    frame = reference.make_frame(d, 3, 7, rotation)
    x = np.random.default_rng(d).normal(size=(4, d)).astype(np.float32)
    for i in range(3):
        np.testing.assert_allclose(frame.backward(frame.forward(x, i), i), x, atol=2e-5)
        np.testing.assert_allclose(frame.forward(frame.backward(x, i), i), x, atol=2e-5)


@pytest.mark.parametrize("rotation", ["hadamard", "svd", "gram-schmidt"])
@pytest.mark.parametrize("d", [1, 3, 25, 128])
def test_rotations_are_chained(rotation, d):
    """R_i = S_0 S_1 ... S_i: the product of the matrices of the steps."""
    frame = reference.make_frame(d, 3, 8, rotation)
    product = np.eye(d)
    for i in range(3):
        step_t = frame.forward(np.eye(d, dtype=np.float32), i).astype(np.float64)  # rows e_k -> S_i^T e_k: this is S_i
        product = product @ step_t
        np.testing.assert_allclose(matrix_of(frame, i), product, atol=1e-5)


@pytest.mark.parametrize("rotation", ["hadamard", "svd"])
def test_analysis_and_synthesis_are_transposes(rotation):
    frame = reference.make_frame(100, 4, 9, rotation)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(1, n)).astype(np.float32) for n in (100, 400))
    assert float(reference.analysis(frame, x)[0] @ y[0]) == pytest.approx(
        float(reference.synthesis(frame, y)[0] @ x[0]), abs=1e-3
    )
    np.testing.assert_allclose(reference.synthesis(frame, reference.analysis(frame, x)) / 4, x, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 32])
def test_fwht_is_the_walsh_hadamard_matrix(size):
    """Entry (i, j) is -1 to the number of bits that i and j share."""
    H = np.array([[(-1.0) ** bin(i & j).count("1") for j in range(size)] for i in range(size)])
    np.testing.assert_array_equal(reference.fwht(np.eye(size, dtype=np.float32)), H)


@pytest.mark.parametrize(("d", "p"), [(2, 2), (3, 2), (5, 4), (16, 16), (25, 16), (30, 16), (31, 16)])
def test_the_round_by_its_definition(d, p):
    """As matrices in double precision: signs and H/sqrt(p) on the first p coordinates; if these are not all, then other
    signs and H/sqrt(p) on the last p, then a butterfly between the halves."""
    sign = reference.signs(1, 2, 2 * d).reshape(2, d)
    H = reference.fwht(np.eye(p, dtype=np.float32)).astype(np.float64) / np.sqrt(p)
    first, last, cross = np.eye(d), np.eye(d), np.eye(d)
    first[:p, :p] = np.diag(sign[0, :p]) @ H
    if p < d:
        last[d - p :, d - p :] = np.diag(sign[1, d - p :]) @ H
        for j in range(d // 2):
            k = d - d // 2 + j
            cross[np.ix_([j, k], [j, k])] = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    x = np.random.default_rng(3).normal(size=(5, d)).astype(np.float32)
    whole = first @ last @ cross
    np.testing.assert_allclose(rotations.round_forward(x, sign), x @ whole, atol=1e-5)
    np.testing.assert_allclose(rotations.round_backward(x, sign), x @ whole.T, atol=1e-5)


def test_every_round_has_its_own_signs():
    """Two streams for each: m + 2 rounds, each with signs for the first transform and for the second."""
    sign = reference.make_frame(129, 3, 11, "hadamard").sign
    assert sign.shape == (5, 2, 129)
    drawn = np.stack([reference.signs(11, stream, 129) for stream in range(10)])
    np.testing.assert_array_equal(sign.reshape(10, 129), drawn)


@pytest.mark.parametrize(("d", "p"), [(1, 1), (2, 2), (3, 2), (4, 4), (127, 64), (128, 128), (129, 128), (4095, 2048)])
def test_power_below(d, p):
    assert rotations.power_below(d) == p


def test_a_frame_begins_with_the_frame_of_fewer_rotations():
    """So a longer code begins with the shorter one of the same seed."""
    x = np.random.default_rng(1).normal(size=(3, 100)).astype(np.float32)
    for rotation in ("hadamard", "svd"):
        short, long = (reference.analysis(reference.make_frame(100, m, 4, rotation), x) for m in (2, 5))
        np.testing.assert_array_equal(long[:, :200], short)


@pytest.mark.parametrize("rotation", ["hadamard", "svd", "gram-schmidt"])
def test_the_seed_decides(rotation):
    x = np.random.default_rng(2).normal(size=(1, 25)).astype(np.float32)
    a, again, b = (reference.analysis(reference.make_frame(25, 2, s, rotation), x) for s in (100, 100, 101))
    np.testing.assert_array_equal(a, again)
    assert (np.abs(a - b) > 1e-3).mean() > 0.9


def test_svd_rotation_is_the_polar_factor():
    """G = R P with P symmetric and positive: R is the orthogonal matrix nearest to G."""
    G = reference.gaussians(1, 1, 400).reshape(20, 20)
    R = reference.svd_rotation(G)
    P = R.T @ G
    np.testing.assert_allclose(P, P.T, atol=1e-10)
    assert np.linalg.eigvalsh((P + P.T) / 2).min() > 0


def test_gram_schmidt_keeps_the_flag():
    """G = Q R with R upper triangular and a positive diagonal: column j lies in the span of the first j of G."""
    G = reference.gaussians(1, 2, 900).reshape(30, 30)
    Q = reference.gram_schmidt(G)
    R = Q.T @ G
    np.testing.assert_allclose(np.tril(R, -1), 0, atol=1e-10)
    assert np.diag(R).min() > 0


def test_matmul_adds_in_the_order_of_the_rows():
    x, matrix = (np.random.default_rng(i).normal(size=(9, 9)).astype(np.float32) for i in (1, 2))
    expected = np.zeros((9, 9), dtype=np.float32)
    for i in range(9):
        for j in range(9):
            total = x[i, 0] * matrix[0, j]
            for k in range(1, 9):
                total = np.float32(total + np.float32(x[i, k] * matrix[k, j]))
            expected[i, j] = total
    np.testing.assert_array_equal(rotations.matmul(x, matrix), expected)
