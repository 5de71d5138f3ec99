"""What a query costs as the set grows: sources of candidates, each tuned to the same recall at every size.

All sizes and sources take turns in every round. The exponent of the power law is fitted within each round, and the
median of these is the figure. Costs are counted in time, and in records looked at, which a busy machine does not
disturb.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from ..measuring.timing import Timing
from ..measuring.turns import Measured, measured
from ..report.figures import pyplot
from .run import Run

K = 10
SIZES = [25_000, 50_000, 100_000, 200_000]


class Exponents(NamedTuple):
    """Of the power law: in time, the median of the rounds with the lowest and the highest; in records looked at."""

    time: float
    lowest: float
    highest: float
    looked: float

    def __str__(self) -> str:
        return (
            f"n^{self.time:.2f} in time ({self.lowest:.2f} to {self.highest:.2f} in the rounds), "
            f"n^{self.looked:.2f} in records looked at"
        )


def options(parser: argparse.ArgumentParser) -> None:
    """What every experiment with a part `growth` takes."""
    told = "numbers of records in the part 'growth', besides all of them"
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help=told)
    parser.add_argument("--target", type=float, default=0.9, help="recall to reach in the part 'growth' (0.9)")


def sizes_of(run: Run, given: Prepared) -> list[int]:
    """The sizes that the set is large enough for, and its own."""
    records = len(given.data.train)
    return [n for n in run.options.sizes if n < records] + [records]


def growth(run: Run, part: str, given: Prepared, sources: Mapping[str, dict[str, Any]]) -> None:
    """A stage with a table, the exponents and a figure; `sources` are options of ours, by name."""
    sizes = sizes_of(run, given)

    def measure(_: Field) -> list[Line]:
        fields = {n: run.field(run.first(given, n)) for n in sizes}
        try:
            return _measure(run, part, given, sources, fields)
        finally:
            for field in fields.values():
                field.close()

    run.stage(part, "growth", given, measure)


def _measure(
    run: Run, part: str, given: Prepared, sources: Mapping[str, dict[str, Any]], fields: dict[int, Field]
) -> list[Line]:
    target, name = run.options.target, given.data.name
    for field in fields.values():
        field.enter(Competitor(source, "lethevec", options) for source, options in sources.items())
        for source in list(field.workers):
            field.ask(source, "tune", target=target, k=K)
    entered = {f"{source}, {n}": (field, source, None) for n, field in fields.items() for source in field.workers}
    found = measured(entered, K, **run.turns)
    lines: list[Line] = [line for field in fields.values() for line in field.lines]
    looked: dict[str, list[float]] = {source: [] for source in sources}
    timings: dict[str, list[Timing]] = {source: [] for source in sources}
    rows = []
    for label, one in found.items():
        field, source, _ = entered[label]
        looked[source].append(looked_at(field, source))
        timings[source].append(one.timing)
        records = len(field.data.train)
        lines.append(
            {"what": "growth", "source": source, **one.line(), "records": records, "looked": looked[source][-1]}
        )
        rows.append((f"{records:,}", source, *cells(one), f"{looked[source][-1]:,.0f}"))
    head = ("records", "source", "setting", f"recall@{K}", "us per query", "records looked at")
    run.table(f"{name}: cost against size, tuned to a recall of {target}", head, rows)
    sizes = list(fields)
    exponents = {s: fit(sizes, timings[s], looked[s]) for s in sources if len(timings[s]) == len(sizes)}
    for source, fitted in exponents.items():
        run.note(f"{name}: {source} grows as {fitted}")
    told = {source: fitted._asdict() for source, fitted in exponents.items()}
    draw(run, part, name, sizes, {source: timings[source] for source in exponents}, exponents)
    return [*lines, {"what": "exponents", "sizes": sizes, "exponents": told}]


def cells(one: Measured) -> tuple[str, str, str]:
    """Setting, recall and time as a row has them."""
    return one.setting, f"{one.recall:.4f}", f"{one.timing.micros:,.0f}"


def looked_at(field: Field, name: str) -> float:
    """Records that a query looks at, at any stage."""
    work = field.ask(name, "work", k=K) or {}
    return float(sum(work.get(what, 0) for what in ("scanned", "refined", "reranked")) / len(field.data.test))


def fit(sizes: Sequence[int], timings: Sequence[Timing], looked: Sequence[float]) -> Exponents:
    """The exponents of one source."""
    rounds = [exponent(sizes, seconds) for seconds in zip(*(timing.seconds for timing in timings), strict=True)]
    return Exponents(float(np.median(rounds)), min(rounds), max(rounds), exponent(sizes, looked))


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The slope of log cost against log n."""
    if len(sizes) < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def draw(
    run: Run,
    part: str,
    data: str,
    sizes: Sequence[int],
    timings: Mapping[str, Sequence[Timing]],
    exponents: Mapping[str, Exponents],
) -> None:
    """Time of a query against the number of records, both on a log scale."""
    figure, axes = pyplot().subplots(figsize=(6, 4.5), layout="constrained")
    rows = []
    for source, own in timings.items():
        label = f"{source}: n^{exponents[source].time:.2f}"
        axes.plot(sizes, [timing.micros for timing in own], marker="o", label=label)
        rows += [(source, n, timing.micros) for n, timing in zip(sizes, own, strict=True)]
    axes.set(xscale="log", yscale="log", xlabel="records", ylabel="us per query, one thread", title=data)
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.yaxis.get_major_locator().set_params(subs=(1.0, 2.0, 5.0))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()
    axes.legend()
    title = f"{data}: what a query costs as the set grows"
    caption = f"Each source is tuned to a recall of {run.options.target} at every size, on other queries."
    run.figure(figure, f"{part}-growth-{data}", title, caption, ("source", "records", "us per query"), rows)
