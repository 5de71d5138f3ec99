"""Processes, turns, stages and areas: what the figures of a run rest on, on examples that can be checked by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lethevec.bench import paper, peers
from lethevec.bench.experiments import peers as peers_experiment
from lethevec.bench.experiments.paper2 import area, curve, right_answers
from lethevec.bench.measuring import data as sets_of
from lethevec.bench.measuring import prepared, sessions, timing, turns
from lethevec.bench.measuring.field import Competitor, Field
from lethevec.bench.measuring.machine import plain
from lethevec.bench.measuring.prepared import Prepared
from lethevec.bench.measuring.residue import beyond, found_of
from lethevec.bench.measuring.tuning import raise_to, thinned
from lethevec.bench.measuring.worker import Worker, WorkerError
from lethevec.bench.peers.peer import F32, Ids, Peer
from lethevec.bench.report import analysis, results
from lethevec.bench.report.results import Results

from .conftest import line_data

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


def test_a_set_may_be_named_without_its_metric(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sets_of.datasets, "download", lambda name: tmp_path / name)
    for name in ("deep-image-96", "deep-image-96-angular"):
        assert sets_of.files([name]) == [tmp_path / "deep-image-96-angular"]
    assert sets_of.files(["glove-25"]) == [tmp_path / "glove-25-angular"]
    assert sets_of.files(["deep-image"]) == [Path("deep-image")]  # no set, so a file, which will be missed


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

    def fill(self, vectors: F32, metric: str) -> None:
        self.points = vectors
        self.seen: list[float] = []

    def _set(self, *setting: float) -> None:
        self.part = self.points[: int(setting[0] * len(self.points))]

    def search_one(self, query: F32, k: int) -> Ids:
        self.clock.now += 0.01
        self.seen.append(float(query[0]))
        return np.argsort(np.linalg.norm(self.part - query, axis=1))[:k]


def test_a_knob_is_turned_up_until_the_recall_is_there_and_never_down() -> None:
    data, peer = line_data(), Exact()
    peer.fill(data.train, "l2")
    peer.clock = Clock()
    for start, least, setting, found in (
        (0.25, 0.5, 0.25, 4 / 6),
        (0.25, 0.7, 0.275, 5 / 6),
        (1.0, 0.5, 1.0, 1.0),
        (0.25, 1.1, 2.0, 1.0),  # which nobody has
    ):
        peer.set((start,))
        assert raise_to(peer, data, least, 3) == pytest.approx(found)
        assert peer.setting == (setting,)


class Here:
    """A worker that is not another process."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def call(self, name: str, **arguments: Any) -> Any:
        return json.loads(json.dumps(getattr(self.session, name)(**arguments), default=plain))

    def close(self) -> None:
        pass


@pytest.fixture
def field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Field:
    clock = Clock()
    monkeypatch.setattr(sessions, "time", clock)
    monkeypatch.setattr(timing, "time", clock)
    monkeypatch.setattr(Exact, "clock", clock, raising=False)
    monkeypatch.setitem(peers.KINDS, "exact", Exact)
    data = line_data()
    prepared.write(data, tmp_path / "line")
    made = Field(Prepared(data, tmp_path / "line", "key"), tmp_path / "logs", 30.0, None, lambda text: None)
    session = sessions.Session(str(tmp_path / "line"))
    session.build("exact", {})
    made.workers["exact"] = Here(session)  # type: ignore[assignment]
    real = turns.recall

    def slow_recall(*arguments: Any) -> float:
        clock.now += 1000.0
        return real(*arguments)

    monkeypatch.setattr(turns, "recall", slow_recall)
    return made


def peer_of(field: Field) -> Exact:
    return field.workers["exact"].session.peer  # type: ignore[attr-defined, no-any-return]


def test_the_clock_does_not_run_while_truth_is_counted(field: Field) -> None:
    points = turns.curves(field, k=4, count=4, rounds=3)
    # Nothing is gained beyond recall 1. Among 0 to 9, two of the four nearest of 10 are missing; among 0 to 10, one;
    # and none for 0.
    found = {point["setting"]: point["recall"] for point in points}
    assert found == {(0.25,): 0.75, (0.275,): 0.875, (1.0,): 1.0}
    for point in points:
        assert point["rate"] == pytest.approx(100.0)  # a hundredth of a second each: not the 1000 of the truth
        assert len(point["wall"]) == len(point["counts"]) == 3


