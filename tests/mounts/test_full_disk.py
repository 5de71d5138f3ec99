"""Disks that are full to the last byte, with so many pages free: every call says what happened, nothing that was
acknowledged is lost, no receipt is signed too early, and with space again everything goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lethevec
from lethevec.errors import ErasureIncompleteError, FileError, IncompleteWriteError, LethevecError

from ..store.conftest import find_leftovers
from .small_disk import PAGE, SmallDisk

X = np.random.default_rng(1).normal(size=(3000, 32)).astype(np.float32)
#: Pages that are free: from none to enough for everything. `LETHEVEC_PAGES=1` tries all of them.
FREE = range(201) if os.environ.get("LETHEVEC_PAGES") else (0, 1, 2, 3, 5, 8, 9, 10, 13, 24, 40, 90, 200)
LAYOUTS = pytest.mark.parametrize("layout", ["plain", "sealed"])


def says_full(error: LethevecError) -> bool:
    """Whether an error tells of a full disk."""
    return any(words in str(error) for words in ("No space left", "disk is full", "disk I/O"))


class Told:
    """A store, and what it has acknowledged: the only records that may be there, and they all must be."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.db = lethevec.open(path, 32, "l2", **options)
        self.records: dict[int, tuple[bytes, str | None]] = {}
        self.receipts = 0
        self.rotations = 0
        self.waiting = 0
        self.forgotten: list[int] = []  # rows of X that were erased, with a receipt
        self.refused = 0

    def call(self, work: Callable[[], Any]) -> Any:
        """What a call gives, or its error, which must be one of a full disk."""
        found: LethevecError
        try:
            return work()
        except (ErasureIncompleteError, IncompleteWriteError) as error:
            found = error
        self.refused += 1
        assert says_full(found), found
        return found if isinstance(found, ErasureIncompleteError) else None

    def add(self, rows: range, subject: str | None = None) -> None:
        if self.call(lambda: self.db.add(X[rows], ids=rows, subjects=subject) or True):
            self.records |= {row: (X[row].tobytes(), subject) for row in rows}

    def load(self, rows: range) -> None:
        parts = [rows[start : start + 50] for start in range(0, len(rows), 50)]
        if self.call(lambda: self.db.load({"vectors": X[part], "ids": part} for part in parts)):
            self.records |= {row: (X[row].tobytes(), None) for row in rows}

    def replace(self, ids: range, shift: int, erase_old: bool) -> None:
        vectors = X[ids.start + shift : ids.stop + shift]
        done = self.call(lambda: self.db.upsert(vectors, ids=ids, erase_old=erase_old) or True)
        if done:
            self.records |= {id: (X[id + shift].tobytes(), None) for id in ids}
            self._erased(done, list(ids) if erase_old else [])

    def forget(self, **asked: Any) -> None:
        gone = [
            id
            for id, (_, subject) in self.records.items()
            if id in asked.get("ids", ()) or subject == asked.get("subject", "nobody")
        ]
        done = self.call(lambda: self.db.forget(**asked))
        if done is not None:
            for id in gone:
                del self.records[id]
            self._erased(done, gone)

    def _erased(self, done: Any, rows: list[int]) -> None:
        if isinstance(done, ErasureIncompleteError):
            self.waiting += 1
            self.forgotten += rows
        elif isinstance(done, lethevec.Receipt):
            # Signed: then all that waited before it is complete as well, and the bytes are gone.
            self.receipts += 1 + self.waiting
            self.waiting = 0
            self.forgotten += rows
            assert self.db.verify(done)
            self.nothing_left()

    def nothing_left(self) -> None:
        living = {vector for vector, _ in self.records.values()}
        gone = [X[row] for row in self.forgotten if X[row].tobytes() not in living]
        assert find_leftovers(self.path.parent, vectors=gone[-5:]) == []

    def check(self) -> None:
        """What is there is what was acknowledged."""
        found = {record.id: (record.vector.tobytes(), record.subject) for record in self.db}
        assert found == self.records
        assert len(self.db) == len(self.records)
        some = next(iter(self.records))
        vector = np.frombuffer(self.records[some][0], dtype=np.float32)
        assert self.db.search(vector, k=1).ids[0, 0] == some

    def check_receipts(self) -> None:
        # An erasure that waits may have been completed by any call since.
        known = self.db.receipts()
        assert self.receipts <= len(known) <= self.receipts + self.waiting
        assert len(known) + self.db.pending_erasures() == self.receipts + self.waiting
        for receipt in known:
            assert self.db.verify(receipt)


