"""Combined receipts from strangers: one text for one content, and whatever else comes is refused in words."""

from __future__ import annotations

import base64
import contextlib
import copy
import itertools
import json
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from lethevec._forgetting.keys import KeyRing
from lethevec._forgetting.receipts import GENESIS_PREVIOUS
from lethevec.cluster import ClusterEntry, ClusterReceipt, verify, verify_part
from lethevec.errors import LethevecError, ReceiptError

KEYS = KeyRing.create()
CLUSTER = "c" * 32


def member(name: str) -> dict[str, object]:
    at = "2026-01-31T12:00:00Z"
    return {"member": name, "shard": 0, "state": "declared", "at": at, "key": "", "hashes": [], "receipts": []}


@pytest.fixture(scope="module")
def receipt() -> ClusterReceipt:
    asked = {"by": "ids", "subject": None, "collection": "c" + "0" * 30, "ids": ["0" * 32]}
    body = {
        "number": 1,
        "kind": "erasure",
        "asked": asked,
        "asked_at": "2026-01-31T12:00:00Z",
        "audit_key": KEYS.audit.id,
        "epoch": 3,
        "shards": 1,
        "records": 0,
        "members": [member("s0-1"), member("s0-2")],
    }
    return ClusterReceipt.issue(KEYS, CLUSTER, 0, GENESIS_PREVIOUS, body)


@pytest.fixture(scope="module")
def entry(receipt: ClusterReceipt) -> ClusterEntry:
    tags = {name: KEYS.audit.tag(name, b"x") for name in ("subject", "reason")}
    body = {**tags, "kind": "hold", "token": "0" * 32, "audit_key": KEYS.audit.id, "hold": "1" * 32}
    return ClusterEntry.issue(KEYS, CLUSTER, 1, receipt.hash(), body)


def test_there_is_one_text(receipt, entry, tmp_path: Path):
    for one in (receipt, entry):
        text = one.to_json()
        path = tmp_path / "receipt.json"
        path.write_text(text + "\n")
        for form in (one, text, text + "\n", text + "\r\n", text.encode(), bytearray(text.encode()), path, one.fields):
            assert verify(form, key=KEYS.public), form
        assert verify(str(path), key=KEYS.public)
        padding = "".join(chr(ord(letter) + 1) if letter in "QAgw" else letter for letter in one["signature"][85:86])
        again = {**one.fields, "signature": one["signature"][:85] + padding + "=="}
        assert base64.b64decode(again["signature"]) == one.signature  # bits that decoding ignores
        others = [text + "\n\n", text + "\r\r", " " + text, text.encode("utf-16"), json.dumps(again, sort_keys=True)]
        others += [text.replace("{", '{"kind":"drop",', 1), json.dumps(one.fields), again]
        for other in others:
            with pytest.raises(ReceiptError):
                verify(other, key=KEYS.public)


WRONG = [None, True, -1, 1.5, float("nan"), 10**5000, "a\ud800", "A" * 32, "", [], ["x"], [[]], {}, {"a": 1}, object()]


def places(value: object, at: tuple[object, ...] = ()):
    """Every place inside."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inside:
        yield (*at, name)
        yield from places(one, (*at, name))


def forged(fields: dict, at: tuple, value: object) -> dict | None:
    """With another value in a place; None where it is the one that is there."""
    changed = copy.deepcopy(fields)
    place = changed
    for name in at[:-1]:
        place = place[name]
    if type(place[at[-1]]) is type(value) and place[at[-1]] == value:
        return None
    place[at[-1]] = value
    return changed


@pytest.mark.parametrize("which", ["receipt", "entry", "part"])
def test_a_value_of_another_shape_is_refused_wherever_it_is(which, receipt, entry):
    fields = {"receipt": receipt.fields, "entry": entry.fields, "part": receipt.part("s0-1")}[which]
    check = verify_part if which == "part" else verify
    assert check(fields, key=KEYS.public)
    for at, value in itertools.product(places(fields), WRONG):
        changed = forged(fields, at, value)
        if changed is not None:
            with contextlib.suppress(ReceiptError):
                assert not check(changed, key=KEYS.public), (at, value)


def test_what_is_no_receipt_is_refused(tmp_path: Path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe{}")
    deep: object = []
    for _ in range(100_000):
        deep = [deep]
    for given in (tmp_path / "nowhere", tmp_path, tmp_path / "bytes", 5, None, "", b"", "[" * 100_000, {"x": deep}):
        with pytest.raises(LethevecError):
            verify(given, key=KEYS.public)
    for part in (5, None, [], {}, {"head": {}, "entry": {}, "proof": []}):
        with pytest.raises(ReceiptError):
            verify_part(part, key=KEYS.public)
