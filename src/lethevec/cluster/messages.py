"""Messages between drivers, members and the registry: a JSON object and arrays of numbers, and nothing else.

    length of the JSON (uint32 LE), JSON in UTF-8, then each array: kind (1 byte), columns (uint32 LE; 0: no second),
    rows (uint64 LE), numbers (LE)

What is not of this form is a `FormatError`. Sizes are compared with what is there before anything is made of them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import FormatError

__all__ = ["Array", "Message", "pack", "unpack"]

Array = npt.NDArray[Any]

_LENGTH = struct.Struct("<I")
_ARRAY = struct.Struct("<BIQ")
_KINDS: dict[int, np.dtype[Any]] = {0: np.dtype("<f4"), 1: np.dtype("<i8")}
_OF_KIND = {dtype: kind for kind, dtype in _KINDS.items()}


class Message(NamedTuple):
    """What was said, and the arrays that belong to it."""

    head: dict[str, Any]
    arrays: list[Array]


def pack(head: dict[str, Any], arrays: Sequence[Array] = ()) -> bytearray:
    """The bytes of a message.

    >>> unpack(bytes(pack({"op": "search"}, [np.float32([[1, 2]])])))
    Message(head={'op': 'search'}, arrays=[array([[1., 2.]], dtype=float32)])
    """
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")
    content = bytearray(_LENGTH.pack(len(text)))
    content += text
    for array in arrays:
        kind = _OF_KIND[array.dtype.newbyteorder("<")]
        columns = array.shape[1] if array.ndim == 2 else 0
        content += _ARRAY.pack(kind, columns, len(array))
        content += memoryview(np.ascontiguousarray(array, dtype=_KINDS[kind]).reshape(-1)).cast("B")
    return content


def unpack(content: bytes) -> Message:
    """The message of these bytes; arrays are copies that may be changed."""
    try:
        (size,) = _LENGTH.unpack_from(content, 0)
        at = _LENGTH.size + size
        if at > len(content):
            raise ValueError(f"{size} bytes of JSON in {len(content)}")
        head = json.loads(content[_LENGTH.size : at].decode("utf-8", "surrogatepass"))
        if not isinstance(head, dict):
            raise ValueError("JSON that is no object")
        arrays: list[Array] = []
        while at < len(content):
            kind, columns, rows = _ARRAY.unpack_from(content, at)
            at += _ARRAY.size
            dtype = _KINDS[kind]
            count = rows * max(1, columns)
            if count * dtype.itemsize > len(content) - at:
                raise ValueError(f"an array of {count} numbers in {len(content) - at} bytes")
            array = np.frombuffer(content, dtype=dtype, count=count, offset=at).copy()
            arrays.append(array.reshape(rows, columns) if columns else array)
            at += count * dtype.itemsize
    except (ValueError, KeyError, struct.error, RecursionError) as error:
        raise FormatError(f"message: expected JSON and arrays, got something else ({error})") from None
    return Message(head, arrays)
