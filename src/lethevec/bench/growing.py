"""What a query costs as the set grows: sources of candidates, each tuned to the same recall at every size.

All sizes and sources take turns in every round, so that a machine that slows down for a while slows all of them; the
exponent of the power law is fitted within each round, and the median of these is the figure. Costs are counted in time,
and in records looked at, which a busy machine does not disturb.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .figures import pyplot
from .harness import Data, Report, Timing, interleave, one_by_one, recall, with_truth
from .ours import Lethevec
from .peer import queries_for, tune_to

K = 10


class Built(NamedTuple):
    """A source over the first records of a set, tuned."""

    source: str
    part: Data
    peer: Lethevec

    @property
    def label(self) -> str:
        return f"{self.source}, {len(self.part.train)}"

    def looked_at(self) -> float:
        """Records that a query looks at, at any stage."""
        queries = queries_for(self.part)
        work = self.peer.index.search(queries, K, effort=self.peer.effort).work
        return (work.scanned + work.refined + work.reranked) / len(queries)


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


def measure_growth(
    report: Report,
    data: Data,
    arguments: argparse.Namespace,
    sources: Mapping[str, Callable[[int], Lethevec]],
    figure: str,
) -> None:
    """A table, the exponents and a figure; `sources` make an index for a number of records."""
    sizes = [n for n in arguments.sizes if n < len(data.train)] + [len(data.train)]
    built: list[Built] = []
    for n in sizes:
        part = with_truth(data.name, data.metric, np.ascontiguousarray(data.train[:n]), data.test)
        for source, make in sources.items():
            peer = make(n)
            peer.build(part.train, part.metric)
            tune_to(peer, part, arguments.target, K)
            built.append(Built(source, part, peer))
    tasks = {
        one.label: (len(one.part.test), one_by_one(one.peer.search_one, queries_for(one.part), K)) for one in built
    }
    timings = interleave(tasks, rounds=arguments.rounds, seconds=arguments.seconds)
    looked: dict[str, list[float]] = {source: [] for source in sources}
    rows = []
    for one in built:
        timing, records = timings[one.label], len(one.part.train)
        got = recall(one.part, timing.answer, K)
        looked[one.source].append(one.looked_at())
        report.add_timing(
            timing,
            part="growth",
            data=data.name,
            records=records,
            recall=got,
            effort=one.peer.effort,
            source=one.source,
            looked=looked[one.source][-1],
            config=dict(one.peer.index.config.source_params),
        )
        cells = (f"{one.peer.effort:.3g}", f"{got:.4f}", f"{timing.micros:,.0f}", f"{looked[one.source][-1]:,.0f}")
        rows.append((f"{records:,}", one.source, *cells))
    head = ("records", "source", "effort", f"recall@{K}", "us per query", "records looked at")
    report.table(f"{data.name}: cost against size at recall of at least {arguments.target}", head, rows)
    by_source = {source: [timings[one.label] for one in built if one.source == source] for source in sources}
    exponents = {source: fit(sizes, by_source[source], looked[source]) for source in sources}
    for source, fitted in exponents.items():
        report.note(f"{data.name}: {source} grows as {fitted}")
    report.add(
        part="growth", data=data.name, sizes=sizes, exponents={name: one._asdict() for name, one in exponents.items()}
    )
    draw(report, data, sizes, by_source, exponents, arguments.figures, figure)


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
    report: Report,
    data: Data,
    sizes: Sequence[int],
    timings: Mapping[str, Sequence[Timing]],
    exponents: Mapping[str, Exponents],
    folder: Path,
    name: str,
) -> None:
    figure, axes = pyplot().subplots(figsize=(6, 4.5), layout="constrained")
    for source, own in timings.items():
        label = f"{source}: n^{exponents[source].time:.2f}"
        axes.plot(sizes, [timing.micros for timing in own], marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="records", ylabel="us per query, one thread", title=data.name)
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.yaxis.get_major_locator().set_params(subs=(1.0, 2.0, 5.0))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()
    axes.legend()
    save(report, figure, folder, f"{name}-growth-{data.name}")


def save(report: Report, figure: Any, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("svg", "png"):
        figure.savefig(folder / f"{name}.{suffix}", dpi=120)
    pyplot().close(figure)
    report.note(f"Figure: {folder / name}.svg and .png")
