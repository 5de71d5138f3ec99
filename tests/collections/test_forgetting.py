"""A person is forgotten in all collections: one receipt, nothing left, and what happens when it cannot be completed."""

from __future__ import annotations

import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import lethevec
from lethevec.errors import ErasureIncompleteError, IdError, IncompleteWriteError, ParameterError, UnknownIdError

from .conftest import DIM, PEOPLE, ids_of


class TestOneReceipt:
    def test_everything_of_a_person_goes(self, filled, connect, residue, vectors):
        before = len(filled.receipts(all_kinds=True))
        receipt = filled.forget(subject=PEOPLE[0])
        assert receipt.records == 42
        assert len(filled.receipts(all_kinds=True)) == before + 1, "one entry, one signature"
        assert [part.records for part in receipt.parts()] == [14, 14, 14]
        assert PEOPLE[0] not in filled.subjects()
        assert residue(0) == []
        assert residue(1) != []
        assert lethevec.verify(receipt, key=filled.public_key())
        assert filled.pending_erasures() == 0
        for name in filled.collections():
            assert len(filled.collection(name)) == 26
            assert PEOPLE[0] not in {hit.subject for hit in filled.collection(name).search(vectors[0], k=40)[0]}
        filled.close()
        assert residue(0) == []
        db = connect()
        assert db.receipts() == [receipt]
        assert db.verify(receipt, subject=PEOPLE[0], key=db.public_key())

    def test_as_if_they_had_never_been_there(self, filled, tmp_path, vectors):
        filled.forget(subject=PEOPLE[0])
        others = [i for i in range(40) if i % 3]
        with lethevec.connect(tmp_path / "without") as other:
            for place, name in enumerate(("photos", "notes", "voices")):
                other.collection(name, dim=DIM, metric="l2", encrypt=name == "voices" or None).add(
                    vectors[others] + place,
                    ids=[ids_of(name, 40)[i] for i in others],
                    subjects=[PEOPLE[i % 3] for i in others],
                    payloads=[{"note": f"payload {i} of {name}"} for i in others],
                )
            assert other.digest() == filled.digest()
            for name in filled.collections():
                ours, theirs = filled.collection(name), other.collection(name)
                assert np.array_equal(ours.search(vectors, k=9).ids, theirs.search(vectors, k=9).ids)
                if name != "voices":
                    ours.backup(tmp_path / f"{name}-a")
                    theirs.backup(tmp_path / f"{name}-b")
                    assert (tmp_path / f"{name}-a").read_bytes() == (tmp_path / f"{name}-b").read_bytes()

    def test_the_receipt_names_nobody(self, filled):
        text = filled.forget(subject=PEOPLE[0]).to_json()
        for word in (*PEOPLE, "photos", "notes", "record-0", "payload"):
            assert word not in text

    def test_a_person_in_one_collection(self, filled, vectors):
        filled.collection("notes").add(vectors[0], ids=["alone"], subjects="dora-alone")
        receipt = filled.forget(subject="dora-alone")
        assert [part.records for part in receipt.parts()] == [1]

    def test_a_collection_by_itself_signs_in_the_same_chain(self, filled):
        first = filled.collection("photos").forget(ids_of("photos", 2))
        second = filled.collection("notes").forget(subject=PEOPLE[1])
        assert [receipt.sequence for receipt in filled.receipts()] == [first.sequence, second.sequence] == [1, 2]
        assert filled.collection("photos").receipts() == [first]
        assert filled.collection("notes").receipts() == [second]
        assert filled.collection("photos").verify(first, ids=ids_of("photos", 2))
        assert not filled.collection("notes").verify(second, subject=PEOPLE[0])
        assert filled.verify(second, subject=PEOPLE[1])
        assert lethevec.verify_chain(filled.receipts(all_kinds=True), key=filled.public_key())

    def test_what_is_refused(self, filled):
        before = filled.digest(), filled.receipts(all_kinds=True)
        with pytest.raises(UnknownIdError, match="nobody"):
            filled.forget(subject="nobody")
        for wrong in (None, 7, "", "a\0b", b"x", "\ud800"):
            with pytest.raises(IdError):
                filled.forget(subject=wrong)
        for options in ({"timeout": float("nan")}, {"timeout": "x"}, {"ignore_unknown": 1}, {"search_all": "yes"}):
            with pytest.raises(ParameterError):
                filled.forget(subject=PEOPLE[0], **options)
        assert (filled.digest(), filled.receipts(all_kinds=True)) == before
        receipt = filled.forget(subject="nobody", ignore_unknown=True)
        assert (receipt.records, receipt.parts()) == (0, [])
        assert lethevec.verify(receipt, key=filled.public_key())


