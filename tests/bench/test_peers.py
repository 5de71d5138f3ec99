"""The peers: each that is installed finds true neighbours, and the tuning takes the cheapest setting that suffices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lethevec
from lethevec.bench import peers
from lethevec.bench.experiments.encode import Dense, agreement
from lethevec.bench.measuring.data import Data, recall, with_truth
from lethevec.bench.measuring.tuning import tune_to
from lethevec.bench.peers.peer import F32, Ids, Peer, as_given, pad

# Peers are others' code: their warnings at import are not ours to fix.
pytestmark = pytest.mark.filterwarnings("ignore")


def small(metric: str, n: int = 3000, dim: int = 24) -> Data:
    """Clustered points with different norms, so that the metrics disagree."""
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((60, dim)) * 2
    points = centres[rng.integers(0, 60, n + 50)] + rng.standard_normal((n + 50, dim))
    points *= rng.uniform(0.6, 1.6, (n + 50, 1))
    points = points.astype(np.float32)
    return with_truth(f"small-{metric}", metric, points[:n], points[n:])


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("name", list(peers.SEARCHING))
def test_peer_finds_neighbours(name: str, metric: str, tmp_path: Path) -> None:
    kind = peers.SEARCHING[name]
    if kind.missing():
        pytest.skip(f"{name} is not installed")
    peer = kind()
    peer.folder = tmp_path
    data = small(metric)
    peer.build(data.train, data.metric)
    got = tune_to(peer, data, 0.9)
    queries = as_given(data.test, data.metric)
    alone = pad([peer.search_one(query, 10) for query in queries], 10)
    assert recall(data, alone) == pytest.approx(got, abs=0.02)
    if name == "flat":
        assert got == 1.0
    elif name == "lsh":  # no knob, and only angles: far from perfect, far above chance
        assert got > 0.1
    else:
        assert got >= 0.9


CHANGING: list[tuple[str, dict[str, Any]]] = [
    ("lethevec", {"source": None}),
    ("store", {}),
    ("flat", {"deletes": True}),
    ("lsh", {"expansion": 8, "deletes": True}),
    ("ivfpq", {"refined": False}),
    ("hnswlib", {"deletes": True}),
    ("voyager", {}),
    ("usearch", {}),
    ("turbovec", {"deletes": True}),
    ("scann", {"deletes": True}),
    ("rabitq-ivf", {"deletes": True}),
    ("zvec", {}),
    ("chroma", {}),
    ("sqlite-vec", {}),
]


@pytest.mark.parametrize(("name", "options"), CHANGING, ids=[name for name, _ in CHANGING])
def test_peer_that_changes_no_longer_finds_what_it_deleted(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    kind = peers.KINDS[name]
    if kind.missing():
        pytest.skip(f"{name} is not installed")
    peer = kind(**options)
    peer.folder = tmp_path / "own"
    peer.folder.mkdir()
    data = small("l2", n=1500)
    peer.build(data.train, "l2")
    tune_to(peer, data, 0.9)
    gone = np.unique(peer.search_batch(data.test, 1)[:, 0])
    peer.delete(gone[:-1])
    peer.delete(gone[-1:])
    assert not np.isin(peer.search_batch(data.test, 10), gone).any()
    peer.insert(peer.vectors[gone], gone)
    if name != "ivfpq":  # Faiss's fast-scan lists hardly find what is added after a removal
        assert np.isin(peer.search_batch(data.test, 1)[:, 0], gone).mean() > 0.5
    (tmp_path / "saved").mkdir()
    files = [path for path in peer.save(tmp_path / "saved").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) > 1500


class Stair(Peer):
    """Answers rightly as often as its first knob says; its second knob only costs."""

    name = "stair"
    module = "numpy"
    knobs = ("right", "cost")
    grids = (
        [(float(right), 50.0) for right in range(11)],
        [(float(right), 0.0) for right in range(0, 11, 2)],
        [(float(right), 0.0) for right in range(4)],
    )

    def fill(self, vectors: F32, metric: str) -> None:
        self.asked: set[tuple[float, ...]] = set()

    def _set(self, *setting: float) -> None:
        self.asked.add(setting)

    def search_one(self, query: F32, k: int) -> Ids:
        np.ones(int(self.setting[1]) * 2000).sum()
        order = np.argsort(np.linalg.norm(self.vectors - query, axis=1))
        right = int(self.setting[0])
        return np.concatenate([order[:right], order[-(k - right) :]])[:k]


def test_tuning_takes_the_cheapest_sufficient_setting() -> None:
    data = small("l2", n=200)
    stair = Stair()
    stair.build(data.train, "l2")
    assert tune_to(stair, data, 0.55) == pytest.approx(0.6)
    assert stair.setting == (6.0, 0.0)
    assert stair.describe() == "right=6, cost=0"
    assert len(stair.asked) < 12  # bisection, not a walk


def test_tuning_that_cannot_reach_the_target_takes_the_best() -> None:
    data = small("l2", n=200)
    stair = Stair()
    stair.grids = ([(float(right), 0.0) for right in range(8)],)
    stair.build(data.train, "l2")
    assert tune_to(stair, data, 0.95) == pytest.approx(0.7)
    assert stair.setting == (7.0, 0.0)


def test_binary_flat_ranks_by_hamming_distance() -> None:
    pytest.importorskip("faiss")
    codes: npt.NDArray[np.uint8] = np.random.default_rng(1).integers(0, 256, (500, 16), dtype=np.uint8)
    flat = peers.FaissBinaryFlat(128)
    flat.build_codes(codes)
    got = flat.search_batch(codes[:7], 5)  # type: ignore[arg-type]  # this peer takes codes
    distance = np.unpackbits(codes[:7, None] ^ codes[None], axis=2).sum(axis=2)
    assert (got[:, 0] == np.arange(7)).all()
    np.testing.assert_array_equal(np.take_along_axis(distance, got, axis=1), np.sort(distance, axis=1)[:, :5])


def test_binary_hash_finds_more_the_more_it_flips() -> None:
    pytest.importorskip("faiss")
    data = small("cosine", n=600)
    recalls = []
    peer = peers.FaissBinaryHash(96, key_bits=8)
    peer.build(data.train, "cosine")
    queries = peer.ready(as_given(data.test, "cosine"))
    for setting in peer.grids[0][:4]:
        peer.set(setting)
        recalls.append(recall(data, peer.search_batch(queries, 10)))
    assert recalls == sorted(recalls)
    assert recalls[0] < recalls[-1]


@pytest.mark.parametrize("family", ["superbit", "progressive", "usr"])
def test_numpy_rival_computes_the_same_family(family: str) -> None:
    """The rival in the encoding benchmark does all the work: its codes are ours but for rounding."""
    x = np.random.default_rng(2).standard_normal((300, 24)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    hasher = lethevec.hasher(family, dim=24, bits=96)
    dense = Dense(hasher)
    ours = hasher.codes(x, threads=1)
    assert agreement(ours, dense.codes(x)) > 0.999
    np.testing.assert_array_equal(dense.in_blocks(x, 7).shape, ours.shape)
    assert agreement(ours, dense.in_blocks(x, 7)) > 0.999
