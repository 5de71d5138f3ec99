"""Receipts: the signed statement that an erasure is complete, each chained to the one before.

A receipt is a JSON object. Its `kind` is `genesis` (the first of a store: it names the first public key), `rotation`
(a new key, signed by the old one) or `erasure`. It is signed over its canonical JSON without `signature`; `previous`
is the hash of the whole receipt before it, signature included, so none can be changed, dropped from the middle or put
in later.

What an erasure holds: how many records; tags (keyed hashes, see `keys`) of their ids and of the subject; tags of the
store's digest before and after; what was searched for residue, and that nothing was found; times and versions. No id,
no subject, no vector, no payload, nor anything computed from them without the audit key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ..errors import ReceiptError
from .keys import KeyRing, key_id
from .records import canonical_json

__all__ = ["FORMAT", "GENESIS_PREVIOUS", "KINDS", "Receipt", "now"]

FORMAT = "lethevec-receipt/1"
KINDS = ("genesis", "rotation", "erasure")
GENESIS_PREVIOUS = "0" * 64
_SIGNED_PREFIX = b"lethevec-receipt/1\n"  # so that a signature can never be taken for one of something else
_CHAIN_PERSON = b"lethevec-chain-1"

# Field, type: what every receipt has, and what each kind has besides.
_COMMON: dict[str, type] = {
    "format": str,
    "kind": str,
    "store": str,
    "sequence": int,
    "previous": str,
    "issued_at": str,
    "signing_key": str,
    "software": dict,
    "signature": str,
}
_BY_KIND: dict[str, dict[str, type]] = {
    "genesis": {"public_key": str},
    "rotation": {"public_key": str, "reason": str},
    "erasure": {
        "asked_at": str,
        "asked": dict,
        "audit_key": str,
        "records": int,
        "erased": list,
        "digest": dict,
        "version": int,
        "residue": dict,
    },
}


class Receipt:
    """One receipt, read-only. `fields` is what it says; `to_json` is how it is handed out.

    Two receipts are equal when every field is.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        """Check the form (not the signature: that is `verify`'s)."""
        self._fields = _checked(fields)

    @classmethod
    def issue(
        cls,
        keys: KeyRing,
        kind: str,
        sequence: int,
        previous: str,
        software: Mapping[str, str],
        body: Mapping[str, Any],
    ) -> Receipt:
        """Sign a new receipt with the key in use."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "kind": kind,
            "store": keys.store,
            "sequence": sequence,
            "previous": previous,
            "issued_at": now(),
            "signing_key": keys.signing_id,
            "software": dict(software),
            **body,
        }
        fields["signature"] = base64.b64encode(keys.sign(_signed_bytes(fields))).decode()
        return cls(fields)

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """Read a receipt that `to_json` wrote."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ReceiptError(f"receipt: expected JSON, got something else ({error})") from None
        return cls(fields)

    def to_json(self) -> str:
        """The receipt as canonical JSON, one line."""
        return canonical_json(self._fields)

    @property
    def fields(self) -> dict[str, Any]:
        """What the receipt says, as a copy."""
        copy: dict[str, Any] = json.loads(self.to_json())
        return copy

    @property
    def kind(self) -> str:
        """`genesis`, `rotation` or `erasure`."""
        return str(self._fields["kind"])

    @property
    def sequence(self) -> int:
        """The place in the chain, from 0."""
        return int(self._fields["sequence"])

    @property
    def records(self) -> int:
        """How many records were erased."""
        return int(self._fields.get("records", 0))

    @property
    def signature(self) -> bytes:
        """The Ed25519 signature, 64 bytes."""
        return base64.b64decode(self._fields["signature"])

    @property
    def public_key(self) -> bytes | None:
        """The public key that a genesis or a rotation introduces."""
        text = self._fields.get("public_key")
        return None if text is None else base64.b64decode(text)

    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return _signed_bytes(self._fields)

    def hash(self) -> str:
        """What the next receipt names as `previous`."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=32, person=_CHAIN_PERSON).hexdigest()

    def __getitem__(self, name: str) -> Any:
        """One field."""
        return self._fields[name]

    def __eq__(self, other: object) -> bool:
        """Whether every field is equal."""
        return isinstance(other, Receipt) and self._fields == other._fields

    def __hash__(self) -> int:
        """In accordance with equality."""
        return hash(self.to_json())

    def __repr__(self) -> str:
        """Kind, place and number of records."""
        return f"<Receipt {self.sequence} of store {self['store'][:8]}: {self.kind}, {self.records} records>"


def now() -> str:
    """The time as receipts write it: UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _signed_bytes(fields: Mapping[str, Any]) -> bytes:
    return _SIGNED_PREFIX + canonical_json({k: v for k, v in fields.items() if k != "signature"}).encode()


def _checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(fields, Mapping):
        raise ReceiptError(f"receipt: expected an object, got {type(fields).__name__}")
    if fields.get("format") != FORMAT:
        raise ReceiptError(
            f"receipt: expected format {FORMAT!r}, got {fields.get('format')!r}; a newer lethevec may read it"
        )
    if fields.get("kind") not in KINDS:
        raise ReceiptError(f"receipt: expected a kind of {', '.join(KINDS)}, got {fields.get('kind')!r}")
    wanted = {**_COMMON, **_BY_KIND[fields["kind"]]}
    for name, kind in wanted.items():
        value = fields.get(name)
        negative = isinstance(value, int) and (isinstance(value, bool) or value < 0)
        if not isinstance(value, kind) or negative:
            raise ReceiptError(f"receipt: expected {name} as {kind.__name__}, got {value!r:.80}")
    unknown = sorted(set(fields) - set(wanted))
    if unknown:
        raise ReceiptError(f"receipt: expected no other fields, got {', '.join(unknown)[:80]}")
    _check_bytes("signature", fields["signature"], 64)
    if "public_key" in wanted:
        public = _check_bytes("public_key", fields["public_key"], 32)
        if fields["kind"] == "genesis" and key_id(public) != fields["signing_key"]:
            raise ReceiptError("receipt: expected a genesis signed by the key that it names, got another")
    try:
        copy: dict[str, Any] = json.loads(canonical_json(dict(fields)))
    except (ValueError, TypeError, RecursionError) as error:
        raise ReceiptError(f"receipt: expected plain JSON values, got something else ({error})") from None
    return copy


def _check_bytes(name: str, text: str, size: int) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ReceiptError(f"receipt: expected {name} in base64, got something else ({error})") from None
    if len(value) != size:
        raise ReceiptError(f"receipt: expected {name} of {size} bytes, got {len(value)}")
    return value
