"""Processes that have one thread: the environment they are started with, and starting over in one.

A variable that the caller has set stays as it is, so `OMP_NUM_THREADS=4 lethevec bench` measures with four.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from . import THREAD_VARIABLES


def environment() -> dict[str, str]:
    """This process's environment, with one thread where nothing else is said."""
    return {**dict.fromkeys(THREAD_VARIABLES, "1"), **os.environ}


def is_limited() -> bool:
    """Whether this process was started with all of the variables set."""
    return all(name in os.environ for name in THREAD_VARIABLES)


def run_module(module: str, arguments: Sequence[str]) -> int:
    """Run a module of this package in a new process with the variables set, and wait for it."""
    child = subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment())
    try:
        return child.wait()
    except KeyboardInterrupt:  # the child has had it too, and says what there is to say
        return child.wait()


def start_over(module: str, main: Callable[[list[str]], object]) -> None:
    """Run `main` on the command line's arguments: here if the variables are set, else in a process that has them."""
    arguments = sys.argv[1:]
    result = main(arguments) if is_limited() else run_module(module, arguments)
    sys.exit(result if isinstance(result, int) else 0)
