"""The shapes that entries of a chain are made of: each is a check that refuses, in words, what is not of it.

A shape is called with a value and the name of its place. There are none for floats and free texts, so what is made of
these shapes has exactly one canonical form.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any, NoReturn, TypeAlias

from ..errors import ReceiptError
from .elsewhere import MOST_PLACES, PLACE

__all__ = [
    "Shape",
    "count",
    "counts",
    "elsewhere",
    "exactly",
    "hash_of_entry",
    "identity",
    "in_base64",
    "key_name",
    "list_of",
    "matching",
    "maybe",
    "object_of",
    "refuse",
    "tag",
    "tags",
    "text",
    "time",
]

Shape: TypeAlias = Callable[[Any, str], None]
_MAX_TEXT = 1000
_MAX_COUNT = 1 << 62


def refuse(where: str, expected: str, value: Any) -> NoReturn:
    """Refuse a value, and say what was expected."""
    try:
        got = f"{value!r:.80}"
    except (ValueError, RecursionError):  # an integer of thousands of digits, or lists without end
        got = type(value).__name__
    raise ReceiptError(f"receipt: expected {where} as {expected}, got {got}")


def matching(pattern: str, expected: str) -> Shape:
    """Texts of a form."""
    compiled = re.compile(pattern)

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or compiled.fullmatch(value) is None:
            refuse(where, expected, value)

    return check


def text(value: Any, where: str) -> None:
    """A short text that can be written down."""
    good = isinstance(value, str) and len(value) <= _MAX_TEXT
    if not good or any("\ud800" <= letter <= "\udfff" for letter in value):
        refuse(where, f"a text of at most {_MAX_TEXT} characters", value)


def count(value: Any, where: str) -> None:
    """A whole number from 0 on."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MAX_COUNT:
        refuse(where, "a whole number", value)


def time(value: Any, where: str) -> None:
    """A time in UTC, to the second."""
    good = isinstance(value, str) and re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}T([0-9]{2}:){2}[0-9]{2}Z", value) is not None
    try:
        good = good and bool(datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        good = False
    if not good:
        refuse(where, "a time like 2026-01-31T12:00:00Z", value)


def in_base64(size: int) -> Shape:
    """So many bytes, in base64."""

    def check(value: Any, where: str) -> None:
        try:
            decoded = base64.b64decode(value, validate=True) if isinstance(value, str) else None
        except (binascii.Error, ValueError):
            decoded = None
        # The last letter has bits that decoding ignores: without the second test two texts would be one value.
        if decoded is None or base64.b64encode(decoded).decode() != value or len(decoded) != size:
            refuse(where, f"{size} bytes in base64", value)

    return check


def exactly(*allowed: Any) -> Shape:
    """One of these values."""

    def check(value: Any, where: str) -> None:
        if not any(type(value) is type(one) and value == one for one in allowed):
            refuse(where, " or ".join(map(repr, allowed)), value)

    return check


def maybe(shape: Shape) -> Shape:
    """That shape, or nothing."""

    def check(value: Any, where: str) -> None:
        if value is not None:
            shape(value, where)

    return check


def tags(value: Any, where: str) -> None:
    """A list of tags, sorted."""
    if not isinstance(value, list):
        refuse(where, "a list of tags", value)
    for one in value:
        tag(one, where)
    if any(later < earlier for earlier, later in pairwise(value)):
        refuse(where, "a sorted list of tags", value)


def list_of(shape: Shape) -> Shape:
    """A list of values of a shape."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list):
            refuse(where, "a list", value)
        for place, one in enumerate(value):
            shape(one, f"{where}[{place}]")

    return check


def counts(value: Any, where: str) -> None:
    """Names of files with sizes."""
    if not isinstance(value, Mapping):
        refuse(where, "an object of whole numbers", value)
    for name, number in value.items():
        text(name, f"the names in {where}")
        count(number, f"the values in {where}")


def object_of(wanted: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """An object with these fields, and perhaps with some of those; no others."""
    more = optional or {}

    def check(value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            refuse(where, "an object", value)
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


tag = matching("[0-9a-f]{32}", "a tag of 32 hexadecimal digits")
identity = matching("[0-9a-f]{32}", "an id of 32 hexadecimal digits")
key_name = matching("[0-9a-f]{16}", "a key's id of 16 hexadecimal digits")
hash_of_entry = matching("[0-9a-f]{64}", "a hash of 64 hexadecimal digits")
_place = matching(PLACE.pattern, "a name of small letters, digits and hyphens")


def elsewhere(value: Any, where: str) -> None:
    """Places outside the store, each once and by name; see the module `elsewhere`."""
    list_of(object_of({"place": _place, "erased": maybe(count)}))(value, where)
    places = [one["place"] for one in value]
    if not 0 < len(places) <= MOST_PLACES or places != sorted(set(places)):
        refuse(where, f"1 to {MOST_PLACES} places, each once, sorted", places)
