"""A filter after it was read: a small tree of conditions, each always true or false of a record."""

from __future__ import annotations

from dataclasses import dataclass

from .regex import Pattern

__all__ = ["AllOf", "And", "AnyOf", "Bounds", "Exists", "Matches", "Node", "Not", "OneOf", "Or", "Scalar", "Text"]

#: Numbers are ints where an int64 holds them, and floats otherwise.
Scalar = None | bool | int | float | str


@dataclass(frozen=True)
class And:
    """All of these hold."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Or:
    """At least one of these holds."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Not:
    """This does not hold."""

    part: Node


@dataclass(frozen=True)
class OneOf:
    """The field equals one of these values (`$eq`, `$in`)."""

    field: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class Bounds:
    """The field lies within all of these: pairs of an operator (`$gt`, `$gte`, `$lt`, `$lte`) and a value."""

    field: str
    bounds: tuple[tuple[str, int | float | str], ...]


@dataclass(frozen=True)
class Exists:
    """The field is there, whatever it holds."""

    field: str


@dataclass(frozen=True)
class AnyOf:
    """The field is an array that has one of these values (`$contains`, `$any`)."""

    field: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class AllOf:
    """The field is an array that has all of these values (`$all`)."""

    field: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class Text:
    """The field is a string that contains this one (`$text`)."""

    field: str
    text: str


@dataclass(frozen=True)
class Matches:
    """The field is a string in which this pattern is found (`$regex`)."""

    field: str
    pattern: Pattern


Node = And | Or | Not | OneOf | Bounds | Exists | AnyOf | AllOf | Text | Matches
