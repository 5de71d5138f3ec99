"""What the screen shows: tables for people, JSON for programs. A terminal obeys nothing that comes from a store."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["note", "print_fields", "print_json", "print_table", "printable"]

_PIPED_WIDTH = 240  # columns of a table that goes to a file or another program


def printable(value: object) -> str:
    """Text without anything that a terminal would obey.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_json(value: Any) -> None:
    """One line of JSON on stdout."""
    click.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> None:
    """Columns under their names; those named in `right` are aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=False)
    for name in head:
        table.add_column(Text(name), justify="right" if name in set(right) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    _print(table)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Names and values, one below the other."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(Text(name), Text(printable(value)))
    _print(table)


def note(text: str) -> None:
    """A remark for people, on stderr, so that it is not taken for a result."""
    click.echo(printable(text), err=True)


def _print(table: Table) -> None:
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    console = Console(width=width, highlight=False, markup=False)
    with console.capture() as capture:
        console.print(table)
    # Rich pads every line to the full width of the column.
    click.echo("\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n")))
