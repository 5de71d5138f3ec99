"""Records from what is in memory already: Arrow tables and batches, pandas and Polars frames.

The columns `id`, `subject`, `payload` and `expires` mean what they say, and the vectors are a column of lists of
numbers. Where there is no column `payload`, all other columns are fields of it: a missing value is no field, and times
become text in ISO 8601.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np

from .._extras import need
from ..errors import FormatError
from ._arrow import arrow_errors, check_names, columns_of, convert
from ._common import DEFAULT_KEYS, Rows, as_id, as_ids, as_moment, as_subject, choose

__all__ = ["is_table", "payload_of", "table_rows"]

_OWN = ("id", "subject", "payload", "expires")


def is_table(given: Any) -> bool:
    """Whether this is a table or a frame, and nothing that has to be iterated over."""
    library = type(given).__module__.partition(".")[0]
    if library == "pandas":
        return hasattr(given, "columns")
    return library == "polars" or hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")


def table_rows(given: Any, key: str | None, batch: int) -> Iterator[Rows]:
    """Its rows, at most `batch` at a time."""
    library = type(given).__module__.partition(".")[0]
    if library == "pandas":
        return _pandas_rows(given, key, batch)
    if library == "polars":
        given = given.collect() if hasattr(given, "collect") else given  # a lazy one
        if not hasattr(given, "to_arrow") or not hasattr(given, "columns"):
            raise FormatError(f"expected a frame with the columns of records, got {type(given).__name__}")
    return _arrow_rows(given, key, batch)


def _arrow_rows(given: Any, key: str | None, batch: int) -> Iterator[Rows]:
    pyarrow = need("pyarrow", "datasets", "reading Arrow tables and Polars frames")
    path = Path("table")
    with arrow_errors(path):
        table = given if isinstance(given, pyarrow.Table) else pyarrow.table(given)
        schema = table.schema
        check_names(path, schema.names)
        column, own = columns_of(path, schema, key)
        others = _others(schema.names, column)
        row = 0
        for piece in table.select([*own, *others]).to_batches(max_chunksize=batch):
            piece.validate(full=True)  # it may have been read from a file, whose offsets Arrow follows blindly
            rows = convert(path, piece, column, row)
            if others:
                fields = {name: piece.column(name).to_pylist() for name in others}
                rows = _with_fields(rows, fields, path, row)
            yield rows
            row += piece.num_rows


def _others(names: list[str], column: str) -> list[str]:
    """The columns that are fields of payloads."""
    return [] if "payload" in names else [name for name in names if name not in (*_OWN, column)]


def _with_fields(rows: Rows, fields: dict[str, list[Any]], path: Path, first: int) -> Rows:
    payloads: list[dict[str, Any]] = [{} for _ in rows.values]
    for name, column in fields.items():
        for i, value in enumerate(column):
            if not _missing(value):
                payloads[i][name] = _plain(path, f"row {first + i}, column {name!r}", value)
    return Rows(rows.values, rows.ids, rows.subjects, [one or None for one in payloads], rows.expires, rows.bare)


def _missing(value: Any) -> bool:
    """None, a NaN, or what pandas has in its place."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and math.isnan(value))
    )


def _plain(path: Path, where: str, value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, str | int | float | bool | list | dict):
        return value
    raise FormatError(f"{path}: {where}: expected what JSON can hold, got {type(value).__name__}")


def _pandas_rows(frame: Any, key: str | None, batch: int) -> Iterator[Rows]:
    path = Path("frame")
    names = [str(name) for name in frame.columns]
    check_names(path, names)
    named = dict(zip(names, frame.columns, strict=True))
    column = _pandas_vectors(path, frame, named, key)
    others = _others(names, column)
    for start in range(0, len(frame), batch):
        part = frame.iloc[start : start + batch]

        def values(name: str, part: Any = part) -> list[Any]:
            column = part[named[name]]
            return [None if gone else value for value, gone in zip(column.tolist(), column.isna(), strict=True)]

        where = f"rows from {start}"
        ids = subjects = payloads = expires = None
        if "id" in names:
            found = values("id")
            ids = as_ids([as_id(path, f"row {start + i}", value) for i, value in enumerate(found)])
        if "subject" in names:
            subjects = [as_subject(path, where, value) for value in values("subject")]
        if "payload" in names:
            payloads = values("payload")
        if "expires" in names:
            moments = [as_moment(path, f"row {start + i}", value) for i, value in enumerate(values("expires"))]
            expires = [_python(moment) for moment in moments]
        matrix, bare = _pandas_matrix(path, values(column), where)
        some = expires if expires and any(expires) else None
        rows = Rows(matrix, ids, subjects, payloads, some, bare)
        if others:
            fields = {name: [_python(value) for value in values(name)] for name in others}
            rows = _with_fields(rows, fields, path, start)
        yield rows


def _python(value: Any) -> Any:
    """pandas' own times are datetimes that know nanoseconds, which nobody asks for here."""
    return value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value


def _pandas_vectors(path: Path, frame: Any, named: dict[str, Any], key: str | None) -> str:
    """The column of vectors: the one that is named, or has a usual name, or is the only one with lists in it."""
    if key is not None or any(name in named for name in DEFAULT_KEYS):
        return choose(path, list(named), key, "a column of vectors")
    found = []
    for name in named:
        first = next((value for value in frame[named[name]].tolist() if value is not None), None)
        if name not in _OWN and isinstance(first, list | np.ndarray):
            found.append(name)
    return choose(path, found, key, "a column of vectors")


def _pandas_matrix(path: Path, values: list[Any], where: str) -> tuple[Any, Any]:
    bare = np.array([value is None for value in values])
    try:
        some = [np.asarray(value) for value in values if value is not None]
        widths = {one.shape for one in some}
        if len(widths) > 1 or any(len(shape) != 1 for shape in widths):
            raise ValueError(f"shapes {', '.join(str(shape) for shape in sorted(widths)[:3])}")
        (dim,) = next(iter(widths), (0,))
        matrix = np.zeros((len(values), dim), dtype=np.result_type(*some) if some else np.float32)
        if matrix.dtype.kind not in "fiu":
            raise ValueError(f"values of type {matrix.dtype}")
        if some:
            matrix[~bare] = np.stack(some)
    except (ValueError, TypeError) as error:
        raise FormatError(f"{path}: {where}: expected vectors of one length, got {error}") from None
    return matrix, bare if bare.any() else None


def payload_of(path: object, payload: Any) -> dict[str, Any] | None:
    """A JSON object, which most formats write as text."""
    if payload is None or payload in ("", b""):
        return None
    value = payload
    if isinstance(payload, str | bytes):
        try:
            value = json.loads(payload)
        except (ValueError, RecursionError):
            value = payload
    if not isinstance(value, dict):
        raise FormatError(f"{path}: expected payloads that are JSON objects, got {payload!r:.60}")
    return value
