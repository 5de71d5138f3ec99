"""Competitors that take turns, each in its own process: curves of recall against queries per second.

In the first round every setting is asked all queries (as many as fit `patience` seconds), and its recall is counted
from those answers. Further rounds ask a share of the queries, spread evenly, that takes about `burst` seconds. A
setting's rate is the median of its rounds. Ground truth is counted here, in the parent, while no clock runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import changing, sessions
from .harness import Data, recall
from .results import Line
from .worker import Worker, WorkerError

Note = Callable[[str], None]
ENOUGH = 0.998  # recall from which on more effort shows nothing


@dataclass(frozen=True)
class Competitor:
    """Who takes part: a name for the figures, the kind of `sessions.KINDS`, and its options."""

    name: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)

    def missing(self) -> str | None:
        """The package that is not installed, if any."""
        kind: Any = {**sessions.KINDS, **changing.KINDS}[self.kind]
        return None if kind.available() else str(kind.module)


@dataclass
class Field:
    """The competitors of one data set that are still in, and what became of the others."""

    data: Data
    folder: Path
    logs: Path
    limit: float
    pin: int | None
    note: Note
    workers: dict[str, Worker] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)  # of those that dropped out, and of builds

    def enter(self, competitors: Iterable[Competitor]) -> None:
        """Build those that are installed, one after another; the others are named."""
        for competitor in competitors:
            missing = competitor.missing()
            if missing is not None:
                self.out(competitor.name, skipped=f"the package {missing!r} is not installed")
            else:
                self.build(competitor)

    def process(self, name: str, session: str, **arguments: Any) -> Worker:
        """The process of a competitor, started when it is not there."""
        if name not in self.workers:
            log = self.logs / f"{''.join(c if c.isalnum() else '-' for c in name)}.log"
            given = {"folder": str(self.folder), "pin": self.pin, **arguments}
            self.workers[name] = Worker(session, given, log=log, limit=self.limit)
        return self.workers[name]

    def build(self, competitor: Competitor) -> None:
        """Build one, in its process, which is started when it is not there."""
        name = competitor.name
        try:
            built = self.process(name, "lethevec.bench.sessions:Searching").call(
                "build", kind=competitor.kind, options=competitor.options
            )
        except WorkerError as error:
            self.out(name, error=str(error))
            return
        self.note(
            f"  {name}: built in {built['seconds']:.1f} s ({built['cpu']:.1f} s of CPU), {built['bytes'] / 1e6:,.0f} MB"
        )
        self.lines.append({"what": "build", "competitor": name, "options": competitor.options, **built})

    def first(self, name: str, session: str, call: str, **arguments: Any) -> Any:
        """Start a competitor's process and ask it; None when either fails, and then it is out."""
        try:
            self.process(name, session)
        except WorkerError as error:
            self.out(name, error=str(error))
            return None
        return self.ask(name, call, **arguments)

    def ask(self, name: str, call: str, **arguments: Any) -> Any:
        """What a competitor's process answers; None when it fails, and then it is out."""
        try:
            return self.workers[name].call(call, **arguments)
        except WorkerError as error:
            self.out(name, error=str(error))
            return None

    def out(self, name: str, **why: str) -> None:
        """One that is out, by name, and why: without folders, for where files lie is nobody's business."""
        why = {key: re.sub(r"(?<![\w.])/(?:[^\s/:'\"()]+/)+", "", text) for key, text in why.items()}
        self.note(f"  {name}: {next(iter(why))}: {next(iter(why.values()))}")
        self.lines.append({"what": "out", "competitor": name, **why})
        worker = self.workers.pop(name, None)
        if worker is not None:
            worker.close()

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.close()
        self.workers.clear()


def curves(
    field: Field,
    *,
    k: int = 10,
    count: int = 12,
    rounds: int = 3,
    patience: float = 6.0,
    burst: float = 0.5,
    slowest: float = 0.0,
    clock: str = "wall",
) -> list[Line]:
    """A line for each setting of each competitor in the field. `slowest`: a rate at which a grid is given up."""
    plans: dict[str, list[list[list[float]]]] = {}
    for name in list(field.workers):
        plan = field.ask(name, "settings", count=count)
        if plan is not None:
            plans[name] = plan
    points = _first_round(field, plans, k, patience, slowest)
    for _ in range(1, rounds):
        for place in range(max(map(len, points.values()), default=0)):
            for name in list(field.workers):
                if place < len(points.get(name, [])):
                    _again(field, name, points[name][place], k, burst)
    lines = []
    for name, found in points.items():
        if name in field.workers:
            for point in found:
                rates = [n / seconds for n, seconds in zip(point["counts"], point[clock], strict=True)]
                point["rate"], point["clock"] = float(np.median(rates)), clock
            lines += found
    return lines


def _first_round(
    field: Field, plans: dict[str, list[list[list[float]]]], k: int, patience: float, slowest: float
) -> dict[str, list[Line]]:
    """Each grid is walked upwards until its recall is as good as all or grows no more, or its rate is too low."""
    points: dict[str, list[Line]] = {name: [] for name in plans}
    ended: set[tuple[str, int]] = set()
    last: dict[tuple[str, int], float] = {}
    longest = max((len(grid) for grids in plans.values() for grid in grids), default=0)
    for step in range(longest):
        for name, grids in plans.items():
            for number, grid in enumerate(grids):
                if step >= len(grid) or (name, number) in ended or name not in field.workers:
                    continue
                got = field.ask(name, "time", setting=grid[step], k=k, seconds=patience)
                if got is None:
                    continue
                found = recall(field.data, np.array(got["ids"]), k)
                points[name].append(_point(name, grid[step], got, found))
                flat = found > 0.9 and step > 0 and found - last.get((name, number), 0.0) < 0.0005
                last[name, number] = found
                if found >= ENOUGH or flat or got["count"] / got["wall"] < slowest:
                    ended.add((name, number))
    return points


def _point(name: str, setting: list[float], got: dict[str, Any], found: float) -> Line:
    return {
        "what": "point",
        "competitor": name,
        "setting": setting,
        "described": got["name"],
        "recall": found,
        "counts": [got["count"]],
        "wall": [got["wall"]],
        "cpu": [got["cpu"]],
    }


def _again(field: Field, name: str, point: Line, k: int, burst: float) -> None:
    queries = len(field.data.test)
    stride = max(1, math.ceil(queries * point["wall"][0] / point["counts"][0] / burst))
    share = min(stride, max(1, queries // 10))
    got = field.ask(name, "time", setting=point["setting"], k=k, seconds=3 * burst, stride=share)
    if got is None:
        return
    for key, value in (("counts", got["count"]), ("wall", got["wall"]), ("cpu", got["cpu"])):
        point[key].append(value)


def pareto(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those (recall, rate) that no other beats in both, by rising recall."""
    best: list[tuple[float, float]] = []
    for point in sorted(points, reverse=True):
        if not best or point[1] > best[-1][1]:
            best.append(point)
    return best[::-1]
