"""What all readers share: the batch they give, the choice of an array by name, and optional packages.

A reader is a function `rows(path, key, batch)` that yields `Rows`: values as they are stored, at most `batch` at a
time. It raises FormatError for anything unexpected, and never allocates by a number that it read before it has held
that number against the size of the file. Conversion to float32 and the check of the values follow in one place, in
`_records.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError

I64 = npt.NDArray[np.int64]
#: Whole numbers as int64, or a list where some are texts.
Ids = I64 | list[int | str]

# Names that hold the vectors when the caller names none, in this order.
DEFAULT_KEYS = ("vectors", "vector", "train", "embedding", "embeddings")

# Deflate cannot expand a byte to more than this; whatever claims more is damaged or hostile.
MAX_EXPANSION = 1032


# Numbers of a row that are believed when the size of the data is not known.
MAX_DIM = 1 << 20


@dataclass(frozen=True)
class Rows:
    """A batch as stored: values of shape (n, dim) in any real type, and what else the file says about each row.

    Where `bare` is True, the row has no vector and its values are zeros.
    """

    values: npt.NDArray[Any]
    ids: Ids | None = None
    subjects: list[str | None] | None = None
    payloads: list[Any] | None = None
    expires: list[date | None] | None = None
    bare: npt.NDArray[np.bool_] | None = None


def choose(path: Path, candidates: list[str], key: str | None, what: str) -> str:
    """The name of the vectors among `candidates`: `key`, or a usual name, or the only one there is."""
    listed = ", ".join(candidates) or "none"
    if key is not None:
        if key in candidates:
            return key
        raise FormatError(f"{path}: expected {what} named {key!r}, got: {listed}")
    for name in DEFAULT_KEYS:
        if name in candidates:
            return name
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise FormatError(f"{path}: expected one {what}, got {len(candidates)} ({listed}); choose by key=")
    raise FormatError(f"{path}: expected {what}, got none")


def expect_magic(path: Path, magic: bytes, what: str) -> None:
    """Refuse a file that does not begin with `magic`."""
    with path.open("rb") as file:
        start = file.read(len(magic))
    if start != magic:
        raise FormatError(f"{path}: expected {what}, which begins with {magic!r}, got {start!r}")


def as_id(path: Path, where: str, value: object) -> int | str:
    """An id: a whole number in the range of int64 (True is not one), or a text that is not empty."""
    whole = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    if not whole and (not isinstance(value, str) or not value):
        got = f"{type(value).__name__} {str(value)[:40]!r}"
        raise FormatError(f"{path}: {where}: expected an id that is a whole number of 64 bits or a text, got {got}")
    return value  # type: ignore[return-value]


def as_ids(values: list[Any]) -> Ids | None:
    """Ids as `as_id` gave them; None for none."""
    if not values:
        return None
    return list(values) if any(isinstance(value, str) for value in values) else np.array(values, dtype=np.int64)


def as_subject(path: Path, where: str, value: object) -> str | None:
    """A subject is text; a whole number counts as its decimal text, as it would in a CSV file."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise FormatError(f"{path}: {where}: expected a subject that is text, got {type(value).__name__}")


def as_moment(path: Path, where: str, value: object) -> date | None:
    """When a record expires: a time with a zone, or a date; as text in ISO 8601. An empty text is none."""
    if value is None or value == "":
        return None
    moment = value
    if isinstance(value, str):
        try:
            # Python 3.10 reads neither a Z nor a date alone.
            text = value[:-1] + "+00:00" if value[-1:] in "Zz" else value
            moment = date.fromisoformat(text) if len(text) <= len("2030-01-01") else datetime.fromisoformat(text)
        except ValueError:
            moment = None
    if not isinstance(moment, date) or (isinstance(moment, datetime) and moment.tzinfo is None):
        raise FormatError(
            f"{path}: {where}: expected a time of expiry with a time zone, or a date (ISO 8601), got {value!r:.60}"
        )
    return moment
