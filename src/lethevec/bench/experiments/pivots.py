"""Pivots as the source of candidates, on one thread, one query at a time.

Four parts:

* versus: pivots, plain and refined, beside ScaNN, hnswlib and Faiss's IVFPQ at equal recall, with the time to build;
* growth: what a query costs as the set grows, pivots and scan both tuned to the same recall at each size, with the
  exponent of the power law fitted to each. Where the lines cross is where pivots begin to pay;
* changes: microseconds to add and to forget a record of the whole set, taken at random, and to forget one that is no
  pivot: most of those leave their cell as it is, a few move its origin;
* half: half of the records forgotten in one call, spread over the set or lying in one cluster, beside building an index
  of the other half; how long a search on another thread waits meanwhile, and how long Ctrl-C does.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from lethevec import reference

from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from . import changes, compare, growth, half
from .compare import targets_option
from .peers import others, peers_option
from .run import Run

ROUNDS = 5
PARTS = "versus,growth,changes,half"
OURS: dict[str, dict[str, Any]] = {"pivots": {"source": "pivots"}, "refined": {"source": "pivots", "refine": True}}


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--parts", default=PARTS, help=f"which parts, with commas ({PARTS})")
    peers_option(parser, "scann,hnswlib,ivfpq")
    targets_option(parser)
    growth.options(parser)
    told = "records in the part 'changes', refined an eighth of them (4000)"
    parser.add_argument("--changes", type=int, default=4000, help=told)


def experiment(run: Run, given: Prepared) -> None:
    """Measure one data set."""
    if run.wants("versus"):
        ours = [Competitor(f"lethevec ({name})", "lethevec", options) for name, options in OURS.items()]
        run.stage(
            "pivots", "versus", given, lambda field: compare.versus(run, field, [*ours, *others(run.options.peers)])
        )
    if run.wants("growth"):
        growth.growth(run, "pivots", given, {**OURS, "scan": {"source": "scan"}})
    if run.wants("changes"):
        run.stage("pivots", "changes", given, lambda field: one_by_one(run, field))
    if run.wants("half"):
        run.stage("pivots", "half", given, lambda field: half.at_once(run, field, OURS))


def one_by_one(run: Run, field: Field) -> list[Line]:
    """One record at a time, at random, from an index of the whole set; what is forgotten is added again."""
    data, count = field.data, run.options.changes
    indexes = {name: changes.build(data, records=len(data.train), **options) for name, options in OURS.items()}
    changed = changes.change(run, data, indexes, [count, max(1, count // 8)])
    lines: list[Line] = []
    rows = []
    for name, one in changed.items():
        others = one.forgets[~_pivots(one)]
        times = {
            "add": one.adds.mean(),
            "forget": one.forgets.mean(),
            "forget_other": others.mean(),
            "forget_median": float(np.median(one.forgets)),
        }
        stats = one.index.stats()
        size = stats["bytes_cells"] / len(data.train)
        rows.append((name, f"{stats['pivots']:,}", *(f"{time:.1f}" for time in times.values()), f"{size:.0f}"))
        lines.append({"what": "changes", "source": name, **times})
    head = ("source", "pivots", "us to add", "to forget", "no pivot", "median", "bytes of cells for a record")
    run.table(f"{data.name}: changes, one record at a time, one thread", head, rows)
    return lines


def _pivots(one: changes.Changed) -> Any:
    """Which of the changed records are pivots."""
    source: Any = one.index.config.source
    key = reference.pivot_key(bytes.fromhex(source.key))
    return reference.is_pivot(one.rows.astype(np.int64), key, source.cell_size or 0, len(one.index))
