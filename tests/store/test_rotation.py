"""Keys: kept apart, rotated, and not lost by a crash in the middle of a rotation."""

from __future__ import annotations

import os
import stat

import pytest

from lethevec._forgetting.keys import KeyRing
from lethevec._forgetting.verify import verify_chain, verify_receipt
from lethevec.errors import ErasureIncompleteError, IdError


def test_keys_may_be_kept_apart(make, vectors, tmp_path):
    vault = tmp_path / "vault"
    vault.mkdir()
    db = make(keys=vault / "k")
    assert not (tmp_path / "people.lethe-keys").exists()
    assert stat.S_IMODE((vault / "k").stat().st_mode) == 0o600
    db.add(vectors[:2], ids=[1, 2])
    receipt = db.forget(1)
    db.close()
    assert make(keys=vault / "k").verify(receipt)


def test_files_are_the_owners_alone(make, vectors, tmp_path):
    db = make()
    db.add(vectors[:2], ids=[1, 2])
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_rotation(make, vectors):
    db = make()
    db.add(vectors[:5], ids=range(5))
    first = db.forget(0)
    old_public = db.public_key()
    note = db.rotate_keys("an employee left")
    second = db.forget(1)
    assert note["reason"] == "an employee left"
    assert db.public_key() != old_public
    assert verify_receipt(first, [old_public])
    assert not verify_receipt(second, [old_public])
    assert verify_chain(db.receipts(all_kinds=True), key=old_public)
    assert first["audit_key"] != second["audit_key"]
    db.close()
    db = make()
    for receipt in (first, second):
        assert db.verify(receipt)["absent"].passed
    assert db.verify(first, ids=[0])["about"].passed
    with pytest.raises(IdError):
        db.rotate_keys("")


def test_giving_up_audit_keys_makes_old_tags_meaningless(make, vectors, tmp_path):
    db = make()
    db.add(vectors[:5], ids=range(5))
    receipt = db.forget(0)
    secret = db._ledger.keys.audit.secret
    db.rotate_keys(keep_audit_keys=False)
    report = db.verify(receipt, ids=[0])
    assert report, "the signature still holds"
    assert report["audit key"].passed is None
    assert "about" not in report
    import base64

    for path in tmp_path.iterdir():
        data = path.read_bytes() if path.suffix != ".lethe" else b""
        assert secret not in data
        assert base64.b64encode(secret) not in data


def test_not_while_an_erasure_waits(make, vectors):
    import sqlite3

    db = make()
    db.add(vectors[:5], ids=range(5))
    reader = sqlite3.connect(db.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM records").fetchall()
    with pytest.raises(ErasureIncompleteError):
        db.forget(1, timeout=0)
    with pytest.raises(ErasureIncompleteError, match="expected no waiting erasures"):
        db.rotate_keys(keep_audit_keys=False)
    db.rotate_keys()
    reader.close()
    (receipt,) = db.complete_erasures()
    assert receipt["audit_key"] != receipt["signing_key"]
    assert db.verify(receipt, ids=[1])


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_crash_in_the_middle(make, vectors, tmp_path, monkeypatch, step):
    """The steps are: file with both keys, the chain, file with the new ones. It dies before the given one ends."""
    db = make()
    db.add(vectors[:5], ids=range(5))
    before = db.public_key()
    saves = []
    save = KeyRing.save

    def dying_save(self, path):
        saves.append(path)
        if len(saves) == {1: 1, 2: 99, 3: 2}[step]:
            raise KeyboardInterrupt
        save(self, path)

    monkeypatch.setattr(KeyRing, "save", dying_save)
    if step == 2:
        monkeypatch.setattr("lethevec._store.chain.Chain.insert", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        db.rotate_keys()
    monkeypatch.undo()
    db.close()
    db = make()
    assert (db.public_key() == before) == (step < 3)
    db.forget(1)
    assert verify_chain(db.receipts(all_kinds=True), key=before)
    assert "successor" not in (tmp_path / "people.lethe-keys").read_text()


def test_a_crash_between_making_the_store_and_its_keys(make, tmp_path, monkeypatch):
    monkeypatch.setattr("lethevec._store.chain.Chain.insert", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        make()
    monkeypatch.undo()
    assert os.path.exists(tmp_path / "people.lethe")
    db = make()
    assert [r.kind for r in db.receipts(all_kinds=True)] == ["genesis"]
