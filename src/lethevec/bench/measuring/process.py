"""Processes that have one thread: the environment they are started with, and starting again in such a process.

A variable that the caller has set stays as it is, so `OMP_NUM_THREADS=4 lethevec bench` measures with four.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from .. import THREAD_VARIABLES


def environment() -> dict[str, str]:
    """This process's environment, with one thread where nothing else is said."""
    return {**dict.fromkeys(THREAD_VARIABLES, "1"), **os.environ}


def is_limited() -> bool:
    """Whether this process was started with all of the variables set."""
    return all(name in os.environ for name in THREAD_VARIABLES)


def start_over(arguments: Sequence[str], **variables: str) -> int:
    """Run the benchmarks in a new process with the thread variables and these set, and wait for it; the exit code."""
    command = [sys.executable, "-m", "lethevec.bench", *arguments]
    child = subprocess.Popen(command, env={**environment(), **variables})
    try:
        return child.wait()
    except KeyboardInterrupt:  # the child was interrupted too, and says what there is to say
        return child.wait()
