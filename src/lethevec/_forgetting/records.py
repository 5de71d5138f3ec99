"""The one byte encoding of a record and of a configuration, which digests are made of.

A record is a sequence of fields, each `tag (1 byte) || length (uint64 LE) || content`, in this order:

| tag | content |
|---|---|
| `i` or `s` | the id: an int64 (8 bytes LE), or the UTF-8 of a string; exactly one of them |
| `v` | the vector, float32 LE, as it was added (not normalised); absent when there is none |
| `u` | the subject, UTF-8; absent when there is none |
| `p` | the payload, canonical JSON in UTF-8; absent when there is none |
| `e` | when it expires, in milliseconds since 1970 (int64 LE); absent when it does not |

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
_HEAD = _FIELD.size
_VECTOR, _SUBJECT, _PAYLOAD, _EXPIRES = b"vupe"


def encode_record(
    id: int | str,
    vector: bytes | None,
    subject: str | None = None,
    payload: str | None = None,
    expires: int | None = None,
) -> bytes:
    """The encoding of one record; `vector` as float32 LE bytes, `payload` as canonical JSON text.

    >>> encode_record(7, b"") == encode_record("7", b"")
    False
    >>> encode_record("7", b"").hex(" ", 9)
    '73 010000000000000037 760000000000000000'
    """
    if isinstance(id, str):
        text = id.encode()
        encoding = _FIELD.pack(b"s", len(text)) + text
    else:
        encoding = _FIELD.pack(b"i", 8) + id.to_bytes(8, "little", signed=True)
    if vector is not None:
        encoding += _FIELD.pack(b"v", len(vector)) + vector
    if subject is not None:
        text = subject.encode()
        encoding += _FIELD.pack(b"u", len(text)) + text
    if payload is not None:
        text = payload.encode()
        encoding += _FIELD.pack(b"p", len(text)) + text
    if expires is not None:
        encoding += _FIELD.pack(b"e", _INT.size) + _INT.pack(expires)
    return encoding


def decode_record(encoding: bytes) -> tuple[int | str, bytes | None, str | None, str | None, int | None]:
    """What `encode_record` was given: id, vector, subject, payload, expiry. Anything else is a `FormatError`.

    >>> decode_record(encode_record(7, b"1234", "alice"))
    (7, b'1234', 'alice', None, None)
    >>> decode_record(encode_record(7, None, "alice"))
    (7, None, 'alice', None, None)
    """
    # Straight on, field by field: a sealed store does this for every record when it is opened.
    try:
        tag, size = _FIELD.unpack_from(encoding, 0)
        at = after = _HEAD + size
        vector = subject = payload = expires = None
        end = len(encoding)
        if at < end and encoding[at] == _VECTOR:
            at = after + _HEAD + _FIELD.unpack_from(encoding, after)[1]
            vector = encoding[after + _HEAD : at]
        if at < end and encoding[at] == _SUBJECT:
            begin = at + _HEAD
            at = begin + _FIELD.unpack_from(encoding, at)[1]
            subject = encoding[begin:at].decode()
        if at < end and encoding[at] == _PAYLOAD:
            begin = at + _HEAD
            at = begin + _FIELD.unpack_from(encoding, at)[1]
            payload = encoding[begin:at].decode()
        if at < end and encoding[at] == _EXPIRES:
            if _FIELD.unpack_from(encoding, at)[1] != _INT.size:
                raise FormatError(f"record: expected {_INT.size} bytes of expiry, got others: damaged")
            (expires,) = _INT.unpack_from(encoding, at + _HEAD)
            at += _HEAD + _INT.size
        if at != end or (tag != b"s" and (tag != b"i" or after != _HEAD + _INT.size)):
            raise FormatError(
                f"record: expected an id, perhaps vector, subject and payload in {end} bytes, got other fields: damaged"
            )
        id = _INT.unpack_from(encoding, _HEAD)[0] if tag == b"i" else encoding[_HEAD:after].decode()
    except (UnicodeDecodeError, OverflowError, struct.error) as error:
        raise FormatError(f"record: expected whole fields and texts in UTF-8, got others ({error}): damaged") from None
    return id, vector, subject, payload, expires


def canonical_json(value: Any) -> str:
    """The one JSON text of a value.

    >>> canonical_json({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def configuration_bytes(configuration: Mapping[str, Any]) -> bytes:
    """The bytes of a configuration in a digest: canonical JSON, in UTF-8."""
    return canonical_json(dict(configuration)).encode()
