"""The competitors of one data set, each in its own process; those that fail or are not installed drop out by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import peers
from .data import Data
from .prepared import Prepared
from .worker import Worker, WorkerError

Line = dict[str, Any]
SESSION = "lethevec.bench.measuring.sessions:Session"


@dataclass(frozen=True)
class Competitor:
    """Who takes part: a name for the figures, the kind of `peers.KINDS`, and its options."""

    name: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)

    def missing(self) -> str | None:
        """The package that is not installed, if any."""
        return peers.KINDS[self.kind].missing()


@dataclass
class Field:
    """The competitors that are still in, and what became of the others."""

    given: Prepared
    logs: Path
    limit: float  # seconds that a competitor may take for one thing
    pin: int | None
    note: Callable[[str], None]
    workers: dict[str, Worker] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)  # of those that dropped out, and of builds

    @property
    def data(self) -> Data:
        """What they search in."""
        return self.given.data

    def enter(self, competitors: Iterable[Competitor]) -> None:
        """Build those that are installed, one after another."""
        for competitor in competitors:
            built = self.begin(competitor, "build", kind=competitor.kind, options=competitor.options)
            if built is not None:
                name = competitor.name
                took = (
                    f"built in {built['seconds']:.1f} s ({built['cpu']:.1f} s of CPU), {built['bytes'] / 1e6:,.0f} MB"
                )
                self.note(f"  {name}: {took}")
                self.lines.append({"what": "build", "competitor": name, "options": competitor.options, **built})

    def begin(self, competitor: Competitor, call: str, **arguments: Any) -> Any:
        """Start a competitor's process and ask it for something; None when either fails, and then it is out."""
        missing = competitor.missing()
        if missing is not None:
            self.out(competitor.name, skipped=f"the package {missing!r} is not installed")
            return None
        log = self.logs / f"{''.join(c if c.isalnum() else '-' for c in competitor.name)}.log"
        given = {"folder": str(self.given.folder), "pin": self.pin}
        try:
            self.workers[competitor.name] = Worker(SESSION, given, log=log, limit=self.limit)
        except WorkerError as error:
            self.out(competitor.name, error=str(error))
            return None
        return self.ask(competitor.name, call, **arguments)

    def ask(self, name: str, call: str, **arguments: Any) -> Any:
        """What a competitor's process answers; None when it fails, and then it is out."""
        try:
            return self.workers[name].call(call, **arguments)
        except WorkerError as error:
            self.out(name, error=str(error))
            return None

    def out(self, name: str, **why: str) -> None:
        """Name one that is out, and why: without folders, because where files lie is nobody's business."""
        why = {key: re.sub(r"(?<![\w.])/(?:[^\s/:'\"()]+/)+", "", text) for key, text in why.items()}
        self.note(f"  {name}: {next(iter(why))}: {next(iter(why.values()))}")
        self.lines.append({"what": "out", "competitor": name, **why})
        worker = self.workers.pop(name, None)
        if worker is not None:
            worker.close()

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.close()
        self.workers.clear()
