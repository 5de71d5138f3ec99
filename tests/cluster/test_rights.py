"""Legal holds and blocks: a person's rights hold in every member, whatever is away, and every change is signed."""

from __future__ import annotations

import itertools
import json
import time
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

from lethevec.cluster import ClusterEntry, verify
from lethevec.errors import BlockedError, ErasureIncompleteError, HoldError, ReceiptError, UnknownIdError
from tests.cluster.conftest import people, same_answers, until


@pytest.fixture
def db(lab):
    made = lab.connect(shards=2, replicas=2)
    for place in (made, lab.one):
        place.collection("people", dim=8, metric="l2").add(**people(60))
    return made


def test_records_under_hold_stay_as_they_are(lab, db):
    collection = db.collection("people")
    entry = db.hold("person-1", "case 42")
    before = collection.digest()
    held, free = collection.ids(subject="person-1"), collection.ids(subject="person-2")
    vectors = people(2)["vectors"]
    for change in (
        lambda: db.forget(subject="person-1"),
        lambda: collection.forget(subject="person-1"),
        lambda: collection.forget([free[0], held[0]]),
        lambda: collection.forget(where={"year": {"$gt": 0}}),
        lambda: collection.upsert(vectors, [free[0], held[0]]),
        lambda: collection.upsert(vectors, [free[0], held[0]], erase_old=True),
        lambda: collection.update(ids=[free[0], held[0]], payloads=[{}, {}]),
        lambda: db.drop("people"),
    ):
        with pytest.raises(HoldError, match="case 42") as caught:
            change()
        assert caught.value.hold == entry["hold"]
        assert collection.digest() == before
    assert db.pending_erasures() == 0
    (hold,) = db.holds("person-1")
    assert (hold.id, hold.reason, hold.subject) == (entry["hold"], "case 42", "person-1")
    assert [one.subject for one in db.holds()] == ["person-1"]
    assert [one.subject for one in db.holds(names=False)] == [None]
    assert db.holds("person-2") == []
    for place in (db, lab.one):
        assert place.forget(subject="person-2").records == len(free)
    same_answers(collection, lab.one.collection("people"), vectors)
    db.lift(entry, "closed")
    assert db.holds() == []
    assert db.forget(subject="person-1").records == len(held)


def test_nothing_is_written_for_somebody_who_is_blocked(lab, db):
    collection = db.collection("people")
    vector = people(1)["vectors"]
    assert db.forget(subject="person-1", block=True)["asked"]["block"] is True
    assert db.is_blocked("person-1")
    assert db.access("person-1").blocked_since is not None
    assert db.held("person-1").blocked_since is not None
    before = collection.digest()
    for write in (
        lambda: collection.add(vector, ["late"], subjects=["person-1"]),
        lambda: collection.upsert(vector, ["late"], subjects=["person-1"]),
        lambda: collection.update(ids=[2], subjects=["person-1"]),
    ):
        with pytest.raises(BlockedError, match="person-1"):
            write()
        assert collection.digest() == before
    db.unblock("person-1")
    assert not db.is_blocked("person-1")
    collection.add(vector, ["late"], subjects=["person-1"])
    db.block("nobody-yet", "asked to be left alone")
    with pytest.raises(BlockedError):
        collection.add(vector, ["other"], subjects=["nobody-yet"])
    with pytest.raises(UnknownIdError, match="blocked"):
        db.unblock("person-3")
    with pytest.raises(UnknownIdError):
        db.hold("nobody-yet", "no records")
    with pytest.raises(UnknownIdError, match="hold"):
        db.lift("none")


def test_what_is_due_and_under_hold_is_not_erased(lab, db):
    collection = db.collection("people")
    soon = datetime.now(timezone.utc) + timedelta(seconds=4)
    collection.add(np.ones((2, 8)), ["held", "free"], subjects=["kept", "other"], expires=[soon, soon])
    db.hold("kept", "case 7")
    until(lambda: collection.expired() == 2)
    with pytest.raises(HoldError, match="case 7"):
        db.expire()
    with pytest.raises(HoldError):
        db.drop("people")
    lab.net.kill("s0-1")
    lab.net.kill("s1-1")
    with pytest.raises(ErasureIncompleteError):
        db.expire(skip_held=True)
    for name in ("s0-1", "s1-1"):
        lab.restart(db, name)
    lab.wait_live(db)
    assert db.receipts()[-1].kind == "expiry"
    for ours in ("s0-1", "s0-2", "s1-1", "s1-2"):
        store = lab.net.ends[ours]._db.collection(next(iter(db.driver.epoch.collections)))
        assert store.held_count("other") == 0
    assert [record.id for record in collection.held_of("kept")] == ["held"]
    db.lift(db.holds("kept")[0].id)
    assert db.expire().records == 1
    assert collection.held_of("kept") == []


