"""Processes, turns, stages and areas: what the figures of a run rest on, on examples that can be checked by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lethevec.bench import analysis, harness, memory, paper, peers_part, prepared, results, sessions, turns
from lethevec.bench.harness import F32, Data, Ids
from lethevec.bench.paper2 import area, curve, right_answers
from lethevec.bench.paper3 import beyond
from lethevec.bench.peer import Peer, thinned
from lethevec.bench.residue import found_of
from lethevec.bench.results import Results
from lethevec.bench.worker import Worker, WorkerError


def line_data(n: int = 40) -> Data:
    """Points 0, 1, 2, ... on a line, and two queries on points of it."""
    train = np.stack([np.arange(float(n)), np.zeros(n)], axis=1).astype(np.float32)
    return harness.with_truth("line", "l2", train, train[[10, 0]].copy(), k=20)


# Precision and recall ------------------------------------------------------------------------------------------------


def test_right_answers_are_counted_by_distance() -> None:
    data = line_data()
    # The three nearest of 10 are 10 and two of 9, 11 (equally far). For 0 they are 0, 1, 2.
    ids = np.array([[10, 12, 11, 9], [5, 0, 2, -1]])
    np.testing.assert_array_equal(right_answers(data, ids, 3), [[1, 1, 2, 3], [0, 1, 2, 2]])


def test_a_tie_does_not_make_more_right_answers_than_there_are() -> None:
    data = line_data()
    ids = np.array([[10, 9, 11, 8]])  # 9 and 11 are equally near: two are true neighbours, three are as near
    np.testing.assert_array_equal(right_answers(data, ids, 2), [[1, 2, 2, 2]])


def test_curve_and_area_by_hand() -> None:
    """Two queries, two true neighbours: right after 1, 2, 3 results are 1, 1, 2 and 0, 1, 2."""
    precision, recall = curve(np.array([[1, 1, 2], [0, 1, 2]]), 2)
    np.testing.assert_allclose(precision, [0.5, 0.5, 2 / 3])
    np.testing.assert_allclose(recall, [0.25, 0.5, 1.0])
    assert area(precision, recall) == pytest.approx(0.25 * 0.5 + 0.5 * (0.5 + 2 / 3) / 2)


def test_the_papers_improvements_follow_from_its_areas() -> None:
    """Its table rounds areas to two digits; the percentages must be possible for areas that round so."""
    for (key, family), gains in paper.IMPROVEMENTS.items():
        areas = paper.SETS[key].areas
        for place, gain in enumerate(gains):
            ours, base = areas[family][place], areas["simhash"][place]
            least, most = (ours - 0.005) / (base + 0.005), (ours + 0.005) / (base - 0.005)
            assert least - 0.01 <= 1 + gain / 100 <= most + 0.01, (key, family, place)


def test_sets_are_recognised_by_name() -> None:
    assert paper.key_of("glove-100-331k-angular") == "glove-100"
    assert paper.key_of("sift-128-euclidean") == "sift"
    assert paper.key_of("words") is None
    assert paper.expansions("deep-image-96-angular") == (2, 3, 4, 5, 6, 7, 8)
    assert paper.expansions("words") == (2, 4, 6, 8, 10, 12, 16, 20)
    assert paper.expansions("words", quick=True) == (2, 10, 20)


# Residue -------------------------------------------------------------------------------------------------------------


def test_what_survivors_have_in_common_with_the_deleted_is_no_trace(tmp_path: Path) -> None:
    """Vectors of small whole numbers, as in SIFT: six in a row are often the same as in another."""
    rng = np.random.default_rng(1)
    vectors = np.where(np.arange(64) < 24, np.arange(64) % 3, rng.integers(1, 200, (50, 64))).astype(np.float32)
    gone, left = vectors[:5], vectors[5:]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(left.tobytes())
    chance = found_of(gone, tmp_path / "a")
    assert min(chance) > 0
    assert beyond(found_of(gone, tmp_path / "a"), chance) == 0
    for kept, expected in ((gone[2].tobytes(), 1), (gone[2].tobytes()[120:200], 1), (gone.tobytes(), 5)):
        (tmp_path / "b").mkdir(exist_ok=True)
        (tmp_path / "b" / "file").write_bytes(left[:20].tobytes() + kept + left[20:].tobytes())
        assert beyond(found_of(gone, tmp_path / "b"), chance) == expected


# Turns ---------------------------------------------------------------------------------------------------------------


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    process_time = perf_counter


class Exact(Peer):
    """Looks at the first `share` of the points; a query takes a hundredth of a second of the clock."""

    name, module, knobs = "exact", "numpy", ("share",)
    grids = ([(0.25,), (0.275,), (1.0,), (2.0,)],)
    clock: Clock

    def _build(self, vectors: F32, metric: str) -> None:
        self.points = vectors

    def _set(self, *setting: float) -> None:
        self.part = self.points[: int(setting[0] * len(self.points))]

    def search_one(self, query: F32, k: int) -> Ids:
        self.clock.now += 0.01
        return np.argsort(np.linalg.norm(self.part - query, axis=1))[:k]


class Here:
    """A worker that is not another process."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def call(self, name: str, **arguments: Any) -> Any:
        return json.loads(json.dumps(getattr(self.session, name)(**arguments), default=harness.plain))

    def close(self) -> None:
        pass


