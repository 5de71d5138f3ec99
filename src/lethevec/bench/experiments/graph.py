"""The graph as the source of candidates, on one thread, one query at a time.

Two parts:

* versus: the graph beside SymphonyQG, hnswlib and our pivots, with the time to build and the memory. All are tuned to
  the recall on other queries than those timed; then the graph is turned up until it is not below a peer on these;
* changes: milliseconds to forget and to add a record of the whole set, taken at random: mean, median and the worst.
"""

from __future__ import annotations

import argparse

import numpy as np

from ..measuring import prepared
from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from . import changes
from .compare import table_at
from .peers import others, peers_option
from .run import Run

ROUNDS = 7
PARTS = "versus,changes"
TARGETS = "0.90,0.95,0.99"
#: How many times as fast as these the graph is meant to be, by recall: on embeddings of several hundred dimensions, and
#: on others.
GOALS_WIDE = {0.90: {"SymphonyQG": 1.25}, 0.95: {"SymphonyQG": 1.25}, 0.99: {"SymphonyQG": 1.1}}
GOALS = {0.90: {"SymphonyQG": 1.4}, 0.95: {"SymphonyQG": 1.4}, 0.99: {"SymphonyQG": 1.2, "lethevec (pivots)": 1.5}}
WIDE_FROM = 256


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--parts", default=PARTS, help=f"which parts, with commas ({PARTS})")
    peers_option(parser, "symqg,hnswlib")
    parser.add_argument("--targets", default=TARGETS, help=f"recall to reach, with commas ({TARGETS})")
    parser.add_argument(
        "--pairs", action="store_true", help="vectors of twice the dimension: each of the set beside another one of it"
    )
    parser.add_argument("--changes", type=int, default=2000, help="records in the part 'changes' (2000)")


def experiment(run: Run, given: Prepared) -> None:
    """Measure one data set."""
    if run.options.pairs:
        given = prepared.pairs(given, run.note)
    if run.wants("versus"):
        run.stage("graph", "versus", given, lambda field: versus(run, field))
    if run.wants("changes"):
        run.stage("graph", "changes", given, lambda field: one_by_one(run, field))


def versus(run: Run, field: Field) -> list[Line]:
    """Build everybody; then one table for each recall."""
    ours = [Competitor(f"lethevec ({name})", "lethevec", {"source": name}) for name in ("graph", "pivots")]
    field.enter([*ours, *others(run.options.peers)])
    lines: list[Line] = []
    for target in map(float, run.options.targets.split(",")):
        goals = (GOALS_WIDE if field.data.dim >= WIDE_FROM else GOALS).get(target)
        lines += table_at(run, field, target, goals, equal=True)
    return lines


def one_by_one(run: Run, field: Field) -> list[Line]:
    """One record at a time, at random, from an index of the whole set; what is forgotten is added again."""
    data, count = field.data, run.options.changes
    indexes = {name: changes.build(data, name, len(data.train)) for name in ("graph", "pivots")}
    changed = changes.change(run, data, indexes, [count, count])
    lines: list[Line] = []
    rows = []
    for name, one in changed.items():
        size = one.index.stats()["bytes_per_record"]
        for what, took in (("forget", one.forgets / 1e3), ("add", one.adds / 1e3)):
            times = {"mean": float(took.mean()), "median": float(np.median(took)), "worst": float(took.max())}
            rows.append((name, what, *(f"{time:.3f}" for time in times.values()), f"{size:,.0f}"))
            lines.append({"what": "changes", "source": name, "change": what, **times, "bytes_per_record": size})
    head = ("source", "change", "ms, mean", "median", "worst", "bytes a record")
    run.table(f"{data.name}: changes, one record at a time, one thread", head, rows)
    return lines
