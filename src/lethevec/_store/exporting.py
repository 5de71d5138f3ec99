"""Records to files, which the readers of `lethevec.datasets` read back bit for bit; `export_arrays` has NumPy's."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from .._durable import mode_to_keep, sync_folder
from .._extras import need
from .._progress import Progress
from .._record import Record
from ..errors import FormatError, IncompleteWriteError, UnknownIdError
from .copying import building
from .export_arrays import write_fvecs, write_npy, write_npz
from .ids import Id


class Source(Protocol):
    """What records are exported from: a store, or a collection of a cluster."""

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        ...

    def __iter__(self) -> Iterator[Record]:
        """Every record in the order of ids."""
        ...

    def count(self, where: Mapping[str, Any] | None = None, *, subject: str | None = None) -> int:
        """How many records."""
        ...

    def get(
        self,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
        limit: int | None = None,
        after: Id | None = None,
    ) -> list[Record]:
        """A page of records."""
        ...


__all__ = ["SUFFIXES", "arrow_table", "replacing", "write_records"]

SUFFIXES = (".jsonl", ".csv", ".parquet", ".arrow", ".npz", ".npy", ".fvecs", ".lethe")
_PART = 2000


def _records(store: Source, where: Mapping[str, Any] | None, subject: str | None) -> Iterator[Record]:
    """The records that are asked for, a page at a time."""
    if where is None and subject is None:
        yield from store
        return
    walk: Callable[..., Iterator[Record]] | None = getattr(store, "_walk", None)
    if walk is not None:  # a store keeps what passes from page to page
        yield from walk(where, subject)
        return
    after = None
    while page := store.get(where=where, subject=subject, limit=_PART, after=after):
        yield from page
        after = page[-1].id


def write_records(
    path: Path | None, suffix: str, store: Source, where: Mapping[str, Any] | None = None, subject: str | None = None
) -> int:
    """Write to a file, which is there as a whole or not at all, or to stdout; how many."""
    total = store.count(where=where, subject=subject)
    if subject is not None and where is None and not total:
        raise UnknownIdError(f"subject: expected one that has records, got {subject!r}, which has none")
    records = _records(store, where, subject)
    with Progress(total, "exporting", unit="records") as progress:

        def counted() -> Iterator[Record]:
            for record in records:
                progress.advance()
                yield record

        if path is None:
            _write(sys.stdout.buffer, suffix, counted(), total, store.dim, "stdout")
            sys.stdout.buffer.flush()
        else:
            if suffix not in SUFFIXES:
                raise FormatError(f"{path}: expected a file name that ends in {' '.join(SUFFIXES)}, got {suffix!r}")
            # A store's name is where a later open looks for what a crash has left; a cluster has no such place.
            with replacing(getattr(store, "path", path), path) as file:
                _write(file, suffix, counted(), total, store.dim, str(path))
        return progress.done


@contextmanager
def replacing(store: Path, path: Path) -> Iterator[IO[bytes]]:
    """A new file under another name, for its owner's eyes only, renamed at the end.

    A file that is there keeps its mode. What is no regular file, such as a link or a device, is refused.
    """
    try:
        with building(store, path) as place:
            mode = mode_to_keep(path)
            with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                yield file
                file.flush()
                if mode is not None:
                    os.chmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.replace(place, path)
            sync_folder(path.absolute().parent)
    except OSError as error:
        raise IncompleteWriteError(f"{path}: the export could not be written: {error}") from error


def _write(file: IO[bytes], suffix: str, records: Iterator[Record], count: int, dim: int, name: str) -> None:
    if suffix == ".jsonl":
        _write_jsonl(file, records, dim)
    elif suffix == ".csv":
        _write_csv(file, records, dim)
    elif suffix == ".npz":
        write_npz(file, records, count, dim)
    elif suffix == ".npy":
        write_npy(file, records, count, dim)
    elif suffix == ".fvecs":
        write_fvecs(file, records)
    else:
        _write_arrow(file, suffix, records, dim, name)


def arrow_table(store: Source, where: Mapping[str, Any] | None, subject: str | None) -> Any:
    """An Arrow table of the records: id, subject, payload (JSON), expires and vector."""
    pa, _ = _pyarrow("an Arrow table")
    records = _records(store, where, subject)
    part = list(islice(records, _PART))
    schema = _schema(pa, part[0] if part else None, store.dim)
    batches = []
    while part:
        batches.append(_arrow_batch(pa, part, schema, store.dim, "table"))
        part = list(islice(records, _PART))
    return pa.Table.from_batches(batches, schema=schema)


def _pyarrow(what: str) -> tuple[Any, Any]:
    return need("pyarrow", "datasets", what), need("pyarrow.parquet", "datasets", what)


def _schema(pa: Any, first: Record | None, dim: int) -> Any:
    """The payload is JSON in a text: objects of different shapes have no common column type."""
    kind = pa.string() if first is not None and isinstance(first.id, str) else pa.int64()
    return pa.schema(
        [
            ("id", kind),
            ("subject", pa.string()),
            ("payload", pa.string()),
            ("expires", pa.timestamp("ms", tz="UTC")),
            ("vector", pa.list_(pa.float32(), dim)),
        ]
    )


def _numbers(dim: int) -> str:
    """A format for the numbers of a vector. Nine digits are enough to tell every float32 from its neighbours."""
    return "[" + ", ".join(["%.9g"] * dim) + "]"


def _write_jsonl(file: IO[bytes], records: Iterable[Record], dim: int) -> None:
    numbers = _numbers(dim)
    for record in records:
        fields = {"id": record.id, "subject": record.subject, "payload": record.payload}
        if record.expires is not None:
            fields["expires"] = record.expires.isoformat()
        head = json.dumps(fields, ensure_ascii=False)[:-1]
        file.write(f'{head}, "vector": {_text(numbers, record) or "null"}}}\n'.encode())


def _write_csv(file: IO[bytes], records: Iterable[Record], dim: int) -> None:
    import io

    numbers = _numbers(dim)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "subject", "payload", "expires", "vector"])
    for record in _of_one_kind(records):
        payload = "" if record.payload is None else json.dumps(record.payload, ensure_ascii=False)
        expires = "" if record.expires is None else record.expires.isoformat()
        writer.writerow([record.id, record.subject or "", payload, expires, _text(numbers, record)])
    text.detach()


def _text(numbers: str, record: Record) -> str:
    if record.vector is None:
        return ""
    text = numbers % tuple(record.vector.tolist())
    # JSON's -0 is a whole number, which has no sign when it is zero.
    return text if (record.vector != 0).all() else text.replace("-0,", "-0.0,").replace("-0]", "-0.0]")


def _of_one_kind(records: Iterable[Record]) -> Iterator[Record]:
    """CSV has no types: ids must all be numbers, or all be texts that nobody takes for numbers."""
    kind = None
    for record in records:
        kind = type(record.id) if kind is None else kind
        if type(record.id) is not kind or (isinstance(record.id, str) and record.id.strip().lstrip("+-").isdecimal()):
            raise FormatError(f"expected ids that CSV can tell apart, got {record.id!r}; .jsonl keeps all of them")
        yield record


def _write_arrow(file: IO[bytes], suffix: str, records: Iterator[Record], dim: int, name: str) -> None:
    pa, pq = _pyarrow(f"writing {suffix} files")
    first = next(records, None)
    schema = _schema(pa, first, dim)
    writer = pq.ParquetWriter(file, schema) if suffix == ".parquet" else pa.ipc.new_file(file, schema)
    with writer:
        part = [first] if first is not None else []
        part += islice(records, _PART - 1)
        while part:
            writer.write_batch(_arrow_batch(pa, part, schema, dim, name))
            part = list(islice(records, _PART))


def _arrow_batch(pa: Any, part: list[Record], schema: Any, dim: int, name: str) -> Any:
    texts = pa.types.is_string(schema.field("id").type)
    for record in part:
        if isinstance(record.id, str) != texts:
            raise FormatError(
                f"{name}: expected ids of one kind, numbers or texts, in a columnar file; .jsonl has both"
            )
    bare = np.array([record.vector is None for record in part])
    zeros = np.zeros(dim, dtype=np.float32)
    flat = pa.array(np.concatenate([zeros if r.vector is None else r.vector for r in part]), type=pa.float32())
    payloads = [None if r.payload is None else json.dumps(r.payload, ensure_ascii=False) for r in part]
    columns = [
        pa.array([record.id for record in part], type=schema.field("id").type),
        pa.array([record.subject for record in part], type=pa.string()),
        pa.array(payloads, type=pa.string()),
        pa.array([record.expires for record in part], type=schema.field("expires").type),
        pa.FixedSizeListArray.from_arrays(flat, dim, mask=pa.array(bare) if bare.any() else None),
    ]
    return pa.record_batch(columns, schema=schema)
