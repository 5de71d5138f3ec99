"""Half of the records forgotten in one call, beside building an index of the other half.

The half that goes is spread over the set, or is the half nearest to one record: those lie in few cells, which all go.
Counted are seconds of CPU time on all threads, the longest that a search on another thread takes meanwhile, and the
time from Ctrl-C to its handling in the middle of the call, after which the index is as it was or the half is gone.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec

from ..measuring.data import Data
from ..measuring.field import Field, Line
from ..peers.ours import index_options
from .run import Run

__all__ = ["at_once"]

TURNS = 3
Rows = npt.NDArray[np.int64]


def at_once(run: Run, field: Field, ours: Mapping[str, Mapping[str, Any]]) -> list[Line]:
    """Every layout with every source."""
    data = field.data
    lines: list[Line] = []
    for layout, gone in (("spread", _spread(data)), ("one cluster", _cluster(data))):
        for name, options in ours.items():
            lines.append({"what": "half", "source": name, "layout": layout, **_measure(data, gone, dict(options))})
    numbers = ("build", "forget", "search_longest", "interrupt")
    rows = [(line["source"], line["layout"], *(f"{line[number]:.3f}" for number in numbers)) for line in lines]
    head = ("source", "the half", "s to build the rest", "s to forget", "longest search, s", "Ctrl-C, s")
    run.table(f"{data.name}: half of {len(data.train):,} records forgotten in one call, CPU time", head, rows)
    return lines


def _spread(data: Data) -> Rows:
    return np.sort(np.random.default_rng(2).permutation(len(data.train))[: len(data.train) // 2])


def _cluster(data: Data) -> Rows:
    """The half that is nearest to the first record."""
    x = data.train
    away = ((x - x[0]) ** 2).sum(axis=1) if data.metric == "l2" else -(x @ x[0])
    return np.sort(np.argsort(away, kind="stable")[: len(x) // 2])


def _build(data: Data, rows: Rows, options: dict[str, Any]) -> lethevec.Index:
    given = dict(options)
    index = lethevec.Index(data.dim, data.metric, **index_options(given.pop("source"), len(data.train), given))
    index.add(data.train[rows], ids=rows)
    return index


def _measure(data: Data, gone: Rows, options: dict[str, Any]) -> dict[str, float]:
    everything = np.arange(len(data.train))
    left = np.setdiff1d(everything, gone)
    built, forgot, longest = [], [], 0.0
    digest = ""
    for _ in range(TURNS):
        began = time.process_time()
        digest = _build(data, left, options).digest()
        built.append(time.process_time() - began)
        index = _build(data, everything, options)
        began = time.process_time()
        index.forget(gone)
        forgot.append(time.process_time() - began)
        assert index.digest() == digest
    index = _build(data, everything, options)
    longest = _longest_search(index, data, gone)
    return {
        "build": min(built),
        "forget": min(forgot),
        "search_longest": longest,
        "interrupt": _interrupt(lambda: _build(data, everything, options), gone),
    }


def _longest_search(index: lethevec.Index, data: Data, gone: Rows) -> float:
    thread = threading.Thread(target=index.forget, args=(gone,))
    longest = 0.0
    thread.start()
    while thread.is_alive():
        began = time.perf_counter()
        index.search(data.test[0], k=10)
        longest = max(longest, time.perf_counter() - began)
    thread.join()
    return longest


def _interrupt(make: Any, gone: Rows) -> float:
    """Seconds from Ctrl-C to its handling, the most of some moments of the call; 0 where it was over before."""
    index = make()
    began = time.perf_counter()
    index.forget(gone)
    took = time.perf_counter() - began
    most = 0.0
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for part in (0.2, 0.5, 0.8):
            index, pressed = make(), [0.0]

            def press(pressed: list[float] = pressed) -> None:
                pressed[0] = time.perf_counter()
                _thread.interrupt_main()

            timer = threading.Timer(part * took, press)
            try:
                timer.start()
                index.forget(gone)
                timer.cancel()
                timer.join()
            except KeyboardInterrupt:
                most = max(most, time.perf_counter() - pressed[0])
    finally:
        signal.signal(signal.SIGINT, before)
    return most
