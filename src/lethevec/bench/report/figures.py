"""The figures of a run, as SVG and PNG, each with the numbers that it shows as CSV beside it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lethevec.errors import MissingDependencyError

from ..measuring.field import Line
from . import analysis
from .analysis import by_competitor, fronts, is_ours, of

#: One colour for a name, in all figures. Ours are strong, the peers' are set apart by marks as well.
OURS = {
    "lethevec (default)": "#b3001b",
    "lethevec (pivots)": "#e8590c",
    "lethevec (scan)": "#d6336c",
    "lethevec (tables)": "#862e9c",
    "lethevec (pivots, refined)": "#f59f00",
    "lethevec (graph)": "#7048e8",
    "lethevec, in memory": "#b3001b",
    "lethevec, durable": "#e8590c",
    "USR (T = 17), ours": "#e8590c",
}
REST = (
    *("#1f77b4", "#2ca02c", "#17becf", "#8c6d31", "#868e96", "#1f2a6b", "#9e8cc9", "#94a500", "#000000", "#74b9f0"),
    *("#0b7285", "#a9713f", "#5c940d"),  # a prime number, as of marks: colour and mark together tell many apart
)
MARKS = "osD^vP*X<>"


@dataclass(frozen=True)
class Figure:
    """A drawn figure: the stem of its files, and what it shows."""

    name: str
    title: str
    caption: str


def pyplot() -> Any:
    """Matplotlib without a display."""
    try:
        import matplotlib
    except ImportError:
        raise MissingDependencyError(
            "figures need the package 'matplotlib', which is not installed: pip install 'lethevec[bench]'"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lethevec", "font.size": 9, "axes.grid": True})
    plt.rcParams.update({"grid.alpha": 0.3, "font.family": "sans-serif", "axes.axisbelow": True})
    return plt


def own_figures(lines: Iterable[Line]) -> list[Figure]:
    """The figures that experiments have drawn themselves."""
    return [Figure(line["name"], line["title"], line["caption"]) for line in lines if line.get("what") == "figure"]


class Style:
    """Colours and marks, given out in order and kept."""

    def __init__(self) -> None:
        self.given: dict[str, dict[str, Any]] = {}

    def of(self, name: str) -> dict[str, Any]:
        """How a competitor's line looks."""
        if name not in self.given:
            place = len([one for one in self.given if one not in OURS])
            look: dict[str, Any] = {"color": REST[place % len(REST)], "marker": MARKS[place % len(MARKS)]}
            look |= {"markersize": 3.5, "linewidth": 1.2}
            if name in OURS:
                look = {"color": OURS[name], "marker": ".", "markersize": 6, "linewidth": 2.2, "zorder": 5}
            self.given[name] = look
        return self.given[name]


def save(figure: Any, folder: Path, name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write the figure and its numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=130)
    pyplot().close(figure)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


def draw_all(lines: list[Line], folder: Path) -> dict[str, list[Figure]]:
    """All figures that there are results for, by data set."""
    drawn: dict[str, list[Figure]] = {}
    drawers: tuple[Callable[[list[Line], str, Path], Figure | None], ...] = (
        draw_paper1,
        draw_paper2,
        draw_deletion,
        draw_decay,
        draw_peers,
        draw_streaming,
    )
    for data in analysis.data_names(lines):
        made = [drawer(lines, data, folder) for drawer in drawers]
        drawn[data] = [figure for figure in made if figure is not None]
    return drawn


