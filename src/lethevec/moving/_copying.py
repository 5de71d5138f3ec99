"""The copy itself: batch by batch into a store, then counts, and a sample held against the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FormatError, IncompleteWriteError, ParameterError
from ._source import Source

if TYPE_CHECKING:
    from .. import Store

__all__ = ["Moved", "move"]

_SAMPLE = 100  # records that are compared, evenly spread


@dataclass(frozen=True)
class Moved:
    """What was copied: records, those left out for want of a vector, and how many were compared one by one."""

    records: int
    left_out: int
    compared: int


def move(source: Source, store: Store, *, subject_field: str | None = None, batch: int = 10_000) -> Moved:
    """Copy all records of a source into a store, all of them or none; ids that are there already are refused.

    `subject_field` names the field of a payload that says whose data it is.
    """
    if store.dim != source.dim:
        raise ParameterError(f"store: expected one of dimension {source.dim}, as {source.name} has, got {store.dim}")
    if store.metric != source.metric:
        raise ParameterError(
            f"store: expected the metric {source.metric!r}, as {source.name} has, got {store.metric!r}"
        )
    total, held = source.count(), len(store)
    step = max(1, total // _SAMPLE)
    sample: list[tuple[int | str, Any, str | None, Any]] = []

    def passing() -> Iterator[dict[str, Any]]:
        number = 0
        for part in source.batches(batch):
            if not part.ids:
                continue
            subjects = (
                None if subject_field is None else [_subject(payload, subject_field) for payload in part.payloads]
            )
            for place in range(-number % step, len(part.ids), step):
                owner = None if subjects is None else subjects[place]
                sample.append((part.ids[place], part.vectors[place].copy(), owner, part.payloads[place]))
            number += len(part.ids)
            yield {"ids": part.ids, "vectors": part.vectors, "subjects": subjects, "payloads": part.payloads}

    try:
        count = store.load(passing(), total=total) if total else 0
        if len(store) - held != count or count + source.without_vector != total:
            raise IncompleteWriteError(
                f"{source.name}: expected {total:,} records, as it counts, got {count:,} copied and "
                f"{source.without_vector:,} without a vector: it changed meanwhile, or holds an id twice"
            )
        _compare(sample, store, source.name)
        return Moved(count, source.without_vector, len(sample))
    finally:
        for _, vector, _, _ in sample:
            vector.fill(0)


def _subject(payload: dict[str, Any] | None, field: str) -> str | None:
    value = (payload or {}).get(field)
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise FormatError(f"{field}: expected texts or whole numbers that say whose data it is, got {value!r:.60}")


def _compare(sample: list[tuple[int | str, Any, str | None, Any]], store: Store, name: str) -> None:
    """Every record of the sample is in the store as the source gave it."""
    if not sample:
        return
    for (id, vector, owner, payload), record in zip(sample, store.get([id for id, *_ in sample]), strict=True):
        same = record.id == id and record.subject == owner and record.payload == payload
        if not same or record.vector is None or not np.array_equal(record.vector, vector):
            raise IncompleteWriteError(f"{name}: expected the record {id!r} in the store as in the source, got another")
