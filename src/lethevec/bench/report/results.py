"""Results of a run as JSON lines, one stage at a time, so that a run that was stopped can go on where it was.

A stage is what is measured together: one experiment, one data set, the competitors that took turns. Its lines are
written together when it ends, followed by a line that says so; lines of a stage that did not end are never read. The
key of a stage depends on everything that its figures depend on, so the same stage with other options is another stage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lethevec.errors import FileError

from ..measuring.field import Line
from ..measuring.machine import machine, plain

NAME = "results.jsonl"


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Refuse a second run into the same folder: both would be slowed down. (Only where the system has flock.)"""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".running").open("a") as file:
        try:
            import fcntl
        except ImportError:  # pragma: no cover  # Windows
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(
                f"{folder}: expected to be the only run into this folder, got another one that is going on; "
                "stop it, wait for it, or name another folder with --out"
            ) from None
        yield


class Results:
    """The file of a run."""

    def __init__(self, folder: Path, parameters: Mapping[str, Any], *, resume: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / NAME
        self.run = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")
        self.context = {"run": self.run, "parameters": dict(parameters), "machine": machine()}
        kept: list[Line] = []
        if self.path.exists():
            if resume:
                kept = read(self.path)
            else:
                self.path.rename(folder / f"results-before-{self.run}.jsonl")
        self.done = {line["stage"] for line in kept if line.get("ended")}
        if kept:  # what a stopped run left half-written is dropped
            _write(self.path, kept, "w")

    def stage(self, part: str, data: str, lines: Iterable[Mapping[str, Any]], key: str, seconds: float = 0.0) -> None:
        """Write a stage that has ended, after so many seconds."""
        common = {**self.context, "part": part, "data": data, "stage": key}
        _write(self.path, [{**common, **line} for line in lines] + [{**common, "ended": True, "seconds": seconds}], "a")
        self.done.add(key)


def _write(path: Path, lines: Iterable[Mapping[str, Any]], mode: str) -> None:
    text = "".join(json.dumps(line, default=plain) + "\n" for line in lines)
    with path.open(mode, encoding="utf-8") as file:
        file.write(text)


def read(path: Path) -> list[Line]:
    """The lines of all stages that ended, each stage once: the last time that it was run."""
    stages: dict[str, list[Line]] = {}
    now: dict[str, list[Line]] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:  # the last line of a run that was killed while it wrote
            continue
        key = line.get("stage", "")
        now.setdefault(key, []).append(line)
        if line.get("ended"):
            stages.pop(key, None)
            stages[key] = now.pop(key)
    return [line for lines in stages.values() for line in lines]


def results_of(lines: Iterable[Line], part: str, data: str | None = None) -> list[Line]:
    """The results of a part, without the lines that end a stage."""
    return [
        line
        for line in lines
        if line["part"] == part and not line.get("ended") and (data is None or line["data"] == data)
    ]