@pytest.fixture
def field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> turns.Field:
    clock = Clock()
    monkeypatch.setattr(sessions, "time", clock)
    monkeypatch.setattr(Exact, "clock", clock, raising=False)
    monkeypatch.setitem(sessions.KINDS, "exact", Exact)
    data = line_data()
    prepared.write(data, tmp_path / "line")
    made = turns.Field(data, tmp_path / "line", tmp_path / "logs", 30.0, None, lambda text: None)
    session = sessions.Searching(str(tmp_path / "line"))
    session.build("exact", {})
    made.workers["exact"] = Here(session)  # type: ignore[assignment]
    real = turns.recall

    def slow_recall(*arguments: Any) -> float:
        clock.now += 1000.0
        return real(*arguments)

    monkeypatch.setattr(turns, "recall", slow_recall)
    return made


def test_the_clock_does_not_run_while_truth_is_counted(field: turns.Field) -> None:
    points = turns.curves(field, k=4, count=4, rounds=3)
    assert [point["setting"] for point in points] == [[0.25], [0.275], [1.0]]  # nothing is gained beyond recall 1
    # Among 0 to 9, two of the four nearest of 10 are missing; among 0 to 10, one; and none for 0.
    assert [point["recall"] for point in points] == [0.75, 0.875, 1.0]
    for point in points:
        assert point["rate"] == pytest.approx(100.0)  # a hundredth of a second each: not the 1000 of the truth
        assert len(point["wall"]) == len(point["counts"]) == 3


def test_a_slow_setting_is_asked_as_many_queries_as_fit(tmp_path: Path, field: turns.Field) -> None:
    got = field.workers["exact"].call("time", setting=[1.0], k=2, seconds=0.005)
    assert got["count"] == 1
    assert got["wall"] == pytest.approx(0.01)


def test_a_grid_ends_where_it_is_too_slow(field: turns.Field) -> None:
    points = turns.curves(field, k=4, count=4, rounds=1, slowest=1000.0)
    assert len(points) == 1


def test_one_that_fails_is_out_and_the_rest_goes_on(field: turns.Field) -> None:
    class Broken:
        def call(self, name: str, **arguments: Any) -> Any:
            if name == "settings":
                return [[[1.0]]]
            raise WorkerError("time: it broke")

        def close(self) -> None:
            pass

    field.workers["broken"] = Broken()  # type: ignore[assignment]
    points = turns.curves(field, k=4, count=4, rounds=2)
    assert {point["competitor"] for point in points} == {"exact"}
    assert field.lines == [{"what": "out", "competitor": "broken", "error": "time: it broke"}]


def test_who_is_out_says_why_but_not_where(field: turns.Field) -> None:
    field.out("a", error="save: OSError: [Errno 28] no space: '/home/ann/x/file.bin' (at /srv/data/y.py:7), 3/4 done")
    assert field.lines[-1]["error"] == "save: OSError: [Errno 28] no space: 'file.bin' (at y.py:7), 3/4 done"


def test_pareto_keeps_what_nothing_beats() -> None:
    points = [(0.9, 100.0), (0.95, 50.0), (0.8, 90.0), (0.9, 80.0), (0.99, 50.0)]
    assert turns.pareto(points) == [(0.9, 100.0), (0.99, 50.0)]
    assert analysis.rate_at(points, 0.8) == analysis.rate_at(points, 0.9) == 100.0
    assert analysis.rate_at(points, 0.945) == pytest.approx(np.sqrt(100 * 50))  # half way, on a log scale
    assert analysis.rate_at(points, 0.995) is None


def test_a_set_that_does_not_fit_is_measured_without_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_part, "available", lambda: 1000)
    assert peers_part.fits(40, 10)
    assert not peers_part.fits(50, 10)
    monkeypatch.setattr(peers_part, "available", lambda: None)  # the system does not say
    assert peers_part.fits(50, 10)


