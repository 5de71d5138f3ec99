"""Records and answers as they travel: columns of JSON beside arrays of numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from .._hits import Hits, Work
from .._record import KEEP, Record
from .._store.ids import number_of
from ..errors import FormatError
from .messages import Array, Message

__all__ = [
    "Answers",
    "pack_batch",
    "pack_hits",
    "pack_records",
    "record_hash",
    "unpack_batch",
    "unpack_records",
    "unpack_update",
]


def record_hash(encoding: bytes) -> str:
    """What two members compare a record by."""
    return hashlib.blake2b(encoding, digest_size=16, person=b"lethevec-compare").hexdigest()


def pack_batch(
    ids: Sequence[int | str],
    vectors: Array,
    placed: Sequence[int],
    subjects: Sequence[str | None],
    payloads: Sequence[Any],
    expires: Sequence[int | None],
) -> Message:
    """Records on their way to a member; `vectors` are those of the records at `placed`."""
    head: dict[str, Any] = {"ids": list(ids), "subjects": list(subjects), "payloads": list(payloads)}
    head["expires"] = list(expires)
    return Message(head, [np.asarray(vectors, dtype=np.float32), np.asarray(placed, dtype=np.int64)])


def unpack_batch(head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
    """The arguments of `Store.add` and `Store.upsert`."""
    if len(arrays) != 2 or len(arrays[0]) != len(arrays[1]):
        raise FormatError("message: expected vectors and their places, got something else")
    vectors, placed, n = arrays[0], arrays[1], len(head["ids"])
    whole: Any = None
    if len(vectors) == n and n:
        whole = vectors
    elif len(vectors):
        whole = [None] * n
        for place, vector in zip(placed.tolist(), vectors, strict=True):
            whole[place] = vector
    return {
        "vectors": whole,
        "ids": head["ids"],
        "subjects": head["subjects"],
        "payloads": head["payloads"],
        "expires": [_moment(value) for value in head["expires"]],
    }


def unpack_update(head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
    """The arguments of `Store.update`: what is named in `given`; the rest stays."""
    whole = unpack_batch(head, arrays)
    given = set(head["given"])
    made = {name: whole[name] if name in given else KEEP for name in ("vectors", "subjects", "payloads", "expires")}
    return {**made, "ids": whole["ids"], "merge": bool(head["merge"])}


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def pack_records(records: Sequence[Record], dim: int, **more: Any) -> Message:
    """Records on their way from a member."""
    placed = [place for place, record in enumerate(records) if record.vector is not None]
    vectors = np.zeros((len(placed), dim), dtype=np.float32)
    for row, place in enumerate(placed):
        vector = records[place].vector
        assert vector is not None
        vectors[row] = vector
        vector.fill(0)  # a copy of the store's, which nobody else has
    made = pack_batch(
        [record.id for record in records],
        vectors,
        placed,
        [record.subject for record in records],
        [record.payload for record in records],
        [None if r.expires is None else round(r.expires.timestamp() * 1000) for r in records],
    )
    made.head.update(more)
    return made


def unpack_records(message: Message) -> list[Record]:
    """Records as callers see them."""
    head, (vectors, placed) = message.head, message.arrays
    rows = {place: row for row, place in enumerate(placed.tolist())}
    return [
        Record(id, vectors[rows[place]] if place in rows else None, subject, payload, _moment(expires))
        for place, (id, subject, payload, expires) in enumerate(
            zip(head["ids"], head["subjects"], head["payloads"], head["expires"], strict=True)
        )
    ]


def pack_hits(hits: Hits, own: Callable[[int | str], bool] | None = None, k: int | None = None) -> Message:
    """Answers on their way from a member; with `own`, those of its own buckets alone, at most k for a query."""
    found = np.isfinite(hits.distances)
    if own is not None:
        for query, place in np.argwhere(found).tolist():
            found[query, place] = own(hits.ids[query, place])
        if k is not None:
            found &= np.cumsum(found, axis=1) <= k
    counts = found.sum(axis=1)
    columns = hits.ids.shape[1] if k is None else k
    head: dict[str, Any] = {"work": list(hits.work), "columns": columns, "least": int(counts.min(initial=0))}
    arrays: list[Array] = [np.asarray(hits.distances[found], dtype=np.float32), np.asarray(counts, dtype=np.int64)]
    ids = hits.ids[found].tolist()
    if all(type(id) is int for id in ids):
        arrays.append(np.array(ids, dtype=np.int64))  # read and written faster than JSON
    else:
        head["ids"] = ids
    for name, values in (("subjects", hits.subjects), ("payloads", hits.payloads)):
        assert values is not None
        given = values[found].tolist()
        if any(value is not None for value in given):
            head[name] = given
    return Message(head, arrays)


class Answers:
    """The answers of one member to n queries, as arrays with a row for each; what is missing is at distance +inf."""

    __slots__ = ("columns", "distances", "ids", "numbers", "payloads", "subjects", "work")

    def __init__(self, message: Message) -> None:
        head, (distances, counts, *numbers) = message.head, message.arrays
        width = int(counts.max(initial=0))
        there = np.arange(width) < counts[:, None]
        self.distances = np.full(there.shape, np.inf, dtype=np.float32)
        self.distances[there] = distances
        self.numbers = np.full(there.shape, -1, dtype=np.int64)
        self.ids: npt.NDArray[Any] | None = None  # where numbers do not say it
        if numbers:
            self.numbers[there] = numbers[0]
        else:
            self.ids = _filled(there, head["ids"], -1)
            self.numbers[there] = [number_of(id) for id in head["ids"]]
        self.subjects = _filled(there, head["subjects"]) if "subjects" in head else None
        self.payloads = _filled(there, head["payloads"]) if "payloads" in head else None
        self.work = Work(*head["work"])
        self.columns = int(head["columns"])


def _filled(there: npt.NDArray[np.bool_], values: Sequence[Any], missing: Any = None) -> npt.NDArray[Any]:
    made = np.full(there.shape, missing, dtype=object)
    given = np.empty(len(values), dtype=object)
    given[:] = values
    made[there] = given
    return made