def make(disk: SmallDisk, layout: str) -> Told:
    told = Told(disk.folder / "s.lethe", encrypt=layout == "sealed")
    for n in range(20):
        told.add(range(20 * n, 20 * n + 20), f"subject {n}")
    told.forget(ids=[0])
    return told


@LAYOUTS
@pytest.mark.parametrize("pages", FREE)
def test_a_store_on_a_full_disk(small_disk: Callable[..., SmallDisk], layout: str, pages: int):
    disk = small_disk(6)
    told = make(disk, layout)
    disk.fill(pages * PAGE)
    told.add(range(1000, 1001))
    told.add(range(1001, 1200))
    told.load(range(1200, 1500))
    told.replace(range(100, 110), 1900, erase_old=False)
    told.replace(range(110, 115), 1900, erase_old=True)
    told.check()
    told.check_receipts()
    try:
        told.db.rotate_keys()
        told.rotations += 1
    except IncompleteWriteError as error:
        told.rotations += "the new keys are in use" in str(error)
    told.forget(ids=[21])
    told.check()
    told.forget(subject="subject 7")
    told.check()
    told.check_receipts()
    if pages % 2:  # in the same process
        disk.empty()
    else:
        told.db.close()
        opened = told.call(lambda: lethevec.open(told.path))
        if opened is not None:
            told.db = opened
            told.check()
            told.check_receipts()
            told.db.close()
        reader = told.call(lambda: lethevec.open(told.path, read_only=True))
        if reader is not None:
            told.db = reader
            told.check()
            reader.close()
        disk.empty()
        told.db = lethevec.open(told.path)
    told.db.complete_erasures()
    assert told.db.pending_erasures() == 0
    told.check()
    told.check_receipts()
    rotations = [r for r in told.db.receipts(all_kinds=True) if r.kind == "rotation"]
    assert len(rotations) == told.rotations
    told.nothing_left()
    told.add(range(2500, 2600))
    told.forget(subject="subject 9")
    told.check()
    told.db.close()
    if pages == 0:
        assert told.refused >= 5
    if pages == 200:
        assert told.refused == 0


@LAYOUTS
@pytest.mark.parametrize("pages", [0, 1, 2, 12, 40])
def test_copies_on_a_full_disk(small_disk: Callable[..., SmallDisk], layout: str, pages: int):
    disk = small_disk(6)
    told = make(disk, layout)
    (disk.folder / "old.jsonl").write_text("what was there")
    disk.fill(pages * PAGE)
    for suffix in ("jsonl", "csv", "npz", "npy", "fvecs", "parquet", "arrow"):
        target = disk.folder / f"all.{suffix}"
        done = told.call(lambda target=target: told.db.export(target))
        assert target.exists() == (done is not None)
        target.unlink(missing_ok=True)
    done = told.call(lambda: told.db.export(disk.folder / "old.jsonl"))
    assert done is not None or (disk.folder / "old.jsonl").read_text() == "what was there"
    done = told.call(lambda: told.db.backup(disk.folder / "copy.lethe") or True)
    assert (disk.folder / "copy.lethe").exists() == (done is not None)
    left = {path.name for path in disk.folder.iterdir()}
    assert not {name for name in left if "-copy-" in name or name.endswith(".new")}
    told.check()
    told.db.close()
    assert pages == 40 or told.refused >= 6


