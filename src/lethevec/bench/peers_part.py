"""Every peer at its best beside ours: recall@10 against queries per second, one thread, one query at a time.

Each is built once, as its documentation advises, and searched over a grid of its own settings. All of them are in
memory at the same time, each in its own process, and take turns; a set that is too large for that is measured with one
after another.
"""

from __future__ import annotations

from . import peers
from .memory import available
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
        refined = Competitor("lethevec (pivots, refine=1)", "lethevec", {"source": "pivots", "refine": 1})
        everybody = [*ours(), refined, *(Competitor(peers.ALL[name]().name, name) for name in wanted)]
        together = fits(prepared.data.train.nbytes, len(everybody))
        if not together:
            run.note("  too large to have all of them in memory: one after another, without turns")
        found: list[Line] = []
        for group in [everybody] if together else [[one] for one in everybody]:
            field.enter(group)
            found += curves(
                field,
                count=options.settings,
                rounds=options.rounds,
                patience=1.0 if options.quick else 5.0,
                slowest=60.0 if len(prepared.data.train) > 50_000 else 0.0,
                clock=options.clock,
            )
            if not together:
                field.close()
        return [{**line, "turns": together} for line in found]

    run.stage("peers", "", prepared, measure)


def fits(vectors: int, competitors: int) -> bool:
    """Whether all can be in memory at once: each may need twice the bytes of the vectors, and one more for building."""
    room = available()
    return room is None or 2 * vectors * (competitors + 2) < room
