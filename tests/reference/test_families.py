"""The families against their equations, written out the long way in double precision; and the paper's claims."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec import reference
from lethevec.reference import constants


def frame_matrix(frame):
    """W of equation 5, (d, md), with its 1/sqrt(m)."""
    identity = np.eye(frame.d, dtype=np.float32)
    return reference.analysis(frame, identity).astype(np.float64) / np.sqrt(frame.m)


def units(n, d, seed=0):
    x = np.random.default_rng([seed, n, d]).normal(size=(n, d))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


# --- simHash and Super-Bit ---------------------------------------------------------------------------------------


def test_simhash_is_a_projection():
    x, W = units(6, 30), reference.gaussian_matrix(30, 70, 1)
    np.testing.assert_allclose(reference.simhash(W, x), x.astype(np.float64) @ W.astype(np.float64), atol=1e-5)


def test_simhash_collides_with_the_probability_of_charikar():
    """P[bits differ] = angle/pi, over many bits."""
    bits, a, b = 40_000, units(1, 10, 1), units(1, 10, 2)
    W = reference.gaussian_matrix(10, bits, 3)
    differing = int(
        reference.hamming(reference.pack(reference.simhash(W, a)), reference.pack(reference.simhash(W, b)))[0, 0]
    )
    p = np.arccos(float(a[0] @ b[0])) / np.pi
    assert abs(differing / bits - p) < 5 * np.sqrt(p * (1 - p) / bits)


@pytest.mark.parametrize("rotation", ["hadamard", "svd", "gram-schmidt"])
def test_superbit_collides_so_too_and_varies_less(rotation):
    """Ji et al.: the estimate of the angle from d bits is unbiased, and its variance is below simHash's."""
    d, seeds = 64, 400
    a, b = units(1, d, 1), units(1, d, 2)
    p = np.arccos(float(a[0] @ b[0])) / np.pi
    share = []
    for seed in range(seeds if rotation == "hadamard" else 120):
        frame = reference.make_frame(d, 1, 5000 + seed, rotation)
        codes = [reference.pack(reference.superbit(frame, x, d)) for x in (a, b)]
        share.append(reference.hamming(*codes)[0, 0] / d)
    independent = np.sqrt(p * (1 - p) / d)
    assert abs(np.mean(share) - p) < 5 * independent / np.sqrt(len(share))
    assert np.std(share) < 0.9 * independent