def test_thinned_keeps_the_ends() -> None:
    grid = [(float(i),) for i in range(100)]
    assert thinned(grid, 4) == [(0.0,), (33.0,), (66.0,), (99.0,)]
    assert thinned(grid[:3], 10) == grid[:3]


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exact, "module", "not_to_be_found")
    monkeypatch.setitem(sessions.KINDS, "exact", Exact)
    made = turns.Field(line_data(), tmp_path, tmp_path, 1.0, None, lambda text: None)
    made.enter([turns.Competitor("Exact", "exact")])
    assert made.lines[0]["skipped"] == "the package 'not_to_be_found' is not installed"


# Processes -----------------------------------------------------------------------------------------------------------


ODD = """
import os, sys, time
import numpy as np

class Odd:
    def __init__(self, start):
        print("printed by the competitor", flush=True)
        self.start = start
    def add(self, number): return self.start + number
    def array(self): return np.array([1, 2, 3])
    def variable(self, key): return os.environ.get(key)
    def fail(self): raise ValueError("expected more")
    def hang(self): time.sleep(600)
    def die(self):
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
"""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A competitor that fails, dies or hangs when it is asked to."""
    (tmp_path / "odd_competitor.py").write_text(ODD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = Worker("odd_competitor:Odd", {"start": 5}, log=tmp_path / "logs" / "odd.log", limit=60.0)
    yield worker
    worker.close()


def test_worker_answers_and_keeps_what_is_printed_apart(odd: Worker) -> None:
    assert odd.call("add", number=2) == 7
    assert odd.call("array") == [1, 2, 3]
    assert "printed by the competitor" in odd.log.read_text()


def test_worker_survives_an_error_and_tells_it(odd: Worker) -> None:
    with pytest.raises(WorkerError, match=r"^fail: ValueError: expected more$"):
        odd.call("fail")
    assert odd.call("add", number=1) == 6


def test_worker_that_dies_is_told_with_its_last_words(odd: Worker) -> None:
    with pytest.raises(WorkerError, match=r"^die: the process ended with 3 \(last words\)$"):
        odd.call("die")
    with pytest.raises(WorkerError, match=r"add: the process ended with 3"):
        odd.call("add", number=1)


def test_worker_that_hangs_is_stopped(odd: Worker) -> None:
    with pytest.raises(WorkerError, match=r"^hang: not done after 0.2 s, so it was stopped$"):
        odd.call("hang", limit=0.2)
    assert odd._process.poll() is not None


def test_workers_have_one_thread(odd: Worker) -> None:
    assert odd.call("variable", key="OMP_NUM_THREADS") == os.environ.get("OMP_NUM_THREADS", "1")


# Results and data ----------------------------------------------------------------------------------------------------


def test_stages_that_did_not_end_are_not_read_and_are_dropped(tmp_path: Path) -> None:
    first = Results(tmp_path, {"rounds": 3})
    first.stage("peers", "line", [{"what": "point", "recall": np.float64(0.5)}], "peers//a")
    with first.path.open("a") as file:  # killed in the middle of the next
        file.write(
            json.dumps({"part": "peers", "data": "line", "stage": "peers//b", "what": "point"}) + '\n{"part": "pe'
        )
    again = Results(tmp_path, {"rounds": 3}, resume=True)
    assert again.done == {"peers//a"}
    again.stage("peers", "line", [{"what": "point", "recall": 0.7}], "peers//b")
    found = results.results_of(results.read(again.path), "peers", "line")
    assert [line["recall"] for line in found] == [0.5, 0.7]
    assert all({"machine", "parameters", "run"} <= set(line) for line in found)
    assert {"cpu", "commit", "versions"} <= set(found[0]["machine"])


def test_without_resume_earlier_results_are_set_aside(tmp_path: Path) -> None:
    Results(tmp_path, {}).stage("peers", "line", [], "a")
    fresh = Results(tmp_path, {})
    assert fresh.done == set()
    assert not fresh.path.exists()
    assert len(list(tmp_path.glob("results-before-*.jsonl"))) == 1


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


def test_truth_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LETHEVEC_DATA", raising=False)
    (first,) = prepared.prepare([], tmp_path, queries=5, limit=300)
    assert first.data.train.shape == (300, 100)

    def never(*arguments: object, **named: object) -> Data:
        raise AssertionError("computed again")

    monkeypatch.setattr(harness, "with_truth", never)
    (second,) = prepared.prepare([], tmp_path, queries=5, limit=300)
    np.testing.assert_array_equal(first.data.nearest, second.data.nearest)
    assert (first.key, first.folder) == (second.key, second.folder)
    with pytest.raises(AssertionError, match="computed again"):
        prepared.prepare([], tmp_path, queries=6, limit=300)


def test_cut_has_its_own_truth() -> None:
    part = prepared.cut(line_data(), 5)
    np.testing.assert_allclose(part.nearest[0], [6, 7, 8, 9, 10])  # of the point 10, among 0 to 4