@pytest.mark.parametrize("pages", [0, 1, 3, 60])
def test_an_index_is_saved_as_a_whole_or_not(small_disk: Callable[..., SmallDisk], pages: int):
    disk = small_disk(2)
    index = lethevec.Index(dim=32, metric="l2")
    index.add(X[:1000], ids=range(1000))
    path = disk.folder / "index.lethe"
    index.save(path)
    before = path.read_bytes()
    index.add(X[1000:2000], ids=range(1000, 2000))
    disk.fill(pages * PAGE + (1 << 16 if pages == 60 else 0))
    if pages == 60:
        index.save(path)
    else:
        with pytest.raises(LethevecError, match="No space left"):
            index.save(path)
        assert path.read_bytes() == before
        assert {one.name for one in disk.folder.iterdir()} == {"index.lethe", "ballast"}
    disk.empty()
    index.save(path)
    assert lethevec.Index.load(path).digest() == index.digest()


def test_a_new_store_on_a_full_disk_leaves_nothing(small_disk: Callable[..., SmallDisk]):
    disk = small_disk(2)
    refused = 0
    for pages in (0, 1, 2, 4, 8, 16, 20, 24, 28, 32, 40, 64, 128):
        disk.fill(pages * PAGE)
        path = disk.folder / f"new {pages}.lethe"
        try:
            with lethevec.open(path, dim=8) as db:
                db.add(np.ones((1, 8)), ids=[1])
        except IncompleteWriteError:
            refused += 1
        disk.empty()
        # Whatever was made is a whole store or none at all, and the place can be used.
        with lethevec.open(path, dim=8) as db:
            assert len(db) in (0, 1)
            db.upsert(np.ones((1, 8)), ids=[1])
        for one in disk.folder.glob("new *"):
            one.unlink()
    assert refused > 2


