"""The picture of README: how fast everybody is at equal recall, and what is left in the files of what was deleted.

It is drawn from the results of a run that has the part `residue`, and for speed the part `peers`. It can be read on a
light and on a dark page: the background is transparent, and no colour is near either end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..measuring.field import Line
from . import analysis
from .analysis import fronts, is_ours, of, rate_at
from .figures import pyplot

TEXT = "#7d8590"
OURS = {"lethevec (graph)": "#e8590c", "lethevec (pivots)": "#d6336c", "lethevec (default)": "#d6336c"}
OTHERS = ("#1c7ed6", "#0ca678", "#ae8c1f", "#7950f2", "#4b7a94", "#6c8a3c")
LEVEL = 0.9


def draw(lines: list[Line], data: str, path: Path) -> None:
    """Write the picture of one data set's peers, if they were measured, and of the residue as SVG."""
    plt = pyplot()
    both = bool(of(lines, "peers", data, "point"))
    with plt.rc_context({"text.color": TEXT, "axes.labelcolor": TEXT, "xtick.color": TEXT, "ytick.color": TEXT}):
        widths, size = ([1.25, 1], (10.4, 4.4)) if both else ([1], (7.4, 3.4))
        figure, places = plt.subplots(
            1, len(widths), figsize=size, layout="constrained", squeeze=False, gridspec_kw={"width_ratios": widths}
        )
        if both:
            _speed(places[0][0], lines, data)
        _residue(places[0][-1], lines)
        for axes in places[0]:
            axes.set_facecolor("none")
            for edge in axes.spines.values():
                edge.set_color(TEXT)
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


def _speed(axes: Any, lines: list[Line], data: str) -> None:
    """The fastest peers by name, the others in grey, ours on top."""
    curves = fronts(of(lines, "peers", data, "point"))
    # The default is one of the sources; it is drawn where that source has no line of its own.
    mine = [name for name in OURS if name in curves]
    mine = [name for name in mine if name != "lethevec (default)" or "lethevec (pivots)" not in mine]
    rest = sorted((n for n in curves if not is_ours(n)), key=lambda name: -(rate_at(curves[name], LEVEL) or 0))
    for place, name in enumerate(rest):
        shown = [(recall, rate) for recall, rate in curves[name] if recall >= 0.6]
        named = place < len(OTHERS)
        look = {"color": OTHERS[place], "linewidth": 1.4} if named else {"color": TEXT, "linewidth": 0.7, "alpha": 0.6}
        label = name if named else f"{len(rest) - len(OTHERS)} other peers" if place == len(OTHERS) else None
        if shown:
            axes.plot(*zip(*shown, strict=True), label=label, **look)
    for name in mine:
        shown = [(recall, rate) for recall, rate in curves[name] if recall >= 0.6]
        axes.plot(*zip(*shown, strict=True), label=name, color=OURS[name], linewidth=2.6, zorder=5)
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: not is_ours(labels[i]))
    axes.legend([handles[i] for i in order], [labels[i] for i in order], fontsize=7.5, frameon=False, loc="lower left")
    axes.set(yscale="log", xlabel="recall@10", ylabel="queries per second, one thread")
    axes.set_title(f"Speed: {data}{analysis.among(lines, data)}", fontsize=9, color=TEXT)


def _residue(axes: Any, lines: list[Line]) -> None:
    """For each library what its most thorough way to delete has left."""
    least: dict[str, Line] = {}
    for line in lines:
        if line.get("what") == "residue" and line["control"]:
            name = line["peer"]
            if name not in least or line["bytes"] < least[name]["bytes"]:
                least[name] = line
    order = sorted(least, key=lambda name: (is_ours(name), -least[name]["bytes"]), reverse=True)[::-1]
    for place, name in enumerate(order):
        line = least[name]
        share = 100 * line["bytes"] / line["of"]
        colour = "#e8590c" if is_ours(name) else "#1c7ed6"
        axes.barh(place, share, color=colour, height=0.62)
        told = "nothing" if not line["bytes"] else f"{share:.0f} %" if share >= 1 else f"{line['bytes']:,} bytes"
        axes.text(share + 1.5, place, told, va="center", fontsize=8, color=colour if is_ours(name) else TEXT)
    axes.set_yticks(range(len(order)), order)
    axes.set(xlim=(0, 118), xlabel="% of the deleted vectors' bytes still in its files")
    axes.set_title("What is left after a delete, at each library's best", fontsize=9, color=TEXT)
    axes.grid(visible=False, axis="y")