@pytest.mark.parametrize("bits", [1, 24, 25, 26, 49, 50, 51])
def test_superbit_is_cut_to_any_number_of_bits(bits):
    x, m = units(3, 25), -(-bits // 25)
    whole = reference.superbit(reference.make_frame(25, 3, 1, "hadamard"), x, 75)
    np.testing.assert_array_equal(
        reference.superbit(reference.make_frame(25, m, 1, "hadamard"), x, bits), whole[:, :bits]
    )


@pytest.mark.parametrize(("bits", "name"), [(1, "simhash"), (99, "simhash"), (100, "superbit"), (101, "superbit")])
def test_faiss_rule(bits, name):
    assert reference.faiss_rule(100, bits) == name


# --- USR ---------------------------------------------------------------------------------------------------------


def textbook_usr(W, x, T, alpha):
    """Equations 6 to 9 as printed, with I - W^T W formed and the true tanh, in double precision."""
    x = x.astype(np.float64)
    y = np.zeros((len(x), W.shape[1]))
    residual = np.eye(W.shape[1]) - W.T @ W
    for _ in range(T):
        y = np.tanh(alpha * x @ W + y @ residual)
    return y


@pytest.mark.parametrize("rotation", ["hadamard", "svd"])
@pytest.mark.parametrize(("d", "m", "T"), [(1, 3, 4), (3, 2, 17), (25, 1, 3), (25, 4, 1), (100, 2, 17), (128, 3, 9)])
def test_usr_is_the_papers_iteration(rotation, d, m, T):
    frame, x = reference.make_frame(d, m, 2, rotation), units(5, d)
    alpha = reference.gain(d, m, 1.0)
    np.testing.assert_allclose(
        reference.usr(frame, x, T, alpha), textbook_usr(frame_matrix(frame), x, T, alpha), atol=1e-4
    )


def test_the_gain_is_equation_11():
    assert reference.gain(100, 4, 2.5) == pytest.approx(np.sqrt(4 * 100) / (2 * 2.5))


@pytest.mark.parametrize(("rotation", "m"), [("hadamard", 2), ("hadamard", 4), ("hadamard", 8), ("svd", 2)])
def test_the_relaxed_error_falls_with_every_step(unit_words, rotation, m):
    """|W y_t - alpha x|^2, the mean over a thousand real vectors, for t from 0 (y = 0) to T = 17 and beyond.

    The values come from the native core, which equals the spec and is faster.
    """
    x = unit_words[::20]
    frame, alpha = reference.make_frame(100, m, 3, rotation), reference.gain(100, m, 1.0)
    start = np.zeros((len(x), 100 * m), dtype=np.float32)
    errors = [reference.relaxed_error(frame, start, x, alpha).mean()]
    for T in range(1, 21):
        h = lethevec.hasher("usr", dim=100, expansion=m, seed=3, rotation=rotation, steps=T, gain=alpha)
        errors.append(reference.relaxed_error(frame, h.values(x, threads=1), x, alpha).mean())
    assert errors[0] == pytest.approx(alpha**2, rel=1e-4)
    assert (np.diff(errors) < 0).all(), errors
    assert errors[17] < 0.7 * errors[1]


def test_the_relaxed_error_by_its_definition():
    frame, x = reference.make_frame(25, 3, 4, "hadamard"), units(4, 25)
    y = reference.usr(frame, x, 5, 2.0)
    expected = ((y.astype(np.float64) @ frame_matrix(frame).T - 2.0 * x) ** 2).sum(axis=1)
    np.testing.assert_allclose(reference.relaxed_error(frame, y, x, 2.0), expected, rtol=1e-4)


@pytest.mark.parametrize("rotation", ["hadamard", "svd", "gram-schmidt"])
@pytest.mark.parametrize("T", [1, 2, 17])
def test_usr_with_one_rotation_is_superbit(unit_words, rotation, T):
    """m = 1: W is square, so W^T W = I too, I - W^T W = 0, and y_T = tanh(alpha W^T x), whatever T is."""
    x = unit_words[::40]
    frame = reference.make_frame(100, 1, 5, rotation)
    values = reference.usr(frame, x, T, reference.gain(100, 1, 1.0))
    np.testing.assert_array_equal(reference.pack(values), reference.pack(reference.superbit(frame, x, 100)))


def test_usr_with_two_rotations_is_not():
    x = units(50, 100)
    frame = reference.make_frame(100, 2, 5, "hadamard")
    values = reference.usr(frame, x, 17, reference.gain(100, 2, 1.0))
    assert (reference.pack(values) != reference.pack(reference.superbit(frame, x, 200))).mean() > 0.1


def test_usr_codes_reconstruct_better_than_superbit_codes_of_the_same_frame(unit_words):
    x = unit_words[::20]
    frame, alpha = reference.make_frame(100, 4, 6, "hadamard"), reference.gain(100, 4, 1.0)
    codes = [reference.pack(v) for v in (reference.usr(frame, x, 17, alpha), reference.superbit(frame, x, 400))]
    cosines = [_cosine(reference.usr_reconstruct(frame, c, alpha), x).mean() for c in codes]
    assert cosines[0] > cosines[1] + 0.02
    assert cosines[0] > 0.9


def _cosine(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


# --- Progressive -------------------------------------------------------------------------------------------------


def textbook_progressive(R, c, x):
    """r = x/|x|; b_i = sign(R_i^T r); r -= c_i R_i b_i."""
    r = x.astype(np.float64) / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
    values = []
    for R_i, c_i in zip(R, c, strict=True):
        v = r @ R_i
        values.append(v)
        r = r - c_i * np.where(v >= 0, 1, -1) @ R_i.T
    return np.concatenate(values, axis=1), r


def blocks_of(frame):
    W = frame_matrix(frame) * np.sqrt(frame.m)
    return [W[:, i * frame.d : (i + 1) * frame.d] for i in range(frame.m)]


@pytest.mark.parametrize("rotation", ["hadamard", "svd"])
@pytest.mark.parametrize(("d", "m"), [(1, 2), (3, 4), (25, 3), (100, 4)])
def test_progressive_is_the_greedy_descent(rotation, d, m):
    frame, x = reference.make_frame(d, m, 7, rotation), units(5, d) * np.float32(3)
    expected, _ = textbook_progressive(blocks_of(frame), reference.plane_weights(d, m), x)
    np.testing.assert_allclose(reference.progressive(frame, x), expected, atol=1e-5)


@pytest.mark.parametrize("sweeps", [1, 2, 3, 4])
def test_a_sweep_is_block_descent(sweeps):
    """A visit gives a plane the bits that are best given all the others, so no visit makes the error larger."""
    frame, x = reference.make_frame(25, 4, 8, "hadamard"), units(200, 25)
    errors = [
        np.linalg.norm(
            reference.progressive_reconstruct(frame, reference.pack(reference.progressive(frame, x, s))) - x, axis=1
        )
        for s in (sweeps - 1, sweeps)
    ]
    assert (errors[1] <= errors[0] + 1e-6).all()
    if sweeps == 1:
        assert errors[1].mean() < 0.99 * errors[0].mean()


def test_sweeps_by_hand():
    """Two sweeps over three planes, the residual recomputed from scratch at each visit: planes 1, 0, then 1, 2."""
    frame, x = reference.make_frame(25, 3, 9, "hadamard"), units(40, 25)
    R, c = blocks_of(frame), reference.plane_weights(25, 3).astype(np.float64)
    values, _ = textbook_progressive(R, c, x)
    v = np.stack(np.split(values, 3, axis=1))
    for i in (1, 0, 1, 2):
        r = x.astype(np.float64) - sum(c[k] * np.where(v[k] >= 0, 1, -1) @ R[k].T for k in range(3) if k != i)
        v[i] = r @ R[i]
    np.testing.assert_allclose(reference.progressive(frame, x, 2), np.concatenate(v, axis=1), atol=1e-5)


def test_plane_weights():
    c = reference.plane_weights(100, 4)
    assert c.dtype == np.float32
    np.testing.assert_allclose(c, np.sqrt(2 / (np.pi * 100)) * 0.6 ** np.arange(4), rtol=1e-6)


def test_each_plane_refines_the_last(unit_words):
    x, cosines = unit_words[::20], []
    for m in range(1, 9):
        frame = reference.make_frame(100, m, 10, "hadamard")
        codes = reference.pack(reference.progressive(frame, x))
        cosines.append(_cosine(reference.progressive_reconstruct(frame, codes), x).mean())
    assert (np.diff(cosines) > 0).all()
    assert cosines[0] == pytest.approx(np.sqrt(2 / np.pi), abs=0.02)  # one plane: the mean of |z| for Gaussian z
    assert cosines[7] > 0.995


def test_progressive_knows_the_direction_only():
    frame, x = reference.make_frame(25, 2, 11, "hadamard"), units(20, 25)
    for scale in (2.0**-20, 1.0, 2.0**20):  # powers of two: exact
        np.testing.assert_array_equal(
            reference.pack(reference.progressive(frame, x * np.float32(scale))),
            reference.pack(reference.progressive(frame, x)),
        )


@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 100, 784])
def test_norms_and_directions(d):
    x = np.random.default_rng(d).normal(size=(5, d)).astype(np.float32) * np.float32(1e-3)
    x[1] = 0
    np.testing.assert_allclose(reference.norms(x), np.linalg.norm(x.astype(np.float64), axis=1), rtol=1e-14)
    unit = reference.directions(x)
    assert unit.dtype == np.float32
    assert not unit[1].any()
    np.testing.assert_allclose(np.linalg.norm(unit[[0, 2, 3, 4]], axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-45, 1e-38, 1e38, 3e38])