class TestVerify:
    def test_every_part_is_checked(self, filled, vectors):
        receipt = filled.forget(subject=PEOPLE[0])
        gone = [vectors[i] + place for i in range(0, 40, 3) for place in range(3)]
        report = filled.verify(receipt.to_json(), subject=PEOPLE[0], vectors=gone, key=filled.public_key())
        assert report, str(report)
        names = {check.name for check in report.checks}
        assert {"signature", "chain", "key file", "trusted key", "about"} <= names
        for name in filled.collections():
            assert {f"{name}: absent", f"{name}: digest", f"{name}: unused bytes", f"{name}: residue"} <= names
        assert not filled.verify(receipt, subject=PEOPLE[1])

    def test_one_who_came_back_is_noticed(self, filled, vectors):
        receipt = filled.forget(subject=PEOPLE[0])
        filled.collection("notes").add(vectors[:1], ids=["again"], subjects=PEOPLE[0])
        report = filled.verify(receipt)
        assert [check.name for check in report.failed] == ["notes: absent"]

    def test_a_dropped_collection_is_not_there_to_be_checked(self, filled):
        receipt = filled.forget(subject=PEOPLE[0])
        dropped = filled.drop("notes")
        report = filled.verify(receipt)
        assert report, str(report)
        assert filled.verify(dropped), str(filled.verify(dropped))

    def test_a_foreign_receipt(self, filled, tmp_path):
        with lethevec.connect(tmp_path / "other") as other:
            theirs = other.forget(subject="x", ignore_unknown=True)
        assert not filled.verify(theirs)


