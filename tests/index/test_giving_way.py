"""Long changes: searches on other threads come in between, Ctrl-C is heard, and the state is then one of the two."""

from __future__ import annotations

import _thread
import signal
import threading
import time

import numpy as np
import pytest

import lethevec

DIM = 64
RECORDS = 30_000
SOURCES = {
    "scan": "scan",
    "tables": "tables",
    "pivots": "pivots",
    "refined": lethevec.Pivots(refine=True),
    "graph": "graph",
    "auto": lethevec.Auto(pivots_from=RECORDS - 1000),
}
PARTS = (0.1, 0.3, 0.5, 0.7)  # of a call, after which Ctrl-C is pressed


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(5).normal(size=(2 * RECORDS, DIM)).astype(np.float32)


def seen(index, queries):
    hits = index.search(queries, k=5, effort=0.5)
    return index.digest(), index.stats(), hits.ids.tolist(), hits.distances.tolist()


def changes_of(index, x):
    half = RECORDS // 2
    return {
        "add": lambda: index.add(x[RECORDS:], ids=np.arange(RECORDS, 2 * RECORDS)),
        "update": lambda: index.update(x[RECORDS : RECORDS + half], ids=np.arange(half)),
        "forget": lambda: index.forget(np.arange(half)),
    }


class Interrupting:
    """Ctrl-C some time after the block has begun, if it has not ended before."""

    def __init__(self, seconds):
        self._timer = threading.Timer(seconds, _thread.interrupt_main)

    def __enter__(self):
        self._before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self._timer.start()

    def __exit__(self, *_):
        self._timer.cancel()
        self._timer.join()
        signal.signal(signal.SIGINT, self._before)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("change", ["add", "update", "forget"])
def test_an_interrupt_leaves_all_or_nothing(x, source, change):
    def made():
        index = lethevec.Index(DIM, "l2", source=SOURCES[source])
        index.add(x[:RECORDS], ids=np.arange(RECORDS))
        return index

    queries = x[:20] + np.float32(0.01)
    index = made()
    before = seen(index, queries)
    began = time.perf_counter()
    changes_of(index, x)[change]()
    took = time.perf_counter() - began
    after = seen(index, queries)
    index, whole = made(), 0
    for part in PARTS:
        stopped = False
        try:
            with Interrupting(took * part):
                changes_of(index, x)[change]()
        except KeyboardInterrupt:
            stopped = True
        now = seen(index, queries)
        assert now in (before, after)
        if now == after:
            whole += 1
            index = made()
        else:
            assert stopped
    if change == "add" and source in ("pivots", "refined"):
        assert whole < len(PARTS), "it was never heard in the middle of the native call"


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("change", ["add", "update", "forget"])
def test_searches_come_in_between(x, source, change):
    """At least one search begins and ends while the change goes on, and finds whole versions of records alone."""
    index = lethevec.Index(DIM, "l2", source=SOURCES[source])
    index.add(x[:RECORDS], ids=np.arange(RECORDS))
    for _ in range(5):
        span, searches = [], []

        def work(index=index, span=span):
            span.append(time.perf_counter())
            changes_of(index, x)[change]()
            span.append(time.perf_counter())

        thread = threading.Thread(target=work)
        thread.start()
        while thread.is_alive():
            began = time.perf_counter()
            hits = index.search(x[:1], k=3)
            searches.append((began, time.perf_counter()))
            # Either version of what is found, never a mixture.
            for id, distance in zip(hits.ids[0].tolist(), hits.distances[0].tolist(), strict=True):
                versions = [x[id]] if id >= RECORDS else [x[id], x[id + RECORDS]]
                assert min(abs(float(np.linalg.norm(x[0] - v)) - distance) for v in versions) < 1e-3
        thread.join()
        if any(span[0] < began and ended < span[1] for began, ended in searches):
            return
        index = lethevec.Index(DIM, "l2", source=SOURCES[source])
        index.add(x[:RECORDS], ids=np.arange(RECORDS))
    pytest.fail("no search came in between")


@pytest.mark.parametrize("source", ["scan", "tables"])
def test_a_refusal_in_a_late_piece_takes_back_the_earlier_ones(source):
    dim, n = 4096, 700  # so wide that a piece is 256 records
    wide = np.random.default_rng(1).normal(size=(n, dim)).astype(np.float32)
    index = lethevec.Index(dim, "l2", source=source)
    index.add(wide[:5], ids=range(5))
    before = seen(index, wide[:3])
    ids = np.arange(100, 100 + n)
    ids[-1] = 3
    with pytest.raises(lethevec.errors.IdError, match="got 3, which is present"):
        index.add(wide, ids=ids)
    assert seen(index, wide[:3]) == before
    ids[-1] = 100
    with pytest.raises(lethevec.errors.IdError, match="got 100 more than once"):
        index.add(wide, ids=ids)
    assert seen(index, wide[:3]) == before
    assert lethevec._native.core.testing.raw_memory(index._native).find(wide[300].tobytes()) == -1
    ids[-1] = 9999
    index.add(wide, ids=ids)
    index.update(wide[::-1].copy(), ids=ids)
    fresh = lethevec.Index(dim, "l2", source=source)
    fresh.add(wide[::-1].copy(), ids=ids)
    fresh.add(wide[:5], ids=range(5))
    assert seen(index, wide[:3]) == seen(fresh, wide[:3])
    index.forget(ids)
    assert seen(index, wide[:3]) == before
