"""The chain part by part, what is held of a person without reading it, and a receipt checked without records."""

from __future__ import annotations

import sqlite3

import pytest

import lethevec
from lethevec.errors import ParameterError


@pytest.fixture
def db(tmp_path):
    with lethevec.connect(tmp_path / "people") as made:
        notes = made.collection("notes", dim=2, metric="l2")
        notes.add([[0, n] for n in range(6)], ids=range(6), subjects=["ann", "bob", "ann", "cyd", "dan", None])
        made.collection("photos", dim=2).add([[1, 1]], ids=["p"], subjects=["ann"])
        made.forget(subject="cyd")
        made.rotate_keys()
        made.forget(subject="dan")
        made.hold("ann", "case 7")
        yield made


def test_parts_are_the_chain(db):
    whole = db.receipts(all_kinds=True)
    assert db.chain() == whole
    assert db.chain(after=1, limit=2) == whole[2:4]
    assert db.chain(before=3, limit=2) == whole[2:0:-1]
    assert db.chain(before=0) == db.chain(after=len(whole)) == db.chain(limit=0) == []
    for wrong in ({"after": -2}, {"limit": -1}, {"before": -1}, {"before": "x"}, {"limit": True}):
        with pytest.raises(ParameterError, match="expected an integer"):
            db.chain(**wrong)


def test_the_chain_is_checked_in_parts_through_a_rotation(db):
    total = len(db.chain())
    for limit in (1, 2, 3, 100):
        after, parts = -1, 0
        while after is not None:
            report, after = db.verify_chain(after=-1 if parts == 0 else after, limit=limit)
            assert report, str(report)
            parts += 1
        assert parts >= total // limit


@pytest.mark.parametrize("place", range(1, 5))
def test_an_edited_entry_is_found_in_its_part(db, tmp_path, place):
    db.close()
    connection = sqlite3.connect(tmp_path / "people" / "lethevec.catalog")
    (text,) = connection.execute("SELECT receipt FROM receipts WHERE sequence = ?", (place,)).fetchone()
    year = text.index('"issued_at":"') + len('"issued_at":"')
    edited = text[:year] + "1999" + text[year + 4 :]
    connection.execute("UPDATE receipts SET receipt = ? WHERE sequence = ?", (edited, place))
    connection.commit()
    connection.close()
    with lethevec.connect(tmp_path / "people", read_only=True) as again:
        found = [after for after in range(-1, 5) if not again.verify_chain(after=after, limit=1)[0]]
        # It is found where it stands, and again where the next entry does not follow it.
        assert found == [place - 1, *([place] if place < len(again.chain()) - 1 else [])]
        assert not again.verify(again.chain(after=place - 1, limit=1)[0], quick=True)


def test_an_entry_that_is_no_receipt_is_found(db, tmp_path):
    db.close()
    connection = sqlite3.connect(tmp_path / "people" / "lethevec.catalog")
    connection.execute("UPDATE receipts SET receipt = '{}' WHERE sequence = 2")
    connection.commit()
    connection.close()
    with lethevec.connect(tmp_path / "people", read_only=True) as again:
        assert again.verify_chain(after=-1, limit=2) == again.verify_chain(after=-1, limit=2)
        report, after = again.verify_chain(after=1, limit=2)
        assert not report
        assert after is None


def test_a_quick_check_reads_no_records_and_finds_what_was_edited(db, monkeypatch):
    receipt = next(one for one in db.chain() if one.erases)
    monkeypatch.setattr(lethevec.Store, "check_part", None)
    report = db.verify(receipt, quick=True, subject="cyd")
    assert report
    assert report["about"].passed
    assert not db.verify(receipt, quick=True, subject="ann")
    for name, value in (("signing_key", "00" * 8), ("issued_at", "1999-01-01T00:00:00Z"), ("sequence", 99)):
        edited = lethevec.Receipt({**receipt.fields, name: value})
        assert not db.verify(edited, quick=True), name
    with pytest.raises(ParameterError, match="quick"):
        db.verify(receipt, quick=True, ids=[3])


def test_every_entry_passes_a_quick_check(db):
    for receipt in db.chain():
        assert db.verify(receipt, quick=True), receipt


def test_what_is_held_is_counted_and_not_read(db):
    held = db.held("ann")
    assert held.records == 3
    assert held.collections == {"notes": 2, "photos": 1}
    assert [hold.reason for hold in held.holds] == ["case 7"]
    access = db.access("ann")
    assert (held.receipts, held.holds, held.blocked_since) == (access.receipts, access.holds, access.blocked_since)
    assert {name: len(records) for name, records in access.collections.items()} == held.collections
    assert db.held("nobody").records == 0
    gone = db.held("cyd")
    assert gone.records == 0
    assert [receipt.kind for receipt in gone.receipts] == ["erasure"]


def test_holds_can_be_listed_without_names(db, monkeypatch):
    assert [hold.subject for hold in db.holds()] == ["ann"]
    monkeypatch.setattr(type(db), "subjects", None)
    assert [(hold.subject, hold.reason) for hold in db.holds(names=False)] == [(None, "case 7")]
