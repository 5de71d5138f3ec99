"""Properties of the families on any input that is let in: wild magnitudes, denormals, zeros of both signs, any dim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import lethevec
from lethevec import reference
from lethevec._native import core
from lethevec._vectors import MAX_NORM

#: The dims below go up to MAX_DIM: rows of the largest numbers have norms just below the 1e18 that is let in.
MAX_DIM = 40
LARGE = 2.0**57

numbers = st.one_of(
    st.floats(-LARGE, LARGE, width=32),
    st.sampled_from([0.0, -0.0, 1e-45, -1e-45, 1.1754942e-38, -1.1754944e-38, 1.0, -1.0, LARGE, -LARGE]),
)
batches = st.integers(1, MAX_DIM).flatmap(
    lambda dim: hnp.arrays(np.float32, st.tuples(st.integers(1, 6), st.just(dim)), elements=numbers)
)
families = st.sampled_from(
    [
        ("simhash", {}),
        ("superbit", {}),
        ("superbit", {"rotation": "gram-schmidt"}),
        ("usr", {"steps": 3}),
        ("usr", {"steps": 2, "rotation": "svd", "gain": 0.5}),
        ("progressive", {}),
        ("progressive", {"sweeps": 2}),
    ]
)
quick = settings(max_examples=150, deadline=None)


def test_the_largest_are_let_in_and_not_by_much():
    assert 0.9 * MAX_NORM < LARGE * math.sqrt(MAX_DIM) <= MAX_NORM


def each_isa(call):
    """The answers of every instruction set; the one that was in use is put back."""
    before = core.active_isa()
    try:
        answers = []
        for name in core.supported_isas():
            core.use_isa(name)
            answers.append(call())
        return answers
    finally:
        core.use_isa(before)


@quick
@given(x=batches, family=families, m=st.integers(1, 3), seed=st.integers(0, 2**64 - 1))
def test_every_isa_equals_the_spec(spec, x, family, m, seed):
    name, params = family
    h = lethevec.hasher(name, dim=x.shape[1], expansion=m, seed=seed, **params)
    expected = np.ascontiguousarray(spec(h).values(x))
    assert np.isfinite(expected).all()
    for values, codes in each_isa(lambda: (h.values(x), h.codes(x))):
        np.testing.assert_array_equal(values.view(np.uint32), expected.view(np.uint32))
        np.testing.assert_array_equal(codes, reference.pack(expected))


@quick
@given(x=batches, family=families, data=st.data())
def test_a_row_does_not_know_its_batch(x, family, data):
    name, params = family
    h = lethevec.hasher(name, dim=x.shape[1], expansion=2, seed=1, **params)
    rows = data.draw(st.lists(st.integers(0, len(x) - 1), min_size=1, max_size=9))
    threads = data.draw(st.integers(1, 4))
    whole, part = h.values(x), h.values(x[rows], threads=threads)
    np.testing.assert_array_equal(part.view(np.uint32), whole[rows].view(np.uint32))


@quick
@given(x=batches, bits=st.integers(1, 130), seed=st.integers(0, 100))
def test_a_short_superbit_code_begins_the_long_one(x, bits, seed):
    dim = x.shape[1]
    short = lethevec.hasher("superbit", dim=dim, bits=bits, seed=seed).values(x)
    long = lethevec.hasher("superbit", dim=dim, bits=bits + 17, seed=seed).values(x)
    np.testing.assert_array_equal(long[:, :bits].view(np.uint32), short.view(np.uint32))


@quick
@given(x=batches, family=families, power=st.integers(-20, 20))
def test_scale_does_not_move_a_linear_or_a_progressive_code(x, family, power):
    """By a power of two, which is exact, for numbers that stay away from both ends of float32."""
    name, params = family
    if name == "usr":
        return
    x = np.where(np.abs(x) < 1e-10, np.float32(0), np.clip(x, -1e10, 1e10)).astype(np.float32)
    h = lethevec.hasher(name, dim=x.shape[1], expansion=2, seed=2, **params)
    np.testing.assert_array_equal(h.codes(x * np.float32(2.0**power)), h.codes(x))


@quick
@given(x=batches, m=st.integers(1, 3), steps=st.integers(1, 5))
def test_usr_values_stay_inside_one(x, m, steps):
    values = lethevec.hasher("usr", dim=x.shape[1], expansion=m, steps=steps).values(x)
    assert (np.abs(values) < 1).all()


@quick
@given(
    dim=st.integers(1, 40),
    m=st.integers(1, 4),
    name=st.sampled_from(["superbit", "usr", "progressive"]),
    data=st.data(),
)
def test_every_code_reconstructs_as_the_spec_says(spec, dim, m, name, data):
    """Any bytes are a code, those with bits past the end as well: they do not count."""
    h = lethevec.hasher(name, dim=dim, expansion=m, seed=3)
    codes = data.draw(hnp.arrays(np.uint8, (3, h.code_bytes), elements=st.integers(0, 255)))
    expected = spec(h).reconstruct(codes)
    for got in each_isa(lambda: h.reconstruct(codes)):
        np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("dim", [1, 2, 100, 127, 129, 1000])
@pytest.mark.parametrize("family", ["simhash", "superbit", "usr", "progressive"])
def test_nothing_overflows_at_the_largest_norm(isa, spec, family, dim):
    """In one coordinate, in all alike, and with alternating signs: the sums of a transform are largest for these."""
    h = lethevec.hasher(family, dim=dim, expansion=2, seed=4)
    x = np.zeros((3, dim), dtype=np.float32)
    x[0, -1], x[1], x[2] = 1, 1 / math.sqrt(dim), (-1.0) ** np.arange(dim) / math.sqrt(dim)
    x *= np.float32(0.99999 * MAX_NORM)
    values = h.values(x)
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(values.view(np.uint32), spec(h).values(x).view(np.uint32))


@pytest.mark.parametrize("family", ["simhash", "superbit", "usr", "progressive"])
def test_a_zero_vector_has_the_code_of_all_ones(isa, family):
    """sign(0) = +1, and the residual that follows is the same in every plane but the first of progressive."""
    h = lethevec.hasher(family, dim=12, bits=24)
    first = h.codes(np.zeros((1, 12)))[0]
    assert first[0] == 255
    assert first[1] & 0x0F == 0x0F
    np.testing.assert_array_equal(h.codes(np.full((1, 12), -0.0)), [first])
