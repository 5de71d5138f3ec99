"""Experiment 3 of the paper: the time to delete one point, one at a time; and what deletion does to an index.

* time: the mean over ten points, after a first one that pays for what is made at first use and is kept in the results.
  Ours (in memory, durable), simHash, Super-Bit and USR with the paper's longest codes; ScaNN, Annoy and Faiss IVFPQ
  fast-scan trained again after each deletion, as in the paper; and, which the paper did not measure, the peers' own
  delete where they have one.
* decay: see `deletion`.
"""

from __future__ import annotations

import argparse

import numpy as np

from .. import paper
from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from . import deletion
from .run import Run

POINTS = 10
RETRAINED = (
    Competitor("ScaNN, retrained", "scann", {"retrained": True}),
    Competitor("Annoy, retrained", "annoy", {"retrained": True}),
    Competitor("Faiss IVFPQ fast-scan, retrained", "ivfpq", {"refined": False}),
)


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument(
        "--retrain-seconds", type=float, default=45.0, metavar="S", help="how long retraining one peer may go on (45)"
    )
    for name, default, what in (("delete", 100_000, "the time to delete"), ("decay", 40_000, "decay")):
        told = f"measure {what} on the first N vectors ({default}; 0: all)"
        parser.add_argument(f"--{name}-records", type=int, default=default, metavar="N", help=told)


def timed(dim: int, expansion: int) -> list[Competitor]:
    """Who deletes by a call of its own."""
    families = {"simhash": "simHash", "superbit": "Super-Bit", "usr": "USR (T = 17)"}
    kept = {"expansion": expansion, "keep_vectors": True}
    return [
        *deletion.OURS,
        *(
            Competitor(f"{name}, {expansion * dim} bits", "paper", {"family": family, **kept})
            for family, name in families.items()
        ),
        Competitor("Faiss IndexLSH, remove_ids", "lsh", {"expansion": expansion, "deletes": True}),
        *deletion.rivals(),
    ]


def experiment(run: Run, whole: Prepared) -> None:
    """Measure the first records of one data set: learned rivals are trained again and again here."""
    given = run.first(whole, run.options.delete_records)
    clock = run.options.clock
    order = np.random.default_rng(10).permutation(len(given.data.train)).tolist()

    def own(field: Field) -> list[Line]:
        lines = []
        for one in timed(given.data.dim, paper.expansions(given.data.name)[-1]):
            field.enter([one])
            took = field.ask(one.name, "delete_alone", rows=order[: POINTS + 1], clock=clock) if field.workers else None
            if took is not None:
                field.note(f"  {one.name}: {1e6 * float(np.mean(took[1:])):,.1f} us")
                line = {"what": "deletion", "competitor": one.name, "how": "own"}
                lines.append({**line, "seconds": took[1:], "first": took[0]})
            field.close()
        return lines

    def again(field: Field) -> list[Line]:
        lines = []
        for one in RETRAINED:
            seconds = 1.0 if run.options.quick else run.options.retrain_seconds
            asked = {"kind": one.kind, "options": one.options, "rows": order[:POINTS], "seconds": seconds}
            took = field.begin(one, "rebuild", **asked, clock=clock)
            if took is not None:
                field.note(f"  {one.name}: {float(np.mean(took)):,.2f} s (mean of {len(took)})")
                lines.append({"what": "deletion", "competitor": one.name, "how": "retrained", "seconds": took})
            field.close()
        return lines

    run.stage("paper3", "time", given, own)
    run.stage("paper3", "retraining", given, again)
    few = 2_000 if run.options.quick else run.options.decay_records
    run.stage("paper3", "decay", run.first(whole, few), lambda field: deletion.measure(run, field))
