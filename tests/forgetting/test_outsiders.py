"""What somebody can check who has a receipt and a public key, and nothing else; and what they are told."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lethevec
from lethevec._forgetting.keys import KeyRing
from lethevec._forgetting.receipts import GENESIS_PREVIOUS, Receipt
from lethevec._forgetting.trusted import public_key_pem, read_chain, read_public_key
from lethevec.errors import FileError, KeysError, LethevecError, ReceiptError

from .chains import SOFTWARE, erasure_body, make_chain

pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def ring() -> KeyRing:
    return KeyRing.create()


@pytest.fixture(scope="module")
def receipt(ring: KeyRing) -> Receipt:
    return make_chain(ring)[1]


class TestOneReceipt:
    def test_every_form_of_receipt_and_key(self, ring: KeyRing, receipt: Receipt, tmp_path: Path):
        file = tmp_path / "receipt.json"
        file.write_text(receipt.to_json() + "\n")
        pem = tmp_path / "key.pem"
        pem.write_text(public_key_pem(ring.public))
        raw = tmp_path / "key.raw"
        raw.write_bytes(ring.public)
        text = receipt.to_json()
        receipts = [receipt, receipt.fields, text, text.encode(), file, str(file)]
        keys = [ring.public, ring.public.hex(), ring.public.hex().upper(), pem.read_text(), pem.read_bytes()]
        for form in receipts:
            assert lethevec.verify(form, key=ring.public), type(form)
        for key in [*keys, pem, str(pem), raw, str(raw), [KeyRing.create().public, ring.public]]:
            assert lethevec.verify(receipt, key=key), key

    def test_the_pem_is_what_openssl_writes(self, ring: KeyRing):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        key = Ed25519PublicKey.from_public_bytes(ring.public)
        theirs = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        assert public_key_pem(ring.public) == theirs

    def test_it_says_what_is_proved_and_what_is_not(self, ring: KeyRing, receipt: Receipt):
        report = lethevec.verify(receipt, key=ring.public)
        told = str(report)
        assert "signed exactly this" in told
        assert "1 records were erased" in told
        assert "This does not prove that the statement is true" in told
        assert "audit key" in told
        assert not lethevec.verify(receipt, key=KeyRing.create().public).proves

    def test_another_key_is_a_failure(self, receipt: Receipt):
        report = lethevec.verify(receipt, key=KeyRing.create().public)
        assert not report
        assert [check.name for check in report.failed] == ["signature"]

    def test_a_changed_receipt_is_a_failure(self, ring: KeyRing, receipt: Receipt):
        report = lethevec.verify({**receipt.fields, "records": 2}, key=ring.public)
        assert report["signature"].passed is False

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda text: text.replace('"kind":', '"kind":"erasure","kind":', 1),
            lambda text: text.replace(":", ": ", 1),
            lambda text: " " + text,
            lambda text: text + "\n\n",
            lambda text: json.dumps(json.loads(text)),
            lambda text: json.dumps(json.loads(text), separators=(",", ":"))[::1].replace(
                '"records":1', '"records":1.0'
            ),
            lambda text: json.dumps(dict(reversed(json.loads(text).items())), separators=(",", ":")),
            lambda text: text.replace('"ids"', '"\\u0069ds"'),
        ],
    )
    def test_another_text_of_the_same_content_is_refused(self, ring: KeyRing, receipt: Receipt, spoil):
        text = receipt.to_json()
        assert spoil(text) != text
        with pytest.raises(ReceiptError):
            lethevec.verify(spoil(text), key=ring.public)

    def test_another_base64_of_the_same_signature_is_refused(self, ring: KeyRing, receipt: Receipt):
        signature = receipt["signature"]
        for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz":
            other = signature[:-3] + last + "=="
            if other != signature and base64.b64decode(other) == base64.b64decode(signature):
                break
        with pytest.raises(ReceiptError, match="64 bytes in base64"):
            lethevec.verify({**receipt.fields, "signature": other}, key=ring.public)

    @pytest.mark.parametrize("key", [None, 7, 1.5, b"short", "zz" * 32, "", "no/such/file", [None], object(), "a\0b"])
    def test_a_key_of_another_kind(self, receipt: Receipt, key):
        with pytest.raises(KeysError, match="expected a public key"):
            lethevec.verify(receipt, key=key)

    def test_a_pem_of_another_kind(self, receipt: Receipt):
        body = base64.b64encode(b"\x30" + bytes(60)).decode()
        with pytest.raises(KeysError, match="another kind"):
            lethevec.verify(receipt, key=f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n")

    @pytest.mark.parametrize(
        "form", [None, 7, [], {}, "", "{", b"\xff", "[" * 100_000, "no/such/file", object(), "a\0b"]
    )
    def test_a_receipt_of_another_kind(self, ring: KeyRing, form):
        with pytest.raises(ReceiptError):
            lethevec.verify(form, key=ring.public)

    def test_a_file_that_is_not_there(self, ring: KeyRing, tmp_path: Path):
        with pytest.raises(FileError, match="could not be read"):
            lethevec.verify(tmp_path / "none", key=ring.public)
        with pytest.raises(FileError, match="could not be read"):
            read_public_key(tmp_path)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


class TestHostileFields:
    @settings(max_examples=300, deadline=None)
    @given(data=st.data())
    def test_any_value_in_any_place_is_ours_to_refuse(self, ring: KeyRing, receipt: Receipt, data):
        """Whatever stands in a field, at any depth, gives a `ReceiptError`, or a receipt that does not verify."""
        fields = receipt.fields
        target: dict = fields
        name = data.draw(st.sampled_from(sorted(fields)))
        while isinstance(target[name], dict) and target[name] and data.draw(st.booleans()):
            target = target[name]
            name = data.draw(st.sampled_from(sorted(target)))
        before = target[name]
        target[name] = data.draw(ANYTHING)
        try:
            made = Receipt(fields)
            again = Receipt.from_json(made.to_json())
        except ReceiptError:
            return
        assert again == made
        if target[name] != before:
            assert not lethevec.verify(made, key=ring.public)

    @settings(max_examples=200, deadline=None)
    @given(form=ANYTHING, key=ANYTHING)
    def test_arguments_of_any_type(self, form, key):
        with pytest.raises(LethevecError):
            lethevec.verify(form, key=key)


class TestChains:
    def test_a_chain_in_a_file_or_a_list(self, ring: KeyRing, tmp_path: Path):
        chain = make_chain(ring, erasures=3)
        path = tmp_path / "chain.jsonl"
        path.write_text("".join(receipt.to_json() + "\n" for receipt in chain))
        assert read_chain(path) == chain
        assert lethevec.verify_chain(path, key=ring.public)
        assert lethevec.verify_chain([receipt.to_json() for receipt in chain], key=ring.public)
        for wrong in (None, 7, chain[0], {}, b""):
            with pytest.raises(ReceiptError):
                lethevec.verify_chain(wrong)

    def test_a_chain_that_lacks_its_middle(self, ring: KeyRing):
        chain = make_chain(ring, erasures=5)
        report = lethevec.verify_chain(chain[:2] + chain[4:], key=ring.public)
        assert not report
        assert "receipts 2 to 3 are missing" in report["signature"].detail
        assert "receipt 2 is missing" in str(lethevec.verify_chain(chain[:2] + chain[3:]))
        assert "out of order" in str(lethevec.verify_chain([*chain[:3], *chain[1:]]))

    def test_it_says_when_nothing_else_vouches(self, ring: KeyRing):
        report = lethevec.verify_chain(make_chain(ring))
        assert report
        assert report["trusted key"].passed is None
        assert "nothing but itself vouches" in str(report)

    def test_a_key_that_signed_later_vouches_and_one_that_did_not_does_not(self, ring: KeyRing):
        chain = make_chain(ring, erasures=4, rotate_after=1)
        later = chain[3].public_key
        assert chain[3].kind == "rotation"
        assert later is not None
        assert lethevec.verify_chain(chain, key=later)
        # Anybody can name somebody's public key in a rotation: that is not their signature.
        assert not lethevec.verify_chain(chain[:4], key=later)

    def test_anchors(self, ring: KeyRing):
        chain = make_chain(ring, erasures=4)
        anchor = lethevec.Anchor.of(chain[2])
        line = str(anchor)
        assert lethevec.Anchor.parse(line + "\n") == anchor
        assert lethevec.verify_chain(chain, anchor=line)
        assert lethevec.verify_chain(chain[:3], anchor=anchor)["anchor"].passed
        cut = lethevec.verify_chain(chain[:2], anchor=line)
        assert not cut
        assert "cut at its end" in cut["anchor"].detail
        # Somebody with the private key makes another chain of the same length.
        text = base64.b64encode(ring.public).decode()
        forged = [Receipt.issue(ring, "genesis", 0, GENESIS_PREVIOUS, SOFTWARE, {"public_key": text})]
        for number in range(4):
            body = erasure_body(ring, version=number + 9)
            forged.append(Receipt.issue(ring, "erasure", number + 1, forged[-1].hash(), SOFTWARE, body))
        assert lethevec.verify_chain(forged, key=ring.public)
        replaced = lethevec.verify_chain(forged, key=ring.public, anchor=line)
        assert "replaced" in replaced["anchor"].detail
        assert not replaced
        assert "anchor is of store" in str(lethevec.verify_chain(make_chain(KeyRing.create()), anchor=line))

    @pytest.mark.parametrize("line", ["", "abc", 7, None, "lethevec-anchor/1 0 0 0", b"x", "a\ud800"])
    def test_an_anchor_of_another_form(self, ring: KeyRing, line):
        with pytest.raises(ReceiptError, match="anchor: expected a line"):
            lethevec.Anchor.parse(line)


class TestKinds:
    def bodies(self, ring: KeyRing) -> dict[str, dict]:
        tags = {"audit_key": ring.audit.id, "subject": ring.audit.tag_subject("ann"), "reason": "0" * 32}
        one = erasure_body(ring)
        part = {name: one[name] for name in ("records", "erased", "digest", "version", "residue")}
        over = {name: one[name] for name in ("asked_at", "asked", "audit_key")}
        over |= {"records": 2, "collections": [{"collection": c * 32, **part} for c in "ab"]}
        return {
            "erasure": over,
            "rectification": one,
            "expiry": over,
            "drop": over,
            "hold": {**tags, "hold": "1" * 32},
            "lift": {**tags, "hold": "1" * 32},
            "block": tags,
            "unblock": tags,
            "rename": {"audit_key": ring.audit.id, "collection": "a" * 32, "old": "0" * 32, "new": "1" * 32},
        }

    def test_every_kind_is_signed_canonical_and_chained(self, ring: KeyRing):
        chain = make_chain(ring, erasures=0)
        for kind, body in self.bodies(ring).items():
            made = Receipt.issue(ring, kind, len(chain), chain[-1].hash(), SOFTWARE, body)
            assert Receipt.from_json(made.to_json()) == made
            assert lethevec.verify(made, key=ring.public)
            assert made.erases == bool(made.parts())
            chain.append(made)
        assert lethevec.verify_chain(chain, key=ring.public)
        assert [part.collection for part in chain[1].parts()] == ["a" * 32, "b" * 32]
        assert {receipt.kind for receipt in chain} | {"rotation"} == set(lethevec._forgetting.entries.KINDS)

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda body: body | {"records": 3},
            lambda body: body | {"collections": list(reversed(body["collections"]))},
            lambda body: body | {"collections": [*body["collections"], body["collections"][0]]},
            lambda body: body | {"collections": {}},
            lambda body: body | {"collections": [[]]},
            lambda body: body | {"erased": []},
        ],
    )
    def test_an_erasure_over_collections_that_does_not_add_up(self, ring: KeyRing, spoil):
        with pytest.raises(ReceiptError):
            Receipt.issue(ring, "erasure", 1, "0" * 64, SOFTWARE, spoil(self.bodies(ring)["erasure"]))
