"""The native core equals the spec bit for bit: all families, rotations, instruction sets, sizes that straddle lanes."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec import reference

DIMS = (1, 2, 3, 25, 96, 100, 127, 128, 129, 384, 784, 1536)
#: Drawing a dense frame costs d^3, and the kernel does not care how its matrix was made.
DENSE_DIMS = tuple(d for d in DIMS if d <= 129)
#: One row, a few, and both sides of 4, 8 and 16 lanes.
BATCHES = (1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33)

FRAMED = [
    ("superbit", {}),
    ("usr", {"steps": 1}),
    ("usr", {"steps": 6, "gain": 1.7}),
    ("progressive", {}),
    ("progressive", {"sweeps": 3}),
]
IDS = ["superbit", "usr-1", "usr-6", "progressive", "progressive-sweeps"]


def vectors(n, dim, seed=1):
    """Rows of very different lengths, two of them special."""
    rng = np.random.default_rng([seed, n, dim])
    x = rng.normal(size=(n, dim)) * 10.0 ** rng.uniform(-3, 3, size=(n, 1))
    x = x.astype(np.float32)
    if n > 3:
        x[1] = 0
        x[2] = -0.0
    return x


def assert_equals_spec(hasher, x, spec, threads=1):
    expected = spec(hasher).values(x)
    values, codes = hasher.values(x, threads=threads), hasher.codes(x, threads=threads)
    assert values.dtype == expected.dtype == np.float32
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(values.view(np.uint32), np.ascontiguousarray(expected).view(np.uint32))
    np.testing.assert_array_equal(codes, reference.pack(expected))


@pytest.mark.parametrize(("family", "params"), FRAMED, ids=IDS)
@pytest.mark.parametrize("dim", DIMS)
def test_hadamard(isa, spec, family, params, dim):
    for m in (1, 2, 3):
        h = lethevec.hasher(family, dim=dim, expansion=m, seed=11, **params)
        assert_equals_spec(h, vectors(5, dim), spec)


@pytest.mark.parametrize(("family", "params"), FRAMED, ids=IDS)
@pytest.mark.parametrize("rotation", ["svd", "gram-schmidt"])
@pytest.mark.parametrize("dim", DENSE_DIMS)
def test_dense(isa, spec, family, params, rotation, dim):
    for m in (1, 3):
        h = lethevec.hasher(family, dim=dim, expansion=m, seed=12, rotation=rotation, **params)
        assert_equals_spec(h, vectors(5, dim), spec)


@pytest.mark.parametrize("rotation", ["svd", "gram-schmidt"])
def test_a_larger_dense_rotation(isa, spec, rotation):
    h = lethevec.hasher("usr", dim=384, bits=384, seed=13, rotation=rotation, steps=3)
    assert_equals_spec(h, vectors(3, 384), spec)


@pytest.mark.parametrize("dim", DIMS)
def test_simhash(isa, spec, dim):
    for bits in (1, 7, 8, 9, 64, 65, 200):
        assert_equals_spec(lethevec.hasher("simhash", dim=dim, bits=bits, seed=14), vectors(4, dim), spec)


@pytest.mark.parametrize("family", ["superbit", "faiss-lsh"])
@pytest.mark.parametrize("dim", DIMS)
def test_any_number_of_bits(isa, spec, family, dim):
    for bits in sorted({1, 2, max(1, dim - 1), dim, dim + 1, 2 * dim - 1, 2 * dim + 3}):
        if family == "faiss-lsh" and dim > 129 and bits < dim:
            continue  # simHash, covered above; its matrices are slow to draw
        assert_equals_spec(lethevec.hasher(family, dim=dim, bits=bits, seed=15), vectors(4, dim), spec)


@pytest.mark.parametrize(("family", "params"), FRAMED, ids=IDS)
@pytest.mark.parametrize("dim", [2048, 3000, 4095, 4096])
def test_large_hadamard(isa, spec, family, params, dim):
    h = lethevec.hasher(family, dim=dim, expansion=2, seed=16, **params)
    assert_equals_spec(h, vectors(2, dim), spec)


@pytest.mark.parametrize("dim", range(1, 70))
def test_every_small_dim(isa, spec, dim):
    """Every remainder of every lane width, and codes that end inside a byte."""
    x = vectors(4, dim)
    for family, params in FRAMED:
        assert_equals_spec(lethevec.hasher(family, dim=dim, expansion=3, seed=dim, **params), x, spec)


@pytest.mark.parametrize(("family", "params"), FRAMED, ids=IDS)
@pytest.mark.parametrize("dim", [3, 100, 128])
def test_many_rotations(isa, spec, family, params, dim):
    h = lethevec.hasher(family, dim=dim, expansion=20, seed=17, **params)
    assert_equals_spec(h, vectors(4, dim), spec)


@pytest.mark.parametrize("family", ["simhash", "superbit", "usr", "progressive"])
@pytest.mark.parametrize("dim", [3, 100])
def test_batch_sizes(isa, spec, family, dim):
    h = lethevec.hasher(family, dim=dim, bits=2 * dim, seed=18)
    for n in BATCHES:
        assert_equals_spec(h, vectors(n, dim), spec)


@pytest.mark.parametrize("family", ["simhash", "superbit", "usr", "progressive"])
@pytest.mark.parametrize("rotation", ["hadamard", "svd"])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads(isa, family, rotation, threads):
    """Enough rows that each thread gets its share, however the kernel weighs the work."""
    params = {} if family == "simhash" else {"rotation": rotation}
    if family == "usr":
        params["steps"] = 4
    h = lethevec.hasher(family, dim=100, bits=200, seed=19, **params)
    x = vectors(2501, 100)
    one = h.values(x, threads=1)
    np.testing.assert_array_equal(h.values(x, threads=threads).view(np.uint32), one.view(np.uint32))
    np.testing.assert_array_equal(h.codes(x, threads=threads), reference.pack(one))


@pytest.mark.parametrize("family", ["simhash", "superbit", "usr", "progressive", "faiss-lsh"])
@pytest.mark.parametrize("dim", [1, 25, 129])
def test_alone_or_in_a_batch(isa, family, dim):
    h = lethevec.hasher(family, dim=dim, bits=3 * dim, seed=20)
    x = vectors(37, dim)
    values, codes = h.values(x), h.codes(x)
    for row in range(len(x)):
        np.testing.assert_array_equal(h.values(x[row]).view(np.uint32), values[row : row + 1].view(np.uint32))
        np.testing.assert_array_equal(h.codes(x[row]), codes[row : row + 1])
    shuffled = np.random.default_rng(0).permutation(len(x))
    np.testing.assert_array_equal(h.codes(x[shuffled]), codes[shuffled])


RECONSTRUCTED = [("superbit", {}), ("usr", {"gain": 3.0}), ("progressive", {})]


@pytest.mark.parametrize(("family", "params"), RECONSTRUCTED, ids=[f for f, _ in RECONSTRUCTED])
@pytest.mark.parametrize("rotation", ["hadamard", "svd"])
@pytest.mark.parametrize("dim", DENSE_DIMS)
def test_reconstruct(isa, spec, family, params, rotation, dim):
    for m in (1, 2, 5):
        h = lethevec.hasher(family, dim=dim, expansion=m, seed=21, rotation=rotation, **params)
        codes = h.codes(vectors(6, dim))
        got, expected = h.reconstruct(codes, threads=1), spec(h).reconstruct(codes)
        assert got.shape == (6, dim)
        np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))
        np.testing.assert_array_equal(h.reconstruct(codes[2], threads=1), got[2:3])


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_reconstruct_threads(isa, threads):
    h = lethevec.hasher("progressive", dim=100, expansion=4, seed=22)
    codes = h.codes(vectors(3001, 100))
    np.testing.assert_array_equal(h.reconstruct(codes, threads=threads), h.reconstruct(codes, threads=1))


@pytest.mark.parametrize("dim", [384, 784, 1536, 4096])
def test_reconstruct_large(isa, spec, dim):
    h = lethevec.hasher("progressive", dim=dim, expansion=2, seed=23)
    codes = h.codes(vectors(3, dim))
    np.testing.assert_array_equal(h.reconstruct(codes), spec(h).reconstruct(codes))


def test_the_frame_attribute_is_the_matrix_that_is_applied():
    h = lethevec.hasher("superbit", dim=25, bits=60, seed=24)
    x = vectors(8, 25)[4:]
    assert h.frame.shape == (25, 60)
    expected = x.astype(np.float64) @ h.frame.astype(np.float64)
    scale = np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(h.values(x) / scale, expected / scale, atol=1e-5)
