"""Keys, receipts and the checks that need nothing but public keys."""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from lethevec._forgetting.keys import KeyRing, key_id, verify_signature
from lethevec._forgetting.receipts import Receipt
from lethevec._forgetting.verify import chain_keys, verify_chain, verify_receipt
from lethevec.errors import KeysError, MissingDependencyError, ReceiptError

from .chains import SOFTWARE, erasure_body, make_chain

pytest.importorskip("cryptography")


class TestKeys:
    def test_round_trip_and_mode(self, tmp_path: Path):
        ring = KeyRing.create()
        path = tmp_path / "keys"
        ring.save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        again = KeyRing.load(path)
        assert (again.store, again.public, again.audit) == (ring.store, ring.public, ring.audit)
        assert os.listdir(tmp_path) == ["keys"]

    def test_tags_depend_on_key_and_purpose_and_type(self):
        one, two = KeyRing.create().audit, KeyRing.create().audit
        tags = {one.tag_id(7), one.tag_id("7"), one.tag_subject("7"), one.tag_digest("7"), two.tag_id(7)}
        assert len(tags) == 5

    def test_signature(self):
        ring = KeyRing.create()
        signature = ring.sign(b"message")
        assert verify_signature(ring.public, signature, b"message")
        assert not verify_signature(ring.public, signature, b"massage")
        assert not verify_signature(KeyRing.create().public, signature, b"message")
        assert not verify_signature(bytes(31), signature, b"message")

    def test_rotation_keeps_or_gives_up_audit_keys(self):
        ring = KeyRing.create()
        kept, dropped = ring.rotated(), ring.rotated(keep_audit_keys=False)
        assert ring.audit.id in kept.audit_keys
        assert kept.audit.id != ring.audit.id
        assert kept.store == ring.store
        assert kept.public != ring.public
        assert ring.audit.id not in dropped.audit_keys

    @pytest.mark.parametrize(
        "damage",
        [
            lambda c: "not json",
            lambda c: "[1, 2]",
            lambda c: json.dumps({**c, "format": "lethevec-keys/2"}),
            lambda c: json.dumps({**c, "store": "xyz"}),
            lambda c: json.dumps({**c, "audit": []}),
            lambda c: json.dumps({**c, "audit": [{"key": "AAAA"}]}),
            lambda c: json.dumps({**c, "signing": {**c["signing"], "public": base64.b64encode(bytes(32)).decode()}}),
            lambda c: json.dumps({**c, "signing": {**c["signing"], "private": "***"}}),
            lambda c: json.dumps({k: v for k, v in c.items() if k != "signing"}),
            lambda c: "[" * 100_000,
            lambda c: json.dumps(c) + " " * (1 << 20),
        ],
    )
    def test_a_damaged_file_is_refused(self, tmp_path: Path, damage):
        path = tmp_path / "keys"
        KeyRing.create().save(path)
        path.write_text(damage(json.loads(path.read_text())))
        with pytest.raises(KeysError, match="expected a key file of format lethevec-keys/1"):
            KeyRing.load(path)

    def test_a_missing_file_is_named(self, tmp_path: Path):
        with pytest.raises(KeysError, match=r"nowhere.*got nothing there"):
            KeyRing.load(tmp_path / "nowhere")

    def test_without_cryptography_the_error_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
        with pytest.raises(MissingDependencyError, match=r"pip install 'lethevec\[store\]'"):
            KeyRing.create()


