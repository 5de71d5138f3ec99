"""Tables for a reader, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table; its cells are text."""

    title: str
    head: Sequence[str]
    rows: list[list[str]]


def markdown(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table with aligned columns."""
    body = [[str(cell) for cell in row] for row in rows]
    columns = list(zip(head, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [list(head), *body]
    ]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])])
