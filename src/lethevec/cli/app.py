"""The group of commands, and what becomes of errors: one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

from typing import Any

import click

import lethevec
from lethevec.errors import ErasureIncompleteError, LethevecError, MissingDependencyError

from . import about, agents, cluster, collections, erasure, proof, records, running, searching, serving

__all__ = ["Failure", "cli"]


class Failure(click.ClickException):
    """Something that a person can act on."""

    def __init__(self, message: str, exit_code: int) -> None:
        """The line to print, and the code to end with."""
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it off the instance

    def show(self, file: Any = None) -> None:
        """On stderr, whatever stdout is."""
        click.echo(f"lethevec: {self.format_message()}", err=True)


class Group(click.Group):
    """All commands, in the order in which one meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """As they were added, not by the alphabet."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; our errors, and those of files, become failures."""
        try:
            return super().invoke(ctx)
        except ErasureIncompleteError as error:
            raise Failure(str(error), 4) from error
        except MissingDependencyError as error:
            raise Failure(str(error), 3) from error
        except LethevecError as error:
            raise Failure(str(error), 1) from error
        except BrokenPipeError:
            raise  # whoever read our output has enough; click ends quietly
        except OSError as error:
            raise Failure(str(error), 1) from error
        except MemoryError:
            raise Failure("expected enough memory for this, got none left", 1) from None
        except KeyboardInterrupt:
            raise Failure("interrupted; what was not finished has changed nothing", 130) from None


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(lethevec.__version__, prog_name="lethevec")
def cli() -> None:
    """Nearest-neighbour search that can forget.

    A store is a file: `add` makes it, `search` asks it, `forget` erases from it and gives a receipt, `verify` checks
    the receipt. `lethevec COMMAND --help` ends in an example that works.
    """


for _module in (records, searching, erasure, collections, proof, about, serving, cluster, agents, running):
    for _command in _module.COMMANDS:
        cli.add_command(_command)
