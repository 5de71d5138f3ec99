"""Columnar files: .parquet, and Arrow IPC (.arrow, .feather; both the file and the stream form).

Vectors are a column of lists of numbers, all of one length (fixed-size lists, lists, or fixed-shape tensors); the
columns `id`, `subject` and `payload` are read where they exist. Vectors, numbers in them and ids may not be null.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import FormatError
from ._common import Rows, as_id, as_ids, as_subject, choose, expect_magic, need

_FILE_MAGIC = b"ARROW1\0\0"  # padded to eight bytes
_EXTRA = ("datasets", "reading Parquet and Arrow files")


def parquet_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of a Parquet file."""
    need("pyarrow", *_EXTRA)
    expect_magic(path, b"PAR1", "a Parquet file")
    with _arrow_errors(path):
        parquet = need("pyarrow.parquet", *_EXTRA)
        with parquet.ParquetFile(path) as file:
            column, columns = _choose_columns(path, file.schema_arrow, key)
            row = 0
            for piece in file.iter_batches(batch_size=batch, columns=columns):
                yield _convert(path, piece, column, row)
                row += piece.num_rows


def arrow_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of an Arrow IPC file or stream."""
    pyarrow = need("pyarrow", *_EXTRA)
    ipc = need("pyarrow.ipc", *_EXTRA)
    with path.open("rb") as head:
        is_file = head.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    with _arrow_errors(path), pyarrow.OSFile(str(path), "rb") as source:
        reader = ipc.open_file(source) if is_file else ipc.open_stream(source)
        pieces = (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader
        yield from _pieces(path, reader.schema, pieces, key, batch)


def arrow_stream(file: IO[bytes], path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of Arrow IPC that comes through a pipe, which errors call `path`.

    The file form is its magic, the stream form, and a footer that nobody needs who reads from the beginning.
    """
    ipc = need("pyarrow.ipc", *_EXTRA)
    with _arrow_errors(path):
        head = file.read(len(_FILE_MAGIC))
        reader = ipc.open_stream(file if head == _FILE_MAGIC else io.BufferedReader(_Rejoined(head, file)))
        yield from _pieces(path, reader.schema, reader, key, batch)


class _Rejoined(io.RawIOBase):
    """What was read already, and the rest."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(part) :]
        buffer[: len(part)] = part
        return len(part)


def _pieces(path: Path, schema: Any, pieces: Iterable[Any], key: str | None, batch: int) -> Iterator[Rows]:
    column, columns = _choose_columns(path, schema, key)
    row = 0
    for piece in pieces:
        chosen = piece.select(columns)
        chosen.validate(full=True)  # Arrow trusts offsets of a file unless it is told not to
        for start in range(0, chosen.num_rows, batch):
            part = chosen.slice(start, batch)
            yield _convert(path, part, column, row)
            row += part.num_rows


@contextmanager
def _arrow_errors(path: Path) -> Iterator[None]:
    pyarrow = need("pyarrow", *_EXTRA)
    try:
        yield
    except FormatError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise FormatError(
            f"{path}: expected an undamaged columnar file, got one that cannot be read: {error}"
        ) from None


def _choose_columns(path: Path, schema: Any, key: str | None) -> tuple[str, list[str]]:
    lists = [field.name for field in schema if _is_vector_type(field.type)]
    if key is not None and key in schema.names and key not in lists:
        raise FormatError(f"{path}: column {key!r}: expected lists of numbers, got {schema.field(key).type}")
    # A payload may well be a list of numbers; the vectors are another column then.
    column = choose(
        path, [name for name in lists if name == key or name != "payload"], key, "a column of lists of numbers"
    )
    if len(set(schema.names)) != len(schema.names):
        raise FormatError(f"{path}: expected columns with different names, got {', '.join(schema.names)}")
    extra = [name for name in ("id", "subject", "payload") if name in schema.names and name != column]
    return column, [column, *extra]


def _is_vector_type(kind: Any) -> bool:
    types = need("pyarrow", *_EXTRA).types
    kind = getattr(kind, "storage_type", kind)
    if not (types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)):
        return False
    return bool(types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def _convert(path: Path, piece: Any, column: str, row: int) -> Rows:
    names = piece.schema.names
    where = f"rows from {row}"
    ids = subjects = payloads = None
    if "id" in names and column != "id":
        values = piece.column("id").to_pylist()
        ids = as_ids([as_id(path, f"row {row + i}", value) for i, value in enumerate(values)])
    if "subject" in names and column != "subject":
        subjects = [as_subject(path, where, value) for value in piece.column("subject").to_pylist()]
    if "payload" in names and column != "payload":
        payloads = piece.column("payload").to_pylist()
    return Rows(_matrix(path, piece.column(column), f"column {column!r}, {where}"), ids, subjects, payloads)


def _matrix(path: Path, lists: Any, where: str) -> Any:
    compute = need("pyarrow.compute", *_EXTRA)
    lists = getattr(lists, "storage", lists)
    if lists.null_count:
        raise FormatError(f"{path}: {where}: expected a vector in every row, got {lists.null_count} nulls")
    lengths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    if len(lengths) == 0:
        return np.empty((0, 0), dtype=np.float32)
    if (lengths != lengths[0]).any():
        other = int((lengths != lengths[0]).argmax())
        raise FormatError(
            f"{path}: {where}: expected vectors of one length, got {int(lengths[0])} and then {int(lengths[other])} "
            f"in row {other} of these"
        )
    flat = lists.flatten()
    if flat.null_count:
        raise FormatError(f"{path}: {where}: expected numbers, got {flat.null_count} nulls inside vectors")
    return flat.to_numpy(zero_copy_only=False).reshape(len(lengths), int(lengths[0]))


def parquet_count(path: Path, key: str | None) -> int:
    """The number of rows that the metadata claims."""
    expect_magic(path, b"PAR1", "a Parquet file")
    with _arrow_errors(path):
        return int(need("pyarrow.parquet", *_EXTRA).read_metadata(path).num_rows)
