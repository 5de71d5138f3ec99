"""Legal holds and blocks: what they forbid, what the error says, and the entries that they leave in the chain."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec.errors import BlockedError, HoldError, IdError, UnknownIdError, UnsupportedError

from .conftest import PEOPLE, ids_of

ANN, BOB, CEM = PEOPLE


class TestHolds:
    def test_what_a_hold_forbids(self, filled, vectors):
        receipt = filled.hold(ANN, "case 12 C 345/26")
        photos = filled.collection("photos")
        mine = ids_of("photos", 40)[0]
        before = filled.digest(), len(filled.receipts(all_kinds=True))
        for call in (
            lambda: filled.forget(subject=ANN),
            lambda: filled.forget(subject=ANN, block=True),
            lambda: photos.forget(subject=ANN),
            lambda: photos.forget([ids_of("photos", 40)[1], mine]),
            lambda: photos.update(payloads=[{"a": 1}], ids=[mine]),
            lambda: photos.update(vectors[:1], ids=[mine]),
            lambda: photos.update(subjects=[BOB], ids=[mine]),
            lambda: filled.drop("photos"),
        ):
            with pytest.raises(HoldError, match=r"under legal hold [0-9a-f]{32} since .*case 12 C 345/26") as raised:
                call()
            assert raised.value.hold == receipt["hold"]
            assert (filled.digest(), len(filled.receipts(all_kinds=True))) == before
            assert filled.pending_erasures() == 0
            assert not filled.is_blocked(ANN)
        # Others are free, and more may be added.
        photos.add(vectors[:1], ids=["more"], subjects=ANN)
        filled.forget(subject=BOB)
        assert photos.search(vectors[0], k=1)[0][0].subject == ANN

    def test_lifting(self, filled, connect):
        first = filled.hold(ANN, "one court")
        second = filled.hold(ANN, "another court")
        assert [hold.reason for hold in filled.holds(ANN)] == ["one court", "another court"]
        assert filled.holds(BOB) == []
        assert {hold.subject for hold in filled.holds()} == {ANN}
        filled.close()
        db = connect()
        assert db.lift(first, "settled").kind == "lift"
        with pytest.raises(HoldError, match="another court"):
            db.forget(subject=ANN)
        db.lift(second["hold"])
        assert db.holds() == []
        assert db.forget(subject=ANN).records == 42
        assert [receipt.kind for receipt in db.receipts(all_kinds=True)][-5:] == [
            "hold", "hold", "lift", "lift", "erasure",
        ]  # fmt: skip
        chain = db.receipts(all_kinds=True)
        assert lethevec.verify_chain(chain, key=db.public_key())
        assert all(lethevec.verify(receipt, key=db.public_key()) for receipt in chain)

    def test_the_reason_is_in_no_file_after_lifting(self, filled, folder):
        receipt = filled.hold(ANN, "a reason that is nobody's business")
        assert "nobody" not in receipt.to_json()
        filled.lift(receipt)
        filled.close()
        content = b"".join(path.read_bytes() for path in folder.iterdir())
        assert b"nobody's business" not in content
        assert ANN.encode() in content

    def test_refused(self, filled, connect):
        for subject in ("nobody", "", 7, None):
            with pytest.raises(IdError):
                filled.hold(subject, "reason")
        for reason in ("", None, 7, "x" * 5000):
            with pytest.raises(IdError):
                filled.hold(ANN, reason)
        for hold in ("0" * 32, "x", filled.forget(subject=BOB)):
            with pytest.raises(IdError):
                filled.lift(hold)
        receipt = filled.hold(ANN, "reason")
        filled.lift(receipt)
        with pytest.raises(UnknownIdError, match="in force"):
            filled.lift(receipt)
        reader = connect(read_only=True)
        for call in (lambda: reader.hold(ANN, "x"), lambda: reader.lift("x"), lambda: reader.block(ANN, "x")):
            with pytest.raises(UnsupportedError):
                call()

    def test_audit_keys_of_holds_and_blocks_are_not_given_up(self, filled):
        receipt = filled.hold(ANN, "reason")
        filled.rotate_keys()
        with pytest.raises(HoldError):
            filled.forget(subject=ANN)
        with pytest.raises(UnsupportedError, match="no holds and no blocks"):
            filled.rotate_keys(keep_audit_keys=False)
        filled.lift(receipt)
        filled.rotate_keys(keep_audit_keys=False)


class TestBlocks:
    def test_after_a_person_was_forgotten_they_stay_out(self, filled, connect, folder, vectors, residue):
        receipt = filled.forget(subject=ANN, block=True)
        assert receipt["asked"]["block"] is True
        assert filled.is_blocked(ANN)
        assert not filled.is_blocked(BOB)
        filled.close()
        assert residue(0) == []
        db = connect()
        photos = db.collection("photos")
        before = db.digest()
        for call in (
            lambda: photos.add(vectors[:2], ids=["x", "y"], subjects=[BOB, ANN]),
            lambda: photos.load([{"vectors": vectors[:1], "ids": ["x"], "subjects": [ANN]}]),
            lambda: photos.update(subjects=[ANN], ids=[ids_of("photos", 40)[1]]),
            lambda: db.collection("new", dim=8).add(vectors[:1], ids=["x"], subjects=ANN),
        ):
            with pytest.raises(BlockedError, match=r"blocked since 20.*unblock\(\)"):
                call()
        db.drop("new")
        assert db.digest() == before
        assert np.array_equal(photos.search(vectors[1], k=1)[0][0].id, ids_of("photos", 40)[1])
        assert db.unblock(ANN, "they came back").kind == "unblock"
        photos.add(vectors[:1], ids=["x"], subjects=ANN)
        with pytest.raises(UnknownIdError, match="is blocked"):
            db.unblock(ANN)
        assert lethevec.verify_chain(db.receipts(all_kinds=True), key=db.public_key())

    def test_a_block_by_itself(self, filled, vectors):
        filled.block(ANN, "asked us to stop")
        assert filled.subjects()[ANN] == 42
        photos = filled.collection("photos")
        with pytest.raises(BlockedError):
            photos.add(vectors[:1], ids=["x"], subjects=ANN)
        # What is there may be corrected, as long as it stays theirs.
        photos.update(payloads=[{"a": 1}], ids=[ids_of("photos", 40)[0]])
        filled.rotate_keys()
        with pytest.raises(BlockedError):
            photos.add(vectors[:1], ids=["x"], subjects=ANN)
        filled.block(ANN, "again")
        filled.unblock(ANN)
        photos.add(vectors[:1], ids=["x"], subjects=ANN)

    def test_somebody_unknown_can_be_blocked(self, filled, vectors):
        assert filled.forget(subject="stranger", block=True, ignore_unknown=True).records == 0
        with pytest.raises(BlockedError):
            filled.collection("photos").add(vectors[:1], ids=["x"], subjects="stranger")
