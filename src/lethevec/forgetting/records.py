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
    fields: list[tuple[bytes, bytes]] = []
    at = 0
    while at < len(encoding):
        if at + _FIELD.size > len(encoding):
            raise FormatError(f"record: expected a field of {_FIELD.size} bytes or more, got {len(encoding) - at}")
        tag, size = _FIELD.unpack_from(encoding, at)
        at += _FIELD.size + size
        if at > len(encoding):
            raise FormatError(f"record: expected {size} bytes in field {tag!r}, got {len(encoding) - at + size}")
        fields.append((tag, encoding[at - size : at]))
    tags = b"".join(tag for tag, _ in fields)
    if tags not in _ORDERS:
        raise FormatError(f"record: expected the fields of a record, got {tags!r}")
    content = dict(fields)
    if tags[:1] == b"i" and len(content[b"i"]) != 8:
        raise FormatError(f"record: expected an id of 8 bytes, got {len(content[b'i'])}")
    try:
        texts = {tag: content[tag].decode() for tag in (b"s", b"u", b"p") if tag in content}
    except UnicodeDecodeError as error:
        raise FormatError(f"record: expected texts in UTF-8, got something else ({error})") from None
    id = texts[b"s"] if b"s" in texts else int.from_bytes(content[b"i"], "little", signed=True)
    return id, content[b"v"], texts.get(b"u"), texts.get(b"p")


def canonical_json(value: Any) -> str:
    """The one JSON text of a value.

    >>> canonical_json({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def configuration_bytes(configuration: Mapping[str, Any]) -> bytes:
    """The bytes of a configuration in a digest: canonical JSON, in UTF-8."""
    return canonical_json(dict(configuration)).encode()
