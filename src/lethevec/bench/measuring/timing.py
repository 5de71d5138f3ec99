"""Turns and clocks: competitors take turns, and every figure is a median of rounds."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

CLOCKS = ("wall", "cpu")


class Turn(NamedTuple):
    """One turn of one competitor: how much work it did (queries, vectors, ...), what that took, and its answer."""

    work: int
    wall: float
    cpu: float
    answer: Any = None


def now(clock: str) -> float:
    """Seconds by one of `CLOCKS`."""
    return time.perf_counter() if clock == "wall" else time.process_time()


@dataclass
class Timing:
    """The turns of one competitor. `clock` says which seconds count."""

    name: str
    clock: str = "wall"
    turns: list[Turn] = field(default_factory=list)

    @property
    def seconds(self) -> list[float]:
        """Seconds for one unit of work, in each turn."""
        return [(turn.wall if self.clock == "wall" else turn.cpu) / turn.work for turn in self.turns]

    @property
    def rate(self) -> float:
        """Work per second, the median of the turns."""
        return 1 / float(np.median(self.seconds))

    @property
    def micros(self) -> float:
        """Microseconds for one unit of work, the median of the turns."""
        return 1e6 * float(np.median(self.seconds))

    @property
    def spread(self) -> float:
        """(slowest - fastest) / median: how far the turns lie apart."""
        seconds = self.seconds
        return float((max(seconds) - min(seconds)) / np.median(seconds))

    @property
    def answer(self) -> Any:
        """The answer of the last turn."""
        return self.turns[-1].answer

    def line(self) -> dict[str, Any]:
        """For the results: every turn, and the rate."""
        told = {"counts": [turn.work for turn in self.turns], "wall": [turn.wall for turn in self.turns]}
        return {**told, "cpu": [turn.cpu for turn in self.turns], "rate": self.rate, "clock": self.clock}


def timed(work: int, call: Callable[[], Any]) -> Turn:
    """Do the work now, with a clock on each side."""
    cpu, wall = time.process_time(), time.perf_counter()
    answer = call()
    return Turn(work, time.perf_counter() - wall, time.process_time() - cpu, answer)


def task(work: int, call: Callable[[], Any]) -> Callable[[], Turn]:
    """The same, later: a competitor that runs in this process."""
    return lambda: timed(work, call)


def take_turns(
    competitors: Mapping[str, Callable[[], Turn | None]],
    *,
    rounds: int = 5,
    seconds: float = float("inf"),
    least: int = 3,
    clock: str = "wall",
) -> dict[str, Timing]:
    """Give each competitor one turn in each round. One that returns None has dropped out.

    Ends after `rounds`, or after the first round past `seconds`, but never before `least` rounds.
    """
    timings = {name: Timing(name, clock) for name in competitors}
    begin = time.perf_counter()
    with no_collection():
        for done in range(rounds):
            if done >= least and time.perf_counter() - begin > seconds:
                break
            for name, turn in competitors.items():
                if name not in timings:
                    continue
                got = turn()
                if got is None:
                    del timings[name]
                else:
                    timings[name].turns.append(got)
    return timings


def ratio(ours: Timing, theirs: Timing) -> float:
    """How many times faster `ours` is: the median over the rounds of the ratio within a round."""
    return float(np.median([b / a for a, b in zip(ours.seconds, theirs.seconds, strict=True)]))


@contextmanager
def no_collection() -> Iterator[None]:
    """Without Python's garbage collector, which would take its time from whoever happens to be measured."""
    was = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Pin:
    """Binds this process to one CPU, and releases it to those that it may use."""

    def __init__(self, cpu: int | None) -> None:
        self.cpu = cpu if hasattr(os, "sched_setaffinity") else None
        self.all = os.sched_getaffinity(0) if self.cpu is not None else set()

    def one(self) -> None:
        """Stay on one CPU from now on."""
        if self.cpu is not None:
            os.sched_setaffinity(0, {self.cpu})

    def release(self) -> None:
        """Use all of them again."""
        if self.cpu is not None:
            os.sched_setaffinity(0, self.all)

    def __enter__(self) -> None:
        self.one()

    def __exit__(self, *error: object) -> None:
        self.release()


def last_cpu() -> int | None:
    """The CPU to bind timings to: the last that this process may use."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
