"""Backups are canonical, open as stores of their own, and old ones can be made to forget again."""

from __future__ import annotations

import os
import shutil
import sqlite3

import numpy as np
import pytest

from lethevec._store import backups
from lethevec._store import open as open_store
from lethevec.errors import FileError, KeysError, ReceiptError


def test_the_same_bytes_for_the_same_records(make, vectors, tmp_path):
    one, two = make("one.lethe"), make("two.lethe")
    payloads = [{"n": i, "text": "x" * (i * 37 % 3000)} for i in range(40)]
    ids = [f"name-{i}" if i % 2 else i for i in range(40)]
    one.add(vectors, ids=ids, payloads=payloads, subjects="s")
    order = np.random.default_rng(3).permutation(40)
    for place in order:
        two.add(vectors[place] + 1, ids=[ids[place]])
        two.add(vectors[place], ids=[f"extra-{place}"])
    for place in order[::-1]:
        two.update(ids=[ids[place]], vectors=vectors[place], subjects="s", payloads=[payloads[place]])
        two.forget([f"extra-{place}"])
    two.rotate_keys()
    one.backup(tmp_path / "a")
    two.backup(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    two.forget([ids[0]])
    two.backup(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


def test_it_is_compact_and_holds_nothing_else(make, tmp_path, unaccounted, leftovers):
    rng = np.random.default_rng(1)
    data = rng.normal(size=(3000, 8)).astype(np.float32)
    db = make()
    db.add(data, ids=range(3000))
    db.forget(range(100, 3000))
    out = tmp_path / "out"
    out.mkdir()
    db.backup(out / "copy")
    assert os.listdir(out) == ["copy"]
    assert (out / "copy").stat().st_size < db.path.stat().st_size / 4
    assert unaccounted(out / "copy") == {}
    assert leftovers(out, vectors=data[100:400]) == []
    connection = sqlite3.connect(out / "copy")
    assert connection.execute("SELECT count(*) FROM receipts").fetchone() == (0,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_it_opens_as_a_store_of_its_own(make, vectors, tmp_path):
    db = make()
    db.add(vectors, ids=range(40), subjects=["a", "b"] * 20)
    db.backup(tmp_path / "copy.lethe")
    reader = open_store(tmp_path / "copy.lethe", read_only=True)
    assert reader.digest() == db.digest()
    reader.close()
    with open_store(tmp_path / "copy.lethe") as other:
        assert other.digest() == db.digest()
        assert other.public_key() != db.public_key()
        receipt = other.forget(subject="a")
        assert other.verify(receipt)
        assert not db.verify(receipt)
        assert len(other) == 20
        other.backup(tmp_path / "again")
    db.forget(subject="a")
    db.backup(tmp_path / "direct")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "direct").read_bytes()


def test_a_reader_can_make_one(make, vectors, tmp_path):
    db = make()
    db.add(vectors, ids=range(40))
    make(read_only=True).backup(tmp_path / "a")
    db.backup(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_refused_targets(make, vectors, tmp_path):
    db = make()
    (tmp_path / "there").write_text("mine")
    with pytest.raises(FileError, match="expected a new file"):
        db.backup(tmp_path / "there")
    assert (tmp_path / "there").read_text() == "mine"
    with pytest.raises(FileError):
        db.backup(db.path)
    with pytest.raises(FileError):
        db.backup(tmp_path / "no" / "where")


class TestReapply:
    @pytest.fixture
    def restored(self, make, vectors, tmp_path):
        """A store of yesterday, restored after today's forgets, with the keys of the original."""
        db = make()
        db.add(vectors, ids=range(40), subjects=[f"s{i % 4}" for i in range(40)])
        db.forget([0])
        db.backup(tmp_path / "yesterday.lethe")
        db.forget([5, 6])
        db.forget(subject="s3")
        receipts = db.receipts()
        db.close()
        shutil.copy(tmp_path / "people.lethe-keys", tmp_path / "yesterday.lethe-keys")
        old = make("yesterday.lethe")
        assert 5 in old
        return old, receipts

    def test_what_was_forgotten_goes_again(self, restored, vectors, tmp_path, leftovers, make):
        old, receipts = restored
        receipt = old.reapply([r.to_json() for r in receipts])
        assert receipt.records == 12
        assert len(old) == 27
        gone = [5, 6, *range(3, 40, 4)]
        for path in tmp_path.glob("people*"):
            path.unlink()
        assert leftovers(tmp_path, vectors=vectors[gone]) == []
        assert old.reapply(receipts) is None

    def test_what_another_thread_forgets_meanwhile(self, restored, monkeypatch):
        old, receipts = restored
        matching_ids = backups.matching_ids

        def beaten(records, keys, given):
            found = matching_ids(records, keys, given)
            old.forget(found[:1])
            return found

        monkeypatch.setattr(backups, "matching_ids", beaten)
        assert old.reapply(receipts).records == 11
        assert len(old) == 27

    def test_receipts_of_another_store(self, restored, make, vectors):
        old, _ = restored
        other = make("other.lethe")
        other.add(vectors[:2], ids=[1, 2])
        with pytest.raises(ReceiptError, match="expected those of store"):
            old.reapply([other.forget(1)])

    def test_without_the_audit_key(self, restored):
        old, receipts = restored
        old.rotate_keys(keep_audit_keys=False)
        with pytest.raises(KeysError, match="expected tags of an audit key that the key file has"):
            old.reapply(receipts)
