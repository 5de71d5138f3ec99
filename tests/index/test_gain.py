"""The gain of usr under l2 and ip: a function of the records' norms alone, whatever happened before."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec import reference
from lethevec._index.gain import NormCounts
from lethevec._progress import Progress

DIM = 8
ARGUMENTS = {"dim": DIM, "metric": "l2", "family": "usr", "bits": 3 * DIM}


def scaled(sizes, seed=0):
    """Random directions with these norms."""
    x = np.random.default_rng(seed).normal(size=(len(sizes), DIM))
    return (x / np.linalg.norm(x, axis=1, keepdims=True) * np.asarray(sizes)[:, None]).astype(np.float32)


def same_index(tools, a, b):
    assert a.digest() == b.digest()
    assert a.stats() == b.stats()
    ids = a.ids()
    for mine, others in zip(tools.stored(a, ids), tools.stored(b, ids), strict=True):
        np.testing.assert_array_equal(mine, others)


@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("ranking", ["asymmetric", "hamming"])
def test_crossing_steps_up_and_down(tools, metric, ranking):
    arguments = {**ARGUMENTS, "metric": metric, "ranking": ranking}
    x = scaled([1.0] * 50 + [40.0] * 30 + [1e-3] * 200 + [1e6])
    ids = np.arange(len(x))
    index = lethevec.Index(**arguments)
    means = []
    for cut in (slice(0, 50), slice(50, 80), slice(80, 280), slice(280, 281)):
        index.add(x[cut], ids=ids[cut])
        means.append(index.stats()["mean_norm"])
        same_index(tools, index, tools.build(arguments, x[: cut.stop], ids[: cut.stop]))
    assert len(set(means)) == 4
    for gone in (ids[280:], ids[50:80], ids[:50]):
        index.forget(gone)
        means.append(index.stats()["mean_norm"])
        left = index.ids()
        same_index(tools, index, tools.build(arguments, x[left], left))
    assert means[4] == means[2]
    index.update(scaled([7.0] * 200), ids=index.ids())
    same_index(tools, index, tools.build(arguments, scaled([7.0] * 200), ids[80:280]))
    index.forget(index.ids())
    assert index.stats() == lethevec.Index(**arguments).stats()
    assert index.stats()["mean_norm"] == 1.0


def test_small_moves_keep_the_codes(tools, monkeypatch):
    """Re-encoding when, and only when, the grid step changes."""
    encodings = []
    original = Progress.__init__
    monkeypatch.setattr(Progress, "__init__", lambda self, *a, **k: encodings.append(a[1]) or original(self, *a, **k))
    index = lethevec.Index(**ARGUMENTS)
    index.add(scaled([4.0] * 100), ids=range(100))
    assert len(encodings) == 1
    index.add(scaled([4.3] * 50, 1), ids=range(100, 150))
    index.forget(range(20))
    index.update(scaled([3.9] * 10, 2), ids=range(100, 110))
    assert len(encodings) == 1
    index.add(scaled([5.0] * 500, 3), ids=range(1000, 1500))
    assert len(encodings) == 2
    assert "mean norm" in encodings[0]


@pytest.mark.parametrize("sizes", [[1.0], [0.0, 0.0, 3.0], [1e-30] * 3 + [1e15], [5.0] * 10, [1e-3, 1.0, 1e3]])
def test_the_mean_is_what_the_spec_says(sizes):
    norms = np.float32(sizes)
    counts = NormCounts()
    counts.add(norms)
    assert counts.mean_norm() == reference.mean_norm(norms)
    true = float(norms.astype(np.float64).mean())
    # Half a grid step, and half a bucket.
    assert abs(np.log2(counts.mean_norm() / true)) <= 0.125 + 0.012


def test_counts_do_not_remember():
    rng = np.random.default_rng(0)
    base = rng.lognormal(size=300).astype(np.float32)
    counts = NormCounts()
    counts.add(base)
    fresh = counts.mean_norm()
    for seed in range(20):
        more = np.random.default_rng(seed).lognormal(sigma=20, size=50).astype(np.float32)
        counts.add(more)
        counts.add(more[::-1].copy(), -1)
    assert counts.mean_norm() == fresh
    copy = counts.copy()
    copy.add(base, -1)
    assert (copy.mean_norm(), counts.mean_norm()) == (1.0, fresh)
    assert copy._counts == {}


@pytest.mark.parametrize("call", ["add", "update", "forget"])
def test_an_interrupted_re_encoding_leaves_no_mixture(tools, monkeypatch, call):
    """Ctrl-C arrives where Python runs: in the progress report. Whatever the call then did, codes and records agree."""
    x = scaled([1.0] * 6000 + [90.0] * 6000)
    ids = np.arange(12_000)
    index = lethevec.Index(**ARGUMENTS)
    index.add(x[: 6000 if call == "add" else 12_000], ids=ids[: 6000 if call == "add" else 12_000])

    def interrupt(self, n=1):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "advance", interrupt)
        changes = {
            "add": lambda: index.add(x[6000:], ids=ids[6000:]),
            "update": lambda: index.update(scaled([1.0] * 6000), ids=ids[6000:]),
            "forget": lambda: index.forget(ids[6000:]),
        }
        with pytest.raises(KeyboardInterrupt):
            changes[call]()
    left = index.ids()
    same_index(tools, index, tools.build(ARGUMENTS, index.vectors(left), left))


@pytest.mark.parametrize("size", [2e-12, 1e-9])
def test_very_small_norms(tools, size):
    """The paper's alpha of these is large; nothing may overflow into answers."""
    dim = 1024
    x = np.random.default_rng(0).normal(size=(40, dim))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True) * size).astype(np.float32)
    x[:, 0] = np.float32(size)
    index = tools.build({"dim": dim, "metric": "l2", "family": "usr", "bits": dim}, x, np.arange(40))
    codes, _, factors = tools.stored(index, np.arange(40))
    assert np.isfinite(factors).all()
    hits = index.search(x[:3], k=40, effort=1e9)
    assert np.isfinite(hits.distances).all()
    assert sorted(hits.ids[0].tolist()) == list(range(40))
    assert len(np.unique(codes, axis=0)) == 40
