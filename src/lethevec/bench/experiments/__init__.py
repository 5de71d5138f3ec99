"""The experiments, by the names that the command line takes.

Each is a module with `experiment(run, given)`, which measures one data set in one or more stages, and, where it has
options of its own, `options(parser)`. A module may say how many rounds it has by default (`ROUNDS`).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Experiment:
    """What the command line has to know before an experiment is loaded."""

    about: str
    data: bool = True  # whether it is run on each data set, or once
    draws: bool = False  # whether it needs matplotlib


#: The parts of a whole run, in the order in which they are measured. They share results and report.
WHOLE = {
    "paper1": Experiment("experiment 1: queries per second against precision@10", draws=True),
    "paper2": Experiment("experiment 2: precision against recall, area under the curve", draws=True),
    "paper3": Experiment("experiment 3: time to delete; recall, memory and residue after deletions", draws=True),
    "peers": Experiment("every peer at its best: recall against queries per second", draws=True),
    "streaming": Experiment("a stream of inserts, deletes and searches", draws=True),
}

#: Experiments about one thing, run one at a time.
SINGLE = {
    "compare": Experiment("peers and ours at equal recall"),
    "effort": Experiment("recall and cost of each source at effort 0.5, 1, 2 and 4, and with no limit"),
    "sources": Experiment("speed, changes and memory of every source, as one figure a set", draws=True),
    "encode": Experiment("how fast vectors become codes", data=False),
    "scan": Experiment("the scan beside its rivals; adding, forgetting, memory"),
    "tables": Experiment("hash tables as the source of candidates", draws=True),
    "pivots": Experiment("pivots as the source of candidates, beside ScaNN, hnswlib and IVFPQ", draws=True),
    "scale": Experiment(
        "building, changing and searching as an index grows to millions of records", data=False, draws=True
    ),
    "graph": Experiment("the graph as the source of candidates, beside SymphonyQG, hnswlib and pivots"),
    "memory": Experiment("bytes a record beside peers; opening"),
    "batches": Experiment("single calls, batches on one thread and on all, beside peers; building and loading on all"),
    "store": Experiment("the durable store: adding, opening, forgetting", data=False),
    "collections": Experiment("a person erased from many collections; access; expiry", data=False),
    "filters": Experiment("searches under filters on metadata, beside LanceDB and Chroma", data=False),
    "server": Experiment("requests a second, latencies and CPU of the server, beside Chroma's", data=False),
    "residue": Experiment("what deletion leaves in the files of several libraries", data=False),
}

ALL = {**WHOLE, **SINGLE}


def module_of(name: str) -> Any:
    """The module of an experiment."""
    return importlib.import_module(f".{name}", __package__)
