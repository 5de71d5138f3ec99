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
from lethevec._forgetting.receipts import GENESIS_PREVIOUS, Receipt
from lethevec._forgetting.verify import chain_keys, verify_chain, verify_receipt
from lethevec.errors import KeysError, MissingDependencyError, ReceiptError

pytest.importorskip("cryptography")

SOFTWARE = {"lethevec": "0", "sqlite": "0"}


def erasure_body(ring: KeyRing, **changes) -> dict:
    body = {
        "asked_at": "2026-01-01T00:00:00Z",
        "asked": {"by": "ids", "subject": None, "missing": []},
        "audit_key": ring.audit.id,
        "records": 1,
        "erased": [ring.audit.tag_id(7)],
        "digest": {"before": "a", "after": "b"},
        "version": 1,
        "residue": {},
    }
    return {**body, **changes}


def make_chain(ring: KeyRing, erasures: int = 2, rotate_after: int | None = None) -> list[Receipt]:
    text = base64.b64encode(ring.public).decode()
    chain = [Receipt.issue(ring, "genesis", 0, GENESIS_PREVIOUS, SOFTWARE, {"public_key": text})]
    for number in range(erasures):
        chain.append(
            Receipt.issue(ring, "erasure", len(chain), chain[-1].hash(), SOFTWARE, erasure_body(ring, version=number))
        )
        if number == rotate_after:
            new = ring.rotated()
            body = {"public_key": base64.b64encode(new.public).decode(), "reason": "test"}
            chain.append(Receipt.issue(ring, "rotation", len(chain), chain[-1].hash(), SOFTWARE, body))
            ring = new
    return chain


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
            ({"kind": "party"}, "expected a kind"),
            ({"records": "1"}, "expected records as int"),
            ({"records": -1}, "expected records as int"),
            ({"records": True}, "expected records as int"),
            ({"erased": None}, "expected erased as list"),
            ({"signature": "AA=="}, "expected signature of 64 bytes, got 1"),
            ({"signature": "not base64"}, "expected signature in base64"),
            ({"extra": 1}, "expected no other fields, got extra"),
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

    @pytest.mark.parametrize("change", [{"records": 2}, {"erased": []}, {"version": 9}, {"issued_at": "yesterday"}])
    def test_a_changed_field_breaks_the_signature(self, change: dict):
        ring = KeyRing.create()
        report = verify_receipt(Receipt({**make_chain(ring)[1].fields, **change}), [ring.public])
        assert report["signature"].passed is False

    def test_a_chain_with_a_rotation(self):
        ring = KeyRing.create()
        chain = make_chain(ring, erasures=4, rotate_after=1)
        assert [r.kind for r in chain] == ["genesis", "erasure", "erasure", "rotation", "erasure", "erasure"]
        report = verify_chain(chain, first_key=ring.public)
        assert report
        assert "first key" not in report
        assert verify_chain(chain)["first key"].passed is None
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
        assert not verify_chain(chain, first_key=other.public)
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
