"""Text files: .jsonl (one JSON value in each line) and .csv. UTF-8, slow, and easy to make.

JSON lines are either objects, with the vector in the field `vector` (or `key`) and optionally `id`, `subject`,
`payload` and `expires`, or bare lists of numbers. A CSV file is either numbers only, one vector in each line; or it
begins with a line of column names, of which `id`, `subject`, `payload` and `expires` mean what they say, and the vector
is either the column `vector` (or `key`), written as a JSON list, or all other columns in order. A vector that is null,
or an empty column, is of a record without one.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import FormatError
from ._common import DEFAULT_KEYS, Rows, as_id, as_ids, as_moment, as_subject

_EXTRAS = ("id", "subject", "payload", "expires")
_OFTEN = "expires"  # what some records of a file may have and others not


class _Collector:
    """Gathers rows into batches; every row must have the dimension and the extra fields of the first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dim: int | None = None
        self.fields: frozenset[str] | None = None
        self._clear()

    def _clear(self) -> None:
        self.vectors: list[list[float] | None] = []
        self.extras: dict[str, list[Any]] = {name: [] for name in _EXTRAS}

    def add(self, where: str, vector: list[float] | None, extras: dict[str, Any]) -> None:
        given = frozenset(extras) - {_OFTEN}
        if self.fields is None:
            self.fields = given
        if self.dim is None and vector is not None:
            self.dim = len(vector)
        if vector is not None and len(vector) != self.dim:
            raise FormatError(
                f"{self.path}: {where}: expected {self.dim} numbers as in the first row, got {len(vector)}"
            )
        if given != self.fields:
            raise FormatError(
                f"{self.path}: {where}: expected the fields of the first row ({_listed(self.fields or ())}), "
                f"got {_listed(extras)}"
            )
        self.vectors.append(vector)
        if "id" in extras:
            self.extras["id"].append(as_id(self.path, where, extras["id"]))
        if "subject" in extras:
            self.extras["subject"].append(as_subject(self.path, where, extras["subject"]))
        if "payload" in extras:
            self.extras["payload"].append(extras["payload"])
        self.extras[_OFTEN].append(as_moment(self.path, where, extras.get(_OFTEN)))

    def take(self) -> Rows:
        zeros = [0.0] * (self.dim or 0)
        bare = np.array([vector is None for vector in self.vectors])
        values = np.array([zeros if vector is None else vector for vector in self.vectors], dtype=np.float64)
        values = values.reshape(len(self.vectors), -1) if zeros else np.empty((len(self.vectors), 0))
        has = self.fields or frozenset()
        rows = Rows(
            values,
            as_ids(self.extras["id"]),
            self.extras["subject"] if "subject" in has else None,
            self.extras["payload"] if "payload" in has else None,
            self.extras[_OFTEN] if any(self.extras[_OFTEN]) else None,
            bare if bare.any() else None,
        )
        self._clear()
        return rows


def jsonl_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of a file of JSON lines; empty lines are skipped."""
    with path.open("rb") as file:
        yield from jsonl_stream(file, path, key, batch)


def jsonl_stream(file: IO[bytes], path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """The same from an open file, which errors call `path`."""
    collector = _Collector(path)
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        where = f"line {number}"
        value = _json(path, where, line)
        extras: dict[str, Any] = {}
        if isinstance(value, dict):
            extras = {name: value[name] for name in _EXTRAS if name in value}
            value = _field(path, where, value, key)
        elif value is None:
            raise FormatError(f"{path}: {where}: expected a list of numbers or an object, got null")
        collector.add(where, None if value is None else _numbers(path, where, value), extras)
        if len(collector.vectors) == batch:
            yield collector.take()
    if collector.vectors:
        yield collector.take()


def csv_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of a CSV file."""
    with path.open("rb") as file:
        yield from csv_stream(file, path, key, batch)