class TestIncomplete:
    def hold(self, store) -> sqlite3.Connection:
        reader = sqlite3.connect(store.path)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM vectors").fetchone()
        return reader

    def test_a_reader_in_the_way_of_one_collection(self, filled, residue):
        reader = self.hold(filled.collection("notes"))
        with pytest.raises(ErasureIncompleteError) as raised:
            filled.forget(subject=PEOPLE[0], timeout=0)
        assert raised.value.pending == 1
        assert filled.pending_erasures() == 1
        assert filled.receipts() == []
        assert PEOPLE[0] not in filled.subjects()
        with pytest.raises(ErasureIncompleteError):
            filled.complete_erasures(timeout=0)
        reader.close()
        (receipt,) = filled.complete_erasures()
        assert receipt.records == 42
        assert filled.pending_erasures() == 0
        assert residue(0) == []

    def test_it_completes_at_the_next_call_of_that_collection(self, filled, residue, vectors):
        reader = self.hold(filled.collection("notes"))
        with pytest.raises(ErasureIncompleteError):
            filled.forget(subject=PEOPLE[0], timeout=0)
        reader.close()
        filled.collection("notes").search(vectors[0], k=1)
        assert [receipt.records for receipt in filled.receipts()] == [42]
        assert residue(0) == []

    def test_it_completes_at_the_next_open(self, filled, connect, residue):
        reader = self.hold(filled.collection("notes"))
        with pytest.raises(ErasureIncompleteError):
            filled.forget(subject=PEOPLE[0], timeout=0)
        filled.close()
        db = connect()
        assert db.pending_erasures() == 1
        reader.close()
        db.close()
        db = connect()
        assert [receipt.records for receipt in db.receipts()] == [42]
        assert residue(0) == []

    def test_what_is_added_while_it_waits_is_not_taken(self, filled, connect, vectors):
        """The request is about what there was: a record that came later is not erased by its completion."""
        reader = self.hold(filled.collection("notes"))
        with pytest.raises(ErasureIncompleteError):
            filled.forget(subject=PEOPLE[0], timeout=0)
        filled.collection("photos").add(vectors[:1], ids=["new"], subjects=PEOPLE[0])
        filled.close()
        reader.close()
        db = connect()
        assert db.pending_erasures() == 0
        assert db.subjects()[PEOPLE[0]] == 1

    def test_a_drop_that_waits(self, filled, connect, folder):
        reader = self.hold(filled.collection("notes"))
        with pytest.raises(ErasureIncompleteError):
            filled.drop("notes", timeout=0)
        assert len(filled.collection("notes")) == 0
        reader.close()
        filled.complete_erasures()
        assert filled.collections() == ["photos", "voices"]
        assert len(list(folder.glob("c-*.lethe"))) == 2

    def test_two_that_wait(self, filled):
        reader = self.hold(filled.collection("notes"))
        for person in PEOPLE[:2]:
            with pytest.raises(ErasureIncompleteError):
                filled.forget(subject=person, timeout=0)
        assert filled.pending_erasures() == 2
        reader.close()
        assert sorted(receipt.records for receipt in filled.complete_erasures()) == [39, 42]
        assert lethevec.verify_chain(filled.receipts(all_kinds=True))

    def test_a_number_that_came_back_is_not_taken_for_the_old_one(self, filled, monkeypatch):
        """Taking off the note of what is signed, while other threads take it off and forget in that collection."""
        photos = filled.collection("photos")
        ledger = photos._ledger
        first, second = ids_of("photos", 2)
        with monkeypatch.context() as patch:
            patch.setattr(ledger, "tidy", lambda: None)
            photos.forget([first])
        notes, others = ledger.notes, []
        assert len(notes()) == 1
        reader = self.hold(photos)

        def forget():
            ledger.tidy()
            with pytest.raises(ErasureIncompleteError):
                photos.forget([second], timeout=0)

        def slow():
            found = notes()
            if not others:
                others.append(threading.Thread(target=forget))
                others[0].start()
                others[0].join(1.0)  # it waits for us now
            return found

        monkeypatch.setattr(ledger, "notes", slow)
        ledger.tidy()
        others[0].join()
        reader.close()
        assert photos.pending_erasures() == 1
        assert [receipt.records for receipt in filled.complete_erasures()] == [1]
        assert photos.pending_erasures() == 0

    def test_a_second_signature_that_fails(self, filled, monkeypatch):
        """Who waits for the first gets it all the same."""
        photos = filled.collection("photos")
        reader = self.hold(photos)
        for id in ids_of("photos", 2):
            with pytest.raises(ErasureIncompleteError):
                photos.forget([id], timeout=0)
        reader.close()
        first, second = (photos._eraser.claim(number) for number in photos._ledger.waiting())
        append, calls = filled._chain.append, []

        def full_disk(kind, body):
            calls.append(kind)
            if len(calls) == 2:
                raise IncompleteWriteError("no space left")
            return append(kind, body)

        monkeypatch.setattr(filled._chain, "append", full_disk)
        with pytest.raises(ErasureIncompleteError):
            photos.complete_erasures()
        assert first.receipt == filled.receipts()[0]
        assert second.receipt is None
        photos.complete_erasures()
        assert second.receipt == filled.receipts()[1]

    def test_nothing_of_them_stays_in_memory(self, filled):
        """Each collection lets go of what it searched for, not the one alone that handed in the last part."""
        filled.forget(subject=PEOPLE[0])
        for name in filled.collections():
            assert filled.collection(name)._eraser._traces == {}

    def test_a_damaged_request_is_named(self, filled, folder):
        from lethevec.errors import FormatError

        filled.close()
        connection = sqlite3.connect(folder / "lethevec.catalog")
        for draft in ("{", "[]", json.dumps({"head": 1, "expected": 2, "begun": 3})):
            connection.execute("REPLACE INTO intents VALUES ('x', 'erasure', ?)", (draft,))
            connection.commit()
            with pytest.raises(FormatError, match="expected requests"):
                lethevec.connect(folder)
        connection.close()


def test_threads_that_forget_beside_one_that_finishes_what_waits(filled):
    """Each forget gets its own receipt, whoever signs for it."""
    stores = {name: filled.collection(name) for name in ("photos", "notes")}
    stop, wrong = threading.Event(), []

    def finish() -> None:
        try:
            while not stop.is_set():
                filled.complete_erasures()
        except Exception as error:  # told by the test
            wrong.append(error)

    def forget(name: str) -> list[int]:
        return [stores[name].forget([id]).records for id in ids_of(name, 30)]

    finisher = threading.Thread(target=finish)
    finisher.start()
    try:
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(forget, stores)) == [[1] * 30] * 2
    finally:
        stop.set()
        finisher.join()
    assert wrong == []
    assert (filled.pending_erasures(), len(filled.receipts())) == (0, 60)
