"""Filters on payload fields and subjects, turned into SQL.

    {"lang": "en"}                                      a field equals a value
    {"year": {"$gte": 1990, "$lt": 2000}}               comparisons: $eq $ne $gt $gte $lt $lte
    {"lang": {"$in": ["en", "de"]}}                     one of these: $in, none of these: $nin
    {"note": {"$exists": True}}                         the field is there, whatever it holds
    {"$subject": "alice"}                               the subject, with the same operators
    {"$or": [{...}, {...}]}, {"$and": [...]}, {"$not": {...}}
    {"address.city": "Rome"}                            a field inside a field

Several conditions side by side must all hold. Values are strings, numbers, booleans and None, compared within their
type: 1 equals 1.0 and neither True nor "1"; order is by number, or by code point; None is JSON's null or no subject. A
field that is absent, or holds an array or an object, satisfies only `$ne`, `$nin`, `$not` and `{"$exists": False}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ParameterError

__all__ = ["compile_where"]

_ORDER = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_OPERATORS = ("$eq", "$ne", *_ORDER, "$in", "$nin", "$exists")
_NUMBERS = "('integer', 'real')"
_MAX_DEPTH = 32
_MAX_VALUES = 10_000

Sql = tuple[str, list[Any]]


def compile_where(where: Mapping[str, Any], depth: int = 0) -> Sql:
    """An SQL condition over the table `records` that is always true or false (never NULL), and its parameters."""
    if not isinstance(where, Mapping) or not where:
        raise ParameterError(f"where: expected a mapping with at least one condition, got {where!r:.80}")
    if depth > _MAX_DEPTH:
        raise ParameterError(f"where: expected at most {_MAX_DEPTH} levels, got more")
    return _join("AND", [_condition(key, value, depth) for key, value in where.items()])


def _condition(key: Any, value: Any, depth: int) -> Sql:
    if not isinstance(key, str):
        raise ParameterError(f"where: expected field names as strings, got {key!r:.80}")
    if key in ("$and", "$or"):
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            raise ParameterError(f"where: expected a list of conditions for {key}, got {value!r:.80}")
        return _join(key[1:].upper(), [compile_where(part, depth + 1) for part in value])
    if key == "$not":
        sql, parameters = compile_where(value, depth + 1)
        return f"(NOT {sql})", parameters
    if key.startswith("$") and key != "$subject":
        raise ParameterError(f"where: expected $and, $or, $not, $subject or a field, got {key!r}")
    operators = value if isinstance(value, Mapping) else {"$eq": value}
    if not operators:
        raise ParameterError(f"where: expected an operator for {key!r}, got none")
    return _join("AND", [_operator(_Field(key), name, operand) for name, operand in operators.items()])


class _Field:
    """Where a value is found: its SQL type (a JSON type name) and its SQL value, each with its parameters."""

    def __init__(self, key: str) -> None:
        self.key = key
        if key == "$subject":
            self.kind: Sql = "(CASE WHEN subject IS NULL THEN 'null' ELSE 'text' END)", []
            self.value: Sql = "subject", []
        else:
            parts = key.split(".")
            if '"' in key or not all(parts):
                raise ParameterError(f"where: expected a field without quotation marks or empty parts, got {key!r}")
            path = "$" + "".join(f'."{part}"' for part in parts)
            self.kind = "json_type(payload, ?)", [path]
            self.value = "json_extract(payload, ?)", [path]


def _operator(field: _Field, name: Any, operand: Any) -> Sql:
    if name == "$eq":
        return _equal(field, operand)
    if name == "$ne":
        sql, parameters = _equal(field, operand)
        return f"(NOT {sql})", parameters
    if name in _ORDER:
        return _ordered(field, name, operand)
    if name in ("$in", "$nin"):
        if not isinstance(operand, Sequence) or isinstance(operand, str) or len(operand) > _MAX_VALUES:
            raise ParameterError(
                f"where: expected a list of up to {_MAX_VALUES} values for {name}, got {operand!r:.80}"
            )
        sql, parameters = _join("OR", [_equal(field, value) for value in operand]) if operand else ("(0)", [])
        return (sql if name == "$in" else f"(NOT {sql})"), parameters
    if name == "$exists":
        if not isinstance(operand, bool):
            raise ParameterError(f"where: expected True or False for $exists, got {operand!r:.80}")
        if field.key == "$subject":
            return f"(subject IS {'NOT ' if operand else ''}NULL)", []
        sql, parameters = field.kind
        return f"({sql} IS {'NOT ' if operand else ''}NULL)", list(parameters)
    raise ParameterError(f"where: expected one of {', '.join(_OPERATORS)} for {field.key!r}, got {name!r}")


def _equal(field: _Field, value: Any) -> Sql:
    kind, kind_parameters = field.kind
    sql, parameters = field.value
    if value is None or isinstance(value, bool):
        wanted = "null" if value is None else "true" if value else "false"
        return f"(ifnull({kind}, '') = '{wanted}')", list(kind_parameters)
    types = "('text')" if isinstance(value, str) else _NUMBERS
    bound = _bind(field, value)
    # A subject has an index, which only a plain comparison can use.
    if field.key == "$subject":
        return ("(subject IS NOT NULL AND subject = ?)", [bound]) if isinstance(value, str) else ("(0)", [])
    return f"(ifnull({kind}, '') IN {types} AND {sql} = ?)", [*kind_parameters, *parameters, bound]


def _ordered(field: _Field, name: str, value: Any) -> Sql:
    kind, kind_parameters = field.kind
    sql, parameters = field.value
    if value is None or isinstance(value, bool):
        raise ParameterError(f"where: expected a number or a string for {name}, got {value!r}")
    types = "('text')" if isinstance(value, str) else _NUMBERS
    bound = _bind(field, value)
    return f"(ifnull({kind}, '') IN {types} AND {sql} {_ORDER[name]} ?)", [*kind_parameters, *parameters, bound]


def _bind(field: _Field, value: Any) -> Any:
    """A value that SQLite can take without changing it."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ParameterError(f"where: expected text that UTF-8 can hold for {field.key!r}, got {value!r}") from None
        return value
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return value
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    raise ParameterError(
        f"where: expected a string, a finite number, a boolean or None for {field.key!r}, got {value!r:.80}"
    )


def _join(word: str, parts: list[Sql]) -> Sql:
    return "(" + f" {word} ".join(sql for sql, _ in parts) + ")", [p for _, parameters in parts for p in parameters]
