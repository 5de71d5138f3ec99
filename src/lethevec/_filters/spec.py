"""What a filter means, in plain Python: the oracle of every faster way, and the fallback where there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .dates import instant_of
from .regex import Pattern
from .tree import AllOf, And, AnyOf, Bounds, Exists, Matches, Node, Not, OneOf, Or, Text

__all__ = ["matches"]


class _Absent:
    """What a field holds that is not there."""


_ABSENT = _Absent()


def matches(
    node: Node,
    id: int | str,
    subject: str | None,
    payload: Mapping[str, Any] | None,
    *,
    found_in: Callable[[Pattern, str], bool] = Pattern.found_in,
) -> bool:
    """Whether a record passes a filter. `found_in` says whether a pattern is found in a text, for who has a faster one.

    >>> from lethevec._filters import parse
    >>> matches(parse({"tags": {"$contains": "red"}, "$subject": "ann"}), 7, "ann", {"tags": ["blue", "red"]})
    True
    """
    if isinstance(node, And):
        return all(matches(part, id, subject, payload, found_in=found_in) for part in node.parts)
    if isinstance(node, Or):
        return any(matches(part, id, subject, payload, found_in=found_in) for part in node.parts)
    if isinstance(node, Not):
        return not matches(node.part, id, subject, payload, found_in=found_in)
    value = _value(node.field, id, subject, payload)
    if isinstance(node, OneOf):
        return any(_equal(value, one) for one in node.values)
    if isinstance(node, Bounds):
        return all(_within(value, name, bound) for name, bound in node.bounds)
    if isinstance(node, Exists):
        return not isinstance(value, _Absent)
    if isinstance(node, AnyOf):
        return isinstance(value, list) and any(_equal(one, wanted) for one in value for wanted in node.values)
    if isinstance(node, AllOf):
        return isinstance(value, list) and all(any(_equal(one, wanted) for one in value) for wanted in node.values)
    if isinstance(node, Text):
        return isinstance(value, str) and node.text in value
    assert isinstance(node, Matches)
    return isinstance(value, str) and found_in(node.pattern, value)


def _value(field: str, id: int | str, subject: str | None, payload: Mapping[str, Any] | None) -> Any:
    if field == "$id":
        return id
    if field == "$subject":
        return _ABSENT if subject is None else subject
    value: Any = payload
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            return _ABSENT
        value = value[key]
    return value


def _number(value: Any) -> int | float | None:
    """A number as filters compare it; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    return value


def _equal(value: Any, wanted: Any) -> bool:
    if wanted is None or isinstance(wanted, bool):
        return value is wanted
    if isinstance(wanted, str):
        return isinstance(value, str) and value == wanted
    number = _number(value)
    return number is not None and number == wanted


def _within(value: Any, name: str, bound: int | float | str) -> bool:
    left: Any = _number(value)
    right: Any = bound
    if isinstance(bound, str):
        left = value if isinstance(value, str) else None
        instants = (instant_of(left), instant_of(bound)) if left is not None else (None, None)
        if None not in instants:
            left, right = instants  # otherwise by code point, as Python orders strings
    if left is None:
        return False
    return {"$gt": left > right, "$gte": left >= right, "$lt": left < right, "$lte": left <= right}[name]
