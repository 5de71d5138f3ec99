"""Several processes and several threads: one writer, many readers, forgets that everybody sees."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from lethevec.errors import ErasureIncompleteError, LethevecError, StoreLockedError

BOTH_LAYOUTS = True


@contextmanager
def child(code: str, *arguments: object):
    """Another process; `ask(line)` sends it a line and returns its answer."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:

        def ask(line: str) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        try:
            yield ask
        finally:
            process.stdin.close()  # type: ignore[union-attr]
            process.wait(timeout=30)


READER = """
    import sys, numpy as np
    from lethevec._store import open
    db = open(sys.argv[1], read_only=True)
    for line in sys.stdin:
        hits = db.search(np.array(line.split(), dtype=float), k=3)
        print(len(db), hits.ids[0].tolist(), flush=True)
"""
HOLDER = """
    import sys, sqlite3
    connection = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, isolation_level=None)
    [table] = connection.execute("SELECT name FROM sqlite_master WHERE name IN ('vectors', 'sealed')").fetchone()
    for line in sys.stdin:
        connection.execute(line)
        print(*connection.execute(f"SELECT count(*) FROM {table}").fetchone(), flush=True)
"""


def as_line(vector: np.ndarray) -> str:
    return " ".join(map(str, vector.tolist()))


def test_a_reader_in_another_process_sees_every_change(make, vectors):
    db = make()
    db.add(vectors[:10], ids=range(10))
    with child(READER, db.path) as ask:
        assert ask(as_line(vectors[3])).startswith("10 [3, ")
        db.forget([3])
        answer = ask(as_line(vectors[3]))
        assert answer.startswith("9 [")
        assert "3" not in answer.split("[")[1].rstrip("]").split(", ")
        db.add(vectors[3:4], ids=["again"])
        assert ask(as_line(vectors[3])).startswith("10 ['again', ")
        db.update(ids=["again"], vectors=vectors[20])
        assert ask(as_line(vectors[20])).startswith("10 ['again', ")
        db.load([{"vectors": vectors[i : i + 1], "ids": [100 + i]} for i in range(20, 40)])
        db.forget(ids=[0, 1, 2, "again"])
        assert ask(as_line(vectors[20])).startswith("26 [120, ")
        db.forget([r.id for r in db])
        assert ask(as_line(vectors[20])) == "0 [-1, -1, -1]"


def test_a_reader_does_not_keep_a_writer_from_erasing(make, vectors):
    db = make()
    db.add(vectors[:10], ids=range(10))
    with child(READER, db.path) as one, child(READER, db.path) as two:
        for i in range(5):
            one(as_line(vectors[0]))
            two(as_line(vectors[0]))
            assert db.forget([i], timeout=0.0).records == 1


def test_a_process_that_holds_a_snapshot(make, vectors, tmp_path, leftovers):
    db = make()
    db.add(vectors[:10], ids=range(10))
    with child(HOLDER, db.path) as ask:
        assert ask("BEGIN") == "10"
        with pytest.raises(ErasureIncompleteError, match="a reader holds a snapshot"):
            db.forget([3], timeout=0.2)
        assert 3 not in db.search(vectors[3], k=10).ids
        assert ask("SELECT 1") == "10", "its snapshot still has the record, so the bytes cannot be gone"
        assert db.receipts() == []
        assert ask("COMMIT") == "9"
        assert len(db.complete_erasures()) == 1
    assert leftovers(tmp_path, vectors=vectors[3:4]) == []


@pytest.mark.parametrize("when", [0, 1, 2])
def test_changes_while_a_reader_loads(make, vectors, monkeypatch, when):
    """Between two parts of a load, or after the last: forgets, updates and adds of what was read and what was not."""
    from lethevec._store.mirror import Mirror

    monkeypatch.setattr("lethevec._store.mirror._PART", 10)
    db = make()
    db.add(vectors[:30], ids=range(30))
    calls: list[int] = []

    def interfere():
        db.forget([1, 15, 29])
        db.update(ids=[2, 16, 28], vectors=-vectors[:3])
        db.update(ids=[2], vectors=-vectors[3])
        db.add(vectors[30:32], ids=[100, 101])
        db.forget([101])
        db.add(vectors[32:33], ids=[1])

    if when == 0:  # before the first look at the end, which is in a transaction: so just before it
        original = Mirror._read_new

        def read_new(self, progress):
            original(self, progress)
            if not calls:
                calls.append(1)
                interfere()

        monkeypatch.setattr(Mirror, "_read_new", read_new)
    else:  # after so many parts
        from lethevec._store import mirror

        to_arrays = mirror.as_arrays

        def parts(*arguments):
            calls.append(1)
            if len(calls) == when:
                interfere()
            return to_arrays(*arguments)

        monkeypatch.setattr(mirror, "as_arrays", parts)
    reader = make(read_only=True)
    monkeypatch.undo()
    assert calls
    assert reader.digest() == db.digest()
    everything = reader.search(vectors[0], k=50)
    assert everything.ids.tolist() == db.search(vectors[0], k=50).ids.tolist()
    assert everything.distances.tolist() == db.search(vectors[0], k=50).distances.tolist()
    db.forget([100])
    assert len(reader) == len(db)


