"""Stores whose index keeps its vectors in a file beside the database: the same store, and one more file to erase."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import lethevec
from lethevec._index.vector_files import UnsettledError
from lethevec._native import core
from lethevec._store.checkpoint import BusyError
from lethevec.errors import (
    ErasureIncompleteError,
    FileError,
    IncompleteWriteError,
    ParameterError,
    UnsupportedError,
)
from lethevec.reference.kept_form import packed, rounded

from .conftest import find_leftovers

pytestmark = pytest.mark.skipif(not core.FILES_OF_VECTORS, reason="needs Linux")
DIM = 40


@pytest.fixture
def x():
    return np.random.default_rng(3).normal(size=(3000, DIM)).astype(np.float32)


def vector_files(folder):
    return sorted(path.name for path in folder.iterdir() if "-vectors" in path.name)


def rolled_back(db, x):
    with db.transaction():
        db.add(x[2500:2600], ids=range(5000, 5100))
        db.forget(ids=range(1500, 1503), ignore_unknown=True)
        raise ZeroDivisionError


OPTIONS = {
    "default": {},
    "pivots": {"source": lethevec.Pivots(cell_size=20, key=bytes(range(16)))},
    "auto": {"source": lethevec.Auto(pivots_from=700, pivots=lethevec.Pivots(key=bytes(range(16))))},
    "int8": {"keep_vectors": "int8"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_same_store_with_the_file_and_without(x, tmp_path, name):
    """Digest, backup and answers; the file is there while a writer is, and holds nothing of what was forgotten."""
    stores = {}
    for where in ("memory", "file"):
        with lethevec.open(tmp_path / f"{where}.lethe", DIM, "l2", index=OPTIONS[name], vectors=where) as db:
            db.add(x[:2000], ids=range(2000), subjects=[f"person {n % 9}" for n in range(2000)])
        with lethevec.open(tmp_path / f"{where}.lethe", vectors=where) as db:
            assert len(vector_files(tmp_path)) == (where == "file")
            receipt = db.forget(subject="person 3")
            db.upsert(x[2000:2100], ids=range(4000, 4100))
            db.forget(ids=[5], ignore_unknown=True)
            with pytest.raises(ZeroDivisionError):
                rolled_back(db, x)
            assert db.verify(receipt, subject="person 3")
            content = b"".join((tmp_path / f).read_bytes() for f in vector_files(tmp_path))
            gone = [x[row] for row in [*range(3, 2000, 9), 5, *range(2500, 2600)]]
            assert not any(packed_of(name, vector) in content for vector in gone)
            assert (where == "file") == (packed_of(name, x[1]) in content)
            assert set(vector_files(tmp_path)) <= set(db.files())
            db.backup(tmp_path / f"{where}.backup")
            stores[where] = (
                db.digest(),
                (tmp_path / f"{where}.backup").read_bytes(),
                db.search(x[:30], k=5).ids.tolist(),
            )
        assert vector_files(tmp_path) == []
    assert stores["memory"] == stores["file"]


def packed_of(name, vector):
    return packed("int8", rounded("int8", vector[None])) if name == "int8" else vector.tobytes()


def test_an_erasure_searches_what_was_rewritten(x, tmp_path, monkeypatch):
    """With bytes of the record put back into the file, no receipt is signed; without them it is."""
    with lethevec.open(tmp_path / "s.lethe", DIM, "l2", vectors="file") as db:
        db.add(x[:500], ids=range(500))
        (name,) = vector_files(tmp_path)
        records = db._mirror.index._records
        forget = type(records).forget
        place = (tmp_path / name).read_bytes().index(x[499].tobytes())

        def spoiled(self, ids, **options):
            gone = forget(self, ids, **options)
            with open(tmp_path / name, "r+b") as file:
                file.seek(place)
                file.write(x[7].tobytes())
            return gone

        with monkeypatch.context() as patch:
            patch.setattr(type(records), "forget", spoiled)
            patch.setattr(type(records), "forget_one", lambda self, id: spoiled(self, np.array([id])) == 1)
            with pytest.raises(ErasureIncompleteError, match=r"vector float32 LE in s\.lethe-vectors"):
                db.forget(ids=[7])
        assert db.pending_erasures() == 1
        with open(tmp_path / name, "r+b") as file:
            file.seek(place)
            file.write(bytes(4 * DIM))
        db.complete_erasures()
        assert db.pending_erasures() == 0
        assert db.receipts()[-1].records == 1


@pytest.mark.parametrize("keep", ["float16", "int8"])
def test_the_search_looks_for_small_forms_too(x, tmp_path, monkeypatch, keep):
    with lethevec.open(tmp_path / "s.lethe", DIM, "l2", vectors="file", index={"keep_vectors": keep}) as db:
        db.add(x[:500], ids=range(500))
        db.add(x[:5], ids=range(1000, 1005))  # equal vectors live on, which is no residue
        assert db.forget(ids=[3]).records == 1
        kept = packed(keep, rounded(keep, x[7:8]))
        (name,) = vector_files(tmp_path)
        place = (tmp_path / name).read_bytes().index(kept)
        native = type(db._mirror.index._native)
        parts = native.parts_of_file

        def spoiled(self, rewritten):
            with open(tmp_path / name, "r+b") as file:
                file.seek(place)
                file.write(kept)
            return parts(self, rewritten)

        monkeypatch.setattr(native, "parts_of_file", spoiled)
        with pytest.raises(ErasureIncompleteError, match=f"vector {keep}"):
            db.forget(ids=[7])


KILLED = """
import os, sys, numpy as np, lethevec
x = np.random.default_rng(3).normal(size=(3000, 40)).astype(np.float32)
db = lethevec.open(sys.argv[1], 40, "l2", vectors="file")
if len(db) == 0:
    db.add(x[:2000], ids=range(2000))
