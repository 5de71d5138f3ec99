"""All peers and ours at equal recall, one thread, one query at a time.

Each is tuned to the cheapest setting that reaches the recall, on other queries than those that are timed; then they
take turns. All indexes are in memory at once, each in its own process.
"""

from __future__ import annotations

import argparse

from .. import peers
from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from ..measuring.timing import ratio
from ..measuring.turns import at_recall
from ..report.analysis import is_ours
from .peers import others, peers_option
from .run import Run

K = 10
ROUNDS = 5


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    peers_option(parser, ",".join(peers.SEARCHING))
    parser.add_argument("--sources", default="scan", help="sources of lethevec, with commas; '' for none (scan)")
    targets_option(parser)


def targets_option(parser: argparse.ArgumentParser) -> None:
    """`--targets`, which several experiments have."""
    parser.add_argument("--targets", default="0.90,0.95", help="recall to reach, with commas (0.90,0.95)")


def experiment(run: Run, given: Prepared) -> None:
    """Measure one data set."""
    sources = [name for name in run.options.sources.split(",") if name]
    ours = [Competitor(f"lethevec ({name})", "lethevec", {"source": name}) for name in sources]
    run.stage("compare", "", given, lambda field: versus(run, field, [*ours, *others(run.options.peers)]))


def versus(run: Run, field: Field, competitors: list[Competitor]) -> list[Line]:
    """Build everybody; then one table for each recall."""
    field.enter(competitors)
    lines: list[Line] = []
    for target in map(float, run.options.targets.split(",")):
        lines += table_at(run, field, target)
    return lines


def table_at(
    run: Run, field: Field, target: float, goals: dict[str, float] | None = None, equal: bool = False
) -> list[Line]:
    """Everybody at one recall. The ratios are against the first of ours; `goals` are for these, by competitor.

    With `equal` the first of ours is not below any peer's recall on the queries that are timed.
    """
    ours = next((name for name in field.workers if is_ours(name)), None)
    peers_there = [name for name in field.workers if not is_ours(name)]
    not_below = {ours: peers_there} if equal and ours is not None else None
    found = at_recall(field, target, k=K, not_below=not_below, **run.turns)
    best = next((one.timing for name, one in found.items() if is_ours(name)), None)
    lines: list[Line] = []
    rows = []
    for name, one in found.items():
        faster = ratio(best, one.timing) if best else None
        goal = (goals or {}).get(name)
        line = {"what": "at recall", "competitor": name, "target": target, "k": K, "ratio": faster, "goal": goal}
        lines.append({**line, **one.line()})
        told = "" if faster is None or one.timing is best else f"{faster:.2f}"
        row = (name, one.setting, f"{one.recall:.4f}", f"{one.timing.rate:,.0f}", f"{one.timing.spread:.2f}", told)
        rows.append(row if goals is None else (*row, "" if goal is None else f"{goal:g}"))
    head = ("competitor", "setting", f"recall@{K}", "queries/s", "spread", "ours is faster by")
    queries = len(field.data.test)
    title = (
        f"{field.data.name}, tuned to a recall of {target} on other queries; {queries} queries one by one, one thread"
    )
    run.table(title, head if goals is None else (*head, "goal"), rows)
    return lines
