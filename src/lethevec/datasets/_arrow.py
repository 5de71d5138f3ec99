"""Columnar files: .parquet, and Arrow IPC (.arrow, .feather; both the file and the stream form).

Vectors are a column of lists of numbers, all of one length (fixed-size lists, lists, or fixed-shape tensors); the
columns `id`, `subject`, `payload` and `expires` are read where they exist. Numbers in vectors and ids may not be null;
a vector that is null is of a record without one.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from .._extras import need
from ..errors import FormatError
from ._common import Rows, as_id, as_ids, as_moment, as_subject, choose, expect_magic

_FILE_MAGIC = b"ARROW1\0\0"  # padded to eight bytes
_EXTRA = ("datasets", "reading Parquet and Arrow files")


def parquet_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of a Parquet file."""
    need("pyarrow", *_EXTRA)
    expect_magic(path, b"PAR1", "a Parquet file")
    with arrow_errors(path):
        parquet = need("pyarrow.parquet", *_EXTRA)
        with parquet.ParquetFile(path) as file:
            column, columns = columns_of(path, file.schema_arrow, key)
            row = 0
            for piece in file.iter_batches(batch_size=batch, columns=columns):
                yield convert(path, piece, column, row)
                row += piece.num_rows


def arrow_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of an Arrow IPC file or stream."""
    pyarrow = need("pyarrow", *_EXTRA)
    ipc = need("pyarrow.ipc", *_EXTRA)
    with path.open("rb") as head:
        is_file = head.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    with arrow_errors(path), pyarrow.OSFile(str(path), "rb") as source:
        reader = ipc.open_file(source) if is_file else ipc.open_stream(source)
        pieces = (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader
        yield from _pieces(path, reader.schema, pieces, key, batch)


def arrow_stream(file: IO[bytes], path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of Arrow IPC that comes through a pipe, which errors call `path`.

    The file form is its magic, the stream form, and a footer that nobody needs who reads from the beginning.
    """
    ipc = need("pyarrow.ipc", *_EXTRA)
    with arrow_errors(path):
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
    column, columns = columns_of(path, schema, key)
    row = 0
    for piece in pieces:
        chosen = piece.select(columns)
        chosen.validate(full=True)  # Arrow trusts offsets of a file unless it is told not to
        for start in range(0, chosen.num_rows, batch):
            part = chosen.slice(start, batch)
            yield convert(path, part, column, row)
            row += part.num_rows


@contextmanager
def arrow_errors(path: Path) -> Iterator[None]:
    """Arrow's errors as ours."""
    pyarrow = need("pyarrow", *_EXTRA)
    try:
        yield
    except FormatError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise FormatError(
            f"{path}: expected an undamaged columnar file, got one that cannot be read: {error}"
        ) from None


def columns_of(path: Path, schema: Any, key: str | None) -> tuple[str, list[str]]:
    """The column of vectors, and all columns that mean something."""
    lists = [field.name for field in schema if is_vector_type(field.type)]
    if key is not None and key in schema.names and key not in lists:
        raise FormatError(f"{path}: column {key!r}: expected lists of numbers, got {schema.field(key).type}")
    # A payload may well be a list of numbers; the vectors are another column then.
    column = choose(
        path, [name for name in lists if name == key or name != "payload"], key, "a column of lists of numbers"
    )
    check_names(path, schema.names)
    extra = [name for name in ("id", "subject", "payload", "expires") if name in schema.names and name != column]
    return column, [column, *extra]


def check_names(path: Path, names: list[str]) -> None:
    """Refuse columns of one name."""
    if len(set(names)) != len(names):
        raise FormatError(f"{path}: expected columns with different names, got {', '.join(names)}")


def is_vector_type(kind: Any) -> bool:
    """Whether a column of this type can hold vectors."""
    types = need("pyarrow", *_EXTRA).types
    kind = getattr(kind, "storage_type", kind)
    if not (types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)):
        return False
    return bool(types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def convert(path: Path, piece: Any, column: str, row: int) -> Rows:
    """A record batch, which begins at this row."""
    names = piece.schema.names
    where = f"rows from {row}"
    ids = subjects = payloads = expires = None
    if "id" in names and column != "id":
        values = piece.column("id").to_pylist()
        ids = as_ids([as_id(path, f"row {row + i}", value) for i, value in enumerate(values)])
    if "subject" in names and column != "subject":
        subjects = [as_subject(path, where, value) for value in piece.column("subject").to_pylist()]
    if "payload" in names and column != "payload":
        payloads = piece.column("payload").to_pylist()
    if "expires" in names and column != "expires":
        times = _times(piece.column("expires"))
        expires = [as_moment(path, f"row {row + i}", value) for i, value in enumerate(times)]
    lists = getattr(piece.column(column), "storage", piece.column(column))
    bare = None
    if lists.null_count:
        bare = lists.is_null().to_numpy(zero_copy_only=False)
        lists = lists.drop_null()
    values = _matrix(path, lists, f"column {column!r}, {where}")
    if bare is not None:
        some = values
        values = np.zeros((len(bare), some.shape[1]), dtype=some.dtype)
        values[~bare] = some
    return Rows(values, ids, subjects, payloads, expires if expires and any(expires) else None, bare)


def _times(column: Any) -> list[Any]:
    """Times as Python has them; those of nanoseconds would need pandas."""
    pyarrow = need("pyarrow", *_EXTRA)
    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
    values: list[Any] = column.to_pylist()
    return values


def _matrix(path: Path, lists: Any, where: str) -> Any:
    compute = need("pyarrow.compute", *_EXTRA)
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
    with arrow_errors(path):
        return int(need("pyarrow.parquet", *_EXTRA).read_metadata(path).num_rows)
