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

A value that is not of its shape is a `ReceiptError`, whatever it is. Shapes have no floats and no free texts, so every
entry has exactly one canonical form.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from ..errors import ReceiptError
from .elsewhere import MOST_PLACES, PLACE

__all__ = ["ERASURES", "FORMAT", "KINDS", "check_entry"]

FORMAT = "lethevec-receipt/1"
ERASURES = ("erasure", "rectification", "expiry", "drop")

_Shape = Callable[[Any, str], None]
_MAX_TEXT = 1000
_MAX_COUNT = 1 << 62


def _refuse(where: str, expected: str, value: Any) -> None:
    try:
        got = f"{value!r:.80}"
    except (ValueError, RecursionError):  # an integer of thousands of digits, or lists without end
        got = type(value).__name__
    raise ReceiptError(f"receipt: expected {where} as {expected}, got {got}")


def _matching(pattern: str, expected: str) -> _Shape:
    compiled = re.compile(pattern)

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or compiled.fullmatch(value) is None:
            _refuse(where, expected, value)

    return check


def _text(value: Any, where: str) -> None:
    good = isinstance(value, str) and len(value) <= _MAX_TEXT
    if not good or any("\ud800" <= letter <= "\udfff" for letter in value):
        _refuse(where, f"a text of at most {_MAX_TEXT} characters", value)


def _count(value: Any, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MAX_COUNT:
        _refuse(where, "a whole number", value)


def _time(value: Any, where: str) -> None:
    good = isinstance(value, str) and re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}T([0-9]{2}:){2}[0-9]{2}Z", value) is not None
    try:
        good = good and bool(datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        good = False
    if not good:
        _refuse(where, "a time like 2026-01-31T12:00:00Z", value)


def _bytes(size: int) -> _Shape:
    def check(value: Any, where: str) -> None:
        try:
            decoded = base64.b64decode(value, validate=True) if isinstance(value, str) else None
        except (binascii.Error, ValueError):
            decoded = None
        # The last letter has bits that decoding ignores: without the second test two texts would be one value.
        if decoded is None or base64.b64encode(decoded).decode() != value or len(decoded) != size:
            _refuse(where, f"{size} bytes in base64", value)

    return check


def _exactly(*allowed: Any) -> _Shape:
    def check(value: Any, where: str) -> None:
        if not any(type(value) is type(one) and value == one for one in allowed):
            _refuse(where, " or ".join(map(repr, allowed)), value)

    return check


def _maybe(shape: _Shape) -> _Shape:
    def check(value: Any, where: str) -> None:
        if value is not None:
            shape(value, where)

    return check


def _tags(value: Any, where: str) -> None:
    """A list of tags, sorted."""
    if not isinstance(value, list):
        _refuse(where, "a list of tags", value)
    for tag in value:
        _tag(tag, where)
    if any(later < earlier for earlier, later in pairwise(value)):
        _refuse(where, "a sorted list of tags", value)


def _list_of(shape: _Shape) -> _Shape:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, list):
            _refuse(where, "a list", value)
        for place, one in enumerate(value):
            shape(one, f"{where}[{place}]")

    return check


def _counts(value: Any, where: str) -> None:
    """Names of files with sizes."""
    if not isinstance(value, Mapping):
        _refuse(where, "an object of whole numbers", value)
    for name, count in value.items():
        _text(name, f"the names in {where}")
        _count(count, f"the values in {where}")