def test_settings_are_chosen_on_queries_that_are_not_timed(field: Field) -> None:
    turns.choose(field, k=4, count=4, patience=6.0)
    assert set(peer_of(field).seen) == {20.0, 5.0}
    peer_of(field).seen.clear()
    found = turns.at_recall(field, 0.9, k=4, rounds=3, seconds=10.0)
    assert found["exact"].setting == "share=1"
    assert found["exact"].recall == 1.0
    assert found["exact"].timing.rate == pytest.approx(100.0)
    asked = peer_of(field).seen
    assert set(asked[: asked.index(10.0)]) == {20.0, 5.0}  # all the tuning comes first
    assert set(asked[asked.index(10.0) :]) == {10.0, 0.0}


def test_tuning_for_one_set_of_queries_need_not_suffice_for_another(field: Field) -> None:
    """The target is reached where settings are chosen; the recall that is told is that of the timed queries."""
    found = turns.at_recall(field, 0.5, k=4, rounds=3, seconds=10.0)
    assert found["exact"].setting == "share=0.25"  # 5 is among 0 to 9 with all its neighbours, 20 is not: 0.5
    assert found["exact"].recall == 0.75  # of the four nearest of 10 two are missing, of those of 0 none


def test_a_setting_is_worth_showing_unless_another_beats_it_clearly() -> None:
    points = [(0.5, 1000.0, (1.0,)), (0.6, 1100.0, (2.0,)), (0.7, 600.0, (3.0,)), (0.7, 400.0, (4.0,))]
    assert turns.worth_showing(points) == [(1.0,), (2.0,), (3.0,)]


def test_a_slow_setting_is_asked_as_many_queries_as_fit(field: Field) -> None:
    got = field.workers["exact"].call("time", setting=[1.0], k=2, seconds=0.005)
    assert got["count"] == 1
    assert got["wall"] == pytest.approx(0.01)


def test_queries_in_batches(field: Field) -> None:
    got = field.workers["exact"].call("time", setting=[1.0], k=2, batch=2)
    assert got["count"] == 2
    assert np.array(got["ids"]).shape == (2, 2)


def test_a_grid_ends_where_it_is_too_slow(field: Field) -> None:
    assert turns.choose(field, k=4, count=4, patience=6.0, slowest=1000.0) == {"exact": [(0.25,)]}


def test_one_that_fails_is_out_and_the_rest_goes_on(field: Field) -> None:
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


def test_who_is_out_says_why_but_not_where(field: Field) -> None:
    field.out("a", error="save: OSError: [Errno 28] no space: '/home/ann/x/file.bin' (at /srv/data/y.py:7), 3/4 done")
    assert field.lines[-1]["error"] == "save: OSError: [Errno 28] no space: 'file.bin' (at y.py:7), 3/4 done"


def test_pareto_keeps_what_nothing_beats() -> None:
    points = [(0.9, 100.0), (0.95, 50.0), (0.8, 90.0), (0.9, 80.0), (0.99, 50.0)]
    assert turns.pareto(points) == [(0.9, 100.0), (0.99, 50.0)]
    assert analysis.rate_at(points, 0.8) == analysis.rate_at(points, 0.9) == 100.0
    assert analysis.rate_at(points, 0.945) == pytest.approx(np.sqrt(100 * 50))  # half way, on a log scale
    assert analysis.rate_at(points, 0.995) is None


def test_a_set_that_does_not_fit_is_measured_without_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_experiment, "available", lambda: 1000)
    assert peers_experiment.fits(40, 10)
    assert not peers_experiment.fits(50, 10)
    monkeypatch.setattr(peers_experiment, "available", lambda: None)  # the system does not say
    assert peers_experiment.fits(50, 10)


def test_thinned_keeps_the_ends() -> None:
    grid = [(float(i),) for i in range(100)]
    assert thinned(grid, 4) == [(0.0,), (33.0,), (66.0,), (99.0,)]
    assert thinned(grid[:3], 10) == grid[:3]


def test_missing_package_is_named(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exact, "module", "not_to_be_found")
    field.enter([Competitor("Exact", "exact")])
    assert field.lines[0]["skipped"] == "the package 'not_to_be_found' is not installed"


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


@pytest.mark.parametrize("rows", [[3], [9, 8], [8, 9], [0, 9, 4], [7, 2, 8, 0], []])
def test_rows_are_moved_to_the_end_in_place(rows: list[int]) -> None:
    vectors = np.arange(20, dtype=np.float32).reshape(10, 2)
    before = vectors.copy()
    sessions.to_the_end(vectors, rows)
    for place, row in enumerate(rows, 1):
        np.testing.assert_array_equal(vectors[-place], before[row])
    assert sorted(map(tuple, vectors.tolist())) == sorted(map(tuple, before.tolist()))
    if rows == [9, 8]:  # the last ones, the last first: nothing moves, so ids stay rows
        np.testing.assert_array_equal(vectors, before)
