"""A run: its options, where its results go, and what the experiments have in common."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..measuring import prepared
from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from ..measuring.timing import Pin
from ..report import figures
from ..report.results import Results
from ..report.tables import markdown

#: Sources of candidates that ours may have. One that this version does not know drops out by name.
SOURCES = ("scan", "tables", "pivots", "graph")

#: Options that no figure depends on.
ASIDE = ("experiments", "data", "queries", "limit_vectors", "out", "docs", "resume", "time_limit", "parts")


@dataclass
class Run:
    """Options and results, and the clock for progress. `own` names the options that belong to one experiment alone."""

    options: argparse.Namespace
    results: Results
    own: dict[str, set[str]] = field(default_factory=dict)
    begin: float = field(default_factory=time.monotonic)
    pending: list[Line] = field(default_factory=list)  # tables and figures of the stage that is going on

    # What the reader sees --------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """A line of progress with the minutes since the start."""
        minutes, seconds = divmod(int(time.monotonic() - self.begin), 60)
        print(f"[{minutes:3d}:{seconds:02d}] {text}", flush=True)

    def table(self, title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a Markdown table, and keep it for the report."""
        told = [[str(cell) for cell in row] for row in rows]
        print(f"\n### {title}\n\n{markdown(head, told)}\n", flush=True)
        self.pending.append({"what": "table", "title": title, "head": list(head), "rows": told})

    def figure(
        self, figure: Any, name: str, title: str, caption: str, head: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        """Save a figure with its numbers, and keep it for the report."""
        figures.save(figure, self.options.out, name, head, rows)
        self.note(f"  figure: {name}.svg, .png and .csv")
        self.pending.append({"what": "figure", "name": name, "title": title, "caption": caption})

    # What is measured -------------------------------------------------------------------------------------------------

    def stage(
        self,
        part: str,
        step: str,
        given: Prepared,
        measure: Callable[[Field], list[Line]],
        *,
        aside: Sequence[str] = (),
        always: bool = False,
    ) -> None:
        """Measure unless it was done before, or `always`: what is told of other results.

        `measure` returns the lines of the stage; builds, failures, tables and figures are added to them. `aside` names
        options that its figures do not depend on, besides those that none depends on.
        """
        key = self.key(part, step, given.key, aside)
        if always:
            self.results.done.discard(key)
        title = ", ".join(text for text in (given.data.name, part, step) if text)
        if key in self.results.done:
            self.note(f"{title}: done before")
            return
        self.note(title)
        begin = time.monotonic()
        self.pending = []
        competitors = self.field(given)
        try:
            lines = measure(competitors)
        finally:
            competitors.close()
        data = given.data
        about = {"records": len(data.train), "dim": data.dim, "metric": data.metric, "queries": len(data.test)}
        about["tuning"] = 0 if data.tuning is None else len(data.tuning.vectors)
        common = {"step": step, **(about if data.name else {})}
        told = [{**common, **line} for line in [*competitors.lines, *lines, *self.pending]]
        self.results.stage(part, data.name, told, key, time.monotonic() - begin)

    def key(self, part: str, step: str, data: str, aside: Sequence[str] = ()) -> str:
        """The same for the same measurement with the same options."""
        others = {name for part_, names in self.own.items() if part_ != part for name in names}
        others -= self.own.get(part, set())
        depends = {k: str(v) for k, v in vars(self.options).items() if k not in (*ASIDE, *aside) and k not in others}
        text = json.dumps([part, step, data, depends], sort_keys=True)
        return f"{part}/{step}/" + hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def field(self, given: Prepared) -> Field:
        """A field of competitors over a data set."""
        o = self.options
        return Field(given, o.out / "logs", o.time_limit, o.pin, lambda text: self.note(text))

    def first(self, given: Prepared, records: int) -> Prepared:
        """The first records of a set, with their truth, from the cache; the whole set when it has no more, or for 0."""
        return prepared.first(given, records, self.note)

    def wants(self, part: str) -> bool:
        """Whether `--parts` names this part of an experiment."""
        return part in self.options.parts.split(",")

    @property
    def pinned(self) -> Pin:
        """For timings in this process: `with run.pinned:`."""
        return Pin(self.options.pin)

    @property
    def turns(self) -> dict[str, Any]:
        """How long competitors take turns: the arguments of `take_turns`."""
        return {"rounds": self.options.rounds, "seconds": self.options.seconds, "clock": self.options.clock}

    @property
    def cache(self) -> Path:
        """Where data sets are kept."""
        return Path(self.options.out) / "cache"


def ours(**options: Any) -> list[Competitor]:
    """Ours as it is by default, and with each source of candidates."""
    found = [Competitor("lethevec (default)", "lethevec", {"source": None, **options})]
    return found + [Competitor(f"lethevec ({name})", "lethevec", {"source": name, **options}) for name in SOURCES]
