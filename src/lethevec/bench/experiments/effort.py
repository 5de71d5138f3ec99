"""What effort gives: recall@10 of each source at effort 0.5, 1, 2, 4 and more, and what it costs.

Effort 1 is meant for a recall of 0.95 on any data, and infinite effort for the answer of a brute-force search. Costs
are ratios to the CPU time of a query at effort 1 with the same source, in turn, one thread, one query at a time.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time

import numpy as np

import lethevec

from ..measuring.data import recall
from ..measuring.field import Line
from ..measuring.prepared import Prepared
from .run import SOURCES, Run

K = 10
EFFORTS = [0.5, 1.0, 2.0, 4.0, 16.0, 64.0]
#: So much that every vector is looked at.
EVERYTHING = math.inf
#: Queries in a round at the most: with no limit a query looks at every vector.
TIMED = 100


def options(parser: argparse.ArgumentParser) -> None:
    """Which sources, and which efforts beside infinity."""
    parser.add_argument("--sources", default=",".join(SOURCES), help="sources, with commas (%(default)s)")
    parser.add_argument("--efforts", type=float, nargs="*", default=EFFORTS, help="efforts (%(default)s)")


def experiment(run: Run, given: Prepared) -> None:
    """One table for a data set."""
    run.stage("effort", "recall", given, lambda _: measure(run, given))


def measure(run: Run, given: Prepared) -> list[Line]:
    """Every source at every effort."""
    data, lines, rows = given.data, [], []
    efforts = [*run.options.efforts, EVERYTHING]
    for source in run.options.sources.split(","):
        index = lethevec.Index(dim=data.dim, metric=data.metric, source=source)
        index.add(data.train, ids=np.arange(len(data.train)))
        found = [recall(data, index.search(data.test, k=K, effort=effort).ids, K) for effort in efforts]
        timed = dict(zip(efforts, _micros(run, index, given, efforts), strict=True))
        base = timed.get(1.0, timed[efforts[0]])
        for effort, share in zip(efforts, found, strict=True):
            lines.append(
                {
                    "what": "effort",
                    "source": source,
                    "effort": f"{effort:g}",
                    "recall": share,
                    "us_per_query": timed[effort],
                }
            )
        cells = [f"{share:.4f} ({timed[effort] / base:.2g})" for effort, share in zip(efforts, found, strict=True)]
        rows.append((data.name, f"{len(data.train):,} x {data.dim}", source, *cells, f"{base:,.0f}"))
    head = ("set", "vectors", "source", *(f"{effort:g}" for effort in efforts), "us at 1")
    run.table(f"{data.name}: recall@{K} by effort (and time, as a ratio to that at effort 1)", head, rows)
    return lines


def _micros(run: Run, index: lethevec.Index, given: Prepared, efforts: list[float]) -> list[float]:
    """The median time of a query at each effort, in turn."""
    queries = given.data.test[:TIMED]
    taken: list[list[float]] = [[] for _ in efforts]
    with run.pinned:
        for _ in range(run.options.rounds):
            for effort, own in zip(efforts, taken, strict=True):
                begin = time.thread_time()
                for query in queries:
                    index.search(query, k=K, effort=effort, threads=1)
                own.append((time.thread_time() - begin) / len(queries) * 1e6)
    return [statistics.median(own) for own in taken]
