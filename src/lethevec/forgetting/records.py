"""The one byte encoding of a record and of a configuration, which digests are made of.

A record is a sequence of fields, each `tag (1 byte) || length (uint64 LE) || content`, in this order:

| tag | content |
|---|---|
| `i` or `s` | the id: an int64 (8 bytes LE), or the UTF-8 of a string; exactly one of them |
| `v` | the vector, float32 LE, as it was added (not normalised) |
| `u` | the subject, UTF-8; absent when there is none |
| `p` | the payload, canonical JSON in UTF-8; absent when there is none |

Tags and lengths make it unambiguous: two different records never have the same encoding, and the id 7 is not the id
"7".

Canonical JSON is: keys sorted by code point, no spaces, UTF-8, no NaN or infinity.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from ..errors import FormatError

__all__ = ["canonical_json", "configuration_bytes", "decode_record", "encode_record"]

_FIELD = struct.Struct("<cQ")
_INT = struct.Struct("<q")
_ORDERS = frozenset(
    id + b"v" + subject + payload for id in (b"i", b"s") for subject in (b"", b"u") for payload in (b"", b"p")
)


def encode_record(id: int | str, vector: bytes, subject: str | None = None, payload: str | None = None) -> bytes:
    """The encoding of one record; `vector` as float32 LE bytes, `payload` as canonical JSON text.

    >>> encode_record(7, b"") == encode_record("7", b"")
    False
    >>> encode_record("7", b"").hex(" ", 9)
    '73 010000000000000037 760000000000000000'
    """
    if isinstance(id, str):
        text = id.encode()
        encoding = _FIELD.pack(b"s", len(text)) + text + _FIELD.pack(b"v", len(vector)) + vector
    else:
        encoding = (
            _FIELD.pack(b"i", 8) + id.to_bytes(8, "little", signed=True) + _FIELD.pack(b"v", len(vector)) + vector
        )
    if subject is not None:
        text = subject.encode()
        encoding += _FIELD.pack(b"u", len(text)) + text
    if payload is not None:
        text = payload.encode()
        encoding += _FIELD.pack(b"p", len(text)) + text
    return encoding


def decode_record(encoding: bytes) -> tuple[int | str, bytes, str | None, str | None]:
    """What `encode_record` was given: id, vector, subject, payload. Anything else is a `FormatError`.

    >>> decode_record(encode_record(7, b"1234", "alice"))
    (7, b'1234', 'alice', None)
    """
    tags, contents = b"", []
    at, end = 0, len(encoding)
    while at < end:
        if at + _FIELD.size > end:
            raise FormatError(f"record: expected a field of {_FIELD.size} bytes or more, got {end - at}")
        tag, size = _FIELD.unpack_from(encoding, at)
        at += _FIELD.size + size
        if at > end:
            raise FormatError(f"record: expected {size} bytes in field {tag!r}, got {end - at + size}")
        tags += tag
        contents.append(encoding[at - size : at])
    if tags not in _ORDERS:
        raise FormatError(f"record: expected the fields of a record, got {tags!r}")
    try:
        id = contents[0].decode() if tags.startswith(b"s") else _INT.unpack(contents[0])[0]
        subject = contents[2].decode() if b"u" in tags else None
        payload = contents[-1].decode() if b"p" in tags else None
    except (UnicodeDecodeError, struct.error) as error:
        raise FormatError(f"record: expected 8 bytes of an id and texts in UTF-8, got others ({error})") from None
    return id, contents[1], subject, payload


def canonical_json(value: Any) -> str:
    """The one JSON text of a value.

    >>> canonical_json({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def configuration_bytes(configuration: Mapping[str, Any]) -> bytes:
    """The bytes of a configuration in a digest: canonical JSON, in UTF-8."""
    return canonical_json(dict(configuration)).encode()
