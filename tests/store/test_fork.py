"""A process that is forked inherits open stores. It can use none of them, harms none, and never hangs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import lethevec
from lethevec.errors import ForkError, StoreLockedError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

DIM = 8
FINE, REFUSED, WRONG = 0, 3, 4
LIMIT = 40  # seconds until a child counts as hung


def vectors(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, DIM)).astype(np.float32)


@pytest.fixture(params=[False, True], ids=["plain", "sealed"])
def path(request, tmp_path):
    path = tmp_path / "people.lethe"
    with lethevec.open(path, dim=DIM, metric="l2", encrypt=request.param) as db:
        db.add(vectors(50), ids=range(50), subjects=[f"person {i}" for i in range(50)])
    return path


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
            code = REFUSED if "forked" in str(error) else WRONG
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def whole(path, records) -> None:
    """The store can be opened, and everything in it is as it should be."""
    with lethevec.open(path) as db:
        assert len(db) == records
        db.add(vectors(1, 99), ids=[99_999])
        assert db.verify(db.forget([99_999]))
        assert db.search(vectors(50)[7], k=1).ids.tolist() == [[7]]


CALLS = {
    "add": lambda db: db.add(vectors(1, 9), ids=[1000]),
    "update": lambda db: db.update(vectors(1, 9), ids=[3]),
    "forget": lambda db: db.forget([3]),
    "get": lambda db: db.get([3]),
    "search": lambda db: db.search(vectors(1), k=3),
    "search_radius": lambda db: db.search_radius(vectors(1), 1.0),
    "ids": lambda db: db.ids(),
    "iteration": lambda db: list(db),
    "in": lambda db: 3 in db,
    "subjects": lambda db: db.subjects(),
    "digest": lambda db: db.digest(),
    "stats": lambda db: db.stats(),
    "receipts": lambda db: db.receipts(),
    "rotate": lambda db: db.rotate_keys(),
}


@pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
def test_a_child_is_refused_every_call(path, read_only):
    with lethevec.open(path, read_only=read_only) as db:
        for name, call in CALLS.items():
            assert in_child(lambda call=call: call(db)) == REFUSED, name
        assert len(db.ids()) == 50
        if not read_only:
            db.add(vectors(1, 9), ids=[1000])
            assert db.verify(db.forget([1000]))
    whole(path, 50)


def test_a_child_closes_what_it_inherits_without_a_trace(path):
    db = lethevec.open(path)
    db.add(vectors(1, 9), ids=[1000])
    assert in_child(db.close) == FINE
    assert in_child(lambda: db.__exit__(None, None, None)) == FINE
    with pytest.raises(StoreLockedError):
        lethevec.open(path)  # the child has not let go of the parent's lock
    assert db.verify(db.forget([1000]))
    db.close()
    whole(path, 50)


def test_a_child_opens_the_store_for_itself(path):
    with lethevec.open(path) as db:

        def read():
            with lethevec.open(path, read_only=True) as own:
                assert own.search(vectors(50)[7], k=1).ids.tolist() == [[7]]
            with pytest.raises(StoreLockedError):
                lethevec.open(path)

        assert in_child(read) == FINE
        db.add(vectors(1, 9), ids=[1000])
        assert in_child(read) == FINE
        assert db.verify(db.forget([1000]))
    whole(path, 50)


def test_a_child_writes_when_its_parent_has_closed(path):
    db = lethevec.open(path)
    ready, go = os.pipe(), os.pipe()
    process = os.fork()
    if process == 0:
        code = WRONG
        try:
            signal.alarm(LIMIT)
            os.read(go[0], 1)
            with lethevec.open(path) as own:
                own.add(vectors(1, 9), ids=[1000])
            code = FINE
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    db.add(vectors(1, 8), ids=[1001])
    db.close()
    os.write(go[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == FINE
    for end in (*ready, *go):
        os.close(end)
    whole(path, 52)


def test_the_lock_is_free_when_the_writer_ends_and_a_child_lives_on(path):
    """A server that was killed must not be locked out by one of its children."""
    script = """
import os, sys, time, lethevec
db = lethevec.open(sys.argv[1])
if os.fork() == 0:
    print("forked", flush=True)
    time.sleep(60)
os._exit(0)
"""
    parent = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert parent.stdout.readline() == b"forked\n"
        parent.wait(LIMIT)
        whole(path, 50)
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.stdout.close()


def test_in_the_middle_of_a_transaction(path):
    with lethevec.open(path) as db:
        with db._session.transaction():
            db.add(vectors(1, 9), ids=[1000])

            def try_again():
                with pytest.raises(ForkError, match="forked"):
                    db.ids()
                lethevec.open(path, read_only=True)

            assert in_child(try_again) == REFUSED
        assert 1000 in db
        assert db.verify(db.forget([1000]))
    whole(path, 50)


def test_no_child_hangs_while_threads_use_the_store(path):
    stop = threading.Event()
    with lethevec.open(path) as db:

        def change():
            number = 10_000
            while not stop.is_set():
                db.add(vectors(20, number), ids=range(number, number + 20))
                db.forget(range(number, number + 20))
                number += 20

        def look():
            while not stop.is_set():
                db.search(vectors(3), k=3)
                db.get([3])

        def in_the_child():
            with pytest.raises(ForkError):
                db.search(vectors(1), k=3)
            with lethevec.open(path, read_only=True) as own:
                assert len(own) >= 50

        threads = [threading.Thread(target=work) for work in (change, look, look)]
        for thread in threads:
            thread.start()
        try:
            ends = [in_child(in_the_child) for _ in range(12)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert set(ends) <= {FINE, REFUSED}
    assert FINE in ends
    whole(path, 50)


def read_in_a_worker(path, inherited=None):
    """What a worker of a pre-forking server does: refused by what it inherits, it opens the store for itself."""
    signal.alarm(LIMIT)
    if inherited is not None:
        with pytest.raises(ForkError):
            inherited.get([3])
    with lethevec.open(path, read_only=True) as own:
        for _ in range(10):
            assert own.search(vectors(50)[7], k=1).ids.tolist() == [[7]]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(path, method):
    context = multiprocessing.get_context(method)
    with lethevec.open(path) as db, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        arguments = (path, db) if method == "fork" else (path,)
        workers = [context.Process(target=read_in_a_worker, args=arguments) for _ in range(4)]
        for worker in workers:
            worker.start()
        for number in range(5):  # the parent goes on
            db.add(vectors(1, number), ids=[1000 + number])
        assert db.verify(db.forget(range(1000, 1005)))
        for worker in workers:
            worker.join(LIMIT)
        assert [worker.exitcode for worker in workers] == [0] * 4
    whole(path, 50)


def test_a_folder_of_collections(tmp_path):
    with lethevec.connect(tmp_path / "folder") as folder:
        made = folder.collection("people", dim=DIM, metric="l2")
        made.add(vectors(5), ids=range(5))
        assert in_child(lambda: made.ids()) == REFUSED
        assert in_child(lambda: folder.collection("others", dim=DIM)) == REFUSED
        assert in_child(folder.close) == FINE
        assert len(made.ids()) == 5
        made.add(vectors(1, 9), ids=[7])