def test_the_second_writer_is_told(make):
    db = make()
    code = """
        import sys
        from lethevec._store import open
        from lethevec.errors import StoreLockedError
        for line in sys.stdin:
            try:
                open(sys.argv[1]).close()
                print("opened", flush=True)
            except StoreLockedError as error:
                print(error, flush=True)
    """
    import os

    with child(code, db.path) as ask:
        message = ask("go")
        assert f"that process {os.getpid()} writes to" in message
        assert "read_only=True" in message
        db.close()
        assert ask("go") == "opened"
    make().close()


def test_two_writers_in_one_process(make):
    make()
    with pytest.raises(StoreLockedError, match="expected to be the only writer"):
        make()


def test_a_foreign_writer_is_waited_for_and_then_reported(make, vectors):
    import sqlite3

    db = make(timeout=0.1)
    other = sqlite3.connect(db.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLockedError, match="another program holds the database"):
        db.add(vectors[:1], ids=[1])
    other.execute("ROLLBACK")
    other.close()
    db.add(vectors[:1], ids=[1])
    assert len(db) == 1


def test_threads_search_while_one_writes(make):
    """No search that starts after a forget has returned gives the record, and none has a hole or an error."""
    rng = np.random.default_rng(8)
    data = rng.normal(size=(600, 8)).astype(np.float32)
    db = make()
    db.add(data, ids=range(600), payloads=[{"n": i} for i in range(600)])
    forgotten: set[int] = set()
    problems: list[str] = []
    stop = threading.Event()

    def searching(seed: int) -> None:
        choose = np.random.default_rng(seed)
        try:
            while not stop.is_set():
                before = set(forgotten)
                hits = db.search(data[choose.integers(600)], k=5)
                if len(hits[0]) != 5:
                    problems.append(f"{len(hits[0])} answers")
                for hit in hits[0]:
                    if hit.id in before:
                        problems.append(f"{hit.id} came back")
                    if hit.payload != {"n": hit.id}:
                        problems.append(f"{hit.id} has {hit.payload}")
        except LethevecError as error:
            problems.append(repr(error))

    threads = [threading.Thread(target=searching, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for start in range(0, 300, 10):
        db.forget(range(start, start + 10))
        forgotten.update(range(start, start + 10))
    stop.set()
    for thread in threads:
        thread.join(timeout=60)
    assert problems == []
    assert len(db) == 300


def test_an_iteration_does_not_hold_up_an_erasure(make, vectors, monkeypatch):
    monkeypatch.setattr("lethevec._store.reading._PART", 3)
    db = make()
    db.add(vectors[:20], ids=range(20))
    reader = make(read_only=True)
    iteration = iter(reader)
    assert next(iteration).id == 0
    assert db.forget([10, 11], timeout=0.0).records == 2
    assert [record.id for record in iteration] == [*range(1, 10), *range(12, 20)]


def test_a_reader_opened_during_a_crash_of_the_writer(tmp_path: Path, vectors, make):
    """A log that nobody has checkpointed yet is read by readers, and by the next writer."""
    code = """
        import os, sys, numpy as np
        from lethevec._store import open
        db = open(sys.argv[1], 8, "l2")
        db.add(np.random.default_rng(5).normal(size=(40, 8)).astype(np.float32), ids=range(40))
        os._exit(9)
    """
    path = tmp_path / "people.lethe"
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], timeout=60, check=False)
    assert result.returncode == 9
    assert (tmp_path / "people.lethe-wal").stat().st_size
    reader = make(read_only=True)
    assert len(reader) == 40
    db = make()
    assert db.search(vectors[7], k=1).ids == [[7]]
    assert (tmp_path / "people.lethe-wal").stat().st_size == 0
