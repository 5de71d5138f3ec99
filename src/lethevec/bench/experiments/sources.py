"""Every source of candidates on one data set: speed against recall, what a change costs, and memory.

One figure for each data set, for the page "Which source when". All are of one thread, one query or one record at a
time, and the sources take turns. Under each figure's name there is a file with its numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np

import lethevec

from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from ..measuring.turns import measured
from ..report.figures import pyplot
from . import changes
from .run import SOURCES, Run

ROUNDS = 5
K = 10
EFFORTS = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.5)
OPTIMIZE = ("updates", "search", "memory")
COLOURS = {"scan": "#495057", "tables": "#862e9c", "pivots": "#e8590c", "graph": "#1c7ed6"}
#: Below this recall nobody is looked at.
LEAST = 0.6


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    default = ",".join(SOURCES)
    parser.add_argument("--sources", default=default, help=f"which sources, with commas ({default})")
    parser.add_argument("--changes", type=int, default=1000, help="records that are forgotten and added again (1000)")


def experiment(run: Run, given: Prepared) -> None:
    """Measure one data set."""
    run.stage("sources", "", given, lambda field: all_of_them(run, field))


def all_of_them(run: Run, field: Field) -> list[Line]:
    """Searches of all sources, then changes, and what they take; drawn as one figure."""
    data = field.data
    names = [name for name in run.options.sources.split(",") if name]
    field.enter(Competitor(name, "lethevec", {"source": name}) for name in names)
    memory = {
        line["competitor"]: float(line["stats"]["bytes_per_record"]) for line in field.lines if line["what"] == "build"
    }
    entered = {f"{name}, {effort}": (field, name, [effort]) for name in field.workers for effort in EFFORTS}
    lines: list[Line] = []
    curves: dict[str, list[tuple[float, float]]] = {name: [] for name in memory}
    for label, one in measured(entered, K, **run.turns).items():
        _, name, (effort,) = entered[label]
        curves[name].append((one.recall, one.timing.rate))
        lines.append({"what": "sweep", "source": name, "effort": effort, **one.line()})
    field.close()
    indexes = {name: changes.build(data, name, len(data.train)) for name in memory}
    changed = changes.change(run, data, indexes, [run.options.changes] * len(indexes))
    costs = {name: (float(np.mean(one.forgets)), float(np.mean(one.adds))) for name, one in changed.items()}
    for name, (forget, add) in costs.items():
        own = {"bytes_per_record": memory[name], "forget": forget, "add": add}
        worst = {"worst_forget": float(changed[name].forgets.max()), "worst_add": float(changed[name].adds.max())}
        lines.append({"what": "source", "source": name, **own, **worst})
    chosen = {optimize: chosen_by(optimize, data.dim, data.metric, len(data.train)) for optimize in OPTIMIZE}
    lines.append({"what": "chosen", **chosen})
    tell(run, data.name, curves, costs, memory, chosen)
    draw(run, data.name, len(data.train), data.dim, curves, costs, memory)
    return lines


def chosen_by(optimize: str, dim: int, metric: str, records: int) -> str:
    """The source that `auto` uses for so many records."""
    source = lethevec.Index(dim, metric, optimize=optimize).config.source
    if isinstance(source, lethevec.Auto):
        if source.graph_from is not None and records >= source.graph_from:
            return "graph"
        if source.pivots_from is not None and records >= source.pivots_from:
            return "pivots"
    return "scan"


def rate_at(points: list[tuple[float, float]], recall: float) -> float | None:
    """Queries per second at this recall, between the settings on either side of it; None where it is not reached."""
    best = sorted(points)
    reached = [point for point in best if point[0] >= recall]
    below = [point for point in best if point[0] < recall]
    if not reached:
        return None
    (right, fast), (left, faster) = reached[0], below[-1] if below else reached[0]
    share = 0.0 if right == left else (recall - left) / (right - left)
    return float(np.exp((1 - share) * np.log(faster) + share * np.log(fast)))


def tell(
    run: Run,
    data: str,
    curves: Mapping[str, list[tuple[float, float]]],
    costs: Mapping[str, tuple[float, float]],
    memory: Mapping[str, float],
    chosen: Mapping[str, str],
) -> None:
    """A table of what the figure shows, with the sources that `auto` chooses."""
    rows = []
    for name, points in curves.items():
        rates = [rate_at(points, recall) for recall in (0.9, 0.95, 0.99)]
        told = ["" if rate is None else f"{rate:,.0f}" for rate in rates]
        which = ", ".join(optimize for optimize, one in chosen.items() if one == name)
        rows.append((name, *told, *(f"{cost:,.1f}" for cost in costs[name]), f"{memory[name]:,.0f}", which))
    recalls = [f"queries/s at recall@{K} {recall}" for recall in ("0.90", "0.95", "0.99")]
    head = ("source", *recalls, "us to forget, mean", "us to add, mean", "bytes a record", "`auto`'s with optimize=")
    run.table(f"{data}: every source, one thread", head, rows)


def draw(
    run: Run,
    data: str,
    records: int,
    dim: int,
    curves: Mapping[str, list[tuple[float, float]]],
    costs: Mapping[str, tuple[float, float]],
    memory: Mapping[str, float],
) -> None:
    """Three panels: speed against recall, changes, memory."""
    figure, (speed, change, bytes_) = pyplot().subplots(
        1, 3, figsize=(11, 3.6), layout="constrained", width_ratios=(2, 1, 1)
    )
    for name, points in curves.items():
        shown = [point for point in sorted(points) if point[0] >= LEAST]
        if shown:
            speed.plot(*zip(*shown, strict=True), marker=".", label=name, color=COLOURS.get(name))
    speed.set(yscale="log", xlabel=f"recall@{K}", ylabel="queries per second, one thread", title="search")
    speed.legend(fontsize="small")
    names = list(costs)
    places = np.arange(len(names))
    colours = [COLOURS.get(name) for name in names]
    change.bar(places - 0.2, [costs[name][0] for name in names], 0.38, color=colours)
    change.bar(places + 0.2, [costs[name][1] for name in names], 0.38, color=colours, alpha=0.5)
    change.set(yscale="log", ylabel="microseconds, mean", title="forget (dark), add (light)", xticks=places)
    change.set_xticklabels(names)
    bytes_.bar(places, [memory[name] for name in names], 0.7, color=colours)
    bytes_.set(ylabel="bytes a record, vector included", title="memory", xticks=places)
    bytes_.set_xticklabels(names)
    figure.suptitle(f"{data}: {records:,} records of {dim} numbers")
    rows: list[tuple[str, str, float, float]] = [
        (name, "search: recall, queries per second", *point) for name, points in curves.items() for point in points
    ]
    rows += [(name, "us to forget, us to add, means", *costs[name]) for name in names]
    rows += [(name, "bytes a record, of which the vector", memory[name], 4.0 * dim) for name in names]
    caption = "Left: each point is one effort. Middle: one record at a time, the mean. Right: bytes, with the vector."
    title = f"{data}: search, changes and memory of each source"
    run.figure(figure, f"sources-{data}", title, caption, ("source", "what", "first", "second"), rows)
