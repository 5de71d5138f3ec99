"""What a competitor's process does when it is asked to (see `worker`): build, search while a clock runs, tell its size.

Building may use all cores; searching is bound to one. Nothing but searching happens while the clock runs.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import peers, prepared
from .harness import Ids, pad
from .memory import settled
from .ours import Lethevec, PaperMode
from .peer import Peer, Setting, queries_for, thinned

KINDS: dict[str, Any] = {"lethevec": Lethevec, "paper": PaperMode, **peers.ALL}


def make(kind: str, options: dict[str, Any]) -> Peer:
    """A competitor by its kind."""
    made: Peer = KINDS[kind](**options)
    return made


class Pin:
    """Binds the process to one CPU and back to those that it may have."""

    def __init__(self, cpu: int | None) -> None:
        self.cpu = cpu if hasattr(os, "sched_setaffinity") else None
        self.all = os.sched_getaffinity(0) if self.cpu is not None else set()

    def one(self) -> None:
        if self.cpu is not None:
            os.sched_setaffinity(0, {self.cpu})

    def release(self) -> None:
        if self.cpu is not None:
            os.sched_setaffinity(0, self.all)


class Searching:
    """A competitor that is built and asked."""

    def __init__(self, folder: str, pin: int | None = None) -> None:
        self.data = prepared.read(Path(folder))
        self.queries = queries_for(self.data)
        self.pin = Pin(pin)
        self._peer: Peer | None = None

    @property
    def peer(self) -> Peer:
        """The one that was built."""
        assert self._peer is not None, "nothing was built"
        return self._peer

    def build(self, kind: str, options: dict[str, Any]) -> dict[str, Any]:
        """Build from all vectors; what that took, and by how much the process grew."""
        self.pin.release()
        self._peer = None  # the one before
        before = settled()
        self._peer = make(kind, options)
        self.peer.take(np.array(self.data.train), self.data.metric)
        begin, cpu = time.perf_counter(), time.process_time()
        self.peer._build(self.peer.vectors, self.data.metric)
        took, busy = time.perf_counter() - begin, time.process_time() - cpu
        self.peer.drop()
        grown = settled() - before
        return {"seconds": took, "cpu": busy, "bytes": grown, "source": self._source()}

    def _source(self) -> str | None:
        """Where ours takes its candidates from, if this is ours."""
        index = getattr(self.peer, "index", None)
        return str(index.config.source) if isinstance(self.peer, Lethevec) and index is not None else None

    def settings(self, count: int) -> list[list[Setting]]:
        """About `count` settings of every grid, by rising recall: a peer with two knobs has one grid for each value of
        the second, and is at its best only if all of them are tried."""
        return [thinned(grid, count) for grid in self.peer.grids] or [[()]]

    def time(self, setting: list[float], k: int, seconds: float, stride: int = 1) -> dict[str, Any]:
        """Ask one query after another, every `stride`-th, until all are answered or `seconds` have passed."""
        self.peer.set(tuple(setting))
        self.pin.one()
        search, queries = self.peer.search_one, self.queries[::stride]
        for query in queries[:3]:  # what is made at the first use
            search(query, k)
        answers: list[Ids] = []
        cpu, begin = time.process_time(), time.perf_counter()
        until = begin + seconds
        for query in queries:
            answers.append(search(query, k))  # a comprehension cannot look at the clock
            if time.perf_counter() > until:
                break
        wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
        return {"count": len(answers), "wall": wall, "cpu": cpu, "ids": pad(answers, k), "name": self.peer.describe()}

    def answers(self, setting: list[float], k: int) -> Ids:
        """The answers to all queries, as fast as the competitor gives them; nothing is timed."""
        self.peer.set(tuple(setting))
        self.pin.release()
        return np.asarray(self.peer.search_batch(self.queries, k))
