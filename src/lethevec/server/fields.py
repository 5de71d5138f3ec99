"""Fields of a request, checked one by one. Messages say which field and what was expected, never what came."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from .problems import Problem

__all__ = [
    "boolean",
    "decode",
    "expiries",
    "floats",
    "ids",
    "integer",
    "mapping",
    "names",
    "needed_text",
    "number",
    "optional_vectors",
    "payloads",
    "subjects",
    "text",
    "vectors",
    "wipe_vectors",
]

F32 = npt.NDArray[np.float32]
_INT64 = 1 << 63


def _wrong(name: str, expected: str, at: list[int] | None = None) -> Problem:
    return Problem(422, "field", f"{name}: expected {expected}", at=at)


def integer(body: dict[str, Any], name: str, default: int, low: int, high: int) -> int:
    """A whole number within a range."""
    value = body.get(name, default)
    if type(value) is not int or not low <= value <= high:
        raise _wrong(name, f"a whole number from {low} to {high}")
    return value


def number(body: dict[str, Any], name: str) -> float | None:
    """A number, or None where there is none."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) not in (int, float):
        raise _wrong(name, "a number")
    return float(value)


def boolean(body: dict[str, Any], name: str, default: bool = False) -> bool:
    """True or false."""
    value = body.get(name, default)
    if type(value) is not bool:
        raise _wrong(name, "true or false")
    return value


def text(body: dict[str, Any], name: str) -> str | None:
    """A text, or None where there is none."""
    return None if body.get(name) is None else needed_text(body, name)


def needed_text(body: dict[str, Any], name: str, longest: int = 10_000) -> str:
    """A text that must be there."""
    value = body.get(name)
    if type(value) is not str or not 1 <= len(value) <= longest:
        raise _wrong(name, f"a text of 1 to {longest} characters")
    return value


def mapping(body: dict[str, Any], name: str) -> dict[str, Any] | None:
    """A JSON object, or None where there is none."""
    value = body.get(name)
    if value is not None and type(value) is not dict:
        raise _wrong(name, "a JSON object")
    return value


def names(body: dict[str, Any], name: str, known: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    """Some of a few words."""
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not list or not all(type(one) is str and one in known for one in value):
        raise _wrong(name, f"a list of {', '.join(known)}")
    return tuple(value)


def ids(body: dict[str, Any], limit: int, *, name: str = "ids", needed: bool = True) -> list[Any] | None:
    """A list of ids, each a whole number of 64 bits or a text."""
    value = body.get(name)
    if value is None and not needed:
        return None
    if type(value) is not list:
        raise _wrong(name, "a list of whole numbers and texts")
    if len(value) > limit:
        raise Problem(413, "batch", f"{name}: expected at most {limit} in one request")
    for place, one in enumerate(value):
        if not (type(one) is str or (type(one) is int and -_INT64 <= one < _INT64)):
            raise _wrong(name, "whole numbers of 64 bits and texts", [place])
    return value


def subjects(body: dict[str, Any], count: int) -> list[str | None] | None:
    """One subject for each record: a text or null."""
    value = body.get("subjects")
    if value is None:
        return None
    if type(value) is not list or len(value) != count:
        raise _wrong("subjects", f"a list with one entry for each of the {count} ids")
    for place, one in enumerate(value):
        if one is not None and (type(one) is not str or not one):
            raise _wrong("subjects", "texts and null", [place])
    return value


def payloads(body: dict[str, Any], count: int) -> list[dict[str, Any] | None] | None:
    """One payload for each record: a JSON object or null."""
    value = body.get("payloads")
    if value is None:
        return None
    if type(value) is not list or len(value) != count:
        raise _wrong("payloads", f"a list with one entry for each of the {count} ids")
    for place, one in enumerate(value):
        if one is not None and type(one) is not dict:
            raise _wrong("payloads", "JSON objects and null", [place])
    return value


def expiries(body: dict[str, Any], count: int) -> Any:
    """When records are due: for all of them or one by one, as seconds from now, a date, or null for never."""
    value = body["expires"]
    if type(value) is not list:
        return _expiry(value, None)
    if len(value) != count:
        raise _wrong("expires", f"one for all, or a list with one entry for each of the {count} ids")
    return [_expiry(one, place) for place, one in enumerate(value)]


def _expiry(value: Any, place: int | None) -> Any:
    at = None if place is None else [place]
    try:
        if value is None:
            return None
        if type(value) in (int, float):
            return timedelta(seconds=value)
        if type(value) is str:
            moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    except (ValueError, OverflowError):
        pass
    raise _wrong("expires", "seconds from now, or a date such as 2030-01-31T12:00:00Z", at)


def vectors(value: Any, dim: int, name: str = "vectors") -> F32:
    """(n, dim) float32 from a list of lists of numbers, or from base64 of little-endian float32."""
    if type(value) is str:
        return floats(decode(value, name), dim, name)
    if type(value) is not list or not value:
        raise _wrong(name, "a list of lists of numbers, or base64 of little-endian float32")
    if type(value[0]) is not list:
        value = [value]
    for place, row in enumerate(value):
        if type(row) is not list or len(row) != dim:
            raise _wrong(name, f"{dim} numbers for each vector", [place])
    try:
        with np.errstate(over="ignore"):  # too large for float32 is infinite, which the library refuses
            return np.array(value, dtype=np.float32)
    except (ValueError, TypeError, OverflowError):
        raise _wrong(name, "numbers") from None


def optional_vectors(value: Any, dim: int) -> tuple[F32, npt.NDArray[np.bool_]]:
    """Vectors of which some are null: those that are there, and where."""
    if type(value) is not list:
        all_of_them = vectors(value, dim)
        return all_of_them, np.ones(len(all_of_them), dtype=bool)
    present = np.array([one is not None for one in value], dtype=bool)
    there = [one for one in value if one is not None]
    return (vectors(there, dim) if there else np.empty((0, dim), dtype=np.float32)), present


def decode(value: str, name: str = "vectors") -> bytes:
    """The bytes of base64."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise _wrong(name, "base64") from None


def floats(raw: bytes, dim: int, name: str = "body") -> F32:
    """(n, dim) float32 of raw bytes."""
    if not raw or len(raw) % (4 * dim):
        raise _wrong(name, f"a multiple of {4 * dim} bytes: vectors of {dim} little-endian float32")
    array: F32 = np.frombuffer(raw, dtype="<f4").reshape(-1, dim)
    return array


def wipe_vectors(vectors: Any) -> None:
    """Overwrite the vectors of a request, where they are a copy of its bytes; who has the bytes overwrites those."""
    if isinstance(vectors, np.ndarray) and vectors.flags.writeable:
        vectors.fill(0)
