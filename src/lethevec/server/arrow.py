"""Records from an Arrow stream that a caller sends: nothing in it is believed.

Arrow reads what it is given: it follows offsets wherever they lead, unpacks what was packed a thousandfold, and makes a
value of every row that a column says it has. So messages are looked at before Arrow gets them (none longer than a body
may be, none compressed), batches are validated as a whole, and a column may only say once what it says.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import orjson

from .problems import Problem

__all__ = ["Bytes", "read_batches"]

_CONTINUES = 0xFFFFFFFF
_DICTIONARY, _BATCH = 2, 3  # of a message's header: which of the tables it is
_MOST_METADATA = 1 << 20


class Bytes(Protocol):
    """Where the stream comes from."""

    error: BaseException | None  # what stopped it, where the stream itself was not at fault

    def read(self, size: int) -> bytes:
        """So many bytes; fewer only at the end."""
        ...


def read_batches(pa: Any, source: Bytes, dim: int, limit: int) -> Iterator[dict[str, Any]]:
    """Batches with the columns id, vector, and perhaps subject and payload (JSON text, or a struct)."""
    for batch in _stream(pa, source, limit):
        names = set(batch.schema.names)
        if len(names) < len(batch.schema.names):
            raise _problem("columns: expected each name once")
        if not {"id", "vector"} <= names or names - {"id", "vector", "subject", "payload"}:
            raise _problem("columns: expected id, vector, and perhaps subject and payload")
        if not batch.num_rows:
            continue
        try:
            batch.validate(full=True)
            # First of all: that there are as many vectors as it says there are rows.
            made: dict[str, Any] = {"vectors": _vectors(pa, batch.column("vector"), dim)}
            made["ids"] = _values(pa, batch.column("id"), "id", limit)
            if "subject" in names:
                made["subjects"] = _values(pa, batch.column("subject"), "subject", limit)
            if "payload" in names:
                made["payloads"] = [_payload(value) for value in _values(pa, batch.column("payload"), "payload", limit)]
        except (ValueError, OverflowError, TypeError):  # what Python has no value for
            raise _problem("body: expected ids, subjects and payloads that can be read") from None
        yield made


def _stream(pa: Any, source: Bytes, limit: int) -> Iterator[Any]:
    """What Arrow reads, with its errors as ours."""
    try:
        with pa.ipc.open_stream(pa.PythonFile(_Messages(source, limit), mode="r")) as stream:
            yield from stream
    except (pa.ArrowException, OSError, ValueError) as error:
        if error is source.error:
            raise
        raise _problem("body: expected an Arrow stream") from None


class _Messages:
    """The messages of a stream, as a file: each is looked at before a byte of it is passed on.

    A message is 0xFFFFFFFF, the length of its metadata, the metadata (a flatbuffer), and a body.
    """

    closed = False

    def __init__(self, source: Bytes, limit: int) -> None:
        self._source = source
        self._limit = limit
        self._message = io.BytesIO()
        self._dictionaries = 0  # bytes of them so far: Arrow keeps them until the end

    def read(self, size: int) -> bytes:
        data = self._message.read(size)
        while len(data) < size and self._next():
            data += self._message.read(size - len(data))
        return data

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True

    def _next(self) -> bool:
        """Go on to the next message, if there is one."""
        head = self._source.read(8)
        if not head:
            return False
        try:
            mark, length = struct.unpack("<II", head)
            metadata = self._source.read(length if mark == _CONTINUES and length <= _MOST_METADATA else 0)
            kind, body, compressed = _told(metadata) if length else (0, 0, False)
        except struct.error:  # it is cut off, or leads out of itself
            raise _problem("body: expected an Arrow stream") from None
        if compressed:
            raise _problem("body: expected an Arrow stream without compression")
        if kind == _DICTIONARY:
            self._dictionaries += body
        if not 0 <= body <= self._limit or self._dictionaries > self._limit:
            raise Problem(413, "too_long", f"body: expected batches of at most {self._limit} bytes, got a longer one")
        self._message = io.BytesIO(head + metadata + self._source.read(body))
        return True


def _told(metadata: bytes) -> tuple[int, int, bool]:
    """What a message is by its metadata, how long its body is, and whether it is compressed."""
    (message,) = struct.unpack_from("<I", metadata)
    place, header, body = (_field(metadata, message, number) for number in (1, 2, 3))
    kind = struct.unpack_from("<B", metadata, place)[0] if place else 0
    length = struct.unpack_from("<q", metadata, body)[0] if body else 0
    batch = _inside(metadata, header)
    if kind == _DICTIONARY:
        batch = _inside(metadata, _field(metadata, batch, 1))
    return kind, length, kind in (_DICTIONARY, _BATCH) and _field(metadata, batch, 3) > 0


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table is; 0 where it is not there."""
    (back,) = struct.unpack_from("<i", data, table)
    fields = table - back
    if fields < 0:
        raise struct.error
    (size,) = struct.unpack_from("<H", data, fields)
    if size < 6 + 2 * number:
        return 0
    (offset,) = struct.unpack_from("<H", data, fields + 4 + 2 * number)
    return table + offset if offset else 0


def _inside(data: bytes, place: int) -> int:
    """Where the table begins that a field names."""
    return place + int(struct.unpack_from("<I", data, place)[0])


def _vectors(pa: Any, column: Any, dim: int) -> npt.NDArray[np.float32]:
    """A column of vectors; each has its own length in Arrow, so each is looked at."""
    lists = getattr(column, "storage", column)
    kind = lists.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = pa.compute.list_value_length(lists).to_numpy(zero_copy_only=False)
        flat = lists.flatten()
        real = pa.types.is_floating(flat.type) or pa.types.is_integer(flat.type)
        if real and not lists.null_count and not flat.null_count and (lengths == dim).all():
            return flat.to_numpy(zero_copy_only=False).astype(np.float32).reshape(-1, dim)
    raise _problem(f"vector: expected {dim} numbers in every row")


def _values(pa: Any, column: Any, name: str, limit: int) -> Any:
    """A column as Python has it, where that takes no more than some times what the column takes."""
    kind = column.type
    if pa.types.is_dictionary(kind) and _is_text(pa, kind.value_type):
        lengths = pa.compute.binary_length(column.dictionary)
        if (pa.compute.max(lengths).as_py() or 0) * len(column) > limit:
            raise _problem(f"{name}: expected texts of at most {limit} bytes in a batch, got more")
    elif not pa.types.is_null(kind) and not _is_counted(pa, kind):
        raise _problem(f"{name}: expected a column of whole numbers, texts, or structs and lists of plain values")
    return column.to_pylist()


def _is_text(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_counted(pa: Any, kind: Any, *, listed: bool = False) -> bool:
    """Whether the bytes of a column of this type grow with its values: no dictionary, no views, no runs, and no lists
    of what takes no bytes, or a bit."""
    if pa.types.is_struct(kind):
        fields = [kind.field(place).type for place in range(kind.num_fields)]
        return bool(fields or not listed) and all(_is_counted(pa, field, listed=listed) for field in fields)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _is_counted(pa, kind.value_type, listed=True)
    if pa.types.is_null(kind) or pa.types.is_boolean(kind):
        return not listed
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or binary or _is_text(pa, kind))


def _payload(value: Any) -> Any:
    try:
        return orjson.loads(value) if isinstance(value, str | bytes) else value
    except orjson.JSONDecodeError:
        raise _problem("payload: expected JSON objects") from None


def _problem(message: str) -> Problem:
    return Problem(422, "arrow", message)
