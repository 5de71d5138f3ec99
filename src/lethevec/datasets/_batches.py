"""Records from files, tables and frames as `Store.load` takes them: batches with the arguments of `add`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np

from ._records import Records, checked, count_records, iter_records
from ._tables import is_table, payload_of, table_rows

__all__ = ["batches_of", "is_source", "iter_batches", "size_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def is_source(given: Any) -> bool:
    """Whether this is a file, a table or a frame."""
    return isinstance(given, str | os.PathLike) or is_table(given)


def size_of(source: Any, key: str | None = None) -> int | None:
    """How many records there are, where that is known."""
    if isinstance(source, str | os.PathLike):
        return count_records(source, key=key)
    return len(source) if hasattr(source, "__len__") else getattr(source, "num_rows", None)


def iter_batches(
    source: Any, *, batch: int = 10_000, key: str | None = None, clock: Callable[[], float] = time.time
) -> Iterator[dict[str, Any]]:
    """Batches with the arguments of `add`, of a file, an Arrow table, or a pandas or Polars frame.

    Records without ids get numbers from 0 on. Those that have expired are left out.
    """
    name = str(source) if isinstance(source, str | os.PathLike) else "table"
    if isinstance(source, str | os.PathLike):
        parts = iter_records(source, batch=batch, key=key, bare=True)
    else:
        parts = checked(Path(name), table_rows(source, key, batch), bare=True)
    number = 0
    for records in parts:
        if records.ids is None:
            ids: Any = np.arange(number, number + len(records))
            number += len(records)
        else:
            ids = records.ids
        yield from batches_of(name, records, ids, clock)


def batches_of(name: object, records: Records, ids: Any, clock: Callable[[], float]) -> Iterator[dict[str, Any]]:
    """The records in up to four batches: some expire and others do not, and some have no vector."""
    payloads = None if records.payloads is None else [payload_of(name, payload) for payload in records.payloads]
    # A CSV file has no other way to say that there is no subject.
    subjects = None if records.subjects is None else [subject or None for subject in records.subjects]
    whole = {"vectors": records.vectors, "ids": ids, "subjects": subjects, "payloads": payloads}
    if records.bare is None and records.expires is None:
        yield whole
        return
    n = len(records)
    bare = np.zeros(n, dtype=np.bool_) if records.bare is None else records.bare
    moments = [None] * n if records.expires is None else records.expires
    now = _EPOCH + timedelta(milliseconds=int(clock() * 1000))
    kinds: dict[tuple[bool, bool], list[int]] = {}
    for place, moment in enumerate(moments):
        if moment is None or _instant(moment) > now:
            kinds.setdefault((bool(bare[place]), moment is not None), []).append(place)
    for (without, expiring), places in sorted(kinds.items()):
        part = {name: None if column is None else _some(column, places) for name, column in whole.items()}
        if without:
            part["vectors"] = None
        if expiring:
            part["expires"] = [moments[place] for place in places]
        yield part


def _some(column: Any, places: list[int]) -> Any:
    return column[places] if isinstance(column, np.ndarray) else [column[place] for place in places]


def _instant(moment: date) -> datetime:
    if isinstance(moment, datetime):
        return moment
    return datetime(moment.year, moment.month, moment.day, tzinfo=timezone.utc)
