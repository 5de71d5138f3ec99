"""What competitors of a field are compared by: curves of recall against speed, and speed at an equal recall.

Settings are chosen on queries that are not timed. The choice and the truth are computed outside the timed section.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..peers.peer import Setting
from .data import recall
from .field import Field, Line
from .timing import Timing, Turn, take_turns

ENOUGH = 0.998  # recall beyond which more effort shows nothing
MARGIN = 1.25  # a setting is dropped when another one is faster by this much and finds as much


@dataclass
class Measured:
    """One competitor at one setting: its turns, and the recall of the answers that were timed."""

    timing: Timing
    recall: float
    setting: str

    def line(self) -> Line:
        """For the results."""
        return {**self.timing.line(), "recall": self.recall, "setting": self.setting}


# At a recall ---------------------------------------------------------------------------------------------------------


def at_recall(
    field: Field,
    target: float,
    *,
    k: int = 10,
    rounds: int,
    seconds: float,
    clock: str = "wall",
    not_below: Mapping[str, Sequence[str]] | None = None,
    **asked: Any,
) -> dict[str, Measured]:
    """Everybody at the cheapest setting that reaches `target`, or at its best where it cannot; then they take turns.

    What suffices for the queries for tuning finds a little more or less on those that are timed. `not_below` names
    competitors with others each whose recall on the timed queries is not to be above theirs: they are turned up.
    """
    for name in list(field.workers):
        got = field.ask(name, "tune", target=target, k=k)
        if got is not None:
            field.note(f"  {name}: recall {got['recall']:.4f} with {got['setting']} on the queries for tuning")
    for name, others in (not_below or {}).items():
        least = max((field.ask(one, "recall", k=k) or 0.0 for one in others if one in field.workers), default=0.0)
        got = field.ask(name, "raise_to", least=least, k=k) if name in field.workers else None
        if got is not None:
            field.note(
                f"  {name}: recall {got['recall']:.4f} with {got['setting']}; the best of the others {least:.4f}"
            )
    return measured({name: (field, name, None) for name in field.workers}, k, rounds, seconds, clock, **asked)


def measured(
    entered: Mapping[str, tuple[Field, str, Sequence[float] | None]],
    k: int,
    rounds: int,
    seconds: float,
    clock: str = "wall",
    each: Mapping[str, Mapping[str, Any]] | None = None,
    **asked: Any,
) -> dict[str, Measured]:
    """Take turns over all queries: a label for each, with its field, its name there, and its setting (None: as tuned).

    Competitors of several fields may take turns with each other. `each` has what is asked of a label alone.
    """
    settings: dict[str, str] = {}

    def turn(label: str) -> Callable[[], Turn | None]:
        field, name, setting = entered[label]

        def ask() -> Turn | None:
            if name not in field.workers:
                return None
            own = (each or {}).get(label, {})
            got = field.ask(name, "time", k=k, setting=setting, **asked, **own)
            if got is None:
                return None
            settings[label] = got["setting"]
            return Turn(got["count"], got["wall"], got["cpu"], np.array(got["ids"]))

        return ask

    timings = take_turns({label: turn(label) for label in entered}, rounds=rounds, seconds=seconds, clock=clock)
    return {
        label: Measured(timing, recall(entered[label][0].data, timing.answer, k), settings[label])
        for label, timing in timings.items()
    }


# Curves --------------------------------------------------------------------------------------------------------------


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
    """A line for each setting of each competitor that is worth showing. `slowest`: a rate at which a grid is given up.

    First each grid is walked on the queries for tuning. What is left is measured on the timed queries: all of them in
    the first round (as many as fit `patience` seconds), from whose answers the recall is computed; then a share of
    them, spread evenly, that takes about `burst` seconds.
    """
    chosen = choose(field, k=k, count=count, patience=patience, slowest=slowest)
    points = {(name, setting): Point(field, name, setting, k) for name, found in chosen.items() for setting in found}
    turns = {f"{name} {setting}": point.turn(patience, burst) for (name, setting), point in points.items()}
    timings = take_turns(turns, rounds=rounds, clock=clock)
    return [
        {**point.line, **timings[label].line()}
        for label, point in zip(turns, points.values(), strict=True)
        if label in timings and point.name in field.workers
    ]


@dataclass
class Point:
    """One setting of one competitor, on its way to a line."""

    field: Field
    name: str
    setting: Setting
    k: int

    def turn(self, patience: float, burst: float) -> Callable[[], Turn | None]:
        """The first turn asks all queries and is what the recall is computed from; later ones ask a share."""
        self.line: Line = {}
        self.stride = 1

        def ask() -> Turn | None:
            if self.name not in self.field.workers:
                return None
            limit = 3 * burst if self.line else patience
            asked = {"setting": self.setting, "k": self.k, "seconds": limit, "stride": self.stride}
            got = self.field.ask(self.name, "time", **asked)
            if got is None:
                return None
            if not self.line:
                found = recall(self.field.data, np.array(got["ids"]), self.k)
                told = {"what": "point", "competitor": self.name, "setting": self.setting}
                self.line = {**told, "described": got["setting"], "recall": found}
                queries = len(self.field.data.test)
                wanted = max(1, math.ceil(queries * got["wall"] / got["count"] / burst))
                self.stride = min(wanted, max(1, queries // 10))
            return Turn(got["count"], got["wall"], got["cpu"])

        return ask


def choose(
    field: Field, *, k: int, count: int, patience: float, slowest: float = 0.0
) -> dict[str, list[tuple[float, ...]]]:
    """The settings of each competitor that are worth measuring, by the queries for tuning.

    Each grid is walked upwards, all of them in turn, until its recall is as good as perfect or grows no more, or its
    rate is too low. A competitor without knobs has nothing to choose.
    """
    plans: dict[str, list[list[list[float]]]] = {}
    for name in list(field.workers):
        plan = field.ask(name, "settings", count=count)
        if plan is not None:
            plans[name] = plan
    data = field.data.for_tuning()
    seen: dict[str, list[tuple[float, float, tuple[float, ...]]]] = {name: [] for name in plans}
    ended: set[tuple[str, int]] = set()
    last: dict[tuple[str, int], float] = {}
    for step in range(max((len(grid) for grids in plans.values() for grid in grids), default=0)):
        for name, grids in plans.items():
            for number, grid in enumerate(grids):
                if step >= len(grid) or (name, number) in ended or name not in field.workers:
                    continue
                if grids == [[[]]]:
                    seen[name].append((1.0, 1.0, ()))
                    continue
                got = field.ask(name, "time", setting=grid[step], k=k, seconds=patience, tuning=True)
                if got is None:
                    continue
                found, rate = recall(data, np.array(got["ids"]), k), got["count"] / got["wall"]
                seen[name].append((found, rate, tuple(grid[step])))
                flat = found > 0.9 and step > 0 and found - last.get((name, number), 0.0) < 0.0005
                last[name, number] = found
                if found >= ENOUGH or flat or rate < slowest:
                    ended.add((name, number))
    return {name: worth_showing(found) for name, found in seen.items() if name in field.workers}


def worth_showing(found: Sequence[tuple[float, float, tuple[float, ...]]]) -> list[tuple[float, ...]]:
    """Of (recall, rate, setting): the settings that no other one beats clearly, by rising recall."""
    kept = [
        (one, rate, setting)
        for one, rate, setting in found
        if not any(other >= one and faster > MARGIN * rate for other, faster, _ in found)
    ]
    return [setting for _, _, setting in sorted(kept, key=lambda point: (point[0], -point[1]))]


def pareto(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those (recall, rate) that no other beats in both, by rising recall."""
    best: list[tuple[float, float]] = []
    for point in sorted(points, reverse=True):
        if not best or point[1] > best[-1][1]:
            best.append(point)
    return best[::-1]
