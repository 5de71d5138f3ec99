"""A process for each competitor: others' code may crash, hang or eat memory, and the rest of the run goes on.

The parent asks by lines of JSON, `{"call": name, "with": {...}}`, and the child answers each with one line, `{"value":
...}` or `{"error": ...}`. What the competitor prints goes to a log. A child that does not answer in time is killed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from .machine import plain
from .process import environment


class WorkerError(Exception):
    """What the competitor raised, or how its process ended."""


class Worker:
    """The parent's end. `session` is "module:Class"; the methods of that class are what can be called."""

    def __init__(self, session: str, arguments: Mapping[str, Any], *, log: Path, limit: float) -> None:
        self.limit = limit
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker", session],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment(),
                text=True,
            )
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.call("__init__", **arguments)
        except WorkerError:
            self.close()
            raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def call(self, name: str, *, limit: float | None = None, **arguments: Any) -> Any:
        """The value that the child's method gives. The process is gone after anything but an error of the method."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"call": name, "with": arguments}, default=plain) + "\n")
            self._process.stdin.flush()
        except OSError:
            self._ended(name)
        seconds = self.limit if limit is None else limit
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            self.kill()
            raise WorkerError(f"{name}: not done after {seconds:g} s, so it was stopped") from None
        if line is None:
            self._ended(name)
        answer = json.loads(line or "")
        if "error" in answer:
            raise WorkerError(f"{name}: {answer['error']}")
        return answer["value"]

    def _ended(self, name: str) -> None:
        code = self._process.wait()
        last = self.log.read_text(errors="replace").strip().splitlines()[-1:]
        raise WorkerError(f"{name}: the process ended with {code}" + (f" ({last[0]})" if last else ""))

    def close(self) -> None:
        """End the process: its input is closed first, and it is killed if that does not help."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it is gone already
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
        assert self._process.stdout is not None
        self._reader.join(timeout=10)
        self._process.stdout.close()

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def serve(session: str, asked: IO[str], answers: IO[str]) -> None:
    """The child's end: make the session, then call what is asked for until there is no more."""
    module, _, name = session.partition(":")
    kind = getattr(importlib.import_module(module), name)
    made: Any = None
    for line in asked:
        question = json.loads(line)
        try:
            if question["call"] == "__init__":
                made, value = kind(**question["with"]), None
            else:
                value = getattr(made, question["call"])(**question["with"])
            answer = {"value": value}
        except Exception as error:
            text = " ".join(str(error).split())
            answer = {"error": f"{type(error).__name__}: {text}" if text else type(error).__name__}
        answers.write(json.dumps(answer, default=plain) + "\n")
        answers.flush()


def main() -> None:
    """Answer on what is standard output now; whatever is printed from here on goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with contextlib.suppress(KeyboardInterrupt):
        serve(sys.argv[1], sys.stdin, answers)


if __name__ == "__main__":
    main()