def _curves(axes: Any, curves: dict[str, list[tuple[float, float]]], least: float = 0.0) -> list[tuple[Any, ...]]:
    style, rows = Style(), []
    # Ours last, so that they lie on top; but first in the legend.
    for name in sorted(curves, key=is_ours):
        shown = [(recall, rate) for recall, rate in curves[name] if recall >= least]
        if shown:
            axes.plot(*zip(*shown, strict=True), label=name, **style.of(name))
        rows += [(name, recall, rate) for recall, rate in curves[name]]
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: not is_ours(labels[i]))
    picked = [handles[i] for i in order], [labels[i] for i in order]
    axes.legend(*picked, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    axes.set_yscale("log")
    axes.grid(alpha=0.15, which="minor")
    return rows


def draw_paper1(lines: list[Line], data: str, folder: Path) -> Figure | None:
    """Experiment 1."""
    points = of(lines, "paper1", data, "point")
    if not points:
        return None
    figure, axes = pyplot().subplots(figsize=(8.4, 4.2), layout="constrained")
    rows = _curves(axes, fronts(points))
    axes.set(xlabel="precision@10", ylabel="queries per second, one thread", title=data)
    save(figure, folder, f"paper1-{data}", ("by", "precision@10", "queries per second"), rows)
    caption = "Each family's Pareto front over the lengths of code of the paper's table; all codes ranked by Hamming "
    caption += "distance. Our default ranks otherwise, and reranks by true distance."
    return Figure(f"paper1-{data}", f"Experiment 1, {data}: queries per second against precision@10", caption)


def draw_paper2(lines: list[Line], data: str, folder: Path) -> Figure | None:
    """Experiment 2."""
    curves = of(lines, "paper2", data, "curve")
    if not curves:
        return None
    figure, both = pyplot().subplots(1, 2, figsize=(8.4, 3.8), layout="constrained")
    rows = []
    style = Style()
    for axes, step in zip(both, ("low", "high"), strict=True):
        bits = 0
        for line in (line for line in curves if line["step"] == step):
            bits = line["bits"]
            look = {**style.of(line["competitor"]), "marker": ""}
            axes.plot(line["recall"], line["precision"], label=f"{line['competitor']}: {line['area']:.3f}", **look)
            for k, (precision, recall) in enumerate(zip(line["precision"], line["recall"], strict=True), 1):
                rows.append((step, line["competitor"], k, precision, recall))
        axes.set(xlabel="recall", ylabel="precision", title=f"{step}: {bits} bits", xlim=(0, 1), ylim=(0, 1))
        axes.legend(fontsize=7.5, title="area under the curve", title_fontsize=7.5)
    figure.suptitle(data)
    save(figure, folder, f"paper2-{data}", ("hash dim", "by", "results", "precision", "recall"), rows)
    caption = "Precision and recall for 1 to 100 results, with 10 true neighbours."
    return Figure(f"paper2-{data}", f"Experiment 2, {data}: precision against recall", caption)


def draw_deletion(lines: list[Line], data: str, folder: Path) -> Figure | None:
    """Experiment 3, the paper's figure: time to delete one point, on a log scale."""
    found = of(lines, "paper3", data, "deletion")
    if not found:
        return None
    means = sorted(((float(np.mean(line["seconds"])), line) for line in found), key=lambda pair: -pair[0])
    figure, axes = pyplot().subplots(figsize=(8.4, 0.29 * len(means) + 1.1), layout="constrained")
    for place, (mean, line) in enumerate(means):
        colour = colour_of(line)
        axes.barh(place, mean, color=colour, height=0.7)
        axes.text(mean * 1.15, place, analysis.duration(mean), va="center", fontsize=8)
    axes.set_yticks(range(len(means)), [line["competitor"] for _, line in means])
    axes.set(xscale="log", xlabel="seconds to delete one point, mean", title=data)
    axes.set_xlim(means[-1][0] / 3, means[0][0] * 8)
    axes.grid(visible=False, axis="y")
    rows = [(line["competitor"], line["how"], mean, *line["seconds"]) for mean, line in means]
    save(figure, folder, f"paper3-{data}", ("by", "how", "mean", "seconds of each point"), rows)
    caption = "One point at a time, on one core. Grey: trained again after each deletion, as in the paper. Blue: a "
    caption += "delete of its own, which the paper did not measure. Red and orange: our index by default, and with the "
    caption += "paper's families; there the record is gone when the call returns."
    return Figure(f"paper3-{data}", f"Experiment 3, {data}: time to delete one point", caption)


def colour_of(line: Line) -> str:
    """Ours, the paper's families in our index, training again, and the peers' own deletes."""
    if is_ours(line["competitor"]):
        return "#b3001b"
    if line["competitor"].startswith(("simHash", "Super-Bit", "USR")):
        return "#e8590c"
    return "#9aa5b1" if line["how"] == "retrained" else "#5b84b1"


def draw_decay(lines: list[Line], data: str, folder: Path) -> Figure | None:
    """What deletion leaves."""
    found = by_competitor(of(lines, "paper3", data, "decay"))
    if not found:
        return None
    figure, all_axes = pyplot().subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    rows: list[tuple[Any, ...]] = []
    style = Style()
    for name in sorted(found, key=is_ours):
        part = found[name]
        deleted = [100 * line["level"] for line in part]
        shares = [100 * line["traces"] / line["looked_for"] if line["looked_for"] else 0.0 for line in part]
        look = style.of(name)
        all_axes[0].plot(deleted, [line["recall"] for line in part], label=name, **look)
        all_axes[1].plot(deleted, [line["file_bytes"] / part[0]["file_bytes"] * 100 for line in part], **look)
        if any(line["control"] for line in part):  # else the vectors are not in the files to begin with
            # Many are at 0 or at 100: side by side, so that all can be seen where they are.
            aside = 1.5 * len(all_axes[2].lines)
            all_axes[2].plot([level + aside for level in deleted[1:]], shares[1:], **look)
        rows += [
            (name, d, line["recall"], line["bytes"], line["file_bytes"], s, line["control"])
            for d, s, line in zip(deleted, shares, part, strict=True)
        ]
    all_axes[0].set(ylabel="recall@10 against the survivors", title="recall")
    all_axes[1].set(ylabel="% of the files before", title="size of the files", ylim=(0, None))
    all_axes[2].set(ylabel="% of deleted vectors with traces", title="residue in the files", ylim=(-4, 104))
    all_axes[2].set_xlim(0, None)
    for axes in all_axes:
        axes.set_xlabel("% deleted")
    figure.legend(fontsize=8, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(data)
    head = ("by", "% deleted", "recall", "bytes in memory", "bytes in files", "% with traces", "living found (control)")
    save(figure, folder, f"decay-{data}", head, rows)
    caption = "After 10 %, 50 % and 90 % of the points were deleted by each library's own call. Quantised indexes, in "
    caption += "whose files the living vectors cannot be found either, are not in the third picture. Marks that would "
    caption += "lie on each other there are drawn side by side."
    return Figure(f"decay-{data}", f"{data}: recall, files and residue after deletions", caption)


def draw_peers(lines: list[Line], data: str, folder: Path) -> Figure | None:
    """Peers at their best."""
    points = of(lines, "peers", data, "point")
    if not points:
        return None
    figure, axes = pyplot().subplots(figsize=(9.4, 5.2), layout="constrained")
    rows = _curves(axes, fronts(points), least=0.5)
    axes.set(xlabel="recall@10", ylabel="queries per second, one thread", title=data + analysis.among(lines, data))
    save(figure, folder, f"peers-{data}", ("by", "recall@10", "queries per second"), rows)
    caption = "Pareto fronts over each library's own settings; up and to the right is better. One thread, one query at "
    caption += "a time, all in one run, taking turns."
    return Figure(f"peers-{data}", f"{data}: every peer at its best", caption)


def draw_streaming(lines: list[Line], data: str, folder: Path) -> Figure | None:
    """Recall over a stream."""
    found = by_competitor(of(lines, "streaming", data, "search"))
    if not found:
        return None
    figure, grid = pyplot().subplots(2, 2, figsize=(9.4, 6.4), layout="constrained", sharex=True)
    recalls, deletes, memory, residue = grid.ravel()
    rows: list[tuple[Any, ...]] = []
    style = Style()
    for name in sorted(found, key=is_ours):
        lines_of, look = found[name], style.of(name)
        steps = [line["at"] for line in lines_of]
        took = [float(np.mean(us)) if (us := analysis.step_us(line, "delete")) else None for line in lines_of]
        shares = [100 * line["traces"] / line["looked_for"] if line.get("looked_for") else None for line in lines_of]
        recalls.plot(steps, [line["recall"] for line in lines_of], label=name, **look)
        shown = [(step, us) for step, us in zip(steps, took, strict=True) if us]
        if shown:
            deletes.plot(*zip(*shown, strict=True), **look)
        memory.plot(steps, [line["bytes"] / 1e6 for line in lines_of], **look)
        if any(line.get("control") for line in lines_of):  # else vectors are not in the files to begin with
            kept = [(step, share) for step, share in zip(steps, shares, strict=True) if share is not None]
            if kept:
                # Many are at 0 or at 100: side by side, so that all can be seen.
                aside = 0.15 * len(residue.lines)
                residue.plot([step + aside for step, _ in kept], [share for _, share in kept], **look)
        rows += [
            (name, line["at"], line["living"], line["recall"], line["ghosts"], us, line["bytes"], share)
            for line, us, share in zip(lines_of, took, shares, strict=True)
        ]
    recalls.set(title="recall@10 against the living")
    deletes.set(title="microseconds to delete a record", yscale="log")
    memory.set(title="MB in memory", ylim=(0, None))
    residue.set(title="% of deleted vectors found in the files", ylim=(-4, 104))
    for axes in (memory, residue):
        axes.set_xlabel("step of the runbook")
    figure.legend(fontsize=8, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(data + analysis.among(lines, data, "streaming", "search"))
    head = ("by", "step", "living", "recall", "deleted returned", "us/delete", "bytes in memory", "% with traces")
    save(figure, folder, f"streaming-{data}", head, rows)
    caption = (
        "Each is tuned to recall 0.9 at the first search and keeps that setting; the truth at each search is over the "
    )
    caption += (
        "records that live then. Quantised indexes, in whose files the living cannot be found either, are not in "
    )
    caption += "the last picture."
    return Figure(f"streaming-{data}", f"{data}: a stream of inserts and deletes", caption)
