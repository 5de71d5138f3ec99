"""Arrow data whose offsets lead elsewhere: Arrow follows them into foreign memory unless it is told to look first."""

from __future__ import annotations

import io
import struct
from typing import Any

import pyarrow as pa

__all__ = ["OFFSETS", "damaged", "read", "stream"]

#: Where the second and the third of three rows may be said to begin and to end.
OFFSETS = [(300_000, 300_003, 300_006), (0, 3, 2_000_000_000), (0, 1_000_003, 2_000_006), (-3_000_000, 0, 6), (6, 3, 0)]


def stream(table: pa.Table, *, file: bool = False, compression: str | None = None) -> bytes:
    """As bytes: those of a stream, or of a file."""
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def damaged(column: str, offsets: tuple[int, int, int], *, file: bool = False) -> bytes:
    """Two records, with other offsets in one of the columns `id` and `vector`."""
    vectors = pa.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], pa.list_(pa.float32()))
    raw = bytearray(stream(pa.table({"vector": vectors, "id": ["abc", "def"]}), file=file))
    right = struct.pack("<3i", 0, 3, 6)
    assert raw.count(right) == 2
    first = raw.find(right)
    place = first if column == "vector" else raw.find(right, first + 1)
    raw[place : place + 12] = struct.pack("<3i", *offsets)
    return bytes(raw)


def read(raw: bytes) -> Any:
    """As Arrow reads it, which looks at nothing."""
    return pa.ipc.open_stream(raw).read_all()
