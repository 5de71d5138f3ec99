"""Every peer at its best beside ours: recall@10 against queries per second, one thread, one query at a time.

Each is built once, as its documentation advises, and searched over a grid of its own settings. All of them are in
memory at the same time, each in its own process, and take turns.
"""

from __future__ import annotations

from . import peers
from .prepared import Prepared
from .results import Line
from .run import Run, ours
from .turns import Competitor, Field, curves

#: All but IndexLSH, which experiment 1 has.
PEERS = tuple(name for name in peers.ALL if name != "lsh")


def experiment(run: Run, prepared: Prepared) -> None:
    """Measure one data set."""
    options = run.options
    wanted = options.peers or PEERS

    def measure(field: Field) -> list[Line]:
        field.enter([*ours(), *(Competitor(peers.ALL[name]().name, name) for name in wanted)])
        patience = 1.0 if options.quick else 5.0
        slowest = 60.0 if len(prepared.data.train) > 50_000 else 0.0
        count = options.settings
        return curves(
            field, count=count, rounds=options.rounds, patience=patience, slowest=slowest, clock=options.clock
        )

    run.stage("peers", "", prepared, measure)
