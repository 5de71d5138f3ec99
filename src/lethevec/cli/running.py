"""`bench`, `demo`, `completion`: other programs of ours behind one name, and help for the shell."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from lethevec.errors import MissingDependencyError

from .command import command

__all__ = ["COMMANDS"]

_BENCH = "lethevec.bench.cli"


@command(
    "bench",
    "lethevec bench paper2 --quick --limit-vectors 2000 --queries 50 --out bench-results",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENT...]")
def bench(arguments: tuple[str, ...]) -> None:
    """Measure speed and recall, beside other libraries.

    All arguments go to the benchmarks, whose own help is `lethevec bench -- --help`. The example is one experiment of
    the paper on a few of the bundled words, in seconds; `lethevec bench --quick` is all of them, in two minutes.
    """
    try:
        module = importlib.import_module(_BENCH)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"the benchmarks need {error.name}, which is not there: pip install 'lethevec[bench]'"
        ) from None
    click.get_current_context().exit(module.main(list(arguments)) or 0)


@command("demo", "lethevec demo --words 5000 --queries 50 --folder demo-store")
@click.option("--words", type=int, help="Use so many of the 20,000 bundled words (all).")
@click.option("--queries", type=int, help="Words to measure recall with (300).")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="Where the store is left.")
def demo(words: int | None, queries: int | None, folder: Path | None) -> None:
    """Tell the story on real words: build a store, search, forget a person, look for traces, check the receipt."""
    from lethevec.demo import main

    given = {"--words": words, "--queries": queries, "--folder": folder}
    main([part for name, value in given.items() if value is not None for part in (name, str(value))])


@command("completion", "lethevec completion bash > lethevec-completion.bash")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in your SHELL.

    Load it at its start: `source` the file from ~/.bashrc or ~/.zshrc, or put it into ~/.config/fish/completions.
    """
    kind = get_completion_class(shell)
    root = click.get_current_context().find_root()
    assert kind is not None  # the choices are those that click has
    click.echo(kind(root.command, {}, "lethevec", "_LETHEVEC_COMPLETE").source())
    if sys.stdout.isatty():
        click.echo(
            f"# To load it: lethevec completion {shell} > FILE, and source FILE when the shell starts.", err=True
        )


COMMANDS = [bench, demo, completion]
