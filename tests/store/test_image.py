"""The image of the index: used where it is of the store's records, never believed where it is not, and erased with the
first record that goes."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
import struct
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import lethevec
from lethevec import Index, Pivots
from lethevec._index.sources import key_of
from lethevec._store import Store, image
from lethevec._store import open as open_store
from lethevec._store.sealing import key_number
from lethevec.errors import ErasureIncompleteError

from ..index.pivots.conftest import native_state
from .conftest import account, read_through

CELLS = {"source": Pivots(cell_size=5)}
COUNT = 300


@pytest.fixture(autouse=True)
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "WORTH_FROM", 1)


@pytest.fixture
def many() -> np.ndarray:
    return np.random.default_rng(7).normal(size=(COUNT + 100, 8)).astype(np.float32)


@pytest.fixture
def filled(make, many) -> Path:
    """A closed store that has an image."""
    db = make(index=CELLS)
    db.add(many[:COUNT], ids=[f"id-{i}" for i in range(COUNT)])
    db.close()
    assert kept(db.path)
    return db.path


def kept(path: Path) -> bytes:
    """The image in a file."""
    connection = sqlite3.connect(path)
    try:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'image'").fetchone():
            return b""
        return b"".join(data for (data,) in connection.execute("SELECT data FROM image ORDER BY part"))
    finally:
        connection.close()


def put(path: Path, data: bytes) -> None:
    """Another image in its place."""
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM image")
    connection.execute("INSERT INTO image VALUES (0, ?)", (data,))
    connection.commit()
    connection.close()


def summed(body: bytes) -> bytes:
    """With the right checksum."""
    return body + hashlib.blake2b(body, digest_size=32).digest()


def is_right(db: Store) -> bool:
    """Whether its index is what its records make, cell by cell."""
    index = db._mirror.index
    made = Index._of(index.config)
    made.add(index.vectors(index.ids()), ids=index.ids())
    return native_state(index) == native_state(made)


def test_it_is_used(filled, make):
    db = make(dim=None, metric=None)
    assert db._image.usable
    assert is_right(db)
    assert db.search(np.ones(8), k=5).ids.shape == (1, 5)


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_it_is_used_with_every_metric(make, many, metric):
    with make(metric=metric, index=CELLS) as db:
        db.add(many, ids=range(len(many)))
    db = make(dim=None, metric=None)
    assert db._image.usable
    assert is_right(db)


def test_a_reader_uses_it_and_writes_none(filled, make):
    before = read_through(filled)
    db = make(dim=None, metric=None, read_only=True)
    assert db._image.usable
    assert is_right(db)
    db.close()
    assert read_through(filled) == before


def test_a_reader_notices_what_goes_of_what_it_read_from_pages(filled, make, many):
    """Records with and without a vector."""
    with make(dim=None, metric=None) as db:
        db.add([None, many[-1], None], ids=["none", "some", "no"])
    reader, db = make(dim=None, metric=None, read_only=True), make(dim=None, metric=None)
    db.forget(["none", "id-7"])
    assert len(reader) == len(db) == COUNT + 1
    assert "no" in reader
    assert "none" not in reader
    assert is_right(reader)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_in_a_folder_that_cannot_be_written(filled, make):
    filled.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert make(dim=None, metric=None, read_only=True)._image.usable
    finally:
        filled.parent.chmod(stat.S_IRWXU)


def test_each_byte_of_a_damaged_one_is_noticed(filled, make):
    whole = kept(filled)
    for place in [*range(0, 80, 7), *range(80, len(whole), 61), len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        put(filled, bytes(damaged))
        with make(dim=None, metric=None) as db:
            assert not db._image.usable, place
            assert is_right(db)
        assert kept(filled) == whole  # made again


@pytest.mark.parametrize("length", [0, 1, 8, 50, 68, 100, 300, -33, -32, -1])
def test_one_that_was_cut_off(filled, make, length):
    put(filled, kept(filled)[:length])
    db = make(dim=None, metric=None)
    assert not db._image.usable
    assert is_right(db)


def test_types_that_nobody_writes(filled, make):
    for value in ("text", 7, None):
        connection = sqlite3.connect(filled)
        connection.execute("DROP TABLE image")
        connection.execute("CREATE TABLE image (part INTEGER PRIMARY KEY, data)")
        connection.execute("INSERT INTO image VALUES (0, ?)", (value,))
        connection.commit()
        connection.close()
        with make(dim=None, metric=None) as db:
            assert not db._image.usable
            assert is_right(db)


def test_numbers_out_of_range_behind_a_right_checksum(filled, make):
    whole = kept(filled)
    head = struct.calcsize("<8sI32sqqq")
    for place, value in [
        (head + 8, struct.pack("<I", 1 << 31)),  # as many pivots
        (head + 8, struct.pack("<I", 0)),
        (head + 12, struct.pack("<H", 65535)),  # the cell of the first record
        (44, struct.pack("<q", -1)),  # the last slot
        (52, struct.pack("<q", 1 << 62)),  # records
        (60, struct.pack("<q", 1 << 60)),  # absent
        (60, struct.pack("<q", -1)),
    ]:
        body = bytearray(whole[:-32])
        body[place : place + len(value)] = value
        put(filled, summed(bytes(body)))
        with make(dim=None, metric=None) as db:
            assert not db._image.usable, place
            assert is_right(db)


def test_one_of_another_store(filled, make, many):
    other = make("other.lethe", index=CELLS)
    other.add(many[:COUNT], ids=[f"id-{i}" for i in range(COUNT)])
    other.close()
    with make(dim=None, metric=None) as db:  # each has drawn a key of its own
        assert key_of(db._mirror.index.config.source) != key_of(other._mirror.index.config.source)
    put(filled, kept(other.path))
    db = make(dim=None, metric=None)
    assert not db._image.usable
    assert is_right(db)


def test_one_of_other_records(filled, make, many):
    stale = kept(filled)
    with make(dim=None, metric=None) as db:
        db.update(many[COUNT], ids=["id-5"])
    assert kept(filled) != stale
    put(filled, stale)
    with make(dim=None, metric=None) as db:
        assert not db._image.usable
        assert is_right(db)
        db.update(many[5], ids=["id-5"])  # the same record as before, in another place of the order
    put(filled, stale)
    with make(dim=None, metric=None) as db:
        assert not db._image.usable
        assert is_right(db)


def test_a_vector_that_was_changed_behind_its_back(filled, make, many):
    connection = sqlite3.connect(filled)
    connection.execute("UPDATE vectors SET vector = ? WHERE slot = 9", (many[-1].tobytes(),))
    connection.commit()
    connection.close()
    db = make(dim=None, metric=None)
    assert not db._image.usable
    assert is_right(db)


def test_what_was_added_since_is_filed_as_usual(filled, make, many):
    with make(dim=None, metric=None) as db:
        before = kept(filled)
        db.add(many[COUNT : COUNT + 5], ids=range(5))
    assert kept(filled) == before  # nearly all records are in it
    with make(dim=None, metric=None) as db:
        assert db._image.usable
        assert is_right(db)
        db.add(many[COUNT + 5 :], ids=range(5, 100))
    assert kept(filled) != before
    db = make(dim=None, metric=None)
    assert db._image.usable
    assert is_right(db)


def test_records_without_a_vector_and_expired_ones(filled, make, many):
    now = [1e9]
    with make(dim=None, metric=None, clock=lambda: now[0]) as db:
        db.add(many[COUNT : COUNT + 40], ids=range(40), expires=timedelta(days=1))
        db.add([None] * 20, ids=range(100, 120))
        db.add(many[COUNT + 40 : COUNT + 60], ids=range(200, 220), expires=timedelta(days=9))
        now[0] += 2 * 86400
        db.search(many[0])
        assert db.write_image()
    for _ in range(3):
        with make(dim=None, metric=None, clock=lambda: now[0]) as db:
            assert db._image.usable
            assert is_right(db)
            assert len(db._mirror.index) == COUNT + (20 if now[0] < 1e9 + 9 * 86400 else 0)
        now[0] += 5 * 86400


@pytest.mark.parametrize("how", ["forget", "update", "upsert", "rectify", "subject"])
def test_whatever_takes_a_record_out_erases_it_first(filled, make, many, how):
    db = make(dim=None, metric=None)
    db.add(many[:1] + 1, ids=["hers"], subjects=["alice"])
    assert db.write_image()
    whole = kept_by(db)
    pieces = [whole[at : at + 64] for at in range(0, len(whole) - 64, 64)]
    if how == "forget":
        assert db.forget("id-3")["residue"]["searched"]
    elif how == "subject":
        db.forget(subject="alice")
    elif how == "rectify":
        db.update(many[COUNT], ids=["id-3"], erase_old=True)
    else:
        getattr(db, how)(many[COUNT], ids=["id-3"])
    assert not kept_by(db)
    if how in ("update", "upsert"):  # nobody was promised anything yet
        db.forget("id-4")
    files = b"".join(read_through(path) for path in sorted(filled.parent.iterdir()))
    assert not [piece for piece in pieces if piece in files]
    assert account(filled) == {}
    db.close()
    again = kept(filled)
    assert again
    assert again != whole
    assert is_right(make(dim=None, metric=None))


def kept_by(db: Store) -> bytes:
    """The image, as the store itself sees it."""
    rows = db._session.connection.execute("SELECT data FROM image ORDER BY part").fetchall()
    return b"".join(data for (data,) in rows)


def test_every_part_of_it_is_searched_for(make, many, monkeypatch):
    """A residue of the first part alone would be found as well."""
    monkeypatch.setattr(image, "_PART", 100)
    db = make(index=CELLS)
    db.add(many[:COUNT], ids=[f"id-{i}" for i in range(COUNT)])
    assert db.write_image()
    parts = [data for (data,) in db._session.connection.execute("SELECT data FROM image ORDER BY part")]
    assert len(parts) > 3
    needles = [needle.data for needle in db._image.traces()]
    assert [part[-64:] for part in parts] == needles


def test_a_forget_that_is_rolled_back_keeps_it(filled, make):
    db = make(dim=None, metric=None)
    whole = kept_by(db)

    def forget_and_fail():
        with db.transaction():
            db.forget("id-3")
            assert not kept_by(db)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        forget_and_fail()
    assert kept_by(db) == whole
    db.close()
    assert make(dim=None, metric=None)._image.usable


def test_no_receipt_while_its_bytes_are_there(filled, make):
    db = make(dim=None, metric=None, timeout=0.05)
    whole = kept_by(db)
    reader = sqlite3.connect(filled, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM records").fetchone()
    with pytest.raises(ErasureIncompleteError):
        db.forget("id-3")
    assert db.receipts() == []
    assert whole[-32:] in read_through(filled)
    reader.close()
    assert len(db.complete_erasures()) == 1
    assert whole[-32:] not in read_through(filled)
    assert account(filled) == {}


def test_a_crash_before_the_receipt(filled, make, tmp_path):
    """The state that a crash leaves between the commit of a forget and its receipt: log and all."""
    db = make(dim=None, metric=None, timeout=0.05)
    whole = kept_by(db)
    reader = sqlite3.connect(filled, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM records").fetchone()
    with pytest.raises(ErasureIncompleteError):
        db.forget("id-3")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for path in filled.parent.iterdir():
        if path.is_file() and not path.name.endswith(("-shm", "-lock")):
            (crashed / path.name).write_bytes(read_through(path))
    reader.close()
    with open_store(crashed / filled.name) as again:
        assert not again._image.usable
        assert len(again.receipts()) == 1
        assert "id-3" not in again
        assert is_right(again)
        for path in crashed.iterdir():
            assert whole[-32:] not in read_through(path)
        assert account(crashed / filled.name) == {}


def test_it_is_written_in_one_transaction(filled, make, many, monkeypatch):
    """Half of one is never there: a full disk leaves what was there before, or none."""
    monkeypatch.setattr(image, "_PART", 64)
    with make(dim=None, metric=None) as db:
        assert db.write_image()
        assert db._session.connection.execute("SELECT count(*) FROM image").fetchone()[0] > 5
    assert make(dim=None, metric=None)._image.usable


def test_a_backup_has_none(filled, make, tmp_path):
    db = make(dim=None, metric=None)
    db.backup(tmp_path / "backup")
    data = (tmp_path / "backup").read_bytes()
    assert b"LETHEIMG" not in data
    assert b"image" not in data
    assert b"LETHEIMG" in read_through(filled)


class TestSealed:
    """In a sealed store it is sealed, under a key that goes with those of the records."""

    @pytest.fixture
    def sealed(self, make, many) -> Path:
        with make(index=CELLS, encrypt=True) as db:
            db.add(many, ids=range(len(many)))
        return db.path

    def test_it_is_used(self, sealed, make, tmp_path):
        db = make(dim=None, metric=None)
        assert db._image.usable
        assert is_right(db)
        assert not any(b"LETHEIMG" in read_through(path) for path in tmp_path.iterdir() if path.is_file())

    def test_a_forget_destroys_its_key(self, sealed, make, tmp_path):
        old = tmp_path / "old"
        old.mkdir()
        shutil.copy(sealed, old / "copy.lethe")  # somebody's copy from before
        with make(dim=None, metric=None) as db:
            whole = kept_by(db)
            keys = db._session.tables.vault.get([key_number(whole)])
            assert keys != [None]
            db.forget(3)
            assert db._session.tables.vault.get([key_number(whole)]) == [None]
            files = b"".join(read_through(path) for path in sorted(tmp_path.iterdir()) if path.is_file())
            assert whole[-64:] not in files
            assert keys[0] not in files
        with open_store(
            old / "copy.lethe", read_only=True, keys=tmp_path / "people.lethe-keys", drop_unreadable=True
        ) as copy:
            assert not copy._image.usable
            assert 3 not in copy
            assert is_right(copy)

    def test_one_that_is_damaged(self, sealed, make):
        whole = kept(sealed)
        for place in (0, 7, 8, 30, 100, len(whole) - 1):
            put(sealed, whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with make(dim=None, metric=None) as db:
                assert not db._image.usable
                assert is_right(db)


def test_in_a_folder_of_collections(tmp_path, many):
    with lethevec.connect(tmp_path / "folder") as folder:
        people = folder.collection("people", dim=8, metric="l2", index=CELLS)
        people.add(many, ids=range(len(many)), subjects=["alice"] + ["bob"] * (len(many) - 1))
    with lethevec.connect(tmp_path / "folder") as folder:
        store = folder.collection("people")
        assert store._image.usable
        whole = kept_by(store)
        folder.forget(subject="alice")
        assert not kept_by(store)
        files = b"".join(read_through(path) for path in (tmp_path / "folder").iterdir() if path.is_file())
        assert whole[-64:] not in files


def test_scans_and_small_stores_have_none(make, many, monkeypatch):
    with make(index={"source": "scan"}) as db:
        db.add(many, ids=range(len(many)))
        assert db.write_image() is False
    assert kept(db.path) == b""
    monkeypatch.setattr(image, "WORTH_FROM", len(many) + 1)
    with make("small.lethe", index=CELLS) as db:
        db.add(many, ids=range(len(many)))
    assert kept(db.path) == b""


def test_a_copy_made_by_hand_goes_its_own_way(filled, make, many, tmp_path):
    """Files that were copied while nobody had them open: each image holds for its own store."""
    other = tmp_path / "copy"
    other.mkdir()
    for path in filled.parent.glob("people.lethe*"):
        shutil.copy(path, other / path.name)
    with open_store(other / "people.lethe") as copy, make(dim=None, metric=None) as db:
        assert copy._image.usable
        assert db._image.usable
        copy.forget("id-1")
        assert db._image.read() is not None
        assert is_right(copy)
        assert is_right(db)