def _object(wanted: Mapping[str, _Shape], optional: Mapping[str, _Shape] | None = None) -> _Shape:
    more = optional or {}

    def check(value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            _refuse(where, "an object", value)
        for name, shape in wanted.items():
            if name not in value:
                raise ReceiptError(f"receipt: expected {where} to have {name}, got none")
            shape(value[name], name if where == "it" else f"{where}.{name}")
        for name, shape in more.items():
            if name in value:
                shape(value[name], name if where == "it" else f"{where}.{name}")
        unknown = sorted(str(name) for name in value if name not in wanted and name not in more)
        if unknown:
            inside = "" if where == "it" else f" in {where}"
            raise ReceiptError(f"receipt: expected no other fields{inside}, got {', '.join(unknown)[:80]!r}")

    return check


def _elsewhere(value: Any, where: str) -> None:
    """Places outside the store, each once and by name; see `elsewhere`."""
    _list_of(_object({"place": _place, "erased": _maybe(_count)}))(value, where)
    places = [one["place"] for one in value]
    if not 0 < len(places) <= MOST_PLACES or places != sorted(set(places)):
        _refuse(where, f"1 to {MOST_PLACES} places, each once, sorted", places)


_place = _matching(PLACE.pattern, "a name of small letters, digits and hyphens")
_tag = _matching("[0-9a-f]{32}", "a tag of 32 hexadecimal digits")
_identity = _matching("[0-9a-f]{32}", "an id of 32 hexadecimal digits")
_key_id = _matching("[0-9a-f]{16}", "a key's id of 16 hexadecimal digits")
_hash = _matching("[0-9a-f]{64}", "a hash of 64 hexadecimal digits")

_COMMON: dict[str, _Shape] = {
    "format": _exactly(FORMAT),
    "kind": _text,
    "store": _identity,
    "sequence": _count,
    "previous": _hash,
    "issued_at": _time,
    "signing_key": _key_id,
    "software": _object({"lethevec": _text, "sqlite": _text}),
    "signature": _bytes(64),
}
_PART: dict[str, _Shape] = {
    "records": _count,
    "erased": _tags,
    "digest": _object({"before": _tag, "after": _tag}),
    "version": _count,
    "residue": _object(
        {
            "searched": _counts,
            "patterns": _count,
            "plain": _count,
            "found": _exactly(0),
            "records": _count,
            "pages": _count,
            "pages_cleaned": _count,
        }
    ),
}
_ASKED = _object(
    {
        "by": _exactly("ids", "subject", "where", "update", "expiry", "drop", "receipts"),
        "subject": _maybe(_tag),
        "missing": _tags,
    },
    # `everywhere`: of all collections of a folder, not only of those that had something.
    {"where": _tag, "block": _exactly(True), "everywhere": _exactly(True), "elsewhere": _elsewhere},
)
_ERASURE: dict[str, _Shape] = {"asked_at": _time, "asked": _ASKED, "audit_key": _key_id}
_OF_STORE: dict[str, _Shape] = {**_ERASURE, **_PART}
_OF_FOLDER: dict[str, _Shape] = {
    **_ERASURE,
    "records": _count,
    "collections": _list_of(_object({"collection": _identity, **_PART})),
}
_ABOUT_SUBJECT: dict[str, _Shape] = {"audit_key": _key_id, "subject": _tag, "reason": _tag}
_BODIES: dict[str, dict[str, _Shape]] = {
    "genesis": {"public_key": _bytes(32)},
    "rotation": {"public_key": _bytes(32), "reason": _text},
    **dict.fromkeys(ERASURES, _OF_STORE),
    "hold": {**_ABOUT_SUBJECT, "hold": _identity},
    "lift": {**_ABOUT_SUBJECT, "hold": _identity},
    "block": _ABOUT_SUBJECT,
    "unblock": _ABOUT_SUBJECT,
    "rename": {"audit_key": _key_id, "collection": _identity, "old": _tag, "new": _tag},
}
KINDS = tuple(_BODIES)


def check_entry(fields: Any) -> None:
    """Refuse what is not an entry of a kind that this version knows, down to its last value."""
    if not isinstance(fields, Mapping):
        raise ReceiptError(f"receipt: expected an object, got {type(fields).__name__}")
    given = fields.get("format")
    if given != FORMAT:
        _refuse("format", f"{FORMAT!r} (a newer lethevec may read others)", given)
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _BODIES:
        _refuse("kind", f"one of {', '.join(KINDS)}", kind)
    body = _OF_FOLDER if kind in ERASURES and "collections" in fields else _BODIES[str(kind)]
    _object({**_COMMON, **body})(fields, "it")
    if "collections" in fields:
        _check_sum(fields)


def _check_sum(fields: Mapping[str, Any]) -> None:
    parts = fields["collections"]
    names = [part["collection"] for part in parts]
    if names != sorted(set(names)):
        raise ReceiptError("receipt: expected each collection once, by ascending id, got another order")
    if fields["records"] != sum(part["records"] for part in parts):
        raise ReceiptError(f"receipt: expected records to be the sum over its collections, got {fields['records']}")
