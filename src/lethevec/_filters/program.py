"""A filter as bytes for the native core (`native/filters/condition.h` reads them)."""

from __future__ import annotations

import struct
from collections.abc import Callable

from .regex import Pattern
from .tree import AllOf, And, AnyOf, Bounds, Exists, Matches, Node, Not, OneOf, Or, Scalar, Text

__all__ = ["compile_program", "pattern_program"]

_AND, _OR, _NOT, _IDS, _UNSURE, _ONE_OF, _BOUNDS, _EXISTS, _ANY_OF, _ALL_OF, _TEXT, _MATCHES = range(12)
_ORDER = {"$gt": 0, "$gte": 1, "$lt": 2, "$lte": 3}
_STEPS = {"char": 0, "split": 1, "jump": 2, "begin": 3, "end": 4, "word": 5, "no_word": 6, "match": 7}


def compile_program(node: Node, number_of: Callable[[int | str], int | None]) -> bytes:
    """The program of a filter. `number_of` gives the number that the index knows an id by; None if it cannot be one."""
    if isinstance(node, And | Or):
        parts = b"".join(compile_program(part, number_of) for part in node.parts)
        return _head(_AND if isinstance(node, And) else _OR, len(node.parts)) + parts
    if isinstance(node, Not):
        return _head(_NOT, 1) + compile_program(node.part, number_of)
    if node.field == "$id":
        if not isinstance(node, OneOf):
            return _head(_UNSURE, 0)
        ids = [value for value in node.values if isinstance(value, int | str) and not isinstance(value, bool)]
        numbers = sorted({number for id in ids if (number := number_of(id)) is not None})
        return _head(_IDS, len(numbers)) + struct.pack(f"<{len(numbers)}q", *numbers)
    field = _bytes(node.field.encode())
    if isinstance(node, OneOf | AnyOf | AllOf):
        kind = _ONE_OF if isinstance(node, OneOf) else _ANY_OF if isinstance(node, AnyOf) else _ALL_OF
        return _head(kind, len(node.values)) + field + b"".join(map(_value, node.values))
    if isinstance(node, Bounds):
        bounds = (bytes([_ORDER[name]]) + _value(bound) for name, bound in node.bounds)
        return _head(_BOUNDS, len(node.bounds)) + field + b"".join(bounds)
    if isinstance(node, Exists):
        return _head(_EXISTS, 0) + field
    if isinstance(node, Text):
        return _head(_TEXT, 1) + field + _value(node.text)
    assert isinstance(node, Matches)
    return _head(_MATCHES, len(node.pattern.program)) + field + _steps(node.pattern)


def pattern_program(pattern: Pattern) -> bytes:
    """The program of a filter that is this pattern and nothing else."""
    return compile_program(Matches("text", pattern), lambda _: None)


def _head(kind: int, count: int) -> bytes:
    return struct.pack("<BI", kind, count)


def _bytes(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def _value(value: Scalar) -> bytes:
    if value is None:
        return b"\0"
    if isinstance(value, bool):
        return b"\2" if value else b"\1"
    if isinstance(value, int):
        return struct.pack("<Bq", 3, value)
    if isinstance(value, float):
        return struct.pack("<Bd", 4, value)
    return b"\5" + _bytes(value.encode())


def _steps(pattern: Pattern) -> bytes:
    made = []
    for step in pattern.program:
        made.append(struct.pack("<BIII", _STEPS[step.name], step.first, step.second, len(step.ranges)))
        made += [struct.pack("<II", low, high) for low, high in step.ranges]
    return b"".join(made)
