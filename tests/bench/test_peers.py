"""The peers: each that is installed finds true neighbours, and the tuning takes the cheapest setting that suffices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import lethevec
from lethevec.bench import harness, peers
from lethevec.bench.encode import Dense, agreement
from lethevec.bench.harness import F32, Data, Ids
from lethevec.bench.peer import Peer, queries_for, tune_to

# Peers are others' code: their warnings at import are not ours to fix.
pytestmark = pytest.mark.filterwarnings("ignore")


def small(metric: str, n: int = 3000, dim: int = 24) -> Data:
    """Clustered points with different norms, so that the metrics disagree."""
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((60, dim)) * 2
    points = centres[rng.integers(0, 60, n + 50)] + rng.standard_normal((n + 50, dim))
    points *= rng.uniform(0.6, 1.6, (n + 50, 1))
    points = points.astype(np.float32)
    return harness.with_truth(f"small-{metric}", metric, points[:n], points[n:])


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("name", list(peers.ALL))
def test_peer_finds_neighbours(name: str, metric: str) -> None:
    made = peers.make([name])
    if not made:
        pytest.skip(f"{name} is not installed")
    (peer,) = made
    data = small(metric)
    peer.build(data.train, data.metric)
    got = tune_to(peer, data, 0.9)
    queries = queries_for(data)
    alone = harness.one_by_one(peer.search_one, queries, 10)()
    assert harness.recall(data, alone) == pytest.approx(got, abs=0.02)
    if name == "flat":
        assert got == 1.0
    elif name == "lsh":  # no knob, and only angles: far from perfect, far above chance
        assert got > 0.1
    else:
        assert got >= 0.9


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

    def _build(self, vectors: F32, metric: str) -> None:
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


def test_missing_peer_is_skipped_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(peers.Annoy, "module", "annoy_that_is_not_there")
    assert peers.make(["annoy"]) == []
    assert "Annoy is skipped: the package 'annoy_that_is_not_there' is not installed" in capsys.readouterr().out


def test_binary_flat_ranks_by_hamming_distance() -> None:
    pytest.importorskip("faiss")
    codes: npt.NDArray[np.uint8] = np.random.default_rng(1).integers(0, 256, (500, 16), dtype=np.uint8)
    flat = peers.FaissBinary()
    flat.build_codes(codes)
    got = flat.search_batch(codes[:7], 5)  # type: ignore[arg-type]  # this peer takes codes
    distance = np.unpackbits(codes[:7, None] ^ codes[None], axis=2).sum(axis=2)
    assert (got[:, 0] == np.arange(7)).all()
    np.testing.assert_array_equal(np.take_along_axis(distance, got, axis=1), np.sort(distance, axis=1)[:, :5])


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
