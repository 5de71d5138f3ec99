"""The harness: recall that is fair to ties and to nobody else, turns, ratios, and records of what was measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lethevec import datasets
from lethevec.bench import THREAD_VARIABLES, harness, process
from lethevec.bench.harness import Data, Timing


def line_data(metric: str = "l2") -> Data:
    """Points 0, 1, 2, ... on a line (with a second coordinate, so that angles differ too), and three queries."""
    train = np.stack([np.arange(40.0), np.ones(40)], axis=1).astype(np.float32)
    test = np.array([[10, 1], [0, 1], [30, 2]], dtype=np.float32)
    return harness.with_truth("line", metric, train, test, k=20)


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_truth_by_brute_force(metric: str) -> None:
    data = line_data(metric)
    x, q = data.train.astype(np.float64), data.test.astype(np.float64)
    if metric == "l2":
        full = np.linalg.norm(x[None] - q[:, None], axis=2)
    elif metric == "ip":
        full = -(q @ x.T)
    else:
        full = 1 - (q @ x.T) / np.linalg.norm(x, axis=1) / np.linalg.norm(q, axis=1)[:, None]
    np.testing.assert_allclose(data.nearest, np.sort(full, axis=1)[:, :20], atol=1e-12)


def test_recall_of_perfect_and_of_no_answers() -> None:
    data = line_data()
    full = np.abs(data.train[None, :, 0] - data.test[:, None, 0])
    best = np.argsort(full, axis=1, kind="stable")[:, :10]
    assert harness.recall(data, best) == 1.0
    assert harness.recall(data, np.full((3, 10), -1)) == 0.0
    assert harness.recall(data, np.argsort(-full, axis=1)[:, :10]) == 0.0


def test_recall_takes_either_of_two_at_the_same_distance() -> None:
    data = line_data()
    left = np.array([[10, 9, 11, 8, 12, 7, 13, 6, 14, 5]])  # 5 and 15 are as far
    right = np.array([[10, 9, 11, 8, 12, 7, 13, 6, 14, 15]])
    wrong = np.array([[10, 9, 11, 8, 12, 7, 13, 6, 14, 16]])
    assert harness.recall(data, left) == harness.recall(data, right) == 1.0
    assert harness.recall(data, wrong) == pytest.approx(0.9)


def test_recall_counts_a_repeated_id_once() -> None:
    data = line_data()
    assert harness.recall(data, np.full((1, 10), 10)) == pytest.approx(0.1)


def test_competitors_take_turns() -> None:
    order: list[str] = []
    tasks = {name: (1, lambda name=name: order.append(name)) for name in "abc"}
    timings = harness.interleave(tasks, rounds=3)
    assert order == list("abcabcabc")
    assert all(len(timing.seconds) == len(timing.wall) == 3 for timing in timings.values())


def test_rounds_end_with_the_time_but_never_before_the_least() -> None:
    timings = harness.interleave({"a": (1, lambda: None)}, rounds=50, seconds=0.0, least=3)
    assert len(timings["a"].seconds) == 3


def test_figures_are_medians() -> None:
    timing = Timing("a", 1000, [1.0, 2.0, 10.0])
    assert timing.rate == 500
    assert timing.micros == 2000
    assert timing.spread == 4.5


def test_ratio_is_taken_within_rounds_and_for_one_unit_of_work() -> None:
    ours = Timing("ours", 100, [1.0, 2.0, 4.0])  # a machine that became slower for both
    theirs = Timing("theirs", 50, [1.5, 3.0, 6.0])
    assert harness.ratio(ours, theirs) == 3.0


def test_answers_are_kept_for_the_recall() -> None:
    run = harness.one_by_one(lambda query, k: np.array([int(query[0])]), np.array([[3.0], [7.0]], dtype=np.float32), 2)
    timing = harness.interleave({"a": (2, run)}, rounds=3)["a"]
    np.testing.assert_array_equal(timing.answer, [[3, -1], [7, -1]])


def test_report_records_what_the_figures_depend_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = harness.Report("toy", {"rounds": 3}, folder=tmp_path / "results")
    report.add_timing(Timing("a", 10, [0.5], [0.6]), recall=np.float64(0.5), k=np.int64(10))
    report.add(competitor="b", note=Path("x"))
    report.table("T", ("name", "value"), [("long name", 1), ("b", 22)])
    lines = [json.loads(line) for line in report.path.read_text().splitlines()]
    assert [line["competitor"] for line in lines] == ["a", "b"]
    first = lines[0]
    assert (first["rate"], first["recall"], first["k"], first["seconds"], first["wall"]) == (
        20.0,
        0.5,
        10,
        [0.5],
        [0.6],
    )
    assert first["parameters"] == {"rounds": 3}
    assert {"cpu", "cores", "isa", "versions", "commit", "clock", "load"} <= set(first["machine"])
    assert first["machine"]["versions"]["numpy"] == np.__version__
    assert "| long name | 1     |\n| b         | 22    |" in capsys.readouterr().out


def test_one_thread_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert not process.is_limited()
    limited = process.environment()
    assert {name: limited[name] for name in THREAD_VARIABLES} == {
        **dict.fromkeys(THREAD_VARIABLES, "1"),
        "OMP_NUM_THREADS": "3",
    }


def test_a_benchmark_starts_over_in_a_process_with_the_variables_set(tmp_path: Path) -> None:
    """As a user starts it, with none of them set: NumPy is loaded before our code runs, so a new process is needed."""
    environment = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    command = [sys.executable, "-m", "lethevec.bench.residue", "--vectors", "200", "--forget", "5", "--dim", "8"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    (found,) = tmp_path.glob("*.jsonl")
    threads = json.loads(found.read_text().splitlines()[0])["machine"]["threads"]
    assert threads == dict.fromkeys(THREAD_VARIABLES, "1")


def test_without_data_the_bundled_words_are_used_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LETHEVEC_DATA", raising=False)
    (data,) = harness.load_data([], queries=20)
    assert "bundled words" in capsys.readouterr().out
    assert data.train.shape == (19_980, 100)
    assert data.test.shape == (20, 100)
    vectors = datasets.words().vectors
    held = {row.tobytes() for row in data.train} | {row.tobytes() for row in data.test}
    assert held == {row.tobytes() for row in vectors}


def test_data_by_file_folder_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(1)
    train, test = rng.standard_normal((50, 4)), rng.standard_normal((6, 4))
    order = np.argsort(np.linalg.norm(train[None] - test[:, None], axis=2), axis=1)[:, :12]
    for name, truth in (("a", True), ("b", False)):
        with h5py.File(tmp_path / f"{name}.hdf5", "w") as file:
            file.attrs["distance"] = "euclidean"
            file["train"], file["test"] = train, test
            if truth:
                file["neighbors"] = order
    (by_file,) = harness.load_data([str(tmp_path / "a.hdf5")], queries=5)
    by_folder = harness.load_data([str(tmp_path)], queries=5)
    monkeypatch.setenv("LETHEVEC_DATA", str(tmp_path))
    by_environment = harness.load_data([], queries=5)
    assert [data.name for data in by_folder] == [data.name for data in by_environment] == ["a", "b"]
    assert by_file.test.shape == (5, 4)
    # From the neighbours in the file, or by brute force without them: the same.
    np.testing.assert_allclose(by_folder[0].nearest[:, :12], by_folder[1].nearest[:, :12])
    assert harness.recall(by_file, order[:5]) == 1.0


def test_clock_and_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_clock", ["wall"])
    calls: list[object] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *given: calls.append(given), raising=False)
    harness.start(harness.parser("x").parse_args(["--clock", "cpu", "--pin", "0"]))
    assert harness._clock == ["cpu"]
    assert calls == [(0, {0})]
