"""Hash tables as the source of candidates, on one thread, one query at a time: `python -m lethevec.bench.tables`.

Three parts:

* sweep: recall and queries per second against probes, for several numbers of tables and key bits, beside the scan;
  drawn as one figure for each data set;
* growth: what a query costs as the set grows, tables and scan both tuned to recall 0.9 at each size, with the exponent
  of the power law fitted to each; counted in time, and in records looked at, which a busy machine does not disturb;
* faiss: IndexBinaryHash and IndexBinaryMultiHash beside our tables on the same codes (USR, Hamming ranking, no
  vectors). Faiss is given the queries as codes; ours hashes them within the time that is counted.

Figures go to `--figures`, as SVG and PNG.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import lethevec

from ..index.sources import default_key_bits, default_probes
from .harness import Data, Report, interleave, one_by_one, parser, recall, run_parts, with_truth
from .ours import Lethevec
from .peer import queries_for, tune_to, unit
from .peers import FaissBinary, faiss_module
from .process import start_over

K = 10
#: A fifth is the least that tables look into.
EFFORTS = (0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
Task = tuple[int, Callable[[], Any]]


# Sweep ---------------------------------------------------------------------------------------------------------------


def sweep(report: Report, data: Data, arguments: argparse.Namespace) -> None:
    """Every number of tables with every number of key bits, over a range of efforts."""
    lines: dict[str, list[tuple[float, float, float]]] = {}  # probes (nan for the scan), recall, queries per second
    records = len(data.train)
    made = [Lethevec("scan")]
    made += [
        Lethevec("tables", tables=tables, key_bits=bits, expected=records, probes=default_probes(records, bits))
        for tables in arguments.tables
        for bits in arguments.key_bits
    ]
    rows = []
    for peer in made:
        peer.build(data.train, data.metric)
        label = "scan" if peer.source == "scan" else f"L={peer.options['tables']}, b={peer.options['key_bits']}"
        points = over_efforts(report, data, peer, label, arguments)
        lines[label] = points
        each = peer.index.stats()["bytes_tables"] / len(peer.index)
        for probes, got, rate in points:
            told = "" if np.isnan(probes) else f"{probes:,.0f}"
            rows.append((label, told, f"{got:.4f}", f"{rate:,.0f}", f"{each:.0f}"))
        del peer.index
    head = ("source", "probes", f"recall@{K}", "queries/s", "bytes of tables for a record")
    report.table(f"{data.name}: tables, key bits and probes", head, rows)
    draw_sweep(report, data, lines, arguments.figures)


def over_efforts(
    report: Report, data: Data, peer: Lethevec, label: str, arguments: argparse.Namespace
) -> list[tuple[float, float, float]]:
    queries = queries_for(data)
    points = []
    for effort in EFFORTS:
        peer.set((effort,))
        tasks: dict[str, Task] = {label: (len(queries), one_by_one(peer.search_one, queries, K))}
        timing = interleave(tasks, rounds=arguments.rounds, seconds=arguments.seconds / 10, least=1)[label]
        got = recall(data, timing.answer, K)
        probes = float("nan") if peer.source == "scan" else np.ceil(effort * peer.options["probes"])
        points.append((probes, got, timing.rate))
        report.add_timing(timing, part="sweep", data=data.name, effort=effort, probes=probes, recall=got, source=label)
        if got > 0.995:
            break
    return points


def draw_sweep(report: Report, data: Data, lines: dict[str, list[tuple[float, float, float]]], folder: Path) -> None:
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for number, (label, points) in enumerate(lines.items()):
        probes, got, rate = zip(*points, strict=True)
        style = {"color": "black", "linestyle": "--"} if label == "scan" else {"color": f"C{(number - 1) % 10}"}
        if label != "scan":
            left.plot(probes, got, marker=".", label=label, **style)
        right.plot(got, rate, marker=".", label=label, **style)
    left.set(xscale="log", xlabel="probes", ylabel=f"recall@{K}", title=f"{data.name}, {len(data.train):,} records")
    right.set(yscale="log", xlabel=f"recall@{K}", ylabel="queries per second, one thread", title="and what they cost")
    right.legend(fontsize="small")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    save(report, figure, folder, f"tables-{data.name}")


# Growth --------------------------------------------------------------------------------------------------------------


def growth(report: Report, data: Data, arguments: argparse.Namespace) -> None:
    """Tables and scan at equal recall on the first n records, for growing n."""
    sizes = [n for n in arguments.sizes if n < len(data.train)] + [len(data.train)]
    seconds: dict[str, list[float]] = {"tables": [], "scan": []}
    looked: dict[str, list[float]] = {"tables": [], "scan": []}
    rows = []
    for n in sizes:
        part = with_truth(data.name, data.metric, np.ascontiguousarray(data.train[:n]), data.test)
        queries = queries_for(part)
        made = {"tables": Lethevec("tables", expected=n), "scan": Lethevec("scan")}
        for peer in made.values():
            peer.build(part.train, part.metric)
            tune_to(peer, part, arguments.target, K)
        tasks: dict[str, Task] = {
            name: (len(queries), one_by_one(peer.search_one, queries, K)) for name, peer in made.items()
        }
        timings = interleave(tasks, rounds=arguments.rounds, seconds=arguments.seconds)
        for name, peer in made.items():
            work = peer.index.search(queries, K, effort=peer.effort).work
            got = recall(part, timings[name].answer, K)
            seconds[name].append(1 / timings[name].rate)
            looked[name].append((work.scanned + work.refined + work.reranked) / len(queries))
            report.add_timing(
                timings[name],
                part="growth",
                data=data.name,
                records=n,
                recall=got,
                effort=peer.effort,
                source=name,
                looked=looked[name][-1],
                config=dict(peer.index.config.source_params),
            )
            cost = f"{1e6 / timings[name].rate:,.0f}"
            rows.append((f"{n:,}", name, f"{peer.effort:.3g}", f"{got:.4f}", cost, f"{looked[name][-1]:,.0f}"))
    head = ("records", "source", "effort", f"recall@{K}", "us per query", "records looked at")
    report.table(f"{data.name}: cost against size at recall of at least {arguments.target}", head, rows)
    exponents = {name: (exponent(sizes, seconds[name]), exponent(sizes, looked[name])) for name in seconds}
    for name, (in_time, in_work) in exponents.items():
        report.note(f"{data.name}: {name} grows as n^{in_time:.2f} in time, n^{in_work:.2f} in records looked at")
    report.add(part="growth", data=data.name, sizes=sizes, exponents=exponents)
    draw_growth(report, data, sizes, seconds, exponents, arguments.figures)


def exponent(sizes: list[int], costs: list[float]) -> float:
    """The slope of log cost against log n."""
    if len(sizes) < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def draw_growth(
    report: Report,
    data: Data,
    sizes: list[int],
    seconds: dict[str, list[float]],
    exponents: dict[str, tuple[float, float]],
    folder: Path,
) -> None:
    figure, axes = pyplot().subplots(figsize=(6, 4.5), layout="constrained")
    for name, costs in seconds.items():
        axes.plot(sizes, np.array(costs) * 1e6, marker="o", label=f"{name}: n^{exponents[name][0]:.2f}")
    axes.set(xscale="log", yscale="log", xlabel="records", ylabel="us per query, one thread", title=data.name)
    axes.legend()
    axes.grid(alpha=0.3, which="both")
    save(report, figure, folder, f"tables-growth-{data.name}")


# Faiss ---------------------------------------------------------------------------------------------------------------


def faiss(report: Report, data: Data, arguments: argparse.Namespace) -> None:
    """Hash tables over the same binary codes: ours, and Faiss's two."""
    if not FaissBinary.available():
        report.note("Faiss's binary hash indexes are skipped: the package 'faiss' is not installed")
        return
    base, queries = (unit(data.train) if data.metric == "cosine" else data.train), queries_for(data)
    step = math.lcm(8, data.dim)
    bits = -(-512 // step) * step
    norm = float(np.linalg.norm(base, axis=1).mean())
    hasher = lethevec.hasher("usr", dim=data.dim, bits=bits, mean_norm=norm)
    codes, asked = hasher.codes(base), hasher.codes(queries)
    ours = Lethevec("tables", family="usr", bits=bits, ranking="hamming", keep_vectors=False, mean_norm=norm)
    # Few probes, so that efforts reach down to where Faiss is fast.
    usual = default_probes(len(base), default_key_bits(len(base), data.dim))
    ours.options |= {"expected": len(base), "probes": max(8, usual // 8)}
    ours.build(data.train, data.metric)
    rows = []
    for name, setting, task in faiss_tasks(ours, codes, asked, queries, arguments):
        tasks: dict[str, Task] = {name: (len(queries), task)}
        timing = interleave(tasks, rounds=arguments.rounds, seconds=arguments.seconds / 10, least=1)[name]
        got = recall(data, timing.answer, K)
        report.add_timing(timing, part="faiss", data=data.name, bits=bits, setting=setting, recall=got)
        rows.append((name, setting, f"{got:.4f}", f"{timing.rate:,.0f}"))
    head = ("index", "setting", f"recall@{K}", "queries/s")
    report.table(f"{data.name}: hash tables over the same {bits}-bit USR codes, ranked by Hamming distance", head, rows)


def faiss_tasks(
    ours: Lethevec, codes: Any, asked: Any, queries: Any, arguments: argparse.Namespace
) -> Iterable[tuple[str, str, Callable[[], Any]]]:
    """(index, setting, task) for all settings, one after another: knobs are turned as the tasks are taken."""
    module = faiss_module()
    wide = 8 * codes.shape[1]
    flat = module.IndexBinaryFlat(wide)
    flat.add(codes)
    yield "Faiss IndexBinaryFlat", "-", one_by_one(faiss_search(flat), asked, K)
    for effort in EFFORTS:
        ours.set((effort,))
        yield "lethevec tables", ours.describe(), one_by_one(ours.search_one, queries, K)
    key = arguments.faiss_key_bits
    single = module.IndexBinaryHash(wide, key)
    single.add(codes)
    for flips in range(arguments.flips + 1):
        single.nflip = flips
        yield "Faiss IndexBinaryHash", f"b={key}, nflip={flips}", one_by_one(faiss_search(single), asked, K)
    count = max(1, min(16, wide // key))
    many = module.IndexBinaryMultiHash(wide, count, key)
    many.add(codes)
    for flips in range(min(arguments.flips, 3) + 1):
        many.nflip = flips
        yield (
            "Faiss IndexBinaryMultiHash",
            f"nhash={count}, b={key}, nflip={flips}",
            one_by_one(faiss_search(many), asked, K),
        )


def faiss_search(index: Any) -> Callable[[Any, int], Any]:
    return lambda code, k: index.search(code[None, :], k)[1][0]


# Figures and the command line ----------------------------------------------------------------------------------------


def pyplot() -> Any:
    """Matplotlib without a display."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text, not outlines: a third of the size
    from matplotlib import pyplot as plt

    return plt


def save(report: Report, figure: Any, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("svg", "png"):
        figure.savefig(folder / f"{name}.{suffix}", dpi=120)
    pyplot().close(figure)
    report.note(f"Figure: {folder / name}.svg and .png")


def main(command: list[str] | None = None) -> None:
    cli = parser(__doc__ or "")
    cli.add_argument("--tables", type=int, nargs="*", default=[1, 2, 4], help="part 'sweep': numbers of tables")
    cli.add_argument("--key-bits", type=int, nargs="*", default=[8, 10, 12], help="part 'sweep': bits of a key")
    cli.add_argument("--sizes", type=int, nargs="*", default=[25_000, 50_000, 100_000, 200_000], help="part 'growth'")
    cli.add_argument("--target", type=float, default=0.9, help="part 'growth': recall to reach")
    cli.add_argument("--faiss-key-bits", type=int, default=16, help="part 'faiss': bits of Faiss's keys")
    cli.add_argument("--flips", type=int, default=5, help="part 'faiss': the most bits that Faiss flips")
    run_parts("tables", cli, command, {"sweep": sweep, "growth": growth, "faiss": faiss})


if __name__ == "__main__":
    start_over("lethevec.bench.tables", main)
