"""What commands share: an example at the end of each help text, the options that many have, how a store is opened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

import lethevec
from lethevec.errors import ParameterError

__all__ = ["ExampleCommand", "command", "json_option", "keys_option", "open_store", "parse_id", "store_argument"]

_CATALOG = "lethevec.catalog"
_MAX_SETUP = "lethevec.max_setup"
F = TypeVar("F", bound=Callable[..., Any])


class ExampleCommand(click.Command):
    """A command whose help ends in lines that can be pasted into a shell. They run in a test."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        """Keep the example beside what click keeps."""
        super().__init__(*args, **kwargs)
        self.example = [line.strip() for line in example.strip().splitlines()]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write it as it is: a wrapped command could not be pasted."""
        formatter.write("\nExample:\n" + "".join(f"  {line}\n" for line in self.example))


def command(name: str, example: str, **settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function. Its docstring is the help."""
    return click.command(name, cls=ExampleCommand, example=example, **settings)


def store_argument(function: F) -> F:
    """The store's path, first of all."""
    return click.argument("store", type=click.Path(dir_okay=False, path_type=Path))(function)


def where_option(function: F) -> F:
    """For what many records are asked for by."""
    return click.option("--where", help="Only records that pass this condition, as JSON.")(function)


def parse_where(text: str | None) -> dict[str, Any] | None:
    """A condition from the command line."""
    if text is None:
        return None
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"--where: expected a condition as JSON, got {text!r:.60} ({error})") from None
    if not isinstance(given, dict):
        raise ParameterError(f"--where: expected a JSON object, got {text!r:.60}")
    return given


def json_option(function: F) -> F:
    """For programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(function)


def keys_option(function: F) -> F:
    """For stores whose keys are kept apart, and for those that ask for much."""
    path = click.Path(dir_okay=False, path_type=Path)
    function = click.option(
        "--max-setup",
        type=click.IntRange(min=0),
        expose_value=False,
        callback=lambda context, _, value: context.meta.__setitem__(_MAX_SETUP, value),
        help="How many numbers its settings may ask for, as the error of a store that asks for more says.",
    )(function)
    return click.option("--keys", type=path, help="The key file, where it is not beside the store.")(function)


def limits() -> dict[str, Any]:
    """What the command was told of limits, for `lethevec.open` and `lethevec.connect`."""
    given = click.get_current_context().meta.get(_MAX_SETUP)
    return {} if given is None else {"max_setup": given}


def open_folder(path: Path, keys: Path | None = None, *, write: bool = False, make: bool = False) -> lethevec.Database:
    """Open a folder of collections that is there, or make one."""
    if not make and not is_folder(path):
        raise lethevec.errors.FileError(
            f"{path}: expected a folder of collections, got something else; `lethevec collections --make` makes one"
        )
    return lethevec.connect(path, keys=keys, read_only=not write, **limits())


def is_folder(path: Path) -> bool:
    """Whether this is a folder of collections."""
    return (path / _CATALOG).exists()


def open_any(path: Path, keys: Path | None = None, *, write: bool = False) -> lethevec.Store | lethevec.Database:
    """Open what is there: a folder of collections, one of them, or a store."""
    return open_folder(path, keys, write=write) if path.is_dir() else open_store(path, keys, write=write)


def open_store(path: Path, keys: Path | None = None, *, write: bool = False, **new: Any) -> lethevec.Store:
    """Open a store that is there; with `new` (dim, metric, index) one is made where there is none.

    FOLDER/NAME is a collection, where FOLDER is one of collections; the folder is closed when the command ends.
    """
    if is_folder(path.parent):
        db = lethevec.connect(path.parent, keys=keys, read_only=not write, **limits())
        click.get_current_context().call_on_close(db.close)
        return db.collection(path.name, **new)
    if write and not new and not path.exists():
        raise lethevec.errors.FileError(f"{path}: expected a store, got nothing there; `lethevec add` makes one")
    return lethevec.open(path, keys=keys, read_only=not write, **limits(), **new)


def parse_id(store: lethevec.Store | lethevec.Database, text: str) -> int | str:
    """An id from the command line, where there are only texts: a number if it is one, unless only the text is there."""
    canonical = text.isascii() and text.isdecimal() and str(int(text)) == text
    if not canonical:
        return text
    if isinstance(store, lethevec.Database):
        return int(text)
    return text if int(text) not in store and text in store else int(text)
