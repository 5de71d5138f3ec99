"""Runbooks, and the truth over those that live: a stream of a few points, checked by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lethevec.bench import cli
from lethevec.bench.experiments import runbook, streaming
from lethevec.bench.experiments.run import Run
from lethevec.bench.experiments.runbook import Step
from lethevec.bench.measuring import prepared
from lethevec.bench.measuring.data import with_truth
from lethevec.bench.report.results import Results
from lethevec.errors import FormatError

TRACK = """\
random-xs:
  max_pts: 10000
  1:
    operation: "insert"
    start: 0
    end: 100
  2:
    operation: "search"   # at once
  10:
    operation: search
  3:
    operation: "delete"
    start: 1
    end: 50
  4:
    operation: "replace"
    tags_start: 60
    tags_end: 70
    ids_start: 200
    ids_end: 210
  gt_url: "https://example.org/a:b"

other:
  1:
    operation: "search"
"""


def test_runbook_of_the_track_is_read(tmp_path: Path) -> None:
    path = tmp_path / "runbook.yaml"
    path.write_text(TRACK)
    assert runbook.read(path, "random-xs") == [
        Step("insert", 0, 100, 0),
        Step("search"),
        Step("delete", 1, 50, 1),
        Step("replace", 60, 70, 200),
        Step("search"),
    ]
    with pytest.raises(FormatError, match="expected steps for 'words', got those for 'random-xs', 'other'"):
        runbook.read(path, "words")


def test_runbook_is_read_by_others(tmp_path: Path) -> None:
    """What we write is YAML in the track's shape."""
    yaml = pytest.importorskip("yaml")
    steps = [*runbook.make(1000, rounds=3), Step("replace", 900, 910, 3)]
    path = tmp_path / "runbook.yaml"
    runbook.write(path, "words", steps)
    whole = yaml.safe_load(path.read_text())["words"]
    assert whole["max_pts"] == 1000 - 2
    assert [whole[i + 1]["operation"] for i in range(len(steps))] == [step.operation for step in steps]
    assert whole[1] == {"operation": "insert", "start": 0, "end": 500}
    assert whole[len(steps)]["ids_end"] == 13
    assert runbook.read(path, "anything") == steps  # one data set serves any


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("words:\n  1:\n    operation: jump\n", "expected an operation of insert, delete, search, replace, got 'jump'"),
        ("words:\n  1:\n    operation: insert\n    start: 1\n    end: x\n", "expected end to be a row number, got 'x'"),
        ("words:\n  1:\n    operation: delete\n    start: 5\n    end: 5\n", "greater than start=5, got 5"),
        ("words:\n  1: insert\n", "expected an operation, got 'insert'"),
        ("words:\n  gt_url: x\n", "expected numbered steps for 'words', got none"),
        ("words:\n  - a\n", "line 2: expected 'key: value' of a runbook, got '- a'"),
        ("words: 3\n", "line 1: expected"),
    ],
)
def test_other_runbooks_are_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "runbook.yaml"
    path.write_text(text)
    with pytest.raises(FormatError, match=told.replace("'", ".")):
        runbook.read(path, "words")


def test_window_slides() -> None:
    living = streaming.Living()
    sizes = []
    for step in runbook.make(100, rounds=5):
        if step.operation == "search":
            sizes.append(len(living.row_of))
        else:
            living.apply(step)
    assert sizes == [50] * 6
    np.testing.assert_array_equal(living.arrays()[0], np.arange(50, 100))


def test_truth_is_over_the_living(tmp_path: Path) -> None:
    train = np.stack([np.arange(40.0), np.zeros(40)], axis=1).astype(np.float32)
    data = with_truth("line", "l2", train, train[[10]].copy(), train[[29]].copy(), k=10)
    prepared.write(data, tmp_path / "cache" / "line")
    given = prepared.Prepared(data, tmp_path / "cache" / "line", "key")
    options = cli.parser(["streaming"]).parse_args(["--out", str(tmp_path)])
    made = Run(options, Results(tmp_path, {}))
    steps = [
        Step("insert", 0, 30, 0),
        Step("search"),
        Step("delete", 5, 15, 5),
        Step("search"),
        Step("replace", 20, 22, 10),  # the ids 20 and 21 are now at 10 and 11
        Step("search"),
    ]
    first, second, third = streaming.truths(made, given, steps)
    np.testing.assert_allclose(first.nearest[0, :3], [0, 1, 1])
    assert first.tuning is not None
    np.testing.assert_allclose(first.tuning[0, :3], [0, 1, 2])  # of 29, the last that lives
    assert second.tuning is None
    np.testing.assert_allclose(second.nearest[0, :3], [5, 6, 6])  # 15, then 4 and 16
    np.testing.assert_allclose(third.nearest[0, :3], [0, 1, 5])
    np.testing.assert_array_equal(third.ids[np.isin(third.ids, [20, 21])], [20, 21])
    # From the cache the second time, and the same.
    for one, other in zip(streaming.truths(made, given, steps), (first, second, third), strict=True):
        np.testing.assert_array_equal(one.nearest, other.nearest)

    best = third.ids[np.argsort(np.abs(third.rows - 10), kind="stable")][None, :10]
    assert streaming.score(data, best, third) == (1.0, 0)
    wrong = best.copy()
    wrong[0, 0] = 10  # deleted: as near as can be, and wrong
    assert streaming.score(data, wrong, third) == (0.9, 1)
    assert streaming.score(data, np.full((1, 10), -1), third) == (0.0, 0)
