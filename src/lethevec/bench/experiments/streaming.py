"""A stream of inserts, deletes and searches, as in the streaming track of big-ann-benchmarks: what it does over time.

At every search: recall, what the changes since the last one took, memory, the size of the files, and how many of some
deleted records can still be found in the files.

Every search is scored against the true neighbours among the records that live at that moment, which are found by brute
force (once, and cached). Each competitor is tuned to recall 0.9 at the first search and keeps that setting: what
happens afterwards is what the stream does to it. A deleted record among the answers is counted, and is a wrong answer.
"""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lethevec.errors import FormatError

from ..measuring import prepared
from ..measuring.data import F64, Data, nearest_of, recall
from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from ..peers.peer import F32, Ids
from . import deletion, runbook
from .run import Run
from .runbook import Step

TARGET = 0.9
K = 10
LOOKED_FOR = 10  # of the records that went last, so many are searched for in the files


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--runbook", help="a runbook in YAML; by default a sliding window")
    told = "stream the first N vectors (100000; 0: all)"
    parser.add_argument("--stream-records", type=int, default=100_000, metavar="N", help=told)


class Living:
    """Which row each living id has: what the truth is computed over."""

    def __init__(self) -> None:
        self.row_of: dict[int, int] = {}
        self.gone: dict[int, None] = {}  # rows that nobody has any more, in the order in which they went

    def apply(self, step: Step) -> None:
        """Take one step."""
        for place, id in enumerate(range(step.start, step.end)):
            if step.operation in ("delete", "replace") and id in self.row_of:
                self.gone[self.row_of.pop(id)] = None
            if step.operation != "delete":
                self.row_of[id] = step.rows + place
                self.gone.pop(step.rows + place, None)

    def arrays(self) -> tuple[Ids, Ids]:
        """Ids, ascending, and their rows."""
        ids = np.array(sorted(self.row_of), dtype=np.int64)
        return ids, np.array([self.row_of[id] for id in ids.tolist()], dtype=np.int64)


class Truth(NamedTuple):
    """At one search: the living ids, their rows, some rows that are gone, and the true distances; at the first one for
    tuning as well."""

    ids: Ids
    rows: Ids
    gone: Ids
    nearest: F64
    tuning: F64 | None


def truths(run: Run, given: Prepared, steps: list[Step]) -> list[Truth]:
    """The truth at each search, from the cache where it is there."""
    name = hashlib.blake2b(repr(steps).encode(), digest_size=6).hexdigest()
    folder = given.folder.with_name(f"{given.folder.name}-stream-{name}")
    living, found = Living(), list[Truth]()
    for number, step in enumerate(steps):
        if step.operation != "search":
            living.apply(step)
            continue
        ids, rows = living.arrays()

        queries = given.data.test
        nearest = prepared.kept(folder / f"{number}.npy", partial(_nearest, run, given.data, rows, queries))
        tuning = None
        if not found:
            queries = given.data.for_tuning().test
            tuning = prepared.kept(folder / "tuning.npy", partial(_nearest, run, given.data, rows, queries))
        gone = np.array(list(living.gone)[-LOOKED_FOR:], dtype=np.int64)
        found.append(Truth(ids, rows, gone, nearest, tuning))
    return found


def _nearest(run: Run, data: Data, rows: Ids, queries: F32) -> F64:
    run.note(f"  true neighbours among {len(rows):,} living records")
    return nearest_of(data.metric, np.ascontiguousarray(data.train[rows]), queries, K)


def competitors() -> list[Competitor]:
    """Ours, and the peers that can insert and delete."""
    ours = [
        Competitor("lethevec (default)", "lethevec", {"source": None}),
        Competitor("lethevec (pivots)", "lethevec", {"source": "pivots"}),
    ]
    return [*ours, *(rival for rival in deletion.rivals() if rival.kind != "flat")]


def experiment(run: Run, whole: Prepared) -> None:
    """Run the stream on one data set; the default one on its first records."""
    given = whole
    if run.options.runbook is not None:
        steps = runbook.read(Path(run.options.runbook), given.data.name)
        highest = max(step.rows + step.end - step.start for step in steps)
        if highest > len(given.data.train):
            raise FormatError(
                f"{run.options.runbook}: expected rows below {len(given.data.train)}, which {given.data.name} has, "
                f"got up to {highest - 1}"
            )
    else:
        given = run.first(whole, run.options.stream_records)
        steps = runbook.make(len(given.data.train), rounds=3 if run.options.quick else 8)
        run.options.out.mkdir(parents=True, exist_ok=True)
        runbook.write(run.options.out / f"runbook-{given.data.name}.yaml", given.data.name, steps)

    def measure(field: Field) -> list[Line]:
        true = truths(run, given, steps)
        chances = [deletion.by_chance(field, now.rows, now.gone) for now in true]
        lines: list[Line] = []
        rows = next((step.end - step.start for step in steps if step.operation == "insert"), 0)
        for one in competitors():
            field.begin(one, "start", kind=one.kind, options=one.options, rows=rows)
            lines += _through(field, one.name, steps, list(zip(true, chances, strict=True)))
            field.close()
        return lines

    run.stage("streaming", "", given, measure)


def _through(field: Field, name: str, steps: list[Step], true: list[tuple[Truth, list[float]]]) -> list[Line]:
    """One competitor through the whole stream, or as far as it gets."""
    lines: list[Line] = []
    took = {"insert": 0.0, "delete": 0.0, "replace": 0.0}
    counts = dict.fromkeys(took, 0)
    changes: list[Line] = []  # since the last search
    searches = iter(true)
    for number, step in enumerate(steps, 1):
        if name not in field.workers:
            return lines
        if step.operation != "search":
            spent = field.ask(name, "change", **vars(step))
            if spent is not None:
                took[step.operation] += spent
                counts[step.operation] += step.end - step.start
                changes.append({"operation": step.operation, "records": step.end - step.start, "seconds": spent})
            continue
        now, chance = next(searches)
        if not lines and field.ask(name, "tune", nearest=now.tuning, target=TARGET) is None:
            return lines
        got = field.ask(name, "answers", k=K)
        if got is None:
            return lines
        found, ghosts = score(field.data, np.array(got.pop("ids")), now)
        micros = {f"{what}_us": 1e6 * took[what] / counts[what] for what in took if counts[what]}
        line: Line = {"what": "search", "competitor": name, "at": number, "living": len(now.ids), "recall": found}
        files = deletion.in_files(field, name, now.gone, chance, now.rows[-LOOKED_FOR:])
        if files is None:
            return lines
        lines.append({**line, "ghosts": ghosts, **got, **micros, "changes": changes, **files})
        changes = []
    if lines:
        field.note(f"  {name}: recall {lines[0]['recall']:.3f} at first, {lines[-1]['recall']:.3f} at the end")
    return lines


def score(data: Data, answers: Any, now: Truth) -> tuple[float, int]:
    """Recall against the living, and how many answers are records that do not live."""
    places = np.minimum(np.searchsorted(now.ids, answers), len(now.ids) - 1)
    alive = (now.ids[places] == answers) & (answers >= 0)
    found = recall(replace(data, nearest=now.nearest), np.where(alive, now.rows[places], -1), K)
    return found, int((~alive & (answers >= 0)).sum())
