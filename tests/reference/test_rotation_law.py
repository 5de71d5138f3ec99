"""What a uniformly random rotation does to coordinates, as statistics over seeds; and that they see a broken one.

For a unit vector x and z = sqrt(d) R^T x over many seeds, a uniform R gives

    mean      every coordinate has mean 0
    bands     every coordinate carries the same energy, E z_j^2 = 1; taken over eight bands of coordinates
    fourth    E z_j^4 = 3 d/(d + 2), close to a Gaussian's 3
    undone    the same of z taken back through one round without its signs. If a round is missing, this shows the bare
              input of the last sign flip, which for a sparse x is flat and nothing like a Gaussian
    pairs     E z_i z_j = 0 for i != j
    next      E z_i z'_j = 0 for z' the coordinates in the next block

Structured x are the hard ones: a single coordinate, a constant, a quarter of the coordinates.
"""

from __future__ import annotations

import numpy as np
import pytest

from lethevec import reference
from lethevec.reference import rotations

SEEDS = 300
# What uniform rotations stay well within at these dims and this number of seeds.
LIMITS = {"mean": 5.0, "bands": 0.2, "fourth": 0.1, "undone": 0.15, "pairs": 5.0, "next": 5.0}


def probes(d):
    q = max(1, d // 4)
    x = np.zeros((6, d), dtype=np.float32)
    x[0, 0] = x[1, d // 2] = x[2, -1] = 1
    x[3] = 1 / np.sqrt(d)
    x[4, :q] = x[5, -q:] = 1 / np.sqrt(q)
    return x


def statistics(blocks, d):
    """The worst of each statistic over the probes. `blocks(x, seed)` gives R_0^T x and R_1^T x.

    mean, pairs and next are in standard deviations of what chance gives, the others are distances from 1.
    """
    x = probes(d)
    drawn = np.array([blocks(x, 1000 + seed) for seed in range(SEEDS)], dtype=np.float64) * np.sqrt(d)
    worst = dict.fromkeys(LIMITS, 0.0)
    for k in range(len(x)):
        z, following = drawn[:, 0, k], drawn[:, 1, k]
        undone = rotations.round_backward(z.astype(np.float32), np.ones((2, d), dtype=np.float32))
        pairs, cross = z.T @ z / SEEDS, z.T @ following / SEEDS
        np.fill_diagonal(pairs, 0)
        bands = [band.mean() for band in np.array_split((z**2).mean(axis=0), min(8, d))]
        found = {
            "mean": _excess(SEEDS * z.mean(axis=0) ** 2),
            "bands": max(abs(band - 1) for band in bands),
            "fourth": abs((z**4).mean() / (3 * d / (d + 2)) - 1),
            "undone": abs((undone.astype(np.float64) ** 4).mean() / (3 * d / (d + 2)) - 1),
            "pairs": _excess(SEEDS * pairs[np.triu_indices(d, 1)] ** 2),
            "next": _excess(SEEDS * cross.ravel() ** 2),
        }
        worst = {name: max(worst[name], float(found[name])) for name in worst}
    return worst


def _excess(squares):
    """How far a sum of squared standard normal numbers is above its mean, in its standard deviations."""
    return (squares.sum() - len(squares)) / np.sqrt(2 * len(squares))


def beyond(found):
    return {name: round(value, 2) for name, value in found.items() if value > LIMITS[name]}


def round_signs(seed, t, d):
    """The signs of round t, (2, d)."""
    return np.stack([reference.signs(seed, 2 * t, d), reference.signs(seed, 2 * t + 1, d)])


def hadamard(sign_of=round_signs, rounds=rotations.FIRST_ROUNDS, step=rotations.round_forward):
    """The spec's frame written out, with the parts that a variant breaks as arguments."""

    def blocks(x, seed):
        d, out = x.shape[1], []
        for t in range(rounds + 1):
            x = step(x, sign_of(seed, t, d))
            out.append(x)
        return out[-2:]

    return blocks


def frame_blocks(rotation):
    def blocks(x, seed):
        d = x.shape[1]
        both = reference.analysis(reference.make_frame(d, 2, seed, rotation), x)
        return both[:, :d], both[:, d:]

    return blocks


@pytest.mark.parametrize("d", [64, 128, 256])
def test_hadamard_has_the_law_of_a_rotation(d):
    assert beyond(statistics(frame_blocks("hadamard"), d)) == {}


@pytest.mark.parametrize("d", [25, 96, 100, 127, 129, 200, 250, 257, 384])
def test_hadamard_has_it_where_dim_is_no_power_of_two(d):
    """Just above one, just below the next, and between."""
    assert beyond(statistics(frame_blocks("hadamard"), d)) == {}


@pytest.mark.parametrize("rotation", ["svd", "gram-schmidt"])
def test_dense_rotations_have_it_too(rotation):
    assert beyond(statistics(frame_blocks(rotation), 48)) == {}


def test_the_written_out_frame_is_the_spec():
    """So that the variants below differ from it in what they break, and in nothing else."""
    x = probes(100)
    for ours, theirs in zip(hadamard()(x, 5), frame_blocks("hadamard")(x, 5), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def without_signs(missing):
    def sign_of(seed, t, d):
        return np.ones((2, d), dtype=np.float32) if t in missing else round_signs(seed, t, d)

    return sign_of


def half_signs(seed, t, d):
    """Flips only in the first half."""
    sign = round_signs(seed, t, d)
    sign[:, d // 2 :] = 1
    return sign


BROKEN = {
    "no signs": (hadamard(without_signs({0, 1, 2, 3})), "mean"),
    "no signs in round 0": (hadamard(without_signs({0})), "undone"),
    "no signs in round 1": (hadamard(without_signs({1})), "fourth"),
    "no signs in round 2": (hadamard(without_signs({2})), "fourth"),
    "no signs in the next block": (hadamard(without_signs({3})), "next"),
    "signs in half of the coordinates": (hadamard(half_signs), "pairs"),
    "one round missing": (hadamard(rounds=2), "undone"),
    "two rounds missing": (hadamard(rounds=1), "fourth"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rotation_is_seen(name):
    blocks, statistic = BROKEN[name]
    assert statistic in beyond(statistics(blocks, 128))


def first_signs_only(seed, t, d):
    """None before the second transform."""
    sign = round_signs(seed, t, d)
    sign[1] = 1
    return sign


def partial(second=True, butterfly=True):
    """A round without its second transform, or without its butterfly."""

    def step(x, sign):
        d = x.shape[1]
        p = rotations.power_below(d)
        scale = np.float32(1 / np.sqrt(p))
        x = np.concatenate([reference.fwht(x[:, :p] * (sign[0, :p] * scale)), x[:, p:]], axis=1)
        if second:
            x = np.concatenate([x[:, : d - p], reference.fwht(x[:, d - p :] * (sign[1, d - p :] * scale))], axis=1)
        return rotations.cross_halves(x) if butterfly else x

    return step


def test_the_written_out_round_is_the_spec():
    x, sign = probes(100), round_signs(1, 2, 100)
    np.testing.assert_array_equal(partial()(x, sign), rotations.round_forward(x, sign))


BETWEEN = {
    "no signs": (hadamard(without_signs({0, 1, 2, 3})), "mean"),
    "no signs in the next block": (hadamard(without_signs({3})), "next"),
    "no signs before the second transform": (hadamard(first_signs_only), "bands"),
    "no second transform": (hadamard(step=partial(second=False)), "bands"),
    "no butterfly": (hadamard(step=partial(butterfly=False)), "bands"),
    "neither": (hadamard(step=partial(second=False, butterfly=False)), "bands"),
    "one round missing": (hadamard(rounds=2), "undone"),
    "two rounds missing": (hadamard(rounds=1), "fourth"),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_a_broken_rotation_is_seen_where_dim_is_no_power_of_two(name):
    """At 127 every part is needed: the two transforms share one coordinate."""
    blocks, statistic = BETWEEN[name]
    assert statistic in beyond(statistics(blocks, 127))


@pytest.mark.parametrize("d", [100, 129])
@pytest.mark.parametrize("name", ["no signs before the second transform", "no second transform"])
def test_and_where_they_share_more(name, d):
    blocks, statistic = BETWEEN[name]
    assert statistic in beyond(statistics(blocks, d))
