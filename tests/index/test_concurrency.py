"""Many searching threads, one writer at a time, on one index: answers stay whole, and the forgotten stays forgotten."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import lethevec

DIM = 24
CONFIGURATIONS = {
    "default": {},
    "usr l2": {"metric": "l2", "family": "usr", "bits": 2 * DIM, "steps": 2},
    "hamming": {"metric": "l2", "ranking": "hamming"},
    "codes": {"keep_vectors": False},
    "one stage ip": {"metric": "ip", "family": "superbit", "bits": 60},
}


def vectors_of(ids, version=0):
    """The vector of an id, so that an answer can be checked without asking anybody; sizes differ by thousands."""
    rows = [np.random.default_rng([int(id), version]).normal(size=DIM) * 10.0 ** (int(id) % 4) for id in ids]
    return np.array(rows, dtype=np.float32)


def distance(metric, q, x):
    q, x = q.astype(np.float64), x.astype(np.float64)
    if metric == "l2":
        return np.linalg.norm(q - x)
    if metric == "ip":
        return -(q @ x)
    return 1 - q @ x / np.linalg.norm(q) / np.linalg.norm(x)


class Threads:
    """Runs functions in threads; an error in any of them is the test's error."""

    def __init__(self, *functions):
        self.errors = []
        self.threads = [threading.Thread(target=self.run, args=(function,)) for function in functions]

    def run(self, function):
        try:
            function()
        except BaseException as error:
            self.errors.append(error)

    def start(self):
        for thread in self.threads:
            thread.start()

    def join(self):
        for thread in self.threads:
            thread.join(120)
            assert not thread.is_alive(), "a thread hangs"
        if self.errors:
            raise self.errors[0]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_searches_while_records_come_and_go(name):
    index = lethevec.Index(DIM, **CONFIGURATIONS[name])
    metric, keep = index.metric, index.config.keep_vectors
    index.add(vectors_of(range(400)), ids=range(400))
    gone: list[int] = []  # appended to when forget has returned; ids never come back
    finished = threading.Event()

    def write():
        rng = np.random.default_rng(0)
        alive, fresh = list(range(400)), 400
        try:
            for _ in range(60):
                new = list(range(fresh, fresh + int(rng.integers(1, 60))))
                fresh = new[-1] + 1
                index.add(vectors_of(new), ids=new, threads=int(rng.integers(1, 3)))
                alive += new
                index.update(vectors_of(alive[:5], version=1), ids=alive[:5])
                rng.shuffle(alive)
                leaving, alive = alive[:30], alive[30:]
                index.forget(leaving)
                gone.extend(leaving)
        finally:
            finished.set()
        assert sorted(alive) == index.ids().tolist()

    searches = []

    def search(seed, threads):
        rng = np.random.default_rng(seed)
        while not finished.is_set():
            before = len(gone)
            # Ask for what was forgotten last: it would be the nearest.
            asked = gone[max(0, before - 3) : before] or [int(rng.integers(400))]
            queries = vectors_of(asked)
            hits = index.search(queries, k=5, effort=float(rng.choice([0.1, 1.0, 100.0])), threads=threads)
            returned = set(hits.ids.ravel().tolist())
            assert not returned & set(gone[:before])
            assert (np.diff(hits.distances) >= 0).all()
            for query, ids, distances in zip(queries, hits.ids, hits.distances, strict=True):
                assert len(set(ids.tolist())) == 5
                if keep:
                    # Each distance is that of one whole version of the record, never of a mixture.
                    for id, got in zip(ids.tolist()[:2], distances.tolist()[:2], strict=True):
                        versions = [distance(metric, query, vectors_of([id], v)[0]) for v in (0, 1)]
                        assert min(abs(got - d) for d in versions) <= 1e-3 * max(1, *map(abs, versions))
            searches.append(len(returned))

    def look():
        rng = np.random.default_rng(9)
        while not finished.is_set():
            before = len(gone)
            ids = index.ids()
            assert not set(ids.tolist()) & set(gone[:before])
            assert len(index) >= 1
            index.digest()
            index.search_radius(vectors_of([int(rng.integers(400))]), 1.0)
            if before:
                assert gone[before - 1] not in index

    team = Threads(write, lambda: search(1, 1), lambda: search(2, 2), look)
    team.start()
    team.join()
    assert len(searches) > 3


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_two_writers_take_turns(name):
    """Each with ids of its own: the end is as if one had come after the other, the gain included."""
    index = lethevec.Index(DIM, **CONFIGURATIONS[name])

    def write(first):
        ids = np.arange(first, first + 300)
        for part in np.array_split(ids, 20):
            index.add(vectors_of(part), ids=part)
            index.update(vectors_of(part, 1), ids=part)
            index.forget(part[::2])

    team = Threads(lambda: write(0), lambda: write(1000), lambda: write(2001))
    team.start()
    team.join()
    ids = index.ids()
    fresh = lethevec.Index(DIM, **CONFIGURATIONS[name])
    fresh.add(vectors_of(ids[::-1], 1), ids=ids[::-1])
    assert index.digest() == fresh.digest()
    assert index.stats() == fresh.stats()
    queries = vectors_of(range(5000, 5010))
    a, b = index.search(queries, k=4, effort=0.3), fresh.search(queries, k=4, effort=0.3)
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_array_equal(a.distances, b.distances)


