"""File systems that let nobody write, root included: reading works, and whatever wants to write says that it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lethevec
from lethevec.errors import FileError, LethevecError

from .small_disk import SmallDisk

X = np.random.default_rng(1).normal(size=(200, 16)).astype(np.float32)
LAYOUTS = pytest.mark.parametrize("layout", ["plain", "sealed"])


def fill(path: Path, layout: str) -> tuple[str, Any]:
    with lethevec.open(path, 16, "l2", encrypt=layout == "sealed") as db:
        db.add(X, ids=range(200), subjects=[f"s{n % 5}" for n in range(200)], payloads=[{"n": n} for n in range(200)])
        receipt = db.forget(subject="s3")
        return db.digest(), receipt


@LAYOUTS
def test_a_store_can_be_read(small_disk: Callable[..., SmallDisk], tmp_path: Path, layout: str):
    disk = small_disk(8)
    path = disk.folder / "s.lethe"
    digest, receipt = fill(path, layout)
    before = {one.name: one.read_bytes() for one in disk.folder.iterdir()}
    disk.read_only()
    with pytest.raises(FileError, match=r"could not be made.*read_only=True needs none"):
        lethevec.open(path)
    with lethevec.open(path, read_only=True) as db:
        assert db.digest() == digest
        assert db.search(X[1], k=1).ids.tolist() == [[1]]
        assert db.count({"n": {"$lt": 10}}) == 8
        assert db.verify(receipt)
        assert len(db.receipts()) == 1
        assert len(list(db)) == 160
        for suffix in ("jsonl", "npz"):
            with pytest.raises(FileError, match="Read-only file system"):
                db.export(disk.folder / f"all.{suffix}")
            assert db.export(tmp_path / f"all.{suffix}") == 160
        with pytest.raises(FileError):
            db.backup(disk.folder / "copy.lethe")
        db.backup(tmp_path / "copy.lethe")
        for change in (
            lambda: db.add(X[:1], ids=[999]),
            lambda: db.forget([1]),
            lambda: db.update(X[:1], ids=[1]),
            lambda: db.rotate_keys(),
        ):
            with pytest.raises(LethevecError, match="opened for writing"):
                change()
    assert {one.name: one.read_bytes() for one in disk.folder.iterdir()} == before
    disk.read_only(False)
    with lethevec.open(path) as db:
        assert db.digest() == digest
        db.forget(subject="s1")


@LAYOUTS
def test_a_store_whose_writer_was_killed_is_refused_in_words(
    small_disk: Callable[..., SmallDisk], tmp_path: Path, layout: str
):
    """Its last changes are in the log, and SQLite needs a file of its own to read that: nothing is answered without."""
    disk = small_disk(8)
    path = disk.folder / "s.lethe"
    fill(path, layout)
    db = lethevec.open(path)
    db.add(X[:5] + 1, ids=range(1000, 1005))
    kept = {one.name: one.read_bytes() for one in disk.folder.iterdir()}
    db.close()
    for one in disk.folder.iterdir():
        one.unlink()
    for name, content in kept.items():
        if not name.endswith("-shm"):
            (disk.folder / name).write_bytes(content)
    assert kept["s.lethe-wal"]
    disk.read_only()
    with pytest.raises(FileError, match=r"s\.lethe"):
        lethevec.open(path, read_only=True)
    disk.read_only(False)
    with lethevec.open(path) as db:
        assert len(db) == 165


def test_a_folder_of_collections_can_be_read(small_disk: Callable[..., SmallDisk]):
    disk = small_disk(12)
    folder = disk.folder / "people"
    with lethevec.connect(folder) as db:
        db.collection("photos", dim=16, metric="l2").add(X, ids=range(200), subjects="ann")
        receipt = db.collection("photos").forget([7])
    disk.read_only()
    with pytest.raises(FileError, match="could not be made"):
        lethevec.connect(folder)
    with lethevec.connect(folder, read_only=True) as db:
        photos = db.collection("photos")
        assert len(photos) == 199
        assert photos.search(X[3], k=1).ids.tolist() == [[3]]
        assert db.verify(receipt)
        assert len(db.access("ann")) == 199
        with pytest.raises(LethevecError, match="opened for writing"):
            db.forget(subject="ann")
        with pytest.raises(LethevecError):
            db.backup(disk.folder / "copy")
    with pytest.raises(FileError):
        lethevec.connect(disk.folder / "another")


def test_new_things_are_refused_and_saved_ones_read(small_disk: Callable[..., SmallDisk]):
    disk = small_disk(2)
    index = lethevec.Index(dim=16, metric="l2")
    index.add(X, ids=range(200))
    index.save(disk.folder / "index")
    disk.read_only()
    assert lethevec.Index.load(disk.folder / "index").digest() == index.digest()
    for refused in (
        lambda: index.save(disk.folder / "index"),
        lambda: index.save(disk.folder / "other"),
        lambda: lethevec.open(disk.folder / "new.lethe", dim=3),
    ):
        with pytest.raises(FileError, match=r"Read-only file system|could not be"):
            refused()
    assert [one.name for one in disk.folder.iterdir()] == ["index"]


def test_keys_on_a_disk_that_cannot_be_written(small_disk: Callable[..., SmallDisk], tmp_path: Path):
    """The store is elsewhere: records change and are erased, and only a change of keys needs that disk."""
    disk = small_disk(2)
    path, keys = tmp_path / "s.lethe", disk.folder / "ring"
    lethevec.open(path, 16, "l2", keys=keys).close()
    disk.read_only()
    with lethevec.open(path, keys=keys) as db:
        db.add(X, ids=range(200))
        receipt = db.forget([1])
        assert db.verify(receipt)
        with pytest.raises(FileError, match="Read-only file system"):
            db.rotate_keys()
        assert db.verify(db.forget([2]))
    with lethevec.open(path, keys=keys) as db:
        assert len(db) == 198


def test_keys_on_a_full_disk(small_disk: Callable[..., SmallDisk], tmp_path: Path):
    """The keys of sealed records are written before the records: without space for them nothing is added."""
    disk = small_disk(1)
    path, keys = tmp_path / "s.lethe", disk.folder / "ring"
    with lethevec.open(path, 16, "l2", keys=keys, encrypt=True) as db:
        db.add(X[:50], ids=range(50))
        disk.fill()
        with pytest.raises(FileError, match="No space left"):
            db.add(np.concatenate([X, X + 1]), ids=range(1000, 1400))
        assert len(db) == 50
        with pytest.raises(FileError, match="No space left"):
            db.rotate_keys()
        receipt = db.forget([3])
        assert db.verify(receipt, vectors=X[3:4])
        disk.empty()
        db.add(X[50:], ids=range(50, 200))
        assert len(db) == 199
    with lethevec.open(path, keys=keys) as db:
        assert len(db) == 199
        assert all(db.verify(receipt) for receipt in db.receipts())
