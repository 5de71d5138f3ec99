"""An old backup comes back, and nobody who was forgotten since comes back with it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import lethevec
from lethevec.errors import BlockedError, FileError, HoldError, KeysError, ReceiptError

from .conftest import DIM, PEOPLE, ids_of

ANN, BOB, CEM = PEOPLE


@pytest.fixture
def keys(folder):
    return folder / "lethevec.catalog-keys"


def test_an_old_backup_never_answers_with_a_forgotten_person(filled, folder, tmp_path, keys, vectors, residue):
    first = filled.forget(subject=CEM)
    filled.backup(tmp_path / "backup")
    filled.collection("photos").add(vectors[:1], ids=["later"], subjects=BOB)
    filled.forget(subject=ANN, block=True)
    gone = ids_of("notes", 40)[1]
    filled.collection("notes").forget([gone])
    filled.collection("photos").forget(subject=BOB)
    hold = filled.hold(BOB, "a reason")
    chain = filled.receipts(all_kinds=True)
    filled.close()

    receipt = lethevec.restore(tmp_path / "backup", tmp_path / "again", receipts=chain, keys=keys)
    assert receipt is not None
    assert receipt["asked"]["by"] == "receipts"
    # Ann everywhere (28 in the clear; 14 sealed ones are unreadable anyway), one of Bob's notes, all of Bob's photos.
    assert receipt.records == 28 + 1 + 13
    assert residue(0, tmp_path / "again") == []
    with lethevec.connect(tmp_path / "again", keys=keys) as db:
        assert db.subjects() == {BOB: 12 + 13}
        for name in db.collections():
            for hit in db.collection(name).search(vectors, k=40):
                assert {one.subject for one in hit} <= {BOB}
        assert len(db.collection("photos")) == 0
        assert gone not in db.collection("notes")
        assert db.receipts()[0] == first
        assert lethevec.verify_chain(db.receipts(all_kinds=True), key=db.public_key())
        with pytest.raises(BlockedError):
            db.collection("notes").add(vectors[:1], ids=["x"], subjects=ANN)
        with pytest.raises(HoldError, match="set after the backup was made"):
            db.forget(subject=BOB)
        db.lift(hold)
        assert db.forget(subject=BOB).records == 25


def test_a_backup_cannot_be_opened_by_itself(filled, tmp_path, residue):
    filled.backup(tmp_path / "backup")
    for options in ({}, {"read_only": True}):
        with pytest.raises(FileError, match=r"got a backup of one; lethevec\.restore"):
            lethevec.connect(tmp_path / "backup", **options)
    assert not list((tmp_path / "backup").glob("*-keys*"))
    with pytest.raises(FileError, match="already"):
        filled.backup(tmp_path / "backup")


def test_without_erasures_since_it_is_as_it_was(filled, tmp_path, keys, vectors):
    filled.backup(tmp_path / "backup")
    digest, chain = filled.digest(), filled.receipts(all_kinds=True)
    answers = filled.collection("voices").search(vectors, k=5).ids
    filled.close()
    assert lethevec.restore(tmp_path / "backup", tmp_path / "again", receipts=chain, keys=keys) is None
    with lethevec.connect(tmp_path / "again", keys=keys) as db:
        assert db.digest() == digest
        assert np.array_equal(db.collection("voices").search(vectors, k=5).ids, answers)
        assert db.receipts(all_kinds=True) == chain


def test_what_happened_to_collections_since(filled, tmp_path, keys, vectors):
    held = filled.hold(ANN, "lifted later")
    filled.backup(tmp_path / "backup")
    filled.lift(held)
    filled.drop("notes")
    filled.rename("photos", "pictures")
    filled.collection("later", dim=DIM).add(vectors[:3], ids=range(3), subjects=ANN)
    filled.collection("later").forget(subject=ANN)
    chain = filled.receipts(all_kinds=True)
    filled.close()
    lethevec.restore(tmp_path / "backup", tmp_path / "again", receipts=chain, keys=keys)
    with lethevec.connect(tmp_path / "again", keys=keys) as db:
        assert db.collections() == ["photos", "voices"]
        assert db.subjects()[ANN] == 28, "she was only erased from the collection that came later"
        assert db.holds() == []
        assert db.forget(subject=ANN).records == 28


def test_what_is_refused(filled, connect, folder, tmp_path, keys):
    filled.forget(subject=CEM)
    filled.backup(tmp_path / "backup")
    filled.forget(subject=ANN)
    filled.rename("photos", "pictures")
    filled.forget(subject=BOB)
    chain = filled.receipts(all_kinds=True)
    filled.close()
    with lethevec.connect(tmp_path / "other") as other:
        other.forget(subject="x", ignore_unknown=True)
        foreign = other.receipts(all_kinds=True)
    with pytest.raises(ReceiptError, match="receipt 2 is missing"):
        attempt(tmp_path, chain[:2] + chain[3:], keys)
    with pytest.raises(ReceiptError, match="ends with receipt 0, before the backup was made"):
        attempt(tmp_path, chain[:1], keys)
    with pytest.raises(KeysError, match="expected those of the chain"):
        attempt(tmp_path, foreign, keys)
    with pytest.raises(ReceiptError, match="the chain of the folder that was backed up"):
        attempt(tmp_path, foreign, tmp_path / "other" / "lethevec.catalog-keys")
    with pytest.raises(KeysError, match="nothing there"):
        attempt(tmp_path, chain, tmp_path / "none")
    with pytest.raises(FileError, match="already"):
        lethevec.restore(tmp_path / "backup", folder, receipts=chain, keys=keys)
    with pytest.raises(FileError, match="expected a backup"):
        lethevec.restore(folder, tmp_path / "x", receipts=chain, keys=keys)
    assert not (tmp_path / "again").exists()
    assert not list(tmp_path.glob("*.restoring"))


def attempt(tmp_path, chain, keys) -> None:
    lethevec.restore(tmp_path / "backup", tmp_path / "again", receipts=chain, keys=keys)


def test_a_killed_restore_cannot_be_opened(filled, folder, tmp_path, keys, monkeypatch):
    """At every step until the forgotten are erased again, what is there is a backup still, and not a good one."""
    filled.backup(tmp_path / "backup")
    filled.forget(subject=ANN)
    chain = filled.receipts(all_kinds=True)
    filled.close()
    erase_again = lethevec.Database.erase_again

    def killed(db, erased):
        shutil.copytree(db.path, tmp_path / "killed")
        return erase_again(db, erased)

    monkeypatch.setattr(lethevec.Database, "erase_again", killed)
    assert lethevec.restore(tmp_path / "backup", tmp_path / "again", receipts=chain, keys=keys) is not None
    monkeypatch.undo()
    for read_only in (True, False):
        with pytest.raises(FileError, match="got a backup of one"):
            lethevec.connect(tmp_path / "killed", keys=keys, read_only=read_only)
    with pytest.raises(FileError, match="what a restore has left"):
        lethevec.restore(tmp_path / "killed", tmp_path / "third", receipts=chain, keys=keys)
    with lethevec.connect(tmp_path / "again", keys=keys) as db:
        assert ANN not in db.subjects()


def test_a_backup_that_is_protected_against_writing(filled, tmp_path, keys, vectors):
    """The folder made of it is its owner's to write, and what is built on the way can be removed."""
    backup = tmp_path / "backup"
    filled.backup(backup)
    chain = filled.receipts(all_kinds=True)
    filled.close()
    for path in backup.iterdir():
        path.chmod(0o400)
    backup.chmod(0o500)
    try:
        lethevec.restore(backup, tmp_path / "again", receipts=chain, keys=keys)
    finally:
        backup.chmod(0o700)
    assert (tmp_path / "again").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o600 for path in (tmp_path / "again").iterdir()} == {0o600}
    with lethevec.connect(tmp_path / "again", keys=keys) as db:
        assert db.forget(subject=ANN).records == 42