print("there", flush=True)
for id in range(2000):
    if id in db:
        db.forget(ids=[id])
        print(id, flush=True)
"""


def test_kill_9_in_the_middle_of_forgets(x, tmp_path):
    """What was left is never read: it is overwritten and removed by the next open, with the file or without."""
    path = tmp_path / "s.lethe"
    for vectors in ("file", "memory"):
        command = [sys.executable, "-c", KILLED, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "there\n"
            told = [int(child.stdout.readline()) for _ in range(5)]
            child.kill()
            told += [int(line) for line in child.stdout if line.endswith("\n")]
        (left,) = vector_files(tmp_path)
        held = os.open(tmp_path / left, os.O_RDONLY)
        try:
            content = os.pread(held, 1 << 30, 0)
            assert not any(x[id].tobytes() in content for id in told)
            assert x[1999].tobytes() in content
            with lethevec.open(path, vectors=vectors) as db:
                assert os.pread(held, 1 << 30, 0).strip(b"\0") == b""
                assert not any(id in db for id in told)
                assert db.search(x[1999], k=1).ids.tolist() == [[1999]]
                assert db.pending_erasures() == 0
            assert vector_files(tmp_path) == []
        finally:
            os.close(held)
        assert find_leftovers(tmp_path, vectors=x[told]) == []


def test_who_cannot_have_one(x, tmp_path):
    path = tmp_path / "s.lethe"
    with pytest.raises(UnsupportedError, match="clear"):
        lethevec.open(path, DIM, encrypt=True, vectors="file")
    assert not path.exists()
    lethevec.open(path, DIM, encrypt=True).close()
    with pytest.raises(UnsupportedError, match="encrypted"):
        lethevec.open(path, vectors="file")
    assert vector_files(tmp_path) == []
    lethevec.open(tmp_path / "plain.lethe", DIM).close()
    with pytest.raises(UnsupportedError, match="read_only"):
        lethevec.open(tmp_path / "plain.lethe", read_only=True, vectors="file")
    for bad in (None, "disk", tmp_path / "v"):
        with pytest.raises(ParameterError, match="'memory' or 'file'"):
            lethevec.open(tmp_path / "plain.lethe", vectors=bad)
    with pytest.raises(ParameterError, match="one of open"):
        lethevec.open(tmp_path / "new.lethe", DIM, index={"vectors": "file"})


def test_somebody_elses_file_is_not_touched(x, tmp_path):
    path = tmp_path / "s.lethe"
    lethevec.open(path, DIM).close()
    other = tmp_path / "s.lethe-vectors"
    other.write_bytes(b"notes")
    with pytest.raises(IncompleteWriteError, match="not a file of ours"):
        lethevec.open(path, vectors="file")
    lethevec.open(path).close()
    assert other.read_bytes() == b"notes"


def searched(receipt):
    """How many bytes of the file of vectors a receipt says were searched."""
    (count,) = [count for name, count in receipt["residue"]["searched"].items() if name.endswith("-vectors")]
    return count


def forget_each(db, *ids):
    with db.transaction():
        return [db.forget(ids=[id]) for id in ids]


class TestEveryReceiptIsOfASearch:
    """The core says once what was rewritten: no search may use that up for the others."""

    @pytest.fixture
    def db(self, x, tmp_path):
        with lethevec.open(tmp_path / "s.lethe", DIM, "l2", vectors="file") as db:
            db.add(x[:500], ids=range(500))
            db.forget(ids=[0])  # signed for: what was rewritten before is of no more interest
            yield db

    def test_several_in_one_completion(self, db):
        counts = [searched(receipt) for receipt in forget_each(db, 1, 2)]
        assert counts[0] == counts[1] > 0

    def test_a_trace_of_the_second_is_found(self, db, x, tmp_path, monkeypatch):
        place = (tmp_path / "s.lethe-vectors").read_bytes().index(x[499].tobytes())
        kept = bytes(4 * DIM)
        run = db._session.checkpointer.run

        def spoiled(timeout):
            with open(tmp_path / "s.lethe-vectors", "r+b") as file:
                file.seek(place)
                file.write(x[2].tobytes())
            return run(timeout)

        monkeypatch.setattr(db._session.checkpointer, "run", spoiled)
        with pytest.raises(ErasureIncompleteError, match=r"in s\.lethe-vectors"):
            forget_each(db, 1, 499, 2)  # the row of 499 is rewritten, and holds the vector of 2
        monkeypatch.undo()
        with open(tmp_path / "s.lethe-vectors", "r+b") as file:
            file.seek(place)
            file.write(kept)
        assert len(db.complete_erasures()) == 3

    def test_verify_in_between(self, db, monkeypatch):
        """As another thread may call it while the forget waits; it empties the log as well."""
        run, receipt, calls = db._session.checkpointer.run, db.receipts()[0], []

        def busy_once(timeout):
            calls.append(timeout)
            if len(calls) == 1:
                assert db.verify(receipt, ids=[0])
                raise BusyError("a reader holds a snapshot")
            return run(timeout)

        monkeypatch.setattr(db._session.checkpointer, "run", busy_once)
        receipt = db.forget(ids=[3], timeout=60)
        assert searched(receipt) > 0
        assert receipt["residue"]["pages"] == db.path.stat().st_size // db._session.page_size

    def test_a_signature_that_fails(self, db, monkeypatch):
        sign, calls = db._ledger.sign, []

        def fail_once(residue, issued):
            calls.append(residue)
            if len(calls) == 1:
                raise BusyError("another program wrote to the database")
            sign(residue, issued)

        monkeypatch.setattr(db._ledger, "sign", fail_once)
        assert searched(db.forget(ids=[4], timeout=60)) > 0
        assert len(calls) == 2

    def test_what_was_signed_for_is_not_searched_again(self, db):
        """Two in one completion search what one does, and the next one no more."""
        first = searched(db.forget(ids=[5]))
        assert 0 < searched(db.forget(ids=[6])) <= 2 * first


@pytest.mark.parametrize("call", ["add", "update", "forget"])
def test_the_gain_of_a_store_follows_what_the_disk_does_not_confirm(x, tmp_path, monkeypatch, call):
    """The call fails and is undone, in the index too, whose records are counted once."""
    x = np.concatenate([x[:300], 50 * x[300:400]])
    real = getattr(core.Index, call)
    failed = []

    def change(self, *args):
        done = real(self, *args)
        if not failed:
            failed.append(True)
            raise UnsettledError("the disk does not confirm it")
        return done

    options = {"family": "usr", "source": "scan"}
    with lethevec.open(tmp_path / "s.lethe", DIM, "l2", vectors="file", index=options) as db:
        db.add(x[:350], ids=range(350))
        before = db.digest()
        changes = {
            "add": lambda: db.add(x[350:], ids=range(350, 400)),
            "update": lambda: db.update(x[350:], ids=range(50)),
            "forget": lambda: db.forget(ids=range(300, 350)),
        }
        with monkeypatch.context() as patch:
            patch.setattr(core.Index, call, change)
            with pytest.raises(FileError, match="does not confirm"):
                changes[call]()
        assert failed
        assert db.digest() == before
        plain = lethevec.Index(DIM, "l2", **options)
        plain.add(x[:350], ids=range(350))
        assert db.stats()["mean_norm"] == plain.stats()["mean_norm"]
        assert db._mirror.index._gain.counts._counts == plain._gain.counts._counts
        found = db.search(x[:30], k=5).distances
        np.testing.assert_array_equal(found, plain.search(x[:30], k=5).distances)
