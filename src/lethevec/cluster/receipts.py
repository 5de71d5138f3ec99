"""The combined receipt: that an erasure is complete in every member of a cluster, signed last.

Each member erases and signs a receipt of its own, as any store does. The combined receipt names every member of the
epoch, with the hashes of its receipts or the word "declared" where an operator has said that it is lost for good. A
Merkle root over these entries is what the registry signs; the members' receipts travel along, so one call checks
everything offline, and `part` gives a single member's entry with a proof that it belongs to the root.

    leaf = BLAKE2b-256(0 || canonical JSON of the member's entry)
    node = BLAKE2b-256(1 || left || right); the last of an odd number goes up as it is

Receipts form a chain, as those of a store do: `previous` is the hash of the one before.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .._forgetting.keys import KeyRing, key_id, verify_signature
from .._forgetting.receipts import Receipt, now
from .._forgetting.records import canonical_json
from .._forgetting.trusted import KeyLike, read_public_key
from .._forgetting.verify import Verification
from ..errors import LethevecError, ReceiptError

__all__ = ["FORMAT", "ClusterEntry", "ClusterReceipt", "merkle_proof", "merkle_root", "verify", "verify_part"]

FORMAT = "lethevec-cluster-receipt/1"
ENTRY_FORMAT = "lethevec-cluster-entry/1"
ENTRIES = ("hold", "lift", "block", "unblock")
ERASED, DECLARED = "erased", "declared"
_PREFIX = b"lethevec-cluster-receipt/1\n"
_PERSON = b"lethevec-cluster"
_FIELDS = {
    "format": str,
    "cluster": str,
    "number": int,
    "sequence": int,
    "previous": str,
    "kind": str,
    "asked": dict,
    "asked_at": str,
    "issued_at": str,
    "audit_key": str,
    "epoch": int,
    "shards": int,
    "records": int,
    "members": list,
    "root": str,
    "signing_key": str,
    "public_key": str,
    "signature": str,
}
_ENTRY_FIELDS = {
    "format": str,
    "cluster": str,
    "sequence": int,
    "previous": str,
    "kind": str,
    "token": str,
    "audit_key": str,
    "subject": str,
    "reason": str,
    "hold": str,
    "issued_at": str,
    "signing_key": str,
    "public_key": str,
    "signature": str,
}


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The root over leaves, in their order.

    >>> merkle_root([b"a"]) == merkle_root([b"b"])
    False
    """
    level = list(leaves) or [_hash(b"\2")]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [_hash(b"\1" + pair[0] + pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


def merkle_proof(leaves: Sequence[bytes], place: int) -> list[tuple[str, bytes]]:
    """The neighbours on the way from a leaf to the root, each with its side."""
    level, proof = list(leaves), []
    while len(level) > 1:
        neighbour = place ^ 1
        if neighbour < len(level):
            proof.append(("left" if neighbour < place else "right", level[neighbour]))
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [_hash(b"\1" + pair[0] + pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
        place //= 2
    return proof


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=32, person=_PERSON).digest()


def leaf_of(entry: Mapping[str, Any]) -> bytes:
    """The leaf of a member's entry, which does not hold the receipts themselves but their hashes."""
    return _hash(b"\0" + canonical_json({name: value for name, value in entry.items() if name != "receipts"}).encode())


_S = TypeVar("_S", bound="_Signed")


class _Signed:
    """A signed entry of the chain, read-only. `fields` is what it says; `to_json` is how it is handed out."""

    _fields: dict[str, Any]

    def __init__(self, fields: Mapping[str, Any]) -> None:
        """Check the form."""
        raise NotImplementedError

    @classmethod
    def from_json(cls: type[_S], text: str | bytes) -> _S:
        """Read what `to_json` wrote, exactly."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError, TypeError) as error:
            raise ReceiptError(f"receipt: expected JSON, got something else ({error})") from None
        made = cls(fields)
        given = bytes(text).decode() if isinstance(text, bytes | bytearray) else text
        if made.to_json() != given.rstrip("\r\n"):
            raise ReceiptError("receipt: expected the exact text that was issued, got another text of the same content")
        return made

    def to_json(self) -> str:
        """As canonical JSON, one line."""
        return canonical_json(self._fields)

    @property
    def fields(self) -> dict[str, Any]:
        """What it says, as a copy."""
        copy: dict[str, Any] = json.loads(self.to_json())
        return copy

    @property
    def sequence(self) -> int:
        """The place in the chain, from 0."""
        return int(self._fields["sequence"])

    @property
    def kind(self) -> str:
        """What was done."""
        return str(self._fields["kind"])

    @property
    def signature(self) -> bytes:
        """The Ed25519 signature."""
        return _decoded(self._fields["signature"], 64)

    def hash(self) -> str:
        """What the next one names as `previous`."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=32, person=_PERSON).hexdigest()

    def __getitem__(self, name: str) -> Any:
        """One field."""
        return self._fields[name]

    def __eq__(self, other: object) -> bool:
        """Whether every field is equal."""
        return isinstance(other, _Signed) and self._fields == other._fields

    def __hash__(self) -> int:
        """In accordance with equality."""
        return hash(self.to_json())


class ClusterEntry(_Signed):
    """An entry of the chain that erases nothing: a legal hold, the end of one, a block, or the end of one."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        """Check the form (not the signature: that is `verify`'s)."""
        self._fields = _checked_form(fields, ENTRY_FORMAT, _ENTRY_FIELDS)
        if self._fields["kind"] not in ENTRIES:
            raise ReceiptError(f"entry: expected one of {', '.join(ENTRIES)}, got {self._fields['kind']!r:.60}")

    @classmethod
    def issue(cls, keys: KeyRing, cluster: str, sequence: int, previous: str, body: Mapping[str, Any]) -> ClusterEntry:
        """Sign a new one with the key in use."""
        fields = {**_head(keys, ENTRY_FORMAT, cluster, sequence, previous), **body}
        fields["signature"] = base64.b64encode(keys.sign(_signed_bytes(fields))).decode()
        return cls(fields)

    @property
    def erases(self) -> bool:
        """Never."""
        return False

    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return _signed_bytes(self._fields)

    def __repr__(self) -> str:
        """Which, and what kind."""
        return f"<ClusterEntry {self.sequence}: {self.kind}>"


def _head(keys: KeyRing, form: str, cluster: str, sequence: int, previous: str) -> dict[str, Any]:
    """What every entry of the chain says."""
    return {
        "format": form,
        "cluster": cluster,
        "sequence": sequence,
        "previous": previous,
        "issued_at": now(),
        "signing_key": keys.signing_id,
        "public_key": base64.b64encode(keys.public).decode(),
    }


def _checked_form(fields: Any, form: str, wanted: Mapping[str, type]) -> dict[str, Any]:
    """The fields of an entry, each of its kind, and no others."""
    if not isinstance(fields, Mapping) or fields.get("format") != form:
        raise ReceiptError(f"receipt: expected the format {form!r}, got something else")
    for name, kind in wanted.items():
        if not isinstance(fields.get(name), kind) or isinstance(fields.get(name), bool):
            raise ReceiptError(f"receipt: expected {name} as {kind.__name__}, got {fields.get(name)!r:.60}")
    unknown = sorted(set(fields) - set(wanted))
    if unknown:
        raise ReceiptError(f"receipt: expected no other fields, got {', '.join(map(str, unknown))[:80]!r}")
    try:
        plain: dict[str, Any] = json.loads(canonical_json(dict(fields)))
    except (ValueError, TypeError, RecursionError) as error:
        raise ReceiptError(f"receipt: expected plain JSON values, got something else ({error})") from None
    return plain


class ClusterReceipt(_Signed):
    """A combined receipt: what every member of a cluster has erased."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        """Check the form (not the signature: that is `verify`'s)."""
        self._fields = _checked_form(fields, FORMAT, _FIELDS)
        names = [_checked_entry(entry)["member"] for entry in self._fields["members"]]
        if names != sorted(set(names)) or not names:
            raise ReceiptError("receipt: expected each member once, by name, got another order")

    @classmethod
    def issue(
        cls, keys: KeyRing, cluster: str, sequence: int, previous: str, body: Mapping[str, Any]
    ) -> ClusterReceipt:
        """Sign a new one with the key in use."""
        fields: dict[str, Any] = {
            **_head(keys, FORMAT, cluster, sequence, previous),
            **body,
            "root": merkle_root([leaf_of(entry) for entry in body["members"]]).hex(),
        }
        fields["signature"] = base64.b64encode(keys.sign(_signed_bytes(fields))).decode()
        return cls(fields)

    @property
    def number(self) -> int:
        """The number of the erasure."""
        return int(self._fields["number"])

    @property
    def erases(self) -> bool:
        """Always: a combined receipt is about an erasure."""
        return True

    @property
    def records(self) -> int:
        """How many records were erased, copies not counted."""
        return int(self._fields["records"])

    @property
    def members(self) -> dict[str, str]:
        """Every member with "erased" or "declared"."""
        return {entry["member"]: entry["state"] for entry in self._fields["members"]}

    def receipts_of(self, member: str) -> list[Receipt]:
        """The receipts that a member signed itself."""
        for entry in self._fields["members"]:
            if entry["member"] == member:
                return [Receipt(fields) for fields in entry["receipts"]]
        raise ReceiptError(f"member: expected one of {', '.join(self.members)}, got {member!r:.80}")

    def part(self, member: str) -> dict[str, Any]:
        """One member's entry with the proof that it is below the root: for somebody who is to see no more."""
        entries = self._fields["members"]
        place = list(self.members).index(member) if member in self.members else -1
        if place < 0:
            raise ReceiptError(f"member: expected one of {', '.join(self.members)}, got {member!r:.80}")
        proof = merkle_proof([leaf_of(entry) for entry in entries], place)
        head = {name: value for name, value in self.fields.items() if name != "members"}
        return {"head": head, "entry": self.fields["members"][place], "proof": [[s, h.hex()] for s, h in proof]}

    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return _signed_bytes(self._fields)

    def __repr__(self) -> str:
        """Which, and of how many."""
        return f"<ClusterReceipt {self.number}: {self.kind}, {self.records} records, {len(self.members)} members>"


def _checked_entry(entry: Any) -> dict[str, Any]:
    wanted = {"member", "shard", "state", "at", "key", "hashes", "receipts"}
    if not isinstance(entry, dict) or set(entry) != wanted:
        raise ReceiptError(f"receipt: expected members with {', '.join(sorted(wanted))}, got something else")
    texts = all(isinstance(entry[name], str) for name in ("member", "state", "at", "key"))
    lists = all(isinstance(entry[name], list) for name in ("hashes", "receipts"))
    if not texts or not lists or not isinstance(entry["shard"], int) or entry["state"] not in (ERASED, DECLARED):
        raise ReceiptError("receipt: expected a member's name, shard, state, key and receipts, got something else")
    if (entry["state"] == ERASED) != bool(entry["hashes"]) or len(entry["hashes"]) != len(entry["receipts"]):
        raise ReceiptError(
            f"receipt: expected the receipts of a member that erased, got {entry['member']!r:.60} without"
        )
    return entry


def _signed_bytes(fields: Mapping[str, Any]) -> bytes:
    """Over the root, not over the entries below it: whoever has one entry and its proof can check the signature."""
    head = {name: value for name, value in fields.items() if name not in ("signature", "members")}
    return _PREFIX + canonical_json(head).encode()


def _decoded(text: Any, size: int) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        value = b""
    if len(value) != size:
        raise ReceiptError(f"receipt: expected {size} bytes in base64, got something else")
    return value


def read_cluster_receipt(given: Any) -> ClusterReceipt | ClusterEntry:
    """A combined receipt or another entry of the chain, its fields, its JSON, or a file with it."""
    if isinstance(given, ClusterReceipt | ClusterEntry):
        return given
    if isinstance(given, Mapping):
        return (ClusterEntry if given.get("format") == ENTRY_FORMAT else ClusterReceipt)(given)
    if isinstance(given, Path):
        given = given.read_text(encoding="utf-8")
    if isinstance(given, str | bytes):
        try:
            fields = json.loads(given)
        except (ValueError, RecursionError):
            fields = None
        kind = isinstance(fields, dict) and fields.get("format") == ENTRY_FORMAT
        return ClusterEntry.from_json(given) if kind else ClusterReceipt.from_json(given)
    raise ReceiptError(f"receipt: expected a combined receipt, its JSON or a file with it, got {type(given).__name__}")


def verify(receipt: Any, *, key: KeyLike) -> Verification:
    """Check a combined receipt, or another entry of the chain, with nothing but the cluster's public key.

    The signature; that its members' entries are below the signed root; and of each member that erased, the signature
    of its own receipts, by the key that its entry names.
    """
    given = read_cluster_receipt(receipt)
    public = read_public_key(key)
    report = Verification()
    _check_signature(report, given.fields, given.signature, given.signed_bytes(), public)
    if isinstance(given, ClusterEntry):
        if report:
            report.proves.append(f"whoever holds the cluster's key signed this {given.kind}")
        return report
    entries = given["members"]
    root = merkle_root([leaf_of(entry) for entry in entries]).hex()
    below = f"{len(entries)} members are below the signed root"
    report.add(
        "root", root == given["root"], below if root == given["root"] else "the members are not those of the root"
    )
    for entry in entries:
        _check_member(report, entry)
    if report:
        erased = [name for name, state in given.members.items() if state == ERASED]
        declared = [name for name, state in given.members.items() if state == DECLARED]
        report.proves.append(
            f"{len(erased)} members of the cluster each signed that they erased what erasure {given.number} asked for, "
            "and whoever holds the cluster's key signed that these are all members of its epoch"
        )
        if declared:
            report.proves.append(
                f"an operator declared {', '.join(declared)} lost for good: no erasure is claimed there"
            )
        report.leaves_open.append("the members' statements are true: that takes the cluster (`verify` on it)")
    return report


def verify_part(part: Mapping[str, Any], *, key: KeyLike) -> Verification:
    """Check what `ClusterReceipt.part` gave: one member's entry, its way to the root, and the signature of the root."""
    report = Verification()
    try:
        head, entry = dict(part["head"]), _checked_entry(part["entry"])
        node = leaf_of(entry)
        for side, text in part["proof"]:
            other = bytes.fromhex(text)
            node = _hash(b"\1" + (other + node if side == "left" else node + other))
        good = node.hex() == head["root"]
        signed, signature = _signed_bytes(head), _decoded(head["signature"], 64)
    except (KeyError, TypeError, ValueError) as error:
        raise ReceiptError(f"part: expected a head, an entry and a proof, got something else ({error})") from None
    _check_signature(report, head, signature, signed, read_public_key(key))
    report.add("root", good, "the entry is below the signed root" if good else "the proof does not lead to the root")
    _check_member(report, entry)
    return report


def _check_signature(
    report: Verification, fields: Mapping[str, Any], signature: bytes, signed: bytes, public: bytes
) -> None:
    if fields.get("signing_key") != key_id(public):
        detail = f"signed by key {str(fields.get('signing_key'))[:16]}, and the key to trust is {key_id(public)}"
        report.add("signature", False, detail)
        return
    good = verify_signature(public, signature, signed)
    report.add("signature", good, f"by key {key_id(public)}" if good else "it is not that of this content")


def _check_member(report: Verification, entry: Mapping[str, Any]) -> None:
    name = f"member {entry['member']}"
    if entry["state"] == DECLARED:
        report.add(name, None, f"declared lost at {entry['at']}: nobody claims that it erased")
        return
    try:
        public = bytes.fromhex(entry["key"])
        receipts = [Receipt(fields) for fields in entry["receipts"]]
    except (ReceiptError, ValueError, LethevecError) as error:
        report.add(name, False, f"its receipts cannot be read: {error}")
        return
    for receipt, expected in zip(receipts, entry["hashes"], strict=True):
        if receipt.hash() != expected:
            report.add(name, False, f"receipt {receipt.sequence} is not the one that the entry names")
        elif not receipt.erases:
            report.add(name, False, f"receipt {receipt.sequence} is about no erasure")
        elif len(public) != 32 or not verify_signature(public, receipt.signature, receipt.signed_bytes()):
            report.add(name, False, f"receipt {receipt.sequence} is not signed by the member's key")
        else:
            report.add(
                name, True, f"receipt {receipt.sequence}: {receipt.records} records erased, signed by its own key"
            )
