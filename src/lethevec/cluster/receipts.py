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
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from .._forgetting.keys import KeyRing, key_id, verify_signature
from .._forgetting.receipts import ERASURES, Receipt, now
from .._forgetting.records import canonical_json
from .._forgetting.shapes import (
    Shape,
    count,
    elsewhere,
    exactly,
    hash_of_entry,
    identity,
    in_base64,
    key_name,
    list_of,
    matching,
    maybe,
    object_of,
    refuse,
    tag,
    tags,
    text,
    time,
)
from .._forgetting.signed import Signed, parsed
from .._forgetting.trusted import KeyLike, read_public_key, read_signed
from .._forgetting.verify import Verification
from ..errors import LethevecError, ReceiptError

__all__ = ["FORMAT", "ClusterEntry", "ClusterReceipt", "merkle_proof", "merkle_root", "verify", "verify_part"]

FORMAT = "lethevec-cluster-receipt/1"
ENTRY_FORMAT = "lethevec-cluster-entry/1"
ENTRIES = ("hold", "lift", "block", "unblock")
ERASED, DECLARED = "erased", "declared"
_PREFIX = b"lethevec-cluster-receipt/1\n"
_PERSON = b"lethevec-cluster"


def _object(value: Any, where: str) -> None:
    if not isinstance(value, Mapping):
        refuse(where, "an object", value)


def _step(value: Any, where: str) -> None:
    """A neighbour on the way to the root, and its side."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        refuse(where, "a side and a hash", value)
    exactly("left", "right")(value[0], where)
    hash_of_entry(value[1], where)


_name = matching("[a-z0-9-]{1,40}", "a member's name")
_key = matching("(?:[0-9a-f]{64})?", "a key of 64 hexadecimal digits")
_HEAD: dict[str, Shape] = {
    "cluster": identity,
    "sequence": count,
    "previous": hash_of_entry,
    "issued_at": time,
    "audit_key": key_name,
    "signing_key": key_name,
    "public_key": in_base64(32),
    "signature": in_base64(64),
}
_ASKED = object_of(
    {
        "by": exactly("ids", "subject", "where", "update", "expiry", "drop"),
        "subject": maybe(tag),
        "collection": maybe(text),
        "ids": tags,
    },
    {"where": tag, "block": exactly(True), "elsewhere": elsewhere},
)
_MEMBER = object_of(
    {
        "member": _name,
        "shard": count,
        "state": exactly(ERASED, DECLARED),
        "at": time,
        "key": _key,
        "hashes": list_of(hash_of_entry),
        "receipts": list_of(_object),  # of what kind, `_check_member` reads
    }
)
_SIGNED: dict[str, Shape] = {
    **_HEAD,
    "format": exactly(FORMAT),
    "number": count,
    "kind": exactly(*ERASURES),
    "asked": _ASKED,
    "asked_at": time,
    "epoch": count,
    "shards": count,
    "records": count,
    "root": hash_of_entry,
}
_RECEIPT = object_of({**_SIGNED, "members": list_of(_MEMBER)})
_PART = object_of({"head": object_of(_SIGNED), "entry": _MEMBER, "proof": list_of(_step)})
_ENTRY = object_of(
    {
        **_HEAD,
        "format": exactly(ENTRY_FORMAT),
        "kind": exactly(*ENTRIES),
        "token": identity,
        "subject": tag,
        "reason": tag,
        "hold": matching("(?:[0-9a-f]{32})?", "the id of a hold"),
    }
)


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


class ClusterEntry(Signed):
    """An entry of the chain that erases nothing: a legal hold, the end of one, a block, or the end of one."""

    _person = _PERSON

    @staticmethod
    def _check(fields: Mapping[str, Any]) -> None:
        _ENTRY(fields, "it")

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


class ClusterReceipt(Signed):
    """A combined receipt: what every member of a cluster has erased."""

    _person = _PERSON

    @staticmethod
    def _check(fields: Mapping[str, Any]) -> None:
        _RECEIPT(fields, "it")
        names = [_checked_entry(entry)["member"] for entry in fields["members"]]
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
    _MEMBER(entry, "a member")
    if (entry["state"] == ERASED) != bool(entry["hashes"]) or len(entry["hashes"]) != len(entry["receipts"]):
        raise ReceiptError(
            f"receipt: expected the receipts of a member that erased, got {entry['member']!r:.60} without"
        )
    checked: dict[str, Any] = entry
    return checked


def _signed_bytes(fields: Mapping[str, Any]) -> bytes:
    """Over the root, not over the entries below it: whoever has one entry and its proof can check the signature."""
    head = {name: value for name, value in fields.items() if name not in ("signature", "members")}
    return _PREFIX + canonical_json(head).encode()


def read_cluster_receipt(given: Any) -> ClusterReceipt | ClusterEntry:
    """A combined receipt or another entry of the chain, its fields, its JSON, or a file with it."""

    def kind_of(fields: Any) -> type[ClusterReceipt] | type[ClusterEntry]:
        return ClusterEntry if isinstance(fields, Mapping) and fields.get("format") == ENTRY_FORMAT else ClusterReceipt

    if isinstance(given, ClusterReceipt | ClusterEntry):
        return given
    return read_signed(
        given, lambda fields: kind_of(fields)(fields), lambda text: kind_of(parsed(text)[1]).from_json(text)
    )


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
    _PART(part, "the part")
    head, entry = dict(part["head"]), _checked_entry(part["entry"])
    node = leaf_of(entry)
    for side, neighbour in part["proof"]:
        other = bytes.fromhex(neighbour)
        node = _hash(b"\1" + (other + node if side == "left" else node + other))
    good = node.hex() == head["root"]
    signed, signature = _signed_bytes(head), base64.b64decode(head["signature"])
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