class TestReceipts:
    def test_round_trip(self):
        receipt = make_chain(KeyRing.create())[1]
        again = Receipt.from_json(receipt.to_json())
        assert again == receipt
        assert hash(again) == hash(receipt)
        assert again.records == 1
        assert "erasure, 1 records" in repr(again)

    def test_fields_are_a_copy(self):
        receipt = make_chain(KeyRing.create())[1]
        receipt.fields["erased"].append("x")
        assert receipt["erased"] != [*receipt["erased"], "x"]
        assert len(receipt["erased"]) == 1

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"format": "lethevec-receipt/9"}, "a newer lethevec"),
            ({"kind": "party"}, "expected kind as one of genesis"),
            ({"kind": ["erasure"]}, "expected kind as one of genesis"),
            ({"records": "1"}, "expected records as a whole number"),
            ({"records": -1}, "expected records as a whole number"),
            ({"records": True}, "expected records as a whole number"),
            ({"records": 10**5000}, "expected records as a whole number"),
            ({"erased": None}, "expected erased as a list"),
            ({"erased": [["a"]]}, "expected erased as a tag"),
            ({"erased": ["f" * 32, "0" * 32]}, "sorted"),
            ({"asked": {"by": "ids", "subject": None}}, "expected asked to have missing"),
            ({"asked": {"by": "magic", "subject": None, "missing": []}}, "expected asked.by as 'ids'"),
            ({"residue": []}, "expected residue as an object"),
            ({"digest": {"before": "0" * 32, "after": 1.0}}, "expected digest.after as a tag"),
            ({"issued_at": "2026-02-30T00:00:00Z"}, "expected issued_at as a time"),
            ({"software": {"lethevec": "a\ud800", "sqlite": "0"}}, "expected software.lethevec as a text"),
            ({"signature": "AA=="}, "expected signature as 64 bytes"),
            ({"signature": "not base64"}, "expected signature as 64 bytes"),
            ({"extra": 1}, "expected no other fields, got 'extra'"),
            ({1: 1}, "expected no other fields, got '1'"),
        ],
    )
    def test_another_form_is_refused(self, change: dict, message: str):
        fields = make_chain(KeyRing.create())[1].fields
        with pytest.raises(ReceiptError, match=message):
            Receipt({**fields, **change})

    @pytest.mark.parametrize("text", ["", "{", "[]", "1", "[" * 100_000, b"\xff"])
    def test_other_text_is_refused(self, text):
        with pytest.raises(ReceiptError):
            Receipt.from_json(text)


class TestVerify:
    def test_a_good_receipt(self):
        ring = KeyRing.create()
        report = verify_receipt(make_chain(ring)[1], [ring.public])
        assert report
        assert "by key" in str(report)

    def test_an_unknown_key_decides_nothing(self):
        report = verify_receipt(make_chain(KeyRing.create())[1], [KeyRing.create().public])
        assert not report
        assert report["signature"].passed is None
        assert not report.failed

    @pytest.mark.parametrize(
        "change", [{"records": 2}, {"erased": []}, {"version": 9}, {"issued_at": "1999-01-01T00:00:00Z"}]
    )
    def test_a_changed_field_breaks_the_signature(self, change: dict):
        ring = KeyRing.create()
        report = verify_receipt(Receipt({**make_chain(ring)[1].fields, **change}), [ring.public])
        assert report["signature"].passed is False

    def test_a_chain_with_a_rotation(self):
        ring = KeyRing.create()
        chain = make_chain(ring, erasures=4, rotate_after=1)
        assert [r.kind for r in chain] == ["genesis", "erasure", "erasure", "rotation", "erasure", "erasure"]
        report = verify_chain(chain, key=ring.public)
        assert report
        assert report["trusted key"].passed
        assert verify_chain(chain)["trusted key"].passed is None
        assert len(chain_keys(chain)) == 2
        assert key_id(ring.public) in chain_keys(chain)

    def test_every_single_tampering_is_noticed(self):
        ring = KeyRing.create()
        chain = make_chain(ring, erasures=4, rotate_after=1)
        for place in range(1, len(chain) - 1):
            assert not verify_chain(chain[:place] + chain[place + 1 :]), f"dropping {place}"
        for place in range(1, len(chain) - 2):
            swapped = chain.copy()
            swapped[place], swapped[place + 1] = swapped[place + 1], swapped[place]
            assert not verify_chain(swapped), f"swapping {place}"
        for place, receipt in enumerate(chain):
            altered = chain.copy()
            altered[place] = Receipt({**receipt.fields, "issued_at": "1999-01-01T00:00:00Z"})
            assert not verify_chain(altered), f"altering {place}"

    def test_another_first_key_another_store_a_second_genesis(self):
        ring, other = KeyRing.create(), KeyRing.create()
        chain = make_chain(ring)
        assert not verify_chain(chain, key=other.public)
        assert not verify_chain([])
        assert not verify_chain(chain[1:])
        text = base64.b64encode(ring.public).decode()
        second = Receipt.issue(ring, "genesis", 3, chain[-1].hash(), SOFTWARE, {"public_key": text})
        assert "no second genesis" in str(verify_chain([*chain, second]))
        ring.store = other.store
        foreign = Receipt.issue(ring, "erasure", 3, chain[-1].hash(), SOFTWARE, erasure_body(ring))
        assert "expected store" in str(verify_chain([*chain, foreign]))

    def test_a_stolen_place_with_another_key(self):
        ring, other = KeyRing.create(), KeyRing.create()
        other.store = ring.store
        chain = make_chain(ring)
        forged = Receipt.issue(other, "erasure", 3, chain[-1].hash(), SOFTWARE, erasure_body(other))
        assert "expected a signature by" in str(verify_chain([*chain, forged]))
        renamed = Receipt({**forged.fields, "signing_key": ring.signing_id})
        assert "not that of its content" in str(verify_chain([*chain, renamed]))
