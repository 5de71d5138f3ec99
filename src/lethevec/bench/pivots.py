"""Pivots as the source of candidates, on one thread, one query at a time: `python -m lethevec.bench.pivots`.

Three parts:

* versus: pivots, plain and refined, beside ScaNN, hnswlib and Faiss's IVFPQ at equal recall, with the time to build;
* growth: what a query costs as the set grows, pivots and scan both tuned to the same recall at each size, with the
  exponent of the power law fitted to each. Where the lines cross is where pivots begin to pay;
* changes: microseconds to add and to forget a record of the whole set, taken at random, and to forget one that is no
  pivot: most of those leave their cell as it is, a few move its origin.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import lethevec
from lethevec import reference

from . import peers
from .compare import at_recall, build
from .growing import measure_growth
from .harness import Data, Report, parser, run_parts
from .one_record import chosen_rows, time_changes
from .ours import Lethevec
from .peer import Peer
from .process import start_over


def versus(report: Report, data: Data, arguments: argparse.Namespace) -> None:
    """Everybody at each of the recalls."""
    ours: list[Peer] = [
        Lethevec("pivots", expected=len(data.train)),
        Lethevec("pivots", refine=1, expected=len(data.train)),
    ]
    competitors = ours + peers.make(name for name in arguments.peers.split(",") if name)
    build(report, data, competitors)
    for target in map(float, arguments.targets.split(",")):
        at_recall(report, data, competitors, target, arguments.rounds, arguments.seconds)


def growth(report: Report, data: Data, arguments: argparse.Namespace) -> None:
    """The first n records, for growing n."""
    sources = {
        "pivots": lambda n: Lethevec("pivots", expected=n),
        "refined": lambda n: Lethevec("pivots", refine=1, expected=n),
        "scan": lambda n: Lethevec("scan"),
    }
    measure_growth(report, data, arguments, sources, "pivots")


def changes(report: Report, data: Data, arguments: argparse.Namespace) -> None:
    """One record at a time, at random, from an index of the whole set; what is forgotten is added again."""
    rows = []
    for refine in (0, 1):
        index = lethevec.Index(data.dim, data.metric, source="pivots", refine=refine, expected=len(data.train))
        index.add(data.train, ids=range(len(data.train)))
        pivots = index.stats()["pivots"]
        count = arguments.changes if refine == 0 else max(1, arguments.changes // 8)
        chosen = chosen_rows(len(data.train), count)
        forgets, adds = time_changes(index, data.train, chosen)
        settings: dict[str, Any] = dict(index.config.source_params)
        key = reference.pivot_key(bytes.fromhex(settings["key"]))
        others = forgets[~reference.is_pivot(np.array(chosen, dtype=np.int64), key, settings["cell_size"])]
        label = "refined" if refine else "pivots"
        size = index.stats()["bytes_cells"] / len(data.train)
        times = {
            "add": adds.mean(),
            "forget": forgets.mean(),
            "forget_other": others.mean(),
            "forget_median": float(np.median(forgets)),
        }
        rows.append((label, f"{pivots:,}", *(f"{time:.1f}" for time in times.values()), f"{size:.0f}"))
        report.add(part="changes", data=data.name, source=label, **times)
    head = ("source", "pivots", "us to add", "to forget", "no pivot", "median", "bytes of cells for a record")
    report.table(f"{data.name}: changes, one record at a time, one thread", head, rows)


def main(command: list[str] | None = None) -> None:
    cli = parser(__doc__ or "")
    cli.add_argument("--peers", default="scann,hnswlib,ivfpq", help="part 'versus': which, with commas")
    cli.add_argument("--targets", default="0.90,0.95", help="part 'versus': recall to reach, with commas")
    cli.add_argument("--sizes", type=int, nargs="*", default=[25_000, 50_000, 100_000, 200_000], help="part 'growth'")
    cli.add_argument("--target", type=float, default=0.9, help="part 'growth': recall to reach")
    cli.add_argument("--changes", type=int, default=4000, help="part 'changes': records; refined, an eighth of them")
    run_parts("pivots", cli, command, {"versus": versus, "growth": growth, "changes": changes})


if __name__ == "__main__":
    start_over("lethevec.bench.pivots", main)
