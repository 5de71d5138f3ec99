"""Records between the caller, SQL and the digest; `tables` writes and reads them.

Everything here runs inside the caller's transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._forgetting.records import canonical_json, encode_record
from .._vectors import as_vectors
from ..errors import FormatError, InputError
from .ids import Id, check_ids, check_text, row_of

__all__ = [
    "Batch",
    "Record",
    "Stored",
    "describe",
    "in_parts",
    "locate",
    "make_batch",
    "marks",
    "occupied",
    "to_arrays",
]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

_IN = 500  # parameters of one statement; every SQLite allows 999


@dataclass(frozen=True)
class Record:
    """One record as callers see it."""

    id: Id
    vector: F32
    subject: str | None
    payload: dict[str, Any] | None


class Stored(NamedTuple):
    """One record as it is in the tables."""

    slot: int
    row: int
    name: str | None
    subject: str | None
    payload: str | None
    vector: bytes
    number: int | None = None  # of its key, in a sealed store
    sealed: bytes | None = None  # and what its row holds

    @property
    def id(self) -> Id:
        """The caller's id."""
        return self.row if self.name is None else self.name

    def encoding(self) -> bytes:
        """What the digest is made of."""
        return encode_record(self.id, self.vector, self.subject, self.payload)

    def record(self) -> Record:
        """As callers see it."""
        vector = np.frombuffer(self.vector, dtype="<f4").astype(np.float32)
        return Record(self.id, vector, self.subject, _read_payload(self.payload))


@dataclass(frozen=True)
class Batch:
    """Records on their way in: checked, not yet stored."""

    ids: list[Id]
    rows: I64
    vectors: F32
    subjects: list[str | None]
    payloads: list[str | None]

    def __len__(self) -> int:
        """How many."""
        return len(self.ids)

    def stored(self, first_slot: int) -> Iterator[Stored]:
        """As they will be in the tables."""
        little = self.vectors.astype("<f4", copy=False)
        for place, id in enumerate(self.ids):
            name = id if isinstance(id, str) else None
            yield Stored(
                first_slot + place,
                int(self.rows[place]),
                name,
                self.subjects[place],
                self.payloads[place],
                little[place].tobytes(),
            )


def make_batch(dim: int, metric: str, vectors: npt.ArrayLike, ids: Any, subjects: Any, payloads: Any) -> Batch:
    """Check everything that a caller gave for some records."""
    checked = as_vectors(vectors, dim, nonzero=metric == "cosine")
    names, rows = check_ids(ids)
    if len(names) != len(checked):
        raise InputError(f"ids: expected one for each of {len(checked)} vectors, got {len(names)}")
    n = len(names)
    return Batch(names, rows, checked, check_subjects(subjects, n), check_payloads(payloads, n))


def check_subjects(subjects: Any, n: int) -> list[str | None]:
    """A subject for each record: one for all, or a list with None where there is none."""
    if subjects is None or isinstance(subjects, str):
        subjects = [subjects] * n
    subjects = list(subjects)
    if len(subjects) != n:
        raise InputError(f"subjects: expected one for each of {n} records, or one string for all, got {len(subjects)}")
    return [None if subject is None else check_text(subject, "subjects") for subject in subjects]


def check_payloads(payloads: Any, n: int) -> list[str | None]:
    """The canonical JSON of each payload: a dict, or None where there is none."""
    payloads = [None] * n if payloads is None else payloads
    if isinstance(payloads, Mapping | str) or not isinstance(payloads, Sequence):
        raise InputError(f"payloads: expected a list of {n} dicts or None, got {type(payloads).__name__}")
    if len(payloads) != n:
        raise InputError(f"payloads: expected one for each of {n} records, got {len(payloads)}")
    return [None if payload is None else _payload_text(payload, place) for place, payload in enumerate(payloads)]


def _payload_text(payload: Any, place: int) -> str:
    if not isinstance(payload, dict):
        raise InputError(f"payloads: expected dicts, got {type(payload).__name__} at {place}")
    try:
        text = canonical_json(payload)
        text.encode()
        # A key that is not a string, or a tuple, would come back as something else.
        if json.loads(text) != payload:
            raise ValueError("keys must be strings, and values JSON's own types")
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"payloads: expected what JSON can hold, got something else at {place} ({error})") from None
    return text


def locate(connection: sqlite3.Connection, ids: Sequence[Id]) -> list[int | None]:
    """The slot of each id, None for those that are not there."""
    found: dict[int, tuple[int, str | None]] = {}
    rows = [row_of(id) for id in ids]
    for part in in_parts(rows):
        sql = f"SELECT row, slot, name FROM records WHERE row IN ({marks(part)})"
        found.update((row, (slot, name)) for row, slot, name in connection.execute(sql, part))
    slots: list[int | None] = []
    for id, row in zip(ids, rows, strict=True):
        slot, name = found.get(row, (None, None))
        slots.append(slot if name == (id if isinstance(id, str) else None) else None)
    return slots


def occupied(connection: sqlite3.Connection, rows: Sequence[int]) -> list[int]:
    """Those of the rows that some record has, whichever id it goes by."""
    taken: list[int] = []
    for part in in_parts(rows):
        sql = f"SELECT row FROM records WHERE row IN ({marks(part)})"
        taken.extend(row for (row,) in connection.execute(sql, part))
    return taken


def describe(
    connection: sqlite3.Connection, rows: Sequence[int]
) -> dict[int, tuple[Id, str | None, dict[str, Any] | None]]:
    """Id, subject and payload of these rows, as far as they are there."""
    found: dict[int, tuple[Id, str | None, dict[str, Any] | None]] = {}
    for part in in_parts(rows):
        sql = f"SELECT row, name, subject, payload FROM records WHERE row IN ({marks(part)})"
        for row, name, subject, payload in connection.execute(sql, part):
            id = row if name is None else name
            found[row] = (id, subject, _read_payload(payload))
    return found


def to_arrays(rows: Sequence[Any], blobs: Sequence[Any], dim: int, path: object) -> tuple[I64, F32]:
    """Rows and vectors for the index; what a damaged file could hold is refused."""
    size = 4 * dim
    if set(map(type, rows)) != {int} or set(map(type, blobs)) != {bytes} or set(map(len, blobs)) != {size}:
        raise FormatError(f"{path}: expected an integer row and {size} bytes of vector in every record, got others")
    vectors = np.frombuffer(b"".join(blobs), dtype="<f4").astype(np.float32).reshape(-1, dim)
    if not np.isfinite(vectors).all():
        raise FormatError(f"{path}: expected finite numbers in every vector, got others: the file is damaged")
    return np.array(rows, dtype=np.int64), vectors


def _read_payload(text: Any) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        payload = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(f"records: expected payloads in JSON, got something else ({error}): damaged") from None
    if not isinstance(payload, dict):
        raise FormatError(f"records: expected payloads to be objects, got {type(payload).__name__}: damaged")
    return payload


def in_parts(values: Sequence[int]) -> Iterator[Sequence[int]]:
    """As many values at a time as one statement takes."""
    for start in range(0, len(values), _IN):
        yield values[start : start + _IN]


def marks(part: Sequence[int]) -> str:
    """A question mark for each value."""
    return ",".join("?" * len(part))
