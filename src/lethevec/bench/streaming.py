"""A stream of inserts, deletes and searches, as in the streaming track of big-ann-benchmarks: recall over time.

Every search is scored against the true neighbours among the records that live at that moment, which are found anew by
brute force (once, and cached). Each competitor is tuned to recall 0.9 at the first search and keeps that setting: what
happens after is what the stream does to it. A deleted record among the answers is counted, and is a wrong answer.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from . import changing, harness, prepared, runbook
from .harness import F32, Data
from .memory import settled
from .paper3 import rivals
from .peer import queries_for, tune_to, unit
from .prepared import Prepared
from .results import Line
from .run import Run
from .runbook import Step
from .sessions import Pin
from .turns import Competitor, Field

TARGET = 0.9
K = 10


class Streaming:
    """A competitor's process: it does the steps that it is told to."""

    def __init__(self, folder: str, pin: int | None = None) -> None:
        self.data = prepared.read(Path(folder))
        base = np.array(self.data.train)
        self.base: F32 = unit(base) if self.data.metric == "cosine" else base
        self.queries = queries_for(self.data)
        self.pin = Pin(pin)

    def start(self, kind: str, options: dict[str, Any], rows: int) -> None:
        """An empty index; what has to be trained sees the first rows, which come first."""
        self.before = settled()
        made = changing.KINDS[kind](**options)
        assert isinstance(made, changing.Changing), f"{made.name} cannot change"
        self.peer = made
        self.peer.metric = self.data.metric
        self.peer.start(self.base[:rows], self.data.metric)

    def change(self, operation: str, start: int, end: int, rows: int) -> float:
        """Seconds that an insert, a delete or a replace takes, with all cores."""
        self.pin.release()
        ids = np.arange(start, end)
        begin = time.perf_counter()
        if operation in ("delete", "replace"):
            self.peer.delete(ids)
        if operation in ("insert", "replace"):
            self.peer.insert(self.base[rows : rows + len(ids)], ids)
        return time.perf_counter() - begin

    def tune(self, nearest: list[list[float]], target: float) -> str:
        """The cheapest setting that reaches the recall now."""
        self.pin.one()
        data = self.data
        # Answers are ids, which are rows until something is replaced; those that do not live are never true ones.
        tune_to(self.peer, Data(data.name, data.metric, data.train, data.test, np.array(nearest)), target)
        return self.peer.describe()

    def search(self, k: int) -> dict[str, Any]:
        """Answers, and what they took on one core."""
        self.pin.one()
        begin = time.perf_counter()
        ids = np.asarray(self.peer.search_batch(self.queries, k))
        took = time.perf_counter() - begin
        return {"ids": ids, "rate": len(ids) / took, "bytes": settled() - self.before}


class Living:
    """Which row each living id has: what the truth is computed over."""

    def __init__(self) -> None:
        self.row_of: dict[int, int] = {}

    def apply(self, step: Step) -> None:
        """Take one step."""
        for place, id in enumerate(range(step.start, step.end)):
            if step.operation == "delete":
                del self.row_of[id]
            else:
                self.row_of[id] = step.rows + place

    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Ids, ascending, and their rows."""
        ids = np.array(sorted(self.row_of), dtype=np.int64)
        return ids, np.array([self.row_of[id] for id in ids.tolist()], dtype=np.int64)


def truths(run: Run, given: Prepared, steps: list[Step]) -> list[tuple[Any, Any, Any]]:
    """For each search: the living ids, their rows, and the true distances, from the cache where it has them."""
    name = hashlib.blake2b(repr(steps).encode(), digest_size=6).hexdigest()
    folder = given.folder.with_name(f"{given.folder.name}-stream-{name}")
    folder.mkdir(parents=True, exist_ok=True)
    living, found = Living(), []
    for number, step in enumerate(steps):
        if step.operation != "search":
            living.apply(step)
            continue
        ids, rows = living.arrays()
        path = folder / f"{number}.npy"
        if not path.exists():
            run.note(f"  true neighbours among {len(ids):,} living records (step {number + 1})")
            part = np.ascontiguousarray(given.data.train[rows])
            nearest = harness.with_truth("", given.data.metric, part, given.data.test, k=K).nearest
            half = path.with_suffix(".part.npy")
            np.save(half, nearest)
            half.rename(path)
        found.append((ids, rows, np.load(path)))
    return found


def competitors() -> list[Competitor]:
    """Ours, and the peers that can insert and delete."""
    ours = [Competitor("lethevec (default)", "index")]
    ours += [Competitor(f"lethevec ({name})", "index", {"source": name}) for name in ("pivots",)]
    return [*ours, *(rival for rival in rivals() if rival.kind != "flat-ids")]


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
        lines: list[Line] = []
        for competitor in competitors():
            missing = competitor.missing()
            if missing is not None:
                field.out(competitor.name, skipped=f"the package {missing!r} is not installed")
                continue
            lines += _one(field, competitor, steps, true)
            field.close()
        return lines

    run.stage("streaming", "", given, measure)


def _one(field: Field, competitor: Competitor, steps: list[Step], true: list[tuple[Any, Any, Any]]) -> list[Line]:
    """One competitor through the whole stream."""
    name = competitor.name
    rows = next((step.end - step.start for step in steps if step.operation == "insert"), 0)
    arguments: dict[str, Any] = {"kind": competitor.kind, "options": competitor.options, "rows": rows}
    field.first(name, "lethevec.bench.streaming:Streaming", "start", **arguments)
    lines: list[Line] = []
    took = {"insert": 0.0, "delete": 0.0, "replace": 0.0}
    counts = dict.fromkeys(took, 0)
    searches = iter(true)
    for number, step in enumerate(steps, 1):
        if name not in field.workers:
            return lines
        if step.operation != "search":
            spent = field.ask(name, "change", **vars(step))
            if spent is not None:
                took[step.operation] += spent
                counts[step.operation] += step.end - step.start
            continue
        ids, living_rows, nearest = next(searches)
        if not lines and field.ask(name, "tune", nearest=nearest, target=TARGET) is None:
            return lines
        got = field.ask(name, "search", k=K)
        if got is None:
            return lines
        recall, ghosts = score(field.data, np.array(got.pop("ids")), ids, living_rows, nearest)
        micros = {f"{what}_us": 1e6 * took[what] / counts[what] for what in took if counts[what]}
        lines.append({"what": "search", "competitor": name, "at": number, "living": len(ids), "recall": recall})
        lines[-1] |= {"ghosts": ghosts, **got, **micros}
    last = lines[-1] if lines else {"recall": 0.0}
    field.note(f"  {name}: recall {lines[0]['recall'] if lines else 0:.3f} at first, {last['recall']:.3f} at the end")
    return lines


def score(data: Data, answers: Any, ids: Any, rows: Any, nearest: Any) -> tuple[float, int]:
    """Recall against the living, and how many answers are records that do not live."""
    places = np.minimum(np.searchsorted(ids, answers), len(ids) - 1)
    alive = (ids[places] == answers) & (answers >= 0)
    now = Data(data.name, data.metric, data.train, data.test, nearest)
    return harness.recall(now, np.where(alive, rows[places], -1), K), int((~alive & (answers >= 0)).sum())
