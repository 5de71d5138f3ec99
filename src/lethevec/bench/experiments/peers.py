"""Every peer at its best, and ours: recall@10 against queries per second, one thread, one query at a time.

Each is built once, as its documentation advises, and searched over a grid of its own settings. All of them are in
memory at the same time, each in its own process, and take turns; a set that is too large for that is measured with one
after another.
"""

from __future__ import annotations

import argparse

from .. import peers
from ..measuring.field import Competitor, Field, Line
from ..measuring.memory import available
from ..measuring.prepared import Prepared
from ..measuring.turns import curves
from .run import Run, ours

#: All but IndexLSH, which experiment 1 has.
PEERS = tuple(name for name in peers.SEARCHING if name != "lsh")


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    peers_option(parser, ",".join(PEERS))


def peers_option(parser: argparse.ArgumentParser, default: str) -> None:
    """`--peers`, which several experiments have."""

    def known(names: str) -> str:
        unknown = [name for name in names.split(",") if name and name not in peers.SEARCHING]
        if unknown:
            raise argparse.ArgumentTypeError(f"expected names of {', '.join(peers.SEARCHING)}, got {unknown[0]!r}")
        return names

    told = f"which peers, with commas, of {','.join(peers.SEARCHING)} (default: {default})"
    parser.add_argument("--peers", type=known, default=default, help=told)


def others(names: str) -> list[Competitor]:
    """The peers of these names, with commas, as they are by default."""
    return [Competitor(peers.SEARCHING[name]().name, name) for name in names.split(",") if name]


def experiment(run: Run, given: Prepared) -> None:
    """Measure one data set."""
    options = run.options

    def measure(field: Field) -> list[Line]:
        refined = Competitor("lethevec (pivots, refined)", "lethevec", {"source": "pivots", "refine": True})
        everybody = [*ours(), refined, *others(options.peers)]
        together = fits(given.data.train.nbytes, len(everybody))
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
                slowest=60.0 if len(given.data.train) > 50_000 else 0.0,
                clock=options.clock,
            )
            if not together:
                field.close()
        return [{**line, "turns": together} for line in found]

    run.stage("peers", "", given, measure)


def fits(vectors: int, competitors: int) -> bool:
    """Whether all can be in memory at once: each may need twice the bytes of the vectors, and one more for building."""
    room = available()
    return room is None or 2 * vectors * (competitors + 2) < room
