"""Receipts: the signed statement that an erasure is complete, each chained to the one before.

A receipt is a JSON object; `entries` has its kinds and what each of them holds. It is signed over its canonical JSON
without `signature`; `previous` is the hash of the whole receipt before it, signature included, so none can be changed,
dropped from the middle or put in later.

Written down, it has one form: `from_json` takes exactly the text that `to_json` gives, with or without a line break at
its end. Another text of the same content (spaces, another order, a key twice) is refused: two programs might read it
differently, and both would find that it verifies.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ..errors import ReceiptError
from .entries import ERASURES, FORMAT, KINDS, check_entry
from .keys import KeyRing, key_id
from .records import canonical_json

__all__ = ["ERASURES", "FORMAT", "GENESIS_PREVIOUS", "KINDS", "Part", "Receipt", "now"]

GENESIS_PREVIOUS = "0" * 64
_SIGNED_PREFIX = b"lethevec-receipt/1\n"  # so that a signature can never be taken for one of something else
_CHAIN_PERSON = b"lethevec-chain-1"


class Part(NamedTuple):
    """What an erasure erased from one store, or from one collection of a folder."""

    collection: str | None
    records: int
    erased: list[str]
    digest: dict[str, str]
    version: int
    residue: dict[str, Any]


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
        if isinstance(text, bytes | bytearray):
            try:
                text = bytes(text).decode()
            except UnicodeDecodeError:
                raise ReceiptError("receipt: expected JSON in UTF-8, got other bytes") from None
        if not isinstance(text, str):
            raise ReceiptError(f"receipt: expected JSON as a text, got {type(text).__name__}")
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ReceiptError(f"receipt: expected JSON, got something else ({error})") from None
        receipt = cls(fields)
        if receipt.to_json() != text.removesuffix("\n").removesuffix("\r"):
            raise ReceiptError(
                "receipt: expected the exact text that was issued (canonical JSON), got another text of the same "
                "content: with a key twice, in another order, or with spaces"
            )
        return receipt

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
        """What it is about: see `entries`."""
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
    def erases(self) -> bool:
        """Whether it says that something was erased."""
        return self.kind in ERASURES

    @property
    def elsewhere(self) -> dict[str, int | None]:
        """What the caller of the erasure said of copies outside the store: entries erased in each place, or None."""
        stated = self._fields.get("asked", {}).get("elsewhere", [])
        return {one["place"]: one["erased"] for one in stated}

    def parts(self) -> list[Part]:
        """What was erased: one part for a store, one for each collection of a folder, none for other kinds."""
        if not self.erases:
            return []
        given = self._fields.get("collections", [self._fields])
        return [Part(part.get("collection"), *(part[name] for name in Part._fields[1:])) for part in given]

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
    check_entry(fields)
    try:
        text = canonical_json(dict(fields))
        text.encode()
        copy: dict[str, Any] = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ReceiptError(f"receipt: expected plain JSON values, got something else ({error})") from None
    if copy["kind"] == "genesis" and key_id(base64.b64decode(copy["public_key"])) != copy["signing_key"]:
        raise ReceiptError("receipt: expected a genesis signed by the key that it names, got another")
    return copy