class Folder:
    """A folder of collections, and what it has acknowledged."""

    def __init__(self, path: Path, layout: str) -> None:
        self.path = path
        self.db = lethevec.connect(path)
        photos = self.db.collection("photos", dim=32, metric="l2", encrypt=layout == "sealed")
        notes = self.db.collection("notes", dim=32, metric="l2")
        subjects = [f"person {n % 10}" for n in range(100)]
        photos.add(X[:100], ids=range(100), subjects=subjects)
        notes.add(X[100:200], ids=range(100), subjects=subjects)
        self.db.forget(subject="person 9")
        self.gone = {"person 9"}  # with a receipt
        self.waiting: set[str] = set()  # on record
        self.names = {"photos", "notes"}
        self.holds: list[str] = []
        self.refused = 0

    def call(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except (IncompleteWriteError, ErasureIncompleteError) as error:
            self.refused += 1
            return error

    def make(self, name: str) -> None:
        made = self.call(lambda: self.db.collection(name, dim=8))
        if not isinstance(made, LethevecError):
            self.names.add(name)

    def rename(self, old: str, new: str) -> None:
        if not isinstance(self.call(lambda: self.db.rename(old, new)), LethevecError):
            self.names = self.names - {old} | {new}

    def hold(self, subject: str) -> None:
        receipt = self.call(lambda: self.db.hold(subject, "a reason"))
        if not isinstance(receipt, LethevecError):
            self.holds.append(receipt["hold"])

    def forget(self, subject: str, **options: Any) -> None:
        done = self.call(lambda: self.db.forget(subject=subject, **options))
        if isinstance(done, ErasureIncompleteError):
            self.waiting.add(subject)
        elif not isinstance(done, LethevecError):
            self.gone.add(subject)
            assert self.db.verify(done)

    def check(self) -> None:
        assert set(self.db.collections()) == self.names
        there = set(self.db.subjects()) - self.waiting - {"new"}
        assert there == {f"person {n}" for n in range(10)} - self.gone - self.waiting
        assert [hold.id for hold in self.db.holds("person 1")] == self.holds
        chain = self.db.receipts()
        assert len(self.gone) <= len(chain) <= len(self.gone) + len(self.waiting)
        for receipt in chain:
            assert self.db.verify(receipt)


@LAYOUTS
@pytest.mark.parametrize("pages", FREE)
def test_collections_on_a_full_disk(small_disk: Callable[..., SmallDisk], layout: str, pages: int):
    disk = small_disk(14)
    told = Folder(disk.folder / "people", layout)
    disk.fill(pages * PAGE)
    told.make("third")
    told.call(lambda: told.db.collection("photos").add(X[1000:1400], ids=range(1000, 1400), subjects="new"))
    told.hold("person 1")
    told.rename("notes", "letters")
    told.check()
    told.forget("person 3")
    told.check()
    told.forget("person 4", block=True)
    told.check()
    told.call(lambda: told.db.rotate_keys())
    one = told.call(lambda: told.db.collection("photos").forget(ids=[5]))
    alone = 0 if isinstance(one, IncompleteWriteError) else 1
    access = told.db.access("person 5")
    assert len(access) == 20 - alone
    assert told.call(lambda: told.db.backup(disk.folder / "copy")) is None or not (disk.folder / "copy").exists()

    if pages % 2:  # in the same process
        disk.empty()
    else:
        told.db.close()
        again = told.call(lambda: lethevec.connect(told.path))
        if not isinstance(again, LethevecError):
            again.close()
        disk.empty()
        told.db = lethevec.connect(told.path)
    told.db.complete_erasures()
    told.gone |= told.waiting
    told.waiting = set()
    assert len(told.db.receipts()) == len(told.gone) + alone
    assert set(told.db.subjects()) - {"new"} == {f"person {n}" for n in range(10)} - told.gone
    for receipt in told.db.receipts():
        assert told.db.verify(receipt)
    blocked = told.db.access("person 4").blocked_since is not None
    assert blocked == ("person 4" in told.gone)
    if "third" not in told.names:
        told.make("third")
    told.db.collection("third").add(np.ones((1, 8)), ids=[1])
    for hold in told.holds:
        told.db.lift(hold)
    told.forget("person 1")
    told.db.drop("third")
    told.db.close()
    numbers = [int(name[-1]) for name in told.gone]
    assert find_leftovers(told.path, vectors=[X[row + n] for n in numbers for row in (0, 50, 100, 190)]) == []
    if pages == 0:
        assert told.refused >= 3
    if pages == 200:
        assert told.refused == 0


def test_the_folder_of_a_new_database_on_a_full_disk(small_disk: Callable[..., SmallDisk]):
    disk = small_disk(2)
    for pages in (0, 1, 4, 8, 12, 16, 24, 32, 64):
        disk.fill(pages * PAGE)
        folder = disk.folder / f"folder {pages}"
        error: LethevecError | None = None
        try:
            lethevec.connect(folder).close()
        except FileError as caught:
            error = caught
        assert error is None or says_full(error)
        disk.empty()
        with lethevec.connect(folder) as db:
            assert db.collections() == []


@pytest.mark.parametrize("source", ["scan", "pivots"])
@pytest.mark.parametrize("pages", [0, 1, 40, 90])
def test_vectors_in_a_file_on_a_full_disk(small_disk: Callable[..., SmallDisk], pages: int, source: str):
    """Without space for another piece of the file an add is refused as a whole; a forget needs none."""
    disk = small_disk(4)
    options: dict[str, Any] = {"metric": "l2", "source": source}
    index = lethevec.Index(dim=32, vectors=disk.folder / "vectors", **options)
    index.add(X[:500], ids=range(500))
    before = index.digest()
    disk.fill(pages * PAGE)
    many = np.tile(X, (10, 1)) + 1
    with pytest.raises(IncompleteWriteError, match="No space left"):
        index.add(many, ids=range(10_000, 10_000 + len(many)))
    assert index.digest() == before
    content = (disk.folder / "vectors").read_bytes()
    assert not any(vector.tobytes() in content for vector in many[::500])
    index.forget(range(100))
    index.update(X[600:700], ids=range(200, 300))
    disk.empty()
    index.add(many[:9000], ids=range(10_000, 19_000))
    index.forget(range(10_000, 19_000))
    other = lethevec.Index(dim=32, **options)
    other.add(X[300:500], ids=range(300, 500))
    other.add(X[100:200], ids=range(100, 200))
    other.add(X[600:700], ids=range(200, 300))
    assert index.digest() == other.digest()
    assert index.search(X[:50], k=3).ids.tolist() == other.search(X[:50], k=3).ids.tolist()
    del index
    assert not (disk.folder / "vectors").exists()
