"""Chroma's `where` and `where_document` in our language of filters, and metadata as payloads.

A dot in a name of ours leads into an object, and a dollar sign begins an operator; so these, and the sign that marks
them, are written as in URLs: `a.b` becomes `a%2Eb`.
"""

from __future__ import annotations

from typing import Any

from ..problems import Problem

__all__ = ["DOCUMENT", "URI", "escape", "join", "metadata_of", "payload_of", "to_where", "unescape"]

DOCUMENT = "chroma:document"
URI = "chroma:uri"
_EMPTY = "%00"  # the name that has no characters
_COMPARE = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin")
_MAX_DEPTH = 16


def escape(name: str) -> str:
    """A name of a metadata field as ours.

    >>> escape("a.b"), unescape(escape("$50% off.")), escape("")
    ('a%2Eb', '$50% off.', '%00')
    """
    if not name:
        return _EMPTY
    return name.replace("%", "%25").replace(".", "%2E").replace("$", "%24")


def unescape(name: str) -> str:
    """Back again."""
    if name == _EMPTY:
        return ""
    return name.replace("%24", "$").replace("%2E", ".").replace("%25", "%")


def payload_of(metadata: dict[str, Any] | None, document: str | None, uri: str | None) -> dict[str, Any] | None:
    """What a record of Chroma holds beside its vector."""
    payload = {escape(name): value for name, value in (metadata or {}).items() if value is not None}
    if document is not None:
        payload[DOCUMENT] = document
    if uri is not None:
        payload[URI] = uri
    return payload or None


def metadata_of(payload: dict[str, Any] | None) -> dict[str, Any] | None:
    """The metadata in a payload."""
    found = {unescape(name): value for name, value in (payload or {}).items() if name not in (DOCUMENT, URI)}
    return found or None


def join(*conditions: dict[str, Any] | None) -> dict[str, Any] | None:
    """All of these that are there."""
    there = [condition for condition in conditions if condition]
    if not there:
        return None
    return there[0] if len(there) == 1 else {"$and": there}


def to_where(where: Any, where_document: Any) -> dict[str, Any] | None:
    """Both filters of a request in our language; None if there is none."""
    return join(
        _metadata(where, 0) if where else None,
        _document(where_document, 0) if where_document else None,
    )


def _wrong() -> Problem:
    return Problem(400, "InvalidArgumentError", "Invalid where clause")


def _parts(value: Any, read: Any, depth: int) -> list[dict[str, Any]]:
    if type(value) is not list or not value or depth > _MAX_DEPTH:
        raise _wrong()
    return [read(part, depth + 1) for part in value]


def _metadata(where: Any, depth: int) -> dict[str, Any]:
    if type(where) is not dict or len(where) != 1:
        raise _wrong()
    ((name, value),) = where.items()
    if name in ("$and", "$or"):
        return {name: _parts(value, _metadata, depth)}
    if name == "#document":
        return _document(value if type(value) is dict else None, depth)
    field = escape(name)
    if type(value) is not dict:
        return {field: {"$eq": value}}
    if len(value) != 1:
        raise _wrong()
    ((operator, operand),) = value.items()
    if operator in _COMPARE:
        return {field: {operator: operand}}
    if operator == "$contains":
        return {field: {"$contains": operand}}
    if operator == "$not_contains":
        return {"$not": {field: {"$contains": operand}}}
    raise _wrong()


def _document(where: Any, depth: int) -> dict[str, Any]:
    if type(where) is not dict or len(where) != 1:
        raise _wrong()
    ((operator, operand),) = where.items()
    if operator in ("$and", "$or"):
        return {operator: _parts(operand, _document, depth)}
    if type(operand) is not str:
        raise _wrong()
    if operator in ("$contains", "$not_contains"):
        found: dict[str, Any] = {DOCUMENT: {"$text": operand}}
    elif operator in ("$regex", "$not_regex"):
        found = {DOCUMENT: {"$regex": operand}}
    else:
        raise _wrong()
    return {"$not": found} if operator.startswith("$not") else found
