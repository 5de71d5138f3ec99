"""Receipts: the signed statement that an erasure is complete, each chained to the one before.

A receipt is a JSON object; `entries` has its kinds and what each of them holds. It is signed over its canonical JSON
without `signature`; `previous` is the hash of the whole receipt before it, signature included, so none can be changed,
dropped from the middle or put in later.

Written down, it has one form: see `signed`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ..errors import ReceiptError
from .entries import ERASURES, FORMAT, KINDS, check_entry
from .keys import KeyRing, key_id
from .records import canonical_json
from .signed import Signed

__all__ = ["ERASURES", "FORMAT", "GENESIS_PREVIOUS", "KINDS", "Part", "Receipt", "now"]

GENESIS_PREVIOUS = "0" * 64
_SIGNED_PREFIX = b"lethevec-receipt/1\n"  # so that a signature can never be taken for one of something else


class Part(NamedTuple):
    """What an erasure erased from one store, or from one collection of a folder."""

    collection: str | None
    records: int
    erased: list[str]
    digest: dict[str, str]
    version: int
    residue: dict[str, Any]


class Receipt(Signed):
    """One receipt, read-only. `fields` is what it says; `to_json` is how it is handed out.

    Two receipts are equal when every field is. `entries` has the kinds.
    """

    _person = b"lethevec-chain-1"

    @staticmethod
    def _check(fields: Mapping[str, Any]) -> None:
        check_entry(fields)
        named = fields["kind"] == "genesis" and key_id(base64.b64decode(fields["public_key"]))
        if named and named != fields["signing_key"]:
            raise ReceiptError("receipt: expected a genesis signed by the key that it names, got another")

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
    def public_key(self) -> bytes | None:
        """The public key that a genesis or a rotation introduces."""
        text = self._fields.get("public_key")
        return None if text is None else base64.b64decode(text)

    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return _signed_bytes(self._fields)

    def __repr__(self) -> str:
        """Kind, place and number of records."""
        return f"<Receipt {self.sequence} of store {self['store'][:8]}: {self.kind}, {self.records} records>"


def now() -> str:
    """The time as receipts write it: UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _signed_bytes(fields: Mapping[str, Any]) -> bytes:
    return _SIGNED_PREFIX + canonical_json({k: v for k, v in fields.items() if k != "signature"}).encode()
