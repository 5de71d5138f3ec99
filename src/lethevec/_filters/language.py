"""The language of filters (`where=`), and how one is read into a tree.

    {"lang": "en"}                                      a field equals a value
    {"year": {"$gte": 1990, "$lt": 2000}}               comparisons: $eq $ne $gt $gte $lt $lte
    {"lang": {"$in": ["en", "de"]}}                     one of these: $in; none of these: $nin
    {"note": {"$exists": True}}                         the field is there, whatever it holds
    {"tags": {"$contains": "red"}}                      an array has this value
    {"tags": {"$any": ["red", "blue"]}}                 an array has one of these; all of these: $all
    {"title": {"$text": "river"}}                       a string contains this one, upper and lower case told apart
    {"mail": {"$regex": "@example\\\\.(com|org)$"}}       a pattern is found in a string (see `regex`)
    {"address.city": "Rome"}                            a field inside a field
    {"$id": {"$in": [1, "b"]}}, {"$subject": "alice"}   the id and the subject, with the same operators
    {"$or": [{...}, {...}]}, {"$and": [...]}, {"$not": {...}}

The rules:

* Conditions side by side must all hold. Every condition is true or false of a record; there is nothing between.
* Values are strings, numbers, booleans and None, compared within their type: 1 equals 1.0 and neither True nor "1".
  None is JSON's null, or no subject. An integer that 64 bits cannot hold counts as the nearest float.
* Order is by number, or between strings by instant where both are dates (see `dates`) and by code point otherwise.
  Equality of strings is equality of text, of dates too.
* A field that is absent satisfies only `$ne`, `$nin`, `$not` and `{"$exists": False}`. One that holds an object does
  the same, except that it exists. An array is a value for `$contains`, `$any` and `$all` alone; arrays and objects
  inside of an array equal nothing.
* `$any` of no values holds for nothing, `$all` of no values for every array, `$in` of no values for nothing.
* A field is a path of keys with dots between them. Keys that are empty or have a dot themselves, and keys at the top
  that begin with a dollar sign, cannot be named.

What cannot be read is a `ParameterError` that says what came and what was expected.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._shown import shown
from ..errors import ParameterError
from .regex import compile_pattern
from .tree import AllOf, And, AnyOf, Bounds, Exists, Matches, Node, Not, OneOf, Or, Scalar, Text

__all__ = ["MAX_CONDITIONS", "MAX_DEPTH", "MAX_PARTS", "MAX_VALUES", "parse"]

MAX_DEPTH = 32  # of conditions inside conditions
MAX_CONDITIONS = 4_096
MAX_VALUES = 10_000  # in one list
MAX_PARTS = 16  # of a dotted field

_ORDER = ("$gt", "$gte", "$lt", "$lte")
_LISTS = ("$in", "$nin", "$any", "$all")
_OPERATORS = ("$eq", "$ne", *_ORDER, "$in", "$nin", "$exists", "$contains", "$any", "$all", "$text", "$regex")
_OWN = ("$id", "$subject")


def parse(where: Mapping[str, Any]) -> Node:
    """A filter as a tree.

    >>> parse({"year": {"$gte": 1990}, "lang": "en"})
    And(parts=(Bounds(field='year', bounds=(('$gte', 1990),)), OneOf(field='lang', values=('en',))))
    >>> parse({"year": {"$above": 1990}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    lethevec.errors.ParameterError: where: expected one of $eq, $ne, ... for 'year', got '$above'
    """
    return _Reader().conditions(where, 0)


class _Reader:
    """One filter, counting its conditions."""

    def __init__(self) -> None:
        self._count = 0

    def conditions(self, where: Any, depth: int) -> Node:
        if not isinstance(where, Mapping) or not where:
            raise ParameterError(f"where: expected a mapping with at least one condition, got {_short(where)}")
        if depth > MAX_DEPTH:
            raise ParameterError(f"where: expected at most {MAX_DEPTH} levels of conditions, got more")
        return _joined(And, [self._condition(key, value, depth) for key, value in where.items()])

    def _condition(self, key: Any, value: Any, depth: int) -> Node:
        if not isinstance(key, str):
            raise ParameterError(f"where: expected field names as strings, got {_short(key)}")
        if key in ("$and", "$or"):
            if not _is_list(value) or not len(value):
                raise ParameterError(f"where: expected a list of conditions for {key}, got {_short(value)}")
            parts = [self.conditions(part, depth + 1) for part in value]
            return _joined(And if key == "$and" else Or, parts)
        if key == "$not":
            return Not(self.conditions(value, depth + 1))
        _check_field(key)
        operators = value if isinstance(value, Mapping) else {"$eq": value}
        if not operators:
            raise ParameterError(f"where: expected an operator for {shown(key, 80)}, got none")
        for name in operators:
            if name not in _OPERATORS:
                raise ParameterError(
                    f"where: expected one of {', '.join(_OPERATORS)} for {shown(key, 80)}, got {_short(name)}"
                )
        # The two ends of a range are one condition.
        bounds = tuple((name, _bound(key, name, operators[name])) for name in _ORDER if name in operators)
        parts = [_test(key, name, operand) for name, operand in operators.items() if name not in _ORDER]
        if bounds:
            parts.append(Bounds(key, bounds))
        self._count += len(parts)
        if self._count > MAX_CONDITIONS:
            raise ParameterError(f"where: expected at most {MAX_CONDITIONS} conditions, got more")
        return _joined(And, parts)


def _joined(kind: type[And] | type[Or], parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def _test(field: str, name: str, operand: Any) -> Node:
    if name in _LISTS:
        if not _is_list(operand) or len(operand) > MAX_VALUES:
            raise ParameterError(
                f"where: expected a list of up to {MAX_VALUES:,} values for {name}, got {_short(operand)}"
            )
        values = tuple(_scalar(field, name, value) for value in operand)
        if name == "$in":
            return _one_of(field, values)
        if name == "$nin":
            return Not(_one_of(field, values))
        return AnyOf(field, values) if name == "$any" else AllOf(field, values)
    if name == "$eq":
        return _one_of(field, (_scalar(field, name, operand),))
    if name == "$ne":
        return Not(_one_of(field, (_scalar(field, name, operand),)))
    if name == "$exists":
        if not isinstance(operand, bool | np.bool_):
            raise ParameterError(f"where: expected True or False for $exists, got {_short(operand)}")
        return Exists(field) if operand else Not(Exists(field))
    if name == "$contains":
        return AnyOf(field, (_scalar(field, name, operand),))
    text = _scalar(field, name, operand)
    if not isinstance(text, str):
        raise ParameterError(f"where: expected a string for {name}, got {_short(operand)}")
    return Text(field, text) if name == "$text" else Matches(field, compile_pattern(text))


def _one_of(field: str, values: tuple[Scalar, ...]) -> Node:
    """No subject is an absent one."""
    if field == "$subject" and None in values:
        rest = tuple(value for value in values if value is not None)
        return Or((OneOf(field, rest), Not(Exists(field))))
    return OneOf(field, values)


def _bound(field: str, name: str, operand: Any) -> int | float | str:
    value = _scalar(field, name, operand)
    if value is None or isinstance(value, bool):
        raise ParameterError(f"where: expected a number or a string for {name}, got {shown(value)}")
    return value


def _check_field(key: str) -> None:
    if key in _OWN:
        return
    if key.startswith("$"):
        raise ParameterError(f"where: expected $and, $or, $not, $id, $subject or a field, got {shown(key, 80)}")
    parts = key.split(".")
    if not all(parts) or len(parts) > MAX_PARTS:
        raise ParameterError(
            f"where: expected a field of 1 to {MAX_PARTS} keys with dots between, got {shown(key, 80)}"
        )
    _check_utf8("field", key)


def _scalar(field: str, name: str, value: Any) -> Scalar:
    """A value as filters compare it."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, str):
        _check_utf8(field, value)
        return str(value)
    if isinstance(value, int | float | np.integer | np.floating):
        number = int(value) if isinstance(value, int | np.integer) else float(value)
        try:
            if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
                number = float(number)
            if math.isfinite(number):
                return int(number) if number == int(number) and -(2.0**63) <= number < 2.0**63 else number
        except OverflowError:
            pass
    raise ParameterError(
        f"where: expected a string, a finite number, a boolean or None for {name} of {field!r:.80}, got {_short(value)}"
    )


def _check_utf8(field: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParameterError(f"where: expected text that UTF-8 can hold for {field!r:.80}, got {text!r:.80}") from None


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _short(value: Any) -> str:
    """What came, in a few words, however deep or long it is."""
    return shown(value, 80, reprlib.repr)