def csv_stream(file: IO[bytes], path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """The same from an open file, which errors call `path`."""
    collector = _Collector(path)
    text = TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        reader = csv.reader(text, strict=True)
        names: list[str] | None = None
        id_type: type[int] | type[str] | None = None
        for row in reader:
            if not row:
                continue
            where = f"line {reader.line_num}"
            if names is None:
                names = _header(path, row, key)
                if names:
                    continue
            if names and len(row) != len(names):
                raise FormatError(f"{path}: {where}: expected {len(names)} fields, got {len(row)}")
            vector, extras = _csv_row(path, where, row, names, key)
            if "id" in extras:
                id_type = _id_type(extras["id"]) if id_type is None else id_type
                extras["id"] = _csv_id(path, where, extras["id"], id_type)
            collector.add(where, vector, extras)
            if len(collector.vectors) == batch:
                yield collector.take()
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: expected UTF-8 text, got other bytes: {error}") from None
    except csv.Error as error:
        raise FormatError(f"{path}: expected CSV, got lines that cannot be read: {error}") from None
    finally:
        text.detach()  # it would close the caller's file with it
    if collector.vectors:
        yield collector.take()


def _header(path: Path, row: list[str], key: str | None) -> list[str]:
    """The column names, or an empty list when the first line is numbers already."""
    if key is None and all(_is_number(field) for field in row):
        return []
    names = [field.strip() for field in row]
    if key is not None and key not in names:
        raise FormatError(f"{path}: expected a column named {key!r}, got: {_listed(names)}")
    if len(set(names)) != len(names):
        raise FormatError(f"{path}: expected columns with different names, got: {_listed(names)}")
    return names


def _csv_row(
    path: Path, where: str, row: list[str], names: list[str], key: str | None
) -> tuple[list[float] | None, dict[str, Any]]:
    if not names:
        return [_float(path, where, field) for field in row], {}
    fields = dict(zip(names, row, strict=True))
    extras: dict[str, Any] = {name: fields[name] for name in _EXTRAS if name in fields and name != key}
    column = key if key is not None else next((name for name in DEFAULT_KEYS if name in fields), None)
    if column is not None:
        text = fields[column]
        return _numbers(path, where, _json(path, where, text.encode())) if text else None, extras
    return [_float(path, where, value) for name, value in fields.items() if name not in _EXTRAS], extras


def _field(path: Path, where: str, record: dict[str, Any], key: str | None) -> Any:
    for name in DEFAULT_KEYS if key is None else (key,):
        if name in record:
            return record[name]
    raise FormatError(f"{path}: {where}: expected a field {key or 'vector'!r}, got: {_listed(record)}")


def _json(path: Path, where: str, text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        raise FormatError(f"{path}: {where}: expected JSON, got {text[:40]!r}: {error}") from None


def _numbers(path: Path, where: str, value: Any) -> list[float]:
    if isinstance(value, list) and value and set(map(type, value)) <= {int, float}:
        try:
            return [float(number) for number in value]
        except OverflowError:
            raise FormatError(f"{path}: {where}: expected numbers of float32, got one with too many digits") from None
    raise FormatError(f"{path}: {where}: expected a list of numbers, got {str(value)[:60]}")


def _float(path: Path, where: str, field: str) -> float:
    try:
        return float(field)
    except ValueError:
        raise FormatError(f"{path}: {where}: expected a number, got {field[:40]!r}") from None


def _id_type(field: str) -> type[int] | type[str]:
    """CSV has no types, so the first id decides: if it looks like a whole number, all are numbers, otherwise texts."""
    return int if re.fullmatch(r"\s*[+-]?[0-9]{1,30}\s*", field) else str


def _csv_id(path: Path, where: str, field: str, wanted: type[int] | type[str]) -> int | str:
    if wanted is int and _id_type(field) is str:
        raise FormatError(
            f"{path}: {where}: expected an id that is a whole number, as in the first row, got {field[:40]!r}"
        )
    return wanted(field)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _listed(names: Any) -> str:
    return ", ".join(sorted(map(str, names)))[:200] or "none"
