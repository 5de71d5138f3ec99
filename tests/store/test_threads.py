"""Calls that wait for somebody in another process, or for each other: searches on other threads go on meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lethevec._forgetting.verify import verify_chain
from lethevec._store.checkpoint import BusyError
from lethevec.errors import ErasureIncompleteError

BOTH_LAYOUTS = True

READER = """
import sys
from lethevec._store import open
with open(sys.argv[1], read_only=True, keys=sys.argv[1] + "-keys") as db:
    db._session.connection.execute("BEGIN")
    db._session.connection.execute("SELECT count(*) FROM main.store").fetchone()
    print("reading", flush=True)
    sys.stdin.readline()
    db._session.connection.execute("ROLLBACK")
"""
LONG = 600.0  # seconds that nobody waits for here


class Reader:
    """Another process that reads an old state until it is told to stop."""

    def __init__(self, path):
        command = [sys.executable, "-c", READER, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "reading\n"

    def __enter__(self):
        return self

    def stop(self):
        if self._process.poll() is None:
            self._process.communicate("\n")

    def __exit__(self, *_):
        self.stop()
        assert self._process.returncode == 0


@pytest.fixture
def db(make, vectors):
    store = make()
    store.add(vectors, ids=[f"person-{i}" for i in range(40)], subjects=["s"] * 20 + ["t"] * 20)
    return store


FORGETS = {
    "ids": lambda db: db.forget(["person-0"], timeout=LONG),
    "subject": lambda db: db.forget(subject="s", timeout=LONG),
    "upsert": lambda db: db.upsert([[9.0] * 8], ids=["person-0"], erase_old=True, timeout=LONG),
    "update": lambda db: db.update([[9.0] * 8], ids=["person-0"], erase_old=True, timeout=LONG),
}


@pytest.mark.parametrize("what", FORGETS)
def test_searches_go_on_while_a_forget_waits_for_a_reader(db, vectors, what):
    with ThreadPoolExecutor(1) as pool, Reader(db.path) as reader:
        forget = pool.submit(FORGETS[what], db)
        while db.pending_erasures() == 0:
            assert not forget.done()
        for place in range(20):
            hits = db.search(vectors[0], k=3)
            assert hits.distances[0, 0] > 0, "its old vector is in no answer"
            db.add(vectors[:1] + place + 1, ids=[f"other-{place}"])
        assert not forget.done()
        reader.stop()
        receipt = forget.result()
    assert db.pending_erasures() == 0
    assert db.verify(receipt)
    assert db.receipts() == [receipt]


def test_a_forget_that_waits_in_a_transaction(db, vectors):
    def work():
        with db.transaction():
            first = db.forget(["person-0"], timeout=LONG)
            second = db.forget(subject="t", timeout=LONG)
        return first, second

    with ThreadPoolExecutor(1) as pool, Reader(db.path) as reader:
        both = pool.submit(work)
        while "person-0" in db:
            assert not both.done()
        for _ in range(20):
            assert "person-0" not in db.search(vectors[0], k=3).ids
        assert not both.done()
        reader.stop()
        first, second = both.result()
    assert (first.records, second.records) == (1, 20)
    assert db.receipts() == [first, second]


def test_each_forget_gets_its_own_receipt(db):
    """Whoever comes first completes what waits for all of them, and the numbers of erasures are used again."""
    with ThreadPoolExecutor(6) as pool, Reader(db.path) as reader:
        forgets = [pool.submit(db.forget, [f"person-{i}"] * 1, timeout=LONG) for i in range(6)]
        while db.pending_erasures() < 6:
            time.sleep(0.01)
        reader.stop()
        first = [forget.result() for forget in forgets]
        more = list(pool.map(lambda i: db.forget([f"person-{i}"], timeout=LONG), range(6, 30)))
    tag = db._ledger.keys.audit.tag_id
    for number, receipt in enumerate([*first, *more]):
        assert receipt["erased"] == [tag(f"person-{number}")]
    assert len(db.receipts()) == 30
    assert verify_chain(db.receipts(all_kinds=True))


def test_a_store_that_is_closed_meanwhile(db, make, vectors):
    with ThreadPoolExecutor(1) as pool, Reader(db.path) as reader:
        forget = pool.submit(db.forget, ["person-0"], timeout=LONG)
        while db.pending_erasures() == 0:
            time.sleep(0.01)
        db.close()
        with pytest.raises(ErasureIncompleteError, match="closed before"):
            forget.result()
        reader.stop()
    again = make()
    assert again.pending_erasures() == 0
    assert [receipt.records for receipt in again.receipts()] == [1]


def test_pages_are_not_lost_where_others_write_meanwhile(db, vectors, leftovers, tmp_path):
    """The log may begin anew while a forget waits: it still knows which pages are to be scrubbed, and no others."""
    with ThreadPoolExecutor(1) as pool, Reader(db.path) as reader:
        forget = pool.submit(db.forget, [f"person-{i}" for i in range(0, 20, 2)], timeout=LONG)
        while db.pending_erasures() == 0:
            time.sleep(0.01)
        stop = threading.Event()

        def write():
            place = 0
            while not stop.is_set():
                place += 1
                db.upsert(vectors[20:], ids=[f"person-{i}" for i in range(20, 40)], payloads=[{"n": place}] * 20)

        writer = threading.Thread(target=write)
        writer.start()
        reader.stop()
        receipt = forget.result()
        stop.set()
        writer.join()
    assert receipt.records == 10
    assert db.verify(receipt)
    db.forget([])
    assert leftovers(tmp_path, vectors=vectors[0:20:2], ids=[f"person-{i}" for i in range(10, 20, 2)]) == []


def test_what_another_thread_completes_is_told_as_well(db, monkeypatch):
    """`complete_erasures` gives the receipts of what waited when it was called, whoever signs for them."""
    with Reader(db.path):
        for id in ("person-1", "person-2"):
            with pytest.raises(ErasureIncompleteError):
                db.forget(id, timeout=0)
    complete = db._eraser.complete

    def beaten(timeout, claims=()):
        complete(timeout)  # the other thread
        return complete(timeout, claims)

    monkeypatch.setattr(db._eraser, "complete", beaten)
    found = db.complete_erasures()
    assert [receipt.records for receipt in found] == [1, 1]
    assert found == db.receipts()
    assert db.complete_erasures() == []


def test_pages_that_another_thread_scrubbed_are_searched(db, monkeypatch):
    """It may empty the log while an erasure waits, which then is not told what was in it: it looks at all."""
    run, calls = db._session.checkpointer.run, []

    def beaten(timeout):
        calls.append(timeout)
        if len(calls) == 1:
            run(timeout)  # the other thread
            raise BusyError("a reader held a snapshot")
        return run(timeout)

    monkeypatch.setattr(db._session.checkpointer, "run", beaten)
    receipt = db.forget("person-2", timeout=LONG)
    assert receipt["residue"]["pages"] == db.path.stat().st_size // db._session.page_size
