"""What a competitor's process does when it is asked to (see `worker`): build, change, search while a clock runs, save.

Building may use all cores; searching and deleting are bound to one. Nothing else happens while a clock runs.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import peers
from ..peers.peer import F32, Ids, Peer, Setting, as_given, pad
from . import prepared
from .data import recall
from .memory import settled
from .timing import Pin, no_collection, now
from .tuning import raise_to, thinned, tune_to


def to_the_end(vectors: F32, rows: Sequence[int]) -> None:
    """Move these rows to the end, the first of them last, in place: whoever stood there goes where they were."""
    count = len(rows)
    leaving = vectors[list(rows)]
    tail = np.arange(len(vectors) - count, len(vectors))
    gaps = [row for row in rows if row < tail[0]] if count else []
    vectors[gaps] = vectors[np.setdiff1d(tail, rows)]
    vectors[tail[::-1]] = leaving


class Session:
    """One competitor over one data set."""

    def __init__(self, folder: str, pin: int | None = None) -> None:
        self.data = prepared.read(Path(folder))
        self.pin = Pin(pin)
        self.place = tempfile.mkdtemp(prefix="lethevec-bench-")
        weakref.finalize(self, shutil.rmtree, self.place, ignore_errors=True)  # when the process ends, at the latest
        self._peer: Peer | None = None

    @property
    def peer(self) -> Peer:
        """The competitor that was made."""
        assert self._peer is not None, "nothing was built"
        return self._peer

    def _make(self, kind: str, options: dict[str, Any]) -> None:
        self._peer = None  # the one before
        self.before = settled()
        self._peer = peers.KINDS[kind](**options)
        self._peer.folder = Path(tempfile.mkdtemp(dir=self.place))
        self.asked: dict[bool, Any] = {}

    def _queries(self, tuning: bool) -> Any:
        """The queries that are timed, or those that settings are chosen on, as this competitor takes them."""
        if tuning not in self.asked:
            data = self.data.for_tuning() if tuning else self.data
            self.asked[tuning] = self.peer.ready(as_given(data.test, data.metric))
        return self.asked[tuning]

    # Building ---------------------------------------------------------------------------------------------------------

    def build(self, kind: str, options: dict[str, Any]) -> dict[str, Any]:
        """Build from all vectors; what that took, and by how much the process grew."""
        self.pin.release()
        self._make(kind, options)
        self.peer.take(self.data.train, self.data.metric)
        begin, cpu = time.perf_counter(), time.process_time()
        self.peer.fill(self.peer.vectors, self.data.metric)
        took, busy = time.perf_counter() - begin, time.process_time() - cpu
        self.peer.drop()
        return {"seconds": took, "cpu": busy, "bytes": settled() - self.before, **self.peer.facts()}

    def start(self, kind: str, options: dict[str, Any], rows: int) -> None:
        """An empty index; what has to be trained sees the first rows, which come first."""
        self._make(kind, options)
        self.base = as_given(self.data.train, self.data.metric)
        self.peer.metric = self.data.metric
        self.peer.start(self.base[:rows], self.data.metric)

    def rebuild(
        self, kind: str, options: dict[str, Any], rows: list[int], seconds: float, clock: str = "wall"
    ) -> list[float]:
        """Seconds to build without the first of these points, the first two, ...; at least two, if two are given.

        Ends when `seconds` have passed: training takes its time, and the next point is no different. What was built
        last stays, and its ids are rows of the data set if the points are its last rows, the last one first.
        """
        self.pin.one()
        before = settled()
        vectors = as_given(self.data.train, self.data.metric)
        to_the_end(vectors, rows)
        took: list[float] = []
        for gone in range(1, len(rows) + 1):
            self._make(kind, options)
            self.peer.vectors, self.peer.metric = vectors[: len(vectors) - gone], self.data.metric
            begin = now(clock)
            self.peer.fill(self.peer.vectors, self.data.metric)
            took.append(now(clock) - begin)
            if len(took) >= 2 and sum(took) > seconds:
                break
        self.peer.drop()
        self.before = before
        return took

    # Searching --------------------------------------------------------------------------------------------------------

    def settings(self, count: int) -> list[list[Setting]]:
        """About `count` settings of every grid, by rising recall: a peer with two knobs has one grid for each value of
        the second, and is at its best only if all of them are tried."""
        return [thinned(grid, count) for grid in self.peer.grids] or [[()]]

    def tune(self, target: float, k: int = 10, nearest: list[list[float]] | None = None) -> dict[str, Any]:
        """Set the competitor to the cheapest setting that reaches the recall, and stay with it.

        The queries are those that are not timed; `nearest` is their truth where the index does not hold all vectors.
        """
        self.pin.one()
        data = self.data.for_tuning()
        if nearest is not None:
            # Answers are ids, which are rows until something is replaced; records that were deleted are never true.
            data = type(data)(data.name, data.metric, data.train, data.test, np.array(nearest))
        return {"recall": tune_to(self.peer, data, target, k), "setting": self._setting()}

    def recall(self, k: int) -> float:
        """Of the answers to the queries that are timed, at the setting it has."""
        return recall(self.data, self.peer.search_batch(self._queries(tuning=False), k), k)

    def raise_to(self, least: float, k: int) -> dict[str, Any]:
        """Turn the competitor's knob up until it has this recall on the queries that are timed."""
        self.pin.one()
        return {"recall": raise_to(self.peer, self.data, least, k), "setting": self._setting()}

    def _setting(self) -> str:
        return self.peer.describe()

    def time(
        self,
        k: int,
        setting: list[float] | None = None,
        seconds: float = float("inf"),
        stride: int = 1,
        batch: int = 1,
        threads: int = 1,
        tuning: bool = False,
    ) -> dict[str, Any]:
        """Ask one query after another, every `stride`-th, until all are answered or `seconds` have passed.

        Without a setting the competitor stays as it was tuned. With `batch`, so many queries are asked at once, on so
        many threads.
        """
        if setting is not None:
            self.peer.set(tuple(setting))
        self.pin.one() if threads == 1 else self.pin.release()
        self.peer.threads = threads
        queries = self._queries(tuning)[::stride]
        search: Any = self.peer.search_one if batch == 1 else self.peer.search_batch
        asked = queries if batch == 1 else [queries[i : i + batch] for i in range(0, len(queries), batch)]
        for query in asked[:3]:  # what is made at the first use
            search(query, k)
        answers: list[Ids] = []
        with no_collection():
            cpu, begin = time.process_time(), time.perf_counter()
            until = begin + seconds
            for query in asked:
                answers.append(search(query, k))  # a comprehension cannot look at the clock
                if time.perf_counter() > until:
                    break
            wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
        ids = pad(answers if batch == 1 else [row for part in answers for row in part], k)
        return {"count": len(ids), "wall": wall, "cpu": cpu, "ids": ids, "setting": self._setting()}

    def answers(self, k: int) -> dict[str, Any]:
        """The answers to all queries as fast as the competitor gives them, the rate, and bytes in memory."""
        self.pin.one()
        queries = self._queries(tuning=False)
        begin = time.perf_counter()
        ids = np.asarray(self.peer.search_batch(queries, k))
        took = time.perf_counter() - begin
        return {"ids": ids, "rate": len(ids) / took, "bytes": settled() - self.before}

    def work(self, k: int) -> dict[str, int]:
        """How much all queries together look at; nothing is timed."""
        return self.peer.work(self._queries(tuning=False), k)

    # Changing ---------------------------------------------------------------------------------------------------------

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

    def delete(self, rows: list[int]) -> float:
        """Seconds for deleting all of these."""
        self.pin.one()
        begin = time.perf_counter()
        self.peer.delete(np.array(rows))
        return time.perf_counter() - begin

    def delete_alone(self, rows: list[int], clock: str = "wall") -> list[float]:
        """Seconds for each of these points, deleted one at a time."""
        self.pin.one()
        took = []
        for row in rows:
            ids = np.array([row])
            begin = now(clock)
            self.peer.delete(ids)
            took.append(now(clock) - begin)
        return took

    def save(self, folder: str) -> str:
        """Write the index to the folder, and say where its files are: one that lives on disk has them elsewhere."""
        return str(self.peer.save(Path(folder)))

    def erase(self, rows: list[int], folder: str) -> None:
        """Prepare to delete these, save, and do what else the library offers: one step with each `erase_next`."""
        self.erasing = self.peer.erasing(np.array(rows), Path(folder))

    def erase_next(self) -> tuple[str, str] | None:
        """Take the next step: what was done so far, and where the files are. None after the last."""
        step = next(self.erasing, None)
        return None if step is None else (step[0], str(step[1]))
