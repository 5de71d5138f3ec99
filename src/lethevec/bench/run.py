"""A run: its options, where its results go, and what the parts have in common."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import prepared
from .prepared import Prepared
from .results import Line, Results
from .turns import Competitor, Field

#: Sources of candidates that ours may have; one that this version does not know drops out by name.
SOURCES = ("scan", "tables", "pivots")


@dataclass
class Options:
    """What the command line says. All of it is in the key of a stage, but for the last two."""

    quick: bool = False
    rounds: int = 3
    settings: int = 12  # on a curve
    clock: str = "wall"
    pin: int | None = None
    peers: tuple[str, ...] = ()
    retrain_seconds: float = 45.0  # experiment 3: how long retraining one competitor may go on
    delete_records: int = 100_000  # experiment 3: how many of the first records, for the time to delete
    decay_records: int = 40_000  # experiment 3: of which parts are deleted
    stream_records: int = 100_000  # streaming: how many of the first records
    runbook: str | None = None
    limit: float = 900.0  # seconds that a competitor may take for one thing
    out: Path = field(default=Path("lethevec-results"))


@dataclass
class Run:
    """Options and results, and the clock for progress."""

    options: Options
    results: Results
    begin: float = field(default_factory=time.monotonic)

    def note(self, text: str) -> None:
        """A line of progress with the minutes since the start."""
        minutes, seconds = divmod(int(time.monotonic() - self.begin), 60)
        print(f"[{minutes:3d}:{seconds:02d}] {text}", flush=True)

    def stage(self, part: str, name: str, given: Prepared, measure: Callable[[Field], list[Line]]) -> None:
        """Measure unless it was done before; `measure` gives the lines, and builds and failures are added to them."""
        with_ = self.field(given)
        key = self.key(part, name, given.key)
        title = f"{given.data.name}: {part}" + (f", {name}" if name else "")
        if key in self.results.done:
            self.note(f"{title}: done before")
            return
        self.note(title)
        begin = time.monotonic()
        try:
            lines = measure(with_)
        finally:
            with_.close()
        about = {"records": len(given.data.train), "dim": given.data.dim, "metric": given.data.metric}
        queries = len(given.data.test)
        told = [{"step": name, **about, "queries": queries, **line} for line in [*with_.lines, *lines]]
        self.results.stage(part, given.data.name, told, key, time.monotonic() - begin)

    def first(self, given: Prepared, records: int) -> Prepared:
        """The first records of a set, with their truth, from the cache; the whole set when it has no more, or for 0."""
        if records <= 0 or records >= len(given.data.train):
            return given
        folder = given.folder.with_name(f"{given.folder.name}-first{records}")
        if not (folder / "meta.json").exists():
            self.note(f"{given.data.name}: true neighbours among the first {records:,}")
            prepared.write(prepared.cut(given.data, records), folder)
        return Prepared(prepared.read(folder), folder, f"{given.key}-{records}")

    def field(self, given: Prepared) -> Field:
        """A field of competitors over a data set."""
        o = self.options
        return Field(given.data, given.folder, o.out / "logs", o.limit, o.pin, lambda text: self.note(text))

    def key(self, part: str, name: str, data: str) -> str:
        """The same for the same measurement with the same options."""
        depends = {k: str(v) for k, v in vars(self.options).items() if k not in ("limit", "out")}
        text = json.dumps([part, name, data, depends], sort_keys=True)
        return f"{part}/{name}/" + hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def last_cpu() -> int | None:
    """The CPU to bind timings to: the last that this process may use."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def ours(**options: Any) -> list[Competitor]:
    """Ours as it is by default, and with each source of candidates."""
    found = [Competitor("lethevec (default)", "lethevec", {"source": None, **options})]
    return found + [Competitor(f"lethevec ({name})", "lethevec", {"source": name, **options}) for name in SOURCES]