def test_every_change_of_a_right_is_a_signed_entry_of_the_chain(lab, db):
    hold = db.hold("person-1", "case 42")
    first = db.forget(subject="person-2")
    entries = [hold, first, db.lift(hold["hold"], "closed"), db.block("person-3", "asked"), db.unblock("person-3")]
    assert db.receipts(all_kinds=True) == entries == db.chain()
    assert db.receipts() == [first]
    assert [entry.kind for entry in entries] == ["hold", "erasure", "lift", "block", "unblock"]
    assert [entry.sequence for entry in entries] == list(range(5))
    assert all(one["previous"] == before.hash() for before, one in itertools.pairwise(entries))
    report, following = db.verify_chain()
    assert report, report.failed
    assert following is None
    key = db.public_key()
    for entry in entries:
        assert verify(entry.to_json(), key=key)
        assert db.receipt_of(entry.to_json()) == entry
    assert db.access("person-1").receipts == [hold, entries[2]]
    assert ClusterEntry.from_json(hold.to_json()) == hold
    assert "person-1" not in hold.to_json()
    assert "case 42" not in hold.to_json()
    assert db.verify(hold, subject="person-1")
    assert not db.verify(hold, subject="person-2")
    for change in ({"hold": "f" * 32}, {"subject": "f" * 32}, {"kind": "lift"}):
        assert not verify({**hold.fields, **change}, key=key)
    for wrong in ({"kind": "erasure"}, {"more": 1}, {"sequence": "0"}):
        with pytest.raises(ReceiptError):
            verify({**hold.fields, **wrong}, key=key)
    with pytest.raises(ReceiptError):
        ClusterEntry.from_json(json.dumps(hold.fields, indent=1))


def test_rights_survive_the_registry_and_the_driver(lab, db):
    hold = db.hold("person-1", "case 42")
    db.block("person-9", "asked")
    lab.net.kill("registry")
    lab.net.start_registry()
    with pytest.raises(HoldError):
        db.forget(subject="person-1")
    other = lab.connect("other", takeover=True)
    with pytest.raises(HoldError):
        other.forget(subject="person-1")
    with pytest.raises(BlockedError):
        other.collection("people").add(np.ones((1, 8)), ["late"], subjects=["person-9"])
    assert [one.id for one in other.holds()] == [hold["hold"]]
    reader = lab.connect("reader", read_only=True)
    assert reader.is_blocked("person-9")
    assert len(reader.holds("person-1")) == 1


def test_an_entry_that_a_crash_has_cut_off_is_there_again(lab, db):
    entry = db.hold("person-1", "case 42")
    token = entry["token"]
    lab.net.kill("registry")
    (path,) = (lab.net.folder / "registry" / "entries").glob("*.json")
    path.unlink()  # what was in force was kept; the file of the entry was not
    lab.net.start_registry()
    assert db.chain() == [entry]
    head = {"kind": "hold", "reason": "case 42", "subject": entry["subject"], "token": token}
    assert db.driver.registry("right", head)["entry"] == entry.fields  # asked twice, done once
    assert len(db.holds()) == 1


def test_the_words_of_a_hold_are_in_no_file_after_it_is_lifted(lab, db):
    entry = db.hold("person-1", "a reason that is nowhere else")
    files = [path for path in lab.net.folder.rglob("*") if path.is_file()]
    holding = [path for path in files if b"nowhere else" in path.read_bytes()]
    assert [path.name for path in holding] == ["registry.json"]
    with holding[0].open("rb") as old:
        db.lift(entry)
        assert not old.read().strip(b"\0")  # what was there before the file was replaced
    time.sleep(0.01)
    assert not [path for path in lab.net.folder.rglob("*") if path.is_file() and b"nowhere else" in path.read_bytes()]


def test_a_receipt_that_another_has_signed_is_refused(lab, db):
    """The registry signs last: what it signs must be what the members have signed."""
    lab.net.kill("s0-1")
    with pytest.raises(ErasureIncompleteError):
        db.forget(subject="person-1")
    number = next(iter(db.status()["waiting"]))
    other = lab.net.ends["s0-2"]._db.receipts()[-1].fields
    with pytest.raises(ReceiptError, match="another's"):
        db.driver.registry("erased", {"number": number, "member": "s0-1", "receipts": [other]})
    assert db.pending_erasures() == 1
