"""The paper's order on real data, and that the fast rotations lose nothing to the dense ones."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec


def mean_pr_auc(words, family, m, seeds, **params):
    scores = [
        words.pr_auc(words.rank(lethevec.hasher(family, dim=100, expansion=m, seed=seed, **params))) for seed in seeds
    ]
    return float(np.mean(scores))


@pytest.mark.parametrize(("m", "margin"), [(2, 0.02), (20, 0.007)], ids=["low", "high"])
def test_usr_is_above_superbit_and_superbit_above_simhash(words, m, margin):
    """PR-AUC at 200 and 2,000 bits, the ends of the paper's range. Margins: half the smaller gap that was seen."""
    simhash, superbit, usr = (mean_pr_auc(words, f, m, (1000, 1001)) for f in ("simhash", "superbit", "usr"))
    assert superbit > simhash + margin
    assert usr > superbit + margin


@pytest.mark.parametrize(("family", "m"), [("superbit", 2), ("usr", 2), ("superbit", 20)])
def test_hadamard_and_svd_rotations_search_alike(words, family, m):
    """The mean over five seeds; one seed varies by 0.01 at 200 bits and by 0.002 at 2,000."""
    seeds = range(1000, 1005) if m == 2 else range(1000, 1002)
    hadamard, svd = (mean_pr_auc(words, family, m, seeds, rotation=r) for r in ("hadamard", "svd"))
    assert hadamard == pytest.approx(svd, abs=0.02)


def test_the_measure_sees_codes_that_do_not_rotate(words):
    """Signs of the coordinates as they are, twice over: what a frame of identity matrices would give."""
    plain = [np.packbits(np.tile(x >= 0, 2), axis=1, bitorder="little") for x in (words.base, words.queries)]
    score = words.pr_auc(words.ranked(*plain, 200))
    assert score < mean_pr_auc(words, "superbit", 2, (1000, 1001)) - 0.04


def in_principal_axes(x, reference_x, dim):
    """Coordinates of falling energy, then zeros: an orthogonal change of basis, so every angle stays."""
    axes = np.linalg.eigh(reference_x.T.astype(np.float64) @ reference_x)[1][:, ::-1]
    padded = np.zeros((len(x), dim), dtype=np.float32)
    padded[:, :100] = x @ axes
    return padded


@pytest.mark.parametrize("dim", [100, 127, 128, 129, 160, 200])
def test_hadamard_does_not_mind_where_the_energy_is(words, dim):
    """Recall@10 of Super-Bit, 2 * dim bits, with most of the energy in the first coordinates and none in the last."""
    base, queries = (in_principal_axes(x, words.base, dim) for x in (words.base, words.queries))
    recall = {}
    for rotation in ("hadamard", "svd"):
        hashers = [
            lethevec.hasher("superbit", dim=dim, expansion=2, seed=s, rotation=rotation) for s in (1000, 1001, 1002)
        ]
        recall[rotation] = np.mean(
            [words.recall_at_10(words.ranked(h.codes(base), h.codes(queries), h.bits)) for h in hashers]
        )
    assert recall["hadamard"] == pytest.approx(recall["svd"], abs=0.02)


def test_asymmetric_ranking_is_above_hamming(words):
    """The query keeps its values; only the base is quantised."""
    h = lethevec.hasher("usr", dim=100, expansion=2, seed=1000)
    b = np.where(np.unpackbits(h.codes(words.base), axis=1, count=h.bits, bitorder="little"), 1, -1)
    scores = words.queries @ h.frame @ b.T.astype(np.float32)
    asymmetric = words.recall_at_10(np.argsort(-scores, axis=1, kind="stable")[:, :100])
    assert asymmetric > words.recall_at_10(words.rank(h)) + 0.05


def test_progressive_codes_reconstruct_best(words):
    """Mean cosine between a vector and what its 400 bits say: Super-Bit, USR, progressive, in rising order."""
    cosines = []
    for family in ("superbit", "usr", "progressive"):
        h = lethevec.hasher(family, dim=100, expansion=4, seed=1000)
        back = h.reconstruct(h.codes(words.base))
        cosines.append(float(((back * words.base).sum(axis=1) / np.linalg.norm(back, axis=1)).mean()))
    assert cosines[0] + 0.01 < cosines[1]
    assert cosines[1] + 0.01 < cosines[2]
