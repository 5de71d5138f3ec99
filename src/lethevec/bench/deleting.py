"""What a competitor's process does in experiment 3: delete points while a clock runs, and show what is left after.

Everything here is bound to one CPU, as the paper's experiments are, training included.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import changing, prepared
from .harness import Ids
from .memory import settled
from .peer import Peer, queries_for, tune_to
from .sessions import Pin


class Deleting:
    """A competitor that is built and then made to delete."""

    def __init__(self, folder: str, pin: int | None = None) -> None:
        self.data = prepared.read(Path(folder))
        self.queries = queries_for(self.data)
        self.pin = Pin(pin)

    def build(self, kind: str, options: dict[str, Any]) -> dict[str, Any]:
        """Build from all vectors, with all cores: this is not what is measured here."""
        self.before = settled()
        self.peer = changing.KINDS[kind](**options)
        self.place = tempfile.TemporaryDirectory(prefix="lethevec-bench-")
        if isinstance(self.peer, changing.Changing):
            self.peer.folder = Path(self.place.name)
        self.peer.take(np.array(self.data.train), self.data.metric)
        begin = time.perf_counter()
        self.peer._build(self.peer.vectors, self.data.metric)
        took = time.perf_counter() - begin
        self.peer.drop()
        return {"seconds": took, "bytes": settled() - self.before}

    @property
    def changing(self) -> changing.Changing:
        """The competitor, as one that can delete."""
        assert isinstance(self.peer, changing.Changing), f"{self.peer.name} has no delete"
        return self.peer

    def one_by_one(self, rows: list[int]) -> list[float]:
        """Seconds on the wall for each of these points, deleted one at a time."""
        self.pin.one()
        took = []
        for row in rows:
            ids = np.array([row])
            begin = time.perf_counter()
            self.changing.delete(ids)
            took.append(time.perf_counter() - begin)
        return took

    def tune(self, target: float) -> dict[str, Any]:
        """Set the competitor to the cheapest setting that reaches the recall, and stay with it."""
        self.pin.one()
        return {"recall": tune_to(self.peer, self.data, target), "setting": self.peer.describe()}

    def delete(self, rows: list[int]) -> float:
        """Seconds for deleting all of these."""
        self.pin.one()
        begin = time.perf_counter()
        self.changing.delete(np.array(rows))
        return time.perf_counter() - begin

    def look(self, k: int) -> dict[str, Any]:
        """Answers and rate, and bytes in memory."""
        self.pin.one()
        begin = time.perf_counter()
        ids: Ids = np.asarray(self.peer.search_batch(self.queries, k))
        took = time.perf_counter() - begin
        return {"ids": ids, "rate": len(ids) / took, "bytes": settled() - self.before}

    def save(self, folder: str) -> str:
        """Write the index to the folder, and say where its files are: one that lives on disk has them elsewhere."""
        if isinstance(self.peer, changing.OursStore):
            return self.place.name
        self.changing.save(Path(folder))
        return folder


class Retraining:
    """A competitor that has no delete: it is built anew without the point."""

    def __init__(self, folder: str, pin: int | None = None) -> None:
        self.data = prepared.read(Path(folder))
        self.pin = Pin(pin)

    def one_by_one(self, kind: str, options: dict[str, Any], rows: list[int], seconds: float) -> list[float]:
        """Seconds on the wall to build without the first of these points, the first two, ...; at least two of them.

        Ends when `seconds` have passed: training takes its time, and the next point is no different.
        """
        self.pin.one()
        made: Peer = changing.KINDS[kind](**options)
        made.take(np.array(self.data.train), self.data.metric)
        vectors, keep = made.vectors, np.ones(len(self.data.train), dtype=bool)
        took: list[float] = []
        for row in rows:
            keep[row] = False
            left = np.ascontiguousarray(vectors[keep])
            begin = time.perf_counter()
            made._build(left, self.data.metric)
            took.append(time.perf_counter() - begin)
            if len(took) >= 2 and sum(took) > seconds:
                break
        return took
