"""Records between the caller, the tables and the digest: what came in is checked here, and given back as it came."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._forgetting.records import canonical_json, encode_record
from .._index.kept_form import KeptForm
from .._record import Record
from .._vectors import as_vectors
from ..errors import FormatError, InputError
from .ids import Id, check_ids, check_text

__all__ = ["Batch", "Stored", "as_arrays", "check_payloads", "check_subjects", "make_batch", "merged", "read_payload"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Stored(NamedTuple):
    """One record as it is in the tables."""

    slot: int
    number: int
    name: str | None
    subject: str | None
    payload: str | None
    vector: bytes | None
    key: int | None = None  # the number of its key, in a sealed store
    sealed: bytes | None = None  # and what its table holds
    expires: int | None = None  # in milliseconds since 1970

    @property
    def id(self) -> Id:
        """The caller's id."""
        return self.number if self.name is None else self.name

    def encoding(self) -> bytes:
        """What the digest is made of."""
        return encode_record(self.id, self.vector, self.subject, self.payload, self.expires)

    def record(self) -> Record:
        """As callers see it."""
        vector = None if self.vector is None else np.frombuffer(self.vector, dtype="<f4").astype(np.float32)
        return Record(self.id, vector, self.subject, read_payload(self.payload), _moment(self.expires))

    def columns(self) -> tuple[Any, ...]:
        """The values of its row in the table `records`."""
        return (*self[:5], self.expires)


def _moment(milliseconds: int | None) -> datetime | None:
    """A time as callers see it, exact to the millisecond however far away it is."""
    if milliseconds is None:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except (OverflowError, TypeError):
        raise FormatError(f"records: expected times in milliseconds, got {milliseconds!r:.40}: damaged") from None


@dataclass(frozen=True)
class Batch:
    """Records on their way in: checked, not yet stored. `vectors` are those of the records at `placed`."""

    ids: list[Id]
    numbers: I64
    vectors: F32
    placed: I64
    subjects: list[str | None]
    payloads: list[str | None]
    expires: list[int | None]

    def __len__(self) -> int:
        """How many."""
        return len(self.ids)

    def part(self, places: Sequence[int]) -> Batch:
        """Some of the records, in this order."""
        vector_of = {place: index for index, place in enumerate(self.placed.tolist())}
        chosen = [(there, vector_of[place]) for there, place in enumerate(places) if place in vector_of]
        return Batch(
            [self.ids[place] for place in places],
            self.numbers[list(places)],
            np.ascontiguousarray(self.vectors[[index for _, index in chosen]]),
            np.array([there for there, _ in chosen], dtype=np.int64),
            [self.subjects[place] for place in places],
            [self.payloads[place] for place in places],
            [self.expires[place] for place in places],
        )

    def stored(self, first_slot: int) -> Iterator[Stored]:
        """As they will be in the tables."""
        little = self.vectors.astype("<f4", copy=False)
        vectors: list[bytes | None] = [None] * len(self)
        for place, vector in zip(self.placed.tolist(), little, strict=True):
            vectors[place] = vector.tobytes()
        for place, id in enumerate(self.ids):
            name = id if isinstance(id, str) else None
            number = int(self.numbers[place])
            subject, payload, expires = self.subjects[place], self.payloads[place], self.expires[place]
            yield Stored(first_slot + place, number, name, subject, payload, vectors[place], expires=expires)


def make_batch(
    dim: int,
    metric: str,
    vectors: Any,
    ids: Any,
    subjects: Any,
    payloads: Any,
    expires: Callable[[int], list[int | None]] | None = None,
    *,
    keep_vectors: bool | str = True,
) -> Batch:
    """Check everything that a caller gave for some records; `expires` gives the times of so many records.

    The tables keep vectors as they came. `keep_vectors` is the index's: it must be able to round them.
    """
    checked, placed, count = check_vectors(vectors, dim, metric)
    if isinstance(keep_vectors, str) and len(checked):
        KeptForm(keep_vectors, metric).check(checked)
    names, numbers = check_ids(ids)
    n = len(names)
    if count is not None and n != count:
        raise InputError(f"ids: expected one for each of {count} vectors, got {n}")
    times: list[int | None] = [None] * n if expires is None else expires(n)
    return Batch(names, numbers, checked, placed, check_subjects(subjects, n), check_payloads(payloads, n), times)


def check_vectors(vectors: Any, dim: int, metric: str) -> tuple[F32, I64, int | None]:
    """The vectors, which records they are of, and how many records there are (None: any number of them).

    `vectors` is None where no record has one; a list may have None in some places.
    """
    none: F32 = np.empty((0, dim), dtype=np.float32)
    if vectors is None:
        return none, np.empty(0, dtype=np.int64), None
    if isinstance(vectors, list | tuple) and any(vector is None for vector in vectors):
        placed = [place for place, vector in enumerate(vectors) if vector is not None]
        given = [vectors[place] for place in placed]
        checked = as_vectors(given, dim, nonzero=metric == "cosine") if given else none
        if len(checked) != len(placed):
            raise InputError("vectors: expected a vector or None for each record, got numbers")
        return checked, np.array(placed, dtype=np.int64), len(vectors)
    checked = as_vectors(vectors, dim, nonzero=metric == "cosine")
    return checked, np.arange(len(checked)), len(checked)


def check_subjects(subjects: Any, n: int) -> list[str | None]:
    """A subject for each record: one for all, or a list with None where there is none."""
    if subjects is None or isinstance(subjects, str):
        subjects = [subjects] * n
    no_list = not isinstance(subjects, Iterable) or isinstance(subjects, Mapping | bytes)
    if no_list or getattr(subjects, "ndim", 1) == 0:  # such an array calls itself iterable and is not
        raise InputError(f"subjects: expected a list of {n} strings or None, got {type(subjects).__name__}")
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


def merged(old: str | None, new: str | None) -> str | None:
    """A payload in which the fields of a new one have taken the places of those of the same name."""
    if old is None or new is None:
        return old if new is None else new
    return canonical_json({**(read_payload(old) or {}), **(read_payload(new) or {})})


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


def as_arrays(numbers: Sequence[Any], blobs: Sequence[Any], dim: int, path: object) -> tuple[I64, F32]:
    """Numbers and vectors for the index; what a damaged file could hold is refused."""
    size = 4 * dim
    if (
        not set(map(type, numbers)) <= {int}
        or not set(map(type, blobs)) <= {bytes}
        or not set(map(len, blobs)) <= {size}
    ):
        raise FormatError(
            f"{path}: expected an integer and {size} bytes of vector in every record, got others: damaged"
        )
    vectors = np.frombuffer(b"".join(blobs), dtype="<f4").astype(np.float32).reshape(-1, dim)
    if not np.isfinite(vectors).all():
        raise FormatError(f"{path}: expected finite numbers in every vector, got others: the file is damaged")
    return np.array(numbers, dtype=np.int64), vectors


def read_payload(text: Any) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        payload = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(f"records: expected payloads in JSON, got something else ({error}): damaged") from None
    if not isinstance(payload, dict):
        raise FormatError(f"records: expected payloads to be objects, got {type(payload).__name__}: damaged")
    return payload
