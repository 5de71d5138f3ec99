"""Experiment 1 of the paper: queries per second against precision@10, one thread, one query at a time.

All codes are ranked by Hamming distance. For each expansion m of the paper's table four rivals take turns with codes of
m * dim bits: simHash, Super-Bit by Faiss's IndexLSH, Super-Bit and USR (T = 17) by ours. What our index does by default
is measured beside them, as a stage of its own.
"""

from __future__ import annotations

from .. import paper
from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from ..measuring.turns import curves
from ..paper import FAISS, FAMILIES
from .run import Run, ours


def competitors(expansion: int, dim: int) -> list[Competitor]:
    """The four, with codes of the same length."""
    made = [Competitor(name, "paper", {"family": family, "expansion": expansion}) for family, name in FAMILIES.items()]
    return [*made, Competitor(FAISS, "lsh", {"bits": expansion * dim})]


def experiment(run: Run, given: Prepared) -> None:
    """Measure one data set."""
    options = run.options
    for expansion in paper.expansions(given.data.name, quick=options.quick):

        def measure(field: Field, expansion: int = expansion) -> list[Line]:
            field.enter(competitors(expansion, given.data.dim))
            found = curves(field, rounds=options.rounds, patience=4 if options.quick else 20, clock=options.clock)
            bits = expansion * given.data.dim
            return [{**line, "expansion": expansion, "bits": bits} for line in found]

        run.stage("paper1", f"m = {expansion}", given, measure)

    def default(field: Field) -> list[Line]:
        field.enter(ours()[:1])
        return curves(field, count=options.settings, rounds=options.rounds, clock=options.clock)

    run.stage("paper1", "our default", given, default)
