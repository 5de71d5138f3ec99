"""Against Faiss: with our matrix its IndexLSH gives our codes; with its own, our recall is its recall."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec

faiss = pytest.importorskip("faiss")


def index_with(matrix):
    """An IndexLSH whose rotation is ours. Faiss keeps A by rows, one row per bit: the transpose of our (dim, bits)."""
    dim, bits = matrix.shape
    index = faiss.IndexLSH(dim, bits)
    assert (index.rrot.d_in, index.rrot.d_out, index.rrot.A.size()) == (dim, bits, dim * bits)
    assert not index.train_thresholds
    faiss.copy_array_to_vector(np.ascontiguousarray(matrix.T).ravel(), index.rrot.A)
    return index


def own_matrix(index):
    return faiss.vector_to_array(index.rrot.A).reshape(index.rrot.d_out, index.rrot.d_in)


CASES = [
    ("simhash", 200, {}),
    ("simhash", 50, {}),
    ("superbit", 50, {}),
    ("superbit", 100, {}),
    ("superbit", 250, {}),
    ("superbit", 200, {"rotation": "svd"}),
    ("faiss-lsh", 60, {}),
    ("faiss-lsh", 400, {}),
]


@pytest.mark.parametrize(("family", "bits", "params"), CASES, ids=[f"{f}-{b}" for f, b, _ in CASES])
def test_with_our_matrix_its_codes_are_ours(unit_words, family, bits, params):
    """Bit for bit, but where a value is within rounding of zero: Faiss sums in another order, so there both are right.

    Those are counted, too: a handful in a million.
    """
    x = unit_words[::4]
    h = lethevec.hasher(family, dim=100, bits=bits, seed=7, **params)
    matrix = h.matrix if hasattr(h, "matrix") else h.frame
    theirs = index_with(matrix).sa_encode(x)
    ours, values = h.codes(x), h.values(x)
    assert theirs.shape == ours.shape
    differ = np.unpackbits(theirs ^ ours, axis=1, bitorder="little").astype(bool)
    assert not differ[:, bits:].any()  # the bits past the end are zero in both
    differ = differ[:, :bits]
    size = np.linalg.norm(matrix, axis=0)  # |x| = 1, so this bounds each value
    assert (np.abs(values)[differ] <= 1e-6 * np.broadcast_to(size, values.shape)[differ]).all()
    assert differ.mean() < 2e-5


def test_the_comparison_sees_a_transposed_matrix(unit_words):
    """Which way round A lies matters: for a square frame both fit, and only one gives our codes."""
    x = unit_words[::100]
    h = lethevec.hasher("superbit", dim=100, bits=100, seed=7)
    wrong = index_with(np.ascontiguousarray(h.frame.T)).sa_encode(x)
    assert 0.4 < np.unpackbits(wrong ^ h.codes(x), axis=1).mean() * 104 / 100 < 0.6


@pytest.mark.parametrize("bits", [50, 100, 200, 800])
def test_with_its_own_matrix_its_recall_is_ours(words, bits):
    """Super-Bit's recall@10, the mean over four seeds; one seed varies by 0.003 to 0.009."""
    ours, theirs = [], []
    for seed in range(1000, 1004):
        index = faiss.IndexLSH(100, bits)
        index.rrot.init(seed)
        codes = [index.sa_encode(x) for x in (words.base, words.queries)]
        theirs.append(words.recall_at_10(words.ranked(*codes, bits)))
        ours.append(words.recall_at_10(words.rank(lethevec.hasher("superbit", dim=100, bits=bits, seed=seed))))
    assert np.mean(ours) == pytest.approx(np.mean(theirs), abs=0.02)


@pytest.mark.parametrize("bits", [50, 100])
def test_its_matrix_has_orthonormal_rows_up_to_dim(bits):
    """So IndexLSH is Super-Bit there as well, with the block cut, and not the simHash that the paper says."""
    A = own_matrix(faiss.IndexLSH(100, bits)).astype(np.float64)
    np.testing.assert_allclose(A @ A.T, np.eye(bits), atol=1e-5)


@pytest.mark.parametrize("bits", [200, 250])
def test_its_matrix_is_a_tight_frame_beyond(bits):
    """A^T A = I, the property of W^T: but its rows are not stacked rotations, and no block of them is orthogonal."""
    A = own_matrix(faiss.IndexLSH(100, bits)).astype(np.float64)
    np.testing.assert_allclose(A.T @ A, np.eye(100), atol=1e-5)
    block = A[:100] / np.linalg.norm(A[:100], axis=1, keepdims=True)
    assert np.abs(block @ block.T - np.eye(100)).max() > 0.1


def test_its_search_ranks_as_hamming_distance_does(words):
    """The distances that IndexLSH returns are those of our codes."""
    h = lethevec.hasher("superbit", dim=100, bits=200, seed=8)
    index = index_with(h.frame)
    index.add(words.base)
    distances, _ = index.search(words.queries[:50], 20)
    codes, queries = h.codes(words.base), h.codes(words.queries[:50])
    b = np.unpackbits(codes, axis=1, bitorder="little")
    q = np.unpackbits(queries, axis=1, bitorder="little")
    exact = np.sort(np.stack([(row != b).sum(axis=1) for row in q]), axis=1)[:, :20]
    assert np.abs(distances - exact).max() <= 1  # a bit within rounding of zero may differ
    assert (distances == exact).mean() > 0.99
