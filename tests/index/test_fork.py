"""A process that is forked inherits indexes, and locks that threads it does not have may hold: no call may hang there.

A child can read what nobody was changing at the fork, and is refused everything else, in words. Children have a time
limit: one that hangs is killed by its alarm, which is a failure here.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings

import numpy as np
import pytest

import lethevec
from lethevec.errors import ForkError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

DIM, RECORDS = 16, 2000
SOURCES = ["scan", "tables", "pivots", "graph"]
FINE, REFUSED, WRONG = 0, 3, 4
LIMIT = 30  # seconds until a child counts as hung


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(3).normal(size=(2 * RECORDS, DIM)).astype(np.float32)


@pytest.fixture(params=SOURCES)
def index(request, x):
    made = lethevec.Index(DIM, metric="l2", source=request.param)
    made.add(x[:RECORDS], ids=range(RECORDS))
    return made


def in_child(work) -> int:
    """How a forked child ends that does this work: one of the codes above, or minus the signal that killed it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that other threads are there is the point
        process = os.fork()
    if process == 0:
        code = WRONG
        try:
            signal.alarm(LIMIT)
            work()
            code = FINE
        except ForkError as error:
            code = REFUSED if str(error) else WRONG
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


class Changing:
    """A thread that changes an index for as long as the block lasts."""

    def __init__(self, index, x):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._change, args=(index, x))

    def _change(self, index, x):
        ids = np.arange(RECORDS, 2 * RECORDS)
        while not self._stop.is_set():
            index.add(x[RECORDS:], ids=ids)
            index.forget(ids)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def test_a_child_reads_what_it_inherits(index, x, tmp_path):
    expected, digest = index.search(x[:5], k=3).ids.tolist(), index.digest()

    def read():
        assert index.search(x[:5], k=3, threads=2).ids.tolist() == expected
        assert len(index.search_radius(x[:1], 1.0)) == 1
        assert len(index) == RECORDS
        assert 3 in index
        assert index.digest() == digest
        assert index.ids().tolist() == list(range(RECORDS))

    assert in_child(read) == FINE
    # And so does a child of the child.
    assert in_child(lambda: sys.exit() if in_child(read) else None) == FINE


@pytest.mark.parametrize("change", ["add", "update", "forget", "forget many"])
def test_a_child_cannot_change_what_it_inherits(index, x, change):
    changes = {
        "add": lambda: index._native.add(x[-1:], np.array([10**6]), 1, None),
        "update": lambda: index._native.update(x[-1:], np.array([3]), 1),
        "forget": lambda: index._native.forget_one(3),
        "forget many": lambda: index._native.forget(np.arange(99), False),
    }
    before = index.digest()
    assert in_child(changes[change]) == REFUSED
    assert index.digest() == before

    def read_after_refusal():
        with pytest.raises(ForkError, match="forked"):
            changes[change]()
        assert index.digest() == before

    assert in_child(read_after_refusal) == FINE


def test_an_index_that_a_child_makes_is_its_own(index, x):
    def work():
        made = lethevec.Index(DIM, metric="l2", source="pivots")
        made.add(x[:100], ids=range(100))
        assert made.search(x[7], k=1).ids.tolist() == [[7]]
        assert made.forget([7]) == 1

    assert in_child(work) == FINE


def test_no_child_hangs_that_was_forked_during_a_change(index, x):
    def search():
        for _ in range(3):
            hits = index.search(x[:5], k=3)
            assert (hits.ids[:, 0] == np.arange(5)).all()
        assert len(index) in (RECORDS, 2 * RECORDS)

    with Changing(index, x):
        ends = [in_child(search) for _ in range(40)]
    assert set(ends) <= {FINE, REFUSED}
    assert in_child(search) == FINE


def test_multiprocessing(index, x):
    import multiprocessing

    with Changing(index, x), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=_search_quietly, args=(index, x)) for _ in range(8)]
        for child in children:
            child.start()
    for child in children:
        child.join(LIMIT)
    assert {child.exitcode for child in children} <= {FINE, REFUSED}


def _search_quietly(index, x):
    signal.alarm(LIMIT)
    try:
        index.search(x[:5], k=3)
    except ForkError:
        sys.exit(REFUSED)