def test_directions_of_extreme_vectors(size):
    """Squares of float32 neither overflow nor vanish in double precision."""
    unit = reference.directions(np.full((1, 4), size, dtype=np.float32))
    np.testing.assert_allclose(unit, 0.5, rtol=1e-6)


# --- Reconstruction ----------------------------------------------------------------------------------------------


def test_reconstructions_by_their_definitions():
    d, m, alpha = 25, 3, 2.5
    frame = reference.make_frame(d, m, 12, "hadamard")
    codes = reference.pack(np.random.default_rng(0).normal(size=(6, m * d)))
    b, W = reference.unpack(codes, m * d).astype(np.float64), frame_matrix(frame)
    c = np.repeat(reference.plane_weights(d, m), d)
    mean = np.sqrt(2 / (np.pi * d))
    expected = {
        "usr": b @ W.T / alpha,
        "superbit": mean / m * b @ (W * np.sqrt(m)).T,
        "progressive": (b * c) @ (W * np.sqrt(m)).T,
    }
    got = {
        "usr": reference.usr_reconstruct(frame, codes, alpha),
        "superbit": reference.superbit_reconstruct(frame, codes),
        "progressive": reference.progressive_reconstruct(frame, codes),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, atol=1e-5)


def test_falloff_is_what_the_weights_use():
    c = reference.plane_weights(10, 2)
    assert float(c[1] / c[0]) == pytest.approx(constants.FALLOFF, rel=1e-6)
