"""The generator: words that must never change, and what is drawn from them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lethevec import reference
from lethevec.reference import generator

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z):
    """SplitMix64's finaliser in Python's integers: no array library, no silent overflow."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def word(seed, stream, k):
    """The formula of generator.py's header, word by word."""
    key = mix((mix((seed + GOLDEN) & MASK) + (stream + 1) * GOLDEN) & MASK)
    return mix((key + (k + 1) * GOLDEN) & MASK)


# Written down once: a change here changes every code that was ever stored.
WORDS = {
    (0, 0): ["238275bc38fcbe91", "f89a2566b5822c54", "47200e1d9780fa44", "e710dc7a64e2470a"],
    (1, 0): ["b18a02f46d8d86c3", "f8c5b62c83f707e8", "6d339d1740130edd", "ce639a27887a2771"],
    (MASK, 7): ["b3880d06272df748", "e6e502d3e21b9537", "f3ae08ce08d09c90", "f6e4df6334b8065e"],
    (42, 1 << 32): ["6110ba573eec678c", "97ba298e5bf7b75b", "c964e9dd521f3b47", "261e6569ede8ef6c"],
    (42, 2 << 32): ["9d5a4e9f1d87f547", "91cf2c797caa2e0e", "152da0949d096f94", "70ce28d80b586745"],
}


def test_the_finaliser_is_splitmix64():
    """The first five outputs of SplitMix64 from state 1234567, a test vector that many implementations share."""
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    states = [(1234567 + i * GOLDEN) & MASK for i in range(1, 6)]
    assert [mix(state) for state in states] == expected
    assert generator.mix(np.array(states, dtype=np.uint64)).tolist() == expected


@pytest.mark.parametrize(("seed", "stream"), WORDS)
def test_golden_words(seed, stream):
    assert [f"{w:016x}" for w in reference.words(seed, stream, 4).tolist()] == WORDS[seed, stream]


@pytest.mark.parametrize("seed", [0, 1, 12345, MASK])
@pytest.mark.parametrize("stream", [0, 3, 1 << 32, (2 << 32) + 5])
def test_words_follow_the_formula(seed, stream):
    assert reference.words(seed, stream, 50).tolist() == [word(seed, stream, k) for k in range(50)]


def test_words_are_addressed_not_stepped():
    many = reference.words(5, 9, 1000)
    for n in (0, 1, 2, 999):
        np.testing.assert_array_equal(reference.words(5, 9, n), many[:n])


def test_no_two_of_seed_and_stream_share_their_words():
    """Or the rounds of one frame come back in another, and tables drawn from neighbouring seeds are not independent."""
    pairs = [(seed, stream) for seed in range(30) for stream in range(30)]
    pairs += [(1 << bit, stream) for bit in range(5, 64) for stream in (0, 1, 1 << 32, 2 << 32)]
    drawn = np.concatenate([reference.words(seed, stream, 20) for seed, stream in pairs])
    # Not one word in common, wherever it stands: streams that were shifts of each other would be seen, too.
    assert len(np.unique(drawn)) == drawn.size


def test_neighbouring_seeds_and_streams_are_uncorrelated():
    """Signs over a grid of seeds and streams: every pair of them, those with seed and stream exchanged included."""
    n = 4000
    s = np.stack([reference.signs(seed, stream, n) for seed in range(12) for stream in range(12)])
    correlations = np.abs(s @ s.T / n - np.eye(len(s)))
    assert correlations.max() < 5.5 / math.sqrt(n)  # among 10,000 pairs, five and a half standard deviations


def test_golden_signs():
    """-1 exactly where the top bit of the word is set."""
    assert reference.signs(0, 0, 16).tolist() == [-1.0 if word(0, 0, k) >> 63 else 1.0 for k in range(16)]
    assert reference.signs(0, 0, 16).dtype == np.float32


def test_signs_are_fair_and_independent():
    n = 100_000
    s = np.stack([reference.signs(7, stream, n) for stream in range(4)]).astype(np.float64)
    assert set(np.unique(s)) == {-1.0, 1.0}
    bound = 5 / math.sqrt(n)  # five standard deviations
    assert np.abs(s.mean(axis=1)).max() < bound
    assert np.abs((s[:, 1:] * s[:, :-1]).mean(axis=1)).max() < bound
    correlations = s @ s.T / n - np.eye(4)
    assert np.abs(correlations).max() < bound


def test_gaussians_are_normal():
    n = 200_000
    z = np.sort(reference.gaussians(3, 1 << 32, n))
    # Kolmogorov and Smirnov: 1.95/sqrt(n) is passed once in a thousand seeds, and this seed is fixed.
    cdf = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in z])
    distance = np.abs(cdf - (np.arange(n) + 0.5) / n).max()
    assert distance < 1.95 / math.sqrt(n)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 11])
def test_gaussians_of_any_count(n):
    z = reference.gaussians(3, 4, n)
    assert z.shape == (n,)
    assert z.dtype == np.float64
    assert np.isfinite(z).all()


def test_gaussians_are_uncorrelated_within_a_pair():
    """Both come from one radius and one angle: only cos and sin of a full turn make them independent."""
    n = 100_000
    z = reference.gaussians(8, 0, n)
    a, b = z[: n // 2], z[n // 2 :]
    bound = 5 / math.sqrt(n // 2)
    assert abs((a * b).mean()) < bound
    assert abs((a**2 * b**2).mean() - 1) < 3 * bound
