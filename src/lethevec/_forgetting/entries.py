"""The kinds of entries of a chain of receipts, and the exact shape of each. The one place where a kind is added.

| kind | what it says | made by |
|---|---|---|
| `genesis` | the chain begins, and this is its first public key | a new store or folder |
| `rotation` | a new key is in force; signed with the old one | `rotate_keys` |
| `erasure` | records are erased | `forget`, and a restore that erases again |
| `rectification` | what an update replaced is erased | `update` and `upsert` with `erase_old` |
| `expiry` | records whose time had come are erased | `expire` |
| `drop` | a whole collection is erased | `drop` |
| `hold`, `lift` | a subject's records must be kept; no longer | `hold`, `lift` |
| `block`, `unblock` | nothing may be written for a subject; it may again | `block`, `unblock` |
| `rename` | a collection has another name | `rename` |

An erasure may repeat what its caller said of copies outside the store, in `asked.elsewhere` (see `elsewhere`).

The four kinds of erasures have one body. It says what was erased from one store, or, in the chain of a folder, has
the same for each of its `collections`. An erasure that also blocks its subject says so in `asked`.

No entry holds an id, a subject, a name of a collection, a reason, or anything else that a person wrote: there are
tags of them (see `keys`), random ids of collections and holds, numbers and times.

A value that is not of its shape (see `shapes`) is a `ReceiptError`, whatever it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ReceiptError
from .shapes import (
    Shape,
    count,
    counts,
    elsewhere,
    exactly,
    hash_of_entry,
    identity,
    in_base64,
    key_name,
    list_of,
    maybe,
    object_of,
    refuse,
    tag,
    tags,
    text,
    time,
)

__all__ = ["ERASURES", "FORMAT", "KINDS", "check_entry"]

FORMAT = "lethevec-receipt/1"
ERASURES = ("erasure", "rectification", "expiry", "drop")

_COMMON: dict[str, Shape] = {
    "format": exactly(FORMAT),
    "kind": text,
    "store": identity,
    "sequence": count,
    "previous": hash_of_entry,
    "issued_at": time,
    "signing_key": key_name,
    "software": object_of({"lethevec": text, "sqlite": text}),
    "signature": in_base64(64),
}
_PART: dict[str, Shape] = {
    "records": count,
    "erased": tags,
    "digest": object_of({"before": tag, "after": tag}),
    "version": count,
    "residue": object_of(
        {
            "searched": counts,
            "patterns": count,
            "plain": count,
            "found": exactly(0),
            "records": count,
            "pages": count,
            "pages_cleaned": count,
        }
    ),
}
_ASKED = object_of(
    {
        "by": exactly("ids", "subject", "where", "update", "expiry", "drop", "receipts"),
        "subject": maybe(tag),
        "missing": tags,
    },
    # `everywhere`: of all collections of a folder, not only of those that had something.
    {"where": tag, "block": exactly(True), "everywhere": exactly(True), "elsewhere": elsewhere},
)
_ERASURE: dict[str, Shape] = {"asked_at": time, "asked": _ASKED, "audit_key": key_name}
_OF_STORE: dict[str, Shape] = {**_ERASURE, **_PART}
_OF_FOLDER: dict[str, Shape] = {
    **_ERASURE,
    "records": count,
    "collections": list_of(object_of({"collection": identity, **_PART})),
}
_ABOUT_SUBJECT: dict[str, Shape] = {"audit_key": key_name, "subject": tag, "reason": tag}
_BODIES: dict[str, dict[str, Shape]] = {
    "genesis": {"public_key": in_base64(32)},
    "rotation": {"public_key": in_base64(32), "reason": text},
    **dict.fromkeys(ERASURES, _OF_STORE),
    "hold": {**_ABOUT_SUBJECT, "hold": identity},
    "lift": {**_ABOUT_SUBJECT, "hold": identity},
    "block": _ABOUT_SUBJECT,
    "unblock": _ABOUT_SUBJECT,
    "rename": {"audit_key": key_name, "collection": identity, "old": tag, "new": tag},
}
KINDS = tuple(_BODIES)


def check_entry(fields: Any) -> None:
    """Refuse what is not an entry of a kind that this version knows, down to its last value."""
    if not isinstance(fields, Mapping):
        raise ReceiptError(f"receipt: expected an object, got {type(fields).__name__}")
    given = fields.get("format")
    if given != FORMAT:
        refuse("format", f"{FORMAT!r} (a newer lethevec may read others)", given)
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _BODIES:
        refuse("kind", f"one of {', '.join(KINDS)}", kind)
    body = _OF_FOLDER if kind in ERASURES and "collections" in fields else _BODIES[str(kind)]
    object_of({**_COMMON, **body})(fields, "it")
    if "collections" in fields:
        _check_sum(fields)


def _check_sum(fields: Mapping[str, Any]) -> None:
    parts = fields["collections"]
    names = [part["collection"] for part in parts]
    if names != sorted(set(names)):
        raise ReceiptError("receipt: expected each collection once, by ascending id, got another order")
    if fields["records"] != sum(part["records"] for part in parts):
        raise ReceiptError(f"receipt: expected records to be the sum over its collections, got {fields['records']}")