@pytest.mark.parametrize("call", ["search", "add", "digest", "search_radius"])
def test_other_python_threads_run_meanwhile(call):
    """The interpreter's lock is released: this thread gets to run in the middle of a long native call of another."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 64)).astype(np.float32)
    index = lethevec.Index(64)
    index.add(x, ids=range(len(x)))
    big = np.tile(x, (4, 1))
    radius_hits = -1.0  # none: what is measured is the scan, not the making of lists
    calls = {
        "search": lambda n: index._native.search(
            x[:n], 3, 1e9, None, 1, np.empty((n, 3), dtype=np.int64), np.empty((n, 3), dtype=np.float32)
        ),
        "add": lambda n: lethevec.Index(64, bits=64 * 12, sweeps=4)._native.add(big[: 8 * n], np.arange(8 * n), 1),
        "digest": lambda n: [index._native.digest_lanes(np.zeros(1024, dtype=np.uint16), 1) for _ in range(1)],
        "search_radius": lambda n: [index._native.search_radius(x[0], radius_hits, None) for _ in range(1)],
    }
    if call in ("digest", "search_radius"):
        repeated = np.tile(x, (8, 1))
        index.add(repeated, ids=np.arange(len(repeated)) + 10**6)
    for attempt in range(6):
        span = []

        def work(n=50 * 2**attempt, span=span):
            span.append(time.perf_counter())
            calls[call](n)
            span.append(time.perf_counter())

        thread = threading.Thread(target=work)
        ticks = []
        thread.start()
        while thread.is_alive():
            ticks.append(time.perf_counter())
        thread.join()
        begin, end = span
        edge = (end - begin) / 10
        # If the lock were held, the whole of the call would be one gap between two ticks.
        if any(begin + edge < tick < end - edge for tick in ticks) and end - begin > 0.003:
            return
    pytest.fail("no other Python code ran during the call")


ALL_AT_ONCE = """
import threading, numpy as np, lethevec

x = np.random.default_rng(0).normal(size=(3000, 16)).astype(np.float32)
index = lethevec.Index(16, "l2", family="usr", bits=32, steps=2)
index.add(x, ids=range(3000))
done = threading.Event()

def watch(look):
    while not done.is_set():
        look()

watchers = [threading.Thread(target=watch, args=(look,), daemon=True) for look in (
    index.stats, index.stats, lambda: len(index), index.ids, index.digest, lambda: 5 in index, lambda: repr(index),
    lambda: index.vectors([5]), lambda: index.search(x[:1]), lambda: index.search_radius(x[:1], 1.0))]
for watcher in watchers:
    watcher.start()
steps = set()
for size in range(15):
    index.add(1000 * x[:2900], ids=range(10_000, 12_900))  # crosses a step: every code is made again
    steps.add(index.stats()["mean_norm"])
    index.forget(range(10_000, 12_900))
    steps.add(index.stats()["mean_norm"])
done.set()
for watcher in watchers:
    watcher.join()
assert len(steps) == 2
print("done")
"""


def test_looking_on_while_codes_are_made_again():
    """Every way of looking at an index during re-encodings, which report their progress to Python."""
    done = subprocess.run([sys.executable, "-c", ALL_AT_ONCE], capture_output=True, text=True, timeout=60)
    assert done.stdout == "done\n", done.stderr
