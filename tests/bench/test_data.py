"""Data and truth: recall that is fair to ties and to nobody else, and queries apart for the choice of settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lethevec import datasets
from lethevec.bench.experiments import stand_in
from lethevec.bench.measuring import data as sets
from lethevec.bench.measuring import prepared
from lethevec.bench.measuring.data import Data, recall
from lethevec.bench.peers import peer

from .conftest import line_data


def slanted(metric: str) -> Data:
    """Points on a line with a second coordinate, so that angles differ too, and three queries."""
    train = np.stack([np.arange(40.0), np.ones(40)], axis=1).astype(np.float32)
    test = np.array([[10, 1], [0, 1], [30, 2]], dtype=np.float32)
    return sets.with_truth("line", metric, train, test, k=20)


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_truth_by_brute_force(metric: str) -> None:
    data = slanted(metric)
    x, q = data.train.astype(np.float64), data.test.astype(np.float64)
    if metric == "l2":
        full = np.linalg.norm(x[None] - q[:, None], axis=2)
    elif metric == "ip":
        full = -(q @ x.T)
    else:
        full = 1 - (q @ x.T) / np.linalg.norm(x, axis=1) / np.linalg.norm(q, axis=1)[:, None]
    np.testing.assert_allclose(data.nearest, np.sort(full, axis=1)[:, :20], atol=1e-12)


def test_recall_of_perfect_and_of_no_answers() -> None:
    data = slanted("l2")
    full = np.abs(data.train[None, :, 0] - data.test[:, None, 0])
    best = np.argsort(full, axis=1, kind="stable")[:, :10]
    assert recall(data, best) == 1.0
    assert recall(data, np.full((3, 10), -1)) == 0.0
    assert recall(data, np.argsort(-full, axis=1)[:, :10]) == 0.0


def test_recall_takes_either_of_two_at_the_same_distance() -> None:
    data = slanted("l2")
    left = np.array([[10, 9, 11, 8, 12, 7, 13, 6, 14, 5]])  # 5 and 15 are as far
    right = np.array([[10, 9, 11, 8, 12, 7, 13, 6, 14, 15]])
    wrong = np.array([[10, 9, 11, 8, 12, 7, 13, 6, 14, 16]])
    assert recall(data, left) == recall(data, right) == 1.0
    assert recall(data, wrong) == pytest.approx(0.9)


def test_recall_counts_a_repeated_id_once() -> None:
    assert recall(slanted("l2"), np.full((1, 10), 10)) == pytest.approx(0.1)


def test_settings_are_chosen_on_other_queries_with_their_own_truth() -> None:
    data = line_data()
    other = data.for_tuning()
    np.testing.assert_array_equal(other.test[:, 0], [20, 5])
    np.testing.assert_allclose(other.nearest[1, :4], [0, 1, 1, 2])
    assert other.for_tuning() is other


def test_without_data_the_bundled_words_are_used_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LETHEVEC_DATA", raising=False)
    assert sets.files([]) == [None]
    assert "bundled words" in capsys.readouterr().out
    data = sets.load(None, queries=20)
    assert data.tuning is not None
    assert data.train.shape == (19_960, 100)
    assert data.test.shape == data.tuning.vectors.shape == (20, 100)
    held = {row.tobytes() for part in (data.train, data.test, data.tuning.vectors) for row in part}
    assert held == {row.tobytes() for row in datasets.words().vectors}


def test_data_by_file_folder_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(1)
    train, test = rng.standard_normal((50, 4)), rng.standard_normal((12, 4))
    order = np.argsort(np.linalg.norm(train[None] - test[:, None], axis=2), axis=1)[:, :12]
    for name, truth in (("a", True), ("b", False)):
        with h5py.File(tmp_path / f"{name}.hdf5", "w") as file:
            file.attrs["distance"] = "euclidean"
            file["train"], file["test"] = train, test
            if truth:
                file["neighbors"] = order
    by_folder = sets.files([str(tmp_path)])
    monkeypatch.setenv("LETHEVEC_DATA", str(tmp_path))
    assert by_folder == sets.files([]) == [tmp_path / "a.hdf5", tmp_path / "b.hdf5"]
    assert sets.files([str(tmp_path / "b.hdf5")]) == by_folder[1:]
    a, b = (sets.load(path, queries=5) for path in by_folder)
    assert a.tuning is not None
    assert b.tuning is not None
    assert a.test.shape == a.tuning.vectors.shape == (5, 4)
    np.testing.assert_allclose(a.tuning.vectors, test[5:10].astype(np.float32))
    # From the neighbours in the file, or by brute force without them: the same.
    np.testing.assert_allclose(a.nearest[:, :12], b.nearest[:, :12])
    np.testing.assert_allclose(a.tuning.nearest[:, :12], b.tuning.nearest[:, :12])
    assert recall(a, order[:5]) == recall(a.for_tuning(), order[5:10]) == 1.0
    # Too few for both: half of them each.
    few = sets.load(by_folder[0], queries=1000)
    assert few.tuning is not None
    assert len(few.test) == len(few.tuning.vectors) == 6
    assert recall(few.for_tuning(), order[6:]) == 1.0


def test_truth_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LETHEVEC_DATA", raising=False)
    (first,) = prepared.prepare([], tmp_path, queries=5, limit=300)
    assert first.data.train.shape == (300, 100)

    def never(*arguments: object, **named: object) -> Data:
        raise AssertionError("computed again")

    monkeypatch.setattr(sets, "with_truth", never)
    (second,) = prepared.prepare([], tmp_path, queries=5, limit=300)
    np.testing.assert_array_equal(first.data.nearest, second.data.nearest)
    assert first.data.tuning is not None
    assert second.data.tuning is not None
    np.testing.assert_array_equal(first.data.tuning.nearest, second.data.tuning.nearest)
    assert (first.key, first.folder) == (second.key, second.folder)
    with pytest.raises(AssertionError, match="computed again"):
        prepared.prepare([], tmp_path, queries=6, limit=300)


def test_the_first_records_have_their_own_truth(tmp_path: Path) -> None:
    part = prepared.cut(line_data(), 5)
    np.testing.assert_allclose(part.nearest[0], [6, 7, 8, 9, 10])  # of the point 10, among 0 to 4
    np.testing.assert_allclose(part.for_tuning().nearest[0], [16, 17, 18, 19, 20])
    whole = line_data()
    prepared.write(whole, tmp_path / "line")
    given = prepared.Prepared(whole, tmp_path / "line", "key")
    notes: list[str] = []
    assert prepared.first(given, 0, notes.append) is prepared.first(given, 40, notes.append) is given
    for _ in range(2):
        np.testing.assert_allclose(prepared.first(given, 5, notes.append).data.nearest, part.nearest)
    assert len(notes) == 1  # the second time from the cache


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_pairs_have_twice_the_dimension_and_their_own_truth(tmp_path: Path, metric: str) -> None:
    points = slanted(metric)
    shifted = sets.with_truth("line", metric, points.train, points.test[:2], points.test[1:], k=20)
    prepared.write(shifted, tmp_path / "line")
    notes: list[str] = []
    for _ in range(2):
        made = prepared.pairs(prepared.Prepared(shifted, tmp_path / "line", "key"), notes.append)
    assert len(notes) == 1  # the second time from the cache
    data = made.data
    assert (data.name, made.key, data.train.shape, data.dim) == ("line in pairs", "key-pairs", (40, 4), 4)
    assert len(data.test) == len(data.for_tuning().test) == 2
    first = shifted.train / (np.linalg.norm(shifted.train, axis=1, keepdims=True) if metric == "cosine" else 1)
    np.testing.assert_allclose(data.train[:, :2], first, rtol=1e-6)
    np.testing.assert_allclose(np.sort(data.train[:, 2]), np.sort(first[:, 0]), rtol=1e-6)
    assert (data.train[:, 2:] != data.train[:, :2]).any()
    np.testing.assert_allclose(data.nearest[:, :20], sets.nearest_of(metric, data.train, data.test, 20), atol=1e-9)


# Made-up vectors -----------------------------------------------------------------------------------------------------


def test_a_stand_in_has_its_truth_and_begins_like_a_larger_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made block by block, and equal to brute force over all of it."""
    monkeypatch.setattr(stand_in, "BLOCK", 700)
    notes: list[str] = []
    large = stand_in.stand_in(tmp_path, 2000, 12, 15, notes.append).data
    small = stand_in.stand_in(tmp_path, 900, 12, 15, notes.append).data
    np.testing.assert_array_equal(large.train[:900], small.train)
    np.testing.assert_allclose(np.linalg.norm(large.train, axis=1), 1, rtol=1e-5)
    for data in (large, small):
        assert data.metric == "cosine"
        np.testing.assert_allclose(data.nearest, sets.nearest_of("cosine", np.array(data.train), data.test), atol=1e-6)
        tuning = data.for_tuning()
        assert not np.array_equal(tuning.test, data.test)
        np.testing.assert_allclose(
            tuning.nearest, sets.nearest_of("cosine", np.array(data.train), tuning.test), atol=1e-6
        )
    stand_in.stand_in(tmp_path, 900, 12, 15, notes.append)
    assert len(notes) == 2  # the third time it is there


@pytest.mark.parametrize("dim", [3, 8])
def test_the_local_dimension_of_a_cube_is_that_of_its_space(dim: int) -> None:
    rng = np.random.default_rng(4)
    data = sets.with_truth("cube", "l2", rng.random((40_000, dim), dtype=np.float32), 0.3 + 0.4 * rng.random((50, dim)))
    assert stand_in.dimension_of(data) == pytest.approx(dim, rel=0.15)


def test_unit_vectors_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(5).normal(size=(100, 7)).astype(np.float32)
    whole = peer.as_given(x, "cosine")
    monkeypatch.setattr(peer, "BLOCK", 9)
    np.testing.assert_array_equal(peer.as_given(x, "cosine"), whole)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, rtol=1e-6)
    assert not np.shares_memory(peer.as_given(x, "l2"), x)  # a competitor may write into what it is given
