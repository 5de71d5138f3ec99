"""The probing sequence against sorting all buckets: the order, none twice, none left out."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lethevec import reference
from lethevec._native import core


def brute_force(values):
    """Every set of flips of every table, scored by the definition and sorted by (score, table, flips)."""
    tables, bits = values.shape
    every = []
    for t in range(tables):
        ranked = sorted(range(bits), key=lambda i: (abs(values[t, i]), i))
        home = sum(1 << i for i in range(bits) if values[t, i] >= 0)
        for chosen in itertools.product([False, True], repeat=bits):
            flips = [r for r in range(bits) if chosen[r]]
            score = np.float32(0)
            for r in flips:
                score = score + np.abs(values[t, ranked[r]])
            key = home ^ sum(1 << ranked[r] for r in flips)
            every.append((score, t, sum(1 << r for r in flips), key))
    return [(float(score), t, key) for score, t, _, key in sorted(every)]


def native(values, count, likely=0):
    """The first `count` buckets, one by one from a heap or, where many are likely to be asked for, many at once."""
    scores, tables, keys = np.empty(count, np.float32), np.empty(count, np.uint32), np.empty(count, np.uint32)
    got = core.testing.probing(np.ascontiguousarray(values), likely, scores, tables, keys)
    return list(zip(scores[:got].tolist(), tables[:got].tolist(), keys[:got].tolist(), strict=True))


def spec(values, count=None):
    return [(float(p.score), p.table, p.key) for p in itertools.islice(reference.probing(values), count)]


# Few different sizes, so that scores tie; and sizes so far apart that sums round.
TIES = st.sampled_from([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5])
ROUNDING = st.floats(-(2.0**66), 2.0**66, width=32) | st.sampled_from(
    [2.0**-100, 1.0, 1.0 + 2**-23, 2.0**24, -(2.0**24) - 2]
)
SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 6))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_it_is_all_buckets_in_order(data):
    values = data.draw(arrays.arrays(np.float32, SHAPES, elements=data.draw(st.sampled_from([TIES, ROUNDING]))))
    expected = brute_force(values)
    assert spec(values) == expected
    for likely in (0, 24, 100, len(expected)):
        assert native(values, len(expected) + 5, likely) == expected


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 24))
@example(0, 256, 24)
def test_native_equals_spec(seed, tables, bits):
    values = np.random.default_rng(seed).normal(size=(tables, bits)).astype(np.float32)
    expected = spec(values, 600)
    for likely in (0, 30, 200, 600):
        assert native(values, 600, likely) == expected


@pytest.mark.parametrize("likely", [0, 100, 5 << 12])
def test_a_long_sequence_is_whole(likely):
    values = np.random.default_rng(1).normal(size=(5, 12)).astype(np.float32)
    probes = native(values, 5 << 12, likely)
    assert len({(t, key) for _, t, key in probes}) == 5 << 12
    scores = [score for score, _, _ in probes]
    assert scores == sorted(scores)


def test_buckets_that_all_score_the_same_are_not_listed_at_once():
    """A query of zeros: there are 2^26 of them, and a few are asked for."""
    values = np.zeros((4, 24), np.float32)
    assert native(values, 600, 600) == spec(values, 600)


def test_it_starts_at_home_in_every_table():
    values = np.array([[0.5, -1.0, 2.0], [-0.1, -3.0, 0.0]], dtype=np.float32)
    assert native(values, 3) == [(0.0, 0, 0b101), (0.0, 1, 0b100), (0.0, 1, 0b000)]


@pytest.mark.parametrize("shape", [(0, 4), (257, 4), (3, 0), (3, 25)])
def test_shapes_that_do_not_fit_are_refused(shape):
    with pytest.raises(ValueError, match="wrong number of"):
        native(np.zeros(shape, np.float32), 3)
