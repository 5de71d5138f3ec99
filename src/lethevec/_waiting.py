"""A line for what has to be waited for and has no rate, such as a reader that is in the way: the seconds so far.

Like the progress lines: on a terminal only, after a second, on stderr, and wiped at the end.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from ._progress import DELAY, is_terminal

__all__ = ["waiting"]

_INTERVAL = 0.5


@contextmanager
def waiting(label: str, *, stream: TextIO | None = None, delay: float | None = None) -> Iterator[None]:
    """Show the line while the block runs; `stream` is stderr unless given, `delay` a second."""
    stream = sys.stderr if stream is None else stream
    if not is_terminal(stream):
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(label, stream, DELAY if delay is None else delay, done), daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _watch(label: str, stream: TextIO, delay: float, done: threading.Event) -> None:
    begin = time.monotonic()
    width = 0
    pause = delay
    try:
        while not done.wait(pause):
            line = f"{label}  {time.monotonic() - begin:.0f} s"
            width = len(line)
            stream.write("\r" + line)
            stream.flush()
            pause = _INTERVAL
        if width:
            stream.write("\r" + " " * width + "\r")
            stream.flush()
    except (OSError, ValueError):  # a closed terminal: not the work's problem
        pass
