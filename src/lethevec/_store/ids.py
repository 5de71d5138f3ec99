"""Ids: what a caller may use, their order, and the number that the index knows each by.

**Order.** Integers come first, by value; then strings, by code point. Iteration, `ids`, `get` and its pages use it.

**Numbers.** The index in memory has int64 ids of its own, which are called numbers here:

* An int is its own number.
* A string has the number `2^62 + (BLAKE2b-64 of its UTF-8) / 4`: a function of the string alone. A counter would tell
  the order of insertion, through ties and the choice of candidates. So answers **at equal distance are by ascending
  number**: ints by value, strings by their hash, which every store agrees on.

Two ids with one number cannot be in a store together; the second is refused with an `IdError`. For strings that takes a
collision of 62 bits: one chance in nine million for a million records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._hashing.parameters import is_integer
from .._shown import shown
from ..errors import IdError

__all__ = ["STRING_NUMBERS", "Id", "check_id", "check_ids", "check_text", "comes_after", "number_of", "order_of"]

Id = int | str
I64 = npt.NDArray[np.int64]

STRING_NUMBERS = 1 << 62
_MAX_TEXT = 4096
_PERSON = b"lethevec-str-id1"


def number_of(id: Id) -> int:
    """The number of an id.

    >>> number_of(7)
    7
    >>> number_of("alice") - 2**62
    485781115240942500
    """
    if isinstance(id, str):
        hashed = hashlib.blake2b(id.encode(), digest_size=8, person=_PERSON).digest()
        return STRING_NUMBERS | int.from_bytes(hashed, "big") >> 2
    return id


def order_of(id: Id) -> tuple[bool, Id]:
    """What ids are sorted by: integers by value, then strings by code point.

    >>> sorted(["b", 10, "a", 9], key=order_of)
    [9, 10, 'a', 'b']
    """
    return isinstance(id, str), id


def comes_after(id: Id, other: Id | None) -> bool:
    """Whether an id comes after another in their order; everything comes after None."""
    return other is None or order_of(id) > order_of(other)


def check_id(id: Any, name: str) -> Id:
    """One id as a plain int or string."""
    return check_ids([id], name=name)[0][0]


def check_ids(ids: Any, *, name: str = "ids") -> tuple[list[Id], I64]:
    """The ids as plain ints and strings, and their numbers; duplicates and other types are refused."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        ids = [ids]
    if isinstance(ids, np.ndarray):
        if np.ma.is_masked(ids):
            raise IdError(f"{name}: expected ids everywhere, got a masked array with masked entries")
        if ids.ndim > 1:
            raise IdError(f"{name}: expected a list of ids, got an array of shape {ids.shape}")
        ids = np.atleast_1d(ids).tolist()
    checked = [_check_id(id, name) for id in ids]
    numbers = np.fromiter((number_of(id) for id in checked), dtype=np.int64, count=len(checked))
    if len(set(checked)) != len(checked):
        seen: set[Id] = set()
        twice = next(id for id in checked if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        raise IdError(f"{name}: expected each id once, got {twice!r} more than once")
    if len(np.unique(numbers)) != len(numbers):
        raise IdError(f"{name}: expected ids with different numbers, got two that share one (see lethevec._store.ids)")
    return checked, numbers


def check_text(text: Any, name: str) -> str:
    """A text that can be stored and found again: not empty, UTF-8, no NUL, at most 4,096 bytes."""
    if not isinstance(text, str):
        raise IdError(f"{name}: expected a string, got {type(text).__name__}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise IdError(f"{name}: expected text that UTF-8 can hold, got a lone surrogate in {text!r:.80}") from None
    if not 0 < size <= _MAX_TEXT or "\0" in text:
        raise IdError(f"{name}: expected 1 to {_MAX_TEXT} bytes without NUL, got {size} bytes: {text!r:.80}")
    return text


def _check_id(id: Any, name: str) -> Id:
    if isinstance(id, str):
        return str(check_text(id, name))
    if not is_integer(id):
        raise IdError(f"{name}: expected integers or strings, got {type(id).__name__}")
    number = int(id)
    if not 0 <= number < 1 << 63:
        raise IdError(f"{name}: expected integers from 0 to 2^63 - 1, got {shown(number)}")
    return number
