"""Turns, medians and ratios; one thread; memory; and records of what the figures depend on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lethevec.bench import THREAD_VARIABLES
from lethevec.bench.measuring import memory, process, timing
from lethevec.bench.measuring.machine import machine
from lethevec.bench.measuring.timing import Timing, Turn, ratio, take_turns, task


def test_competitors_take_turns() -> None:
    order: list[str] = []
    timings = take_turns({name: task(1, lambda name=name: order.append(name)) for name in "abc"}, rounds=3)
    assert order == list("abcabcabc")
    assert all(len(one.seconds) == 3 for one in timings.values())


def test_one_that_drops_out_is_not_asked_again() -> None:
    asked: list[str] = []

    def broken() -> Turn | None:
        asked.append("broken")
        return None if len(asked) == 2 else Turn(1, 1.0, 1.0)

    timings = take_turns({"broken": broken, "fine": task(1, lambda: None)}, rounds=5)
    assert list(timings) == ["fine"]
    assert len(asked) == 2


def test_rounds_end_with_the_time_but_never_before_the_least() -> None:
    timings = take_turns({"a": task(1, lambda: None)}, rounds=50, seconds=0.0, least=3)
    assert len(timings["a"].turns) == 3


def test_figures_are_medians_of_the_chosen_clock() -> None:
    turns = [Turn(1000, wall, 2 * wall) for wall in (1.0, 2.0, 10.0)]
    wall, cpu = Timing("a", "wall", turns), Timing("a", "cpu", turns)
    assert (wall.rate, cpu.rate) == (500, 250)
    assert (wall.micros, cpu.micros) == (2000, 4000)
    assert wall.spread == cpu.spread == 4.5
    assert wall.line() == {
        "counts": [1000] * 3,
        "wall": [1.0, 2.0, 10.0],
        "cpu": [2.0, 4.0, 20.0],
        "rate": 500,
        "clock": "wall",
    }


def test_ratio_is_taken_within_rounds_and_for_one_unit_of_work() -> None:
    ours = Timing("ours", "wall", [Turn(100, s, s) for s in (1.0, 2.0, 4.0)])  # a machine that became slower for both
    theirs = Timing("theirs", "wall", [Turn(50, s, s) for s in (1.5, 3.0, 6.0)])
    assert ratio(ours, theirs) == 3.0


def test_answers_are_kept_for_the_recall() -> None:
    answers = iter([[1], [2], [3]])
    assert take_turns({"a": task(2, lambda: next(answers))}, rounds=3)["a"].answer == [3]


def test_pin_binds_and_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *given: calls.append(given), raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    with timing.Pin(1):
        assert calls == [(0, {1})]
    assert calls[1:] == [(0, {0, 1})]
    with timing.Pin(None):
        assert len(calls) == 2
    assert timing.last_cpu() == 1


def test_what_the_figures_depend_on_is_told() -> None:
    told = machine()
    assert {"cpu", "cores", "isa", "versions", "commit", "load", "threads"} <= set(told)
    assert told["versions"]["numpy"] == np.__version__


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


def test_a_benchmark_starts_again_in_a_process_with_the_variables_set(tmp_path: Path) -> None:
    """As a user starts it, with none of them set: NumPy is loaded before our code runs, so a new process is needed."""
    environment = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    command = [sys.executable, "-m", "lethevec.bench", "encode", "--batch", "20", "--rounds", "1", "--isa", "scalar"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "results.jsonl").read_text().splitlines()[0])["machine"]
    assert told["threads"] == dict.fromkeys(THREAD_VARIABLES, "1")
    assert told["isa"] == "scalar"


def test_memory_counts_what_is_held_and_not_what_is_mapped(tmp_path: Path) -> None:
    size = 40_000_000
    np.save(tmp_path / "a.npy", np.ones(size, dtype=np.uint8))
    before = memory.settled()
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert mapped.sum() == size  # all of its pages were read
    with_mapped = memory.settled() - before
    held = np.ones(size, dtype=np.uint8)
    with_held = memory.settled() - before
    del held
    after = memory.settled() - before
    if before == 0:
        pytest.skip("this system does not say how much memory a process holds")
    assert abs(with_mapped) < size / 4
    assert 0.75 * size < with_held < 1.25 * size
    assert abs(after) < size / 4
