"""Hash tables as the source of candidates, on one thread, one query at a time: `python -m lethevec.bench.tables`.

Four parts:

* sweep: recall and queries per second against probes, for several numbers of tables and key bits, beside the scan;
  drawn as one figure for each data set;
* growth: what a query costs as the set grows, tables and scan both tuned to recall 0.9 at each size, with the exponent
  of the power law fitted to each; counted in time, and in records looked at, which a busy machine does not disturb;
* changes: microseconds to add and to forget a record, taken at random, beside the scan, as the set grows;
* faiss: IndexBinaryHash and IndexBinaryMultiHash beside our tables on the same codes (USR, Hamming ranking, no
  vectors). Faiss is given the queries as codes; ours hashes them within the time that is counted.

In every part all settings take turns in each round. Figures go to `--figures`, as SVG and PNG.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lethevec

from ..index.sources import default_key_bits, default_probes
from .figures import pyplot
from .growing import K, measure_growth, save
from .harness import Data, Report, interleave, one_by_one, parser, recall, run_parts
from .one_record import chosen_rows, time_changes
from .ours import Lethevec, source_options
from .peer import queries_for, unit
from .peers import FaissBinary, faiss_module
from .process import start_over

#: The first is about the least that tables look into.
EFFORTS = (0.13, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.8)


# Sweep ---------------------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """One number of tables and of key bits, over efforts: probes (nan for the scan), recall, queries per second."""

    label: str
    points: list[tuple[float, float, float]]


def sweep(report: Report, data: Data, arguments: argparse.Namespace) -> None:
    """Every number of tables with every number of key bits, over a range of efforts; all take turns."""
    records, queries = len(data.train), queries_for(data)
    made = {"scan": Lethevec("scan")}
    for tables in arguments.tables:
        for bits in arguments.key_bits:
            options = {"tables": tables, "key_bits": bits, "expected": records, "probes": default_probes(records, bits)}
            made[f"L={tables}, b={bits}"] = Lethevec("tables", **options)
    for peer in made.values():
        peer.build(data.train, data.metric)
    settings = {f"{label}, {effort}": (label, effort) for label in made for effort in EFFORTS}
    tasks = {
        name: (len(queries), one_by_one(at_effort(made[label], effort), queries, K))
        for name, (label, effort) in settings.items()
    }
    timings = interleave(tasks, rounds=arguments.rounds, seconds=arguments.seconds)
    rows, lines = [], {label: Line(label, []) for label in made}
    for name, (label, effort) in settings.items():
        peer, timing = made[label], timings[name]
        got = recall(data, timing.answer, K)
        probes = float("nan") if label == "scan" else float(np.ceil(effort * peer.options["probes"]))
        lines[label].points.append((probes, got, timing.rate))
        report.add_timing(timing, part="sweep", data=data.name, effort=effort, probes=probes, recall=got, source=label)
        each = peer.index.stats()["bytes_tables"] / records
        told = "" if label == "scan" else f"{probes:,.0f}"
        rows.append((label, told, f"{got:.4f}", f"{timing.rate:,.0f}", f"{each:.0f}"))
    head = ("source", "probes", f"recall@{K}", "queries/s", "bytes of tables for a record")
    report.table(f"{data.name}: tables, key bits and probes", head, rows)
    draw_sweep(report, data, list(lines.values()), arguments.figures)


def at_effort(peer: Lethevec, effort: float) -> Callable[[Any, int], Any]:
    """A search with an effort of its own, whatever the peer is set to."""
    return lambda query, k: peer.index.search(query, k=k, effort=effort, threads=1).ids[0]


def draw_sweep(report: Report, data: Data, lines: Sequence[Line], folder: Path) -> None:
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for number, (label, points) in enumerate(lines):
        probes, got, rate = zip(*points, strict=True)
        style = {"color": "black", "linestyle": "--"} if label == "scan" else {"color": f"C{(number - 1) % 10}"}
        if label != "scan":
            left.plot(probes, got, marker=".", label=label, **style)
        right.plot(got, rate, marker=".", label=label, **style)
    left.set(xscale="log", xlabel="probes", ylabel=f"recall@{K}", title=f"{data.name}, {len(data.train):,} records")
    right.set(yscale="log", xlabel=f"recall@{K}", ylabel="queries per second, one thread", title="and what they cost")
    right.legend(fontsize="small")
    save(report, figure, folder, f"tables-{data.name}")


# Growth --------------------------------------------------------------------------------------------------------------


def growth(report: Report, data: Data, arguments: argparse.Namespace) -> None:
    """Tables and scan at equal recall on the first n records, for growing n."""
    sources = {"tables": lambda n: Lethevec("tables", expected=n), "scan": lambda n: Lethevec("scan")}
    measure_growth(report, data, arguments, sources, "tables")


# Changes -------------------------------------------------------------------------------------------------------------


def changes(report: Report, data: Data, arguments: argparse.Namespace) -> None:
    """One record at a time, at random, in indexes of growing size; what is forgotten is added again."""
    rows = []
    for n in [n for n in arguments.sizes if n < len(data.train)] + [len(data.train)]:
        for source in ("tables", "scan"):
            index = lethevec.Index(data.dim, data.metric, **source_options(source, n))
            index.add(data.train[:n], ids=range(n))
            forgets, adds = time_changes(index, data.train, chosen_rows(n, arguments.changes))
            times = {"add": float(np.median(adds)), "forget": float(np.median(forgets))}
            each = index.stats()["bytes_tables"] / n
            rows.append((f"{n:,}", source, *(f"{time:.1f}" for time in times.values()), f"{each:.0f}"))
            report.add(part="changes", data=data.name, records=n, source=source, bytes_of_tables=each, **times)
    head = ("records", "source", "us to add", "to forget", "bytes of tables for a record")
    report.table(f"{data.name}: changes, one record at a time, one thread, medians", head, rows)


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
    settings = {
        f"{name}, {setting}": (name, setting, task)
        for name, setting, task in faiss_tasks(ours, codes, asked, queries, arguments)
    }
    tasks = {label: (len(queries), task) for label, (_, _, task) in settings.items()}
    timings = interleave(tasks, rounds=arguments.rounds, seconds=arguments.seconds)
    rows = []
    for label, (name, setting, _) in settings.items():
        timing = timings[label]
        got = recall(data, timing.answer, K)
        report.add_timing(timing, part="faiss", data=data.name, bits=bits, setting=setting, recall=got)
        rows.append((got, name, setting, f"{got:.4f}", f"{timing.rate:,.0f}"))
    rows.sort()
    head = ("index", "setting", f"recall@{K}", "queries/s")
    title = f"{data.name}: hash tables over the same {bits}-bit USR codes, ranked by Hamming distance"
    report.table(title, head, [row[1:] for row in rows])


def faiss_tasks(
    ours: Lethevec, codes: Any, asked: Any, queries: Any, arguments: argparse.Namespace
) -> Iterable[tuple[str, str, Callable[[], Any]]]:
    """(index, setting, task) for all settings; a task turns the knobs that it needs."""
    module = faiss_module()
    wide = 8 * codes.shape[1]
    flat = module.IndexBinaryFlat(wide)
    flat.add(codes)
    yield "Faiss IndexBinaryFlat", "-", one_by_one(faiss_search(flat), asked, K)
    for effort in (*EFFORTS, 8.0, 16.0):
        yield "lethevec tables", f"effort={effort}", one_by_one(at_effort(ours, effort), queries, K)
    key = arguments.faiss_key_bits
    single = module.IndexBinaryHash(wide, key)
    single.add(codes)
    for flips in range(arguments.flips + 1):
        yield "Faiss IndexBinaryHash", f"b={key}, nflip={flips}", one_by_one(faiss_search(single, flips), asked, K)
    count = max(1, min(16, wide // key))
    many = module.IndexBinaryMultiHash(wide, count, key)
    many.add(codes)
    for flips in range(min(arguments.flips, 3) + 1):
        yield (
            "Faiss IndexBinaryMultiHash",
            f"nhash={count}, b={key}, nflip={flips}",
            one_by_one(faiss_search(many, flips), asked, K),
        )


def faiss_search(index: Any, flips: int | None = None) -> Callable[[Any, int], Any]:
    def search(code: Any, k: int) -> Any:
        if flips is not None:
            index.nflip = flips
        return index.search(code[None, :], k)[1][0]

    return search


# The command line -----------------------------------------------------------------------------------------------------


def main(command: list[str] | None = None) -> None:
    cli = parser(__doc__ or "")
    cli.add_argument("--tables", type=int, nargs="*", default=[1, 2, 4], help="part 'sweep': numbers of tables")
    cli.add_argument("--key-bits", type=int, nargs="*", default=[8, 10, 12], help="part 'sweep': bits of a key")
    cli.add_argument(
        "--sizes", type=int, nargs="*", default=[25_000, 50_000, 100_000, 200_000], help="parts 'growth' and 'changes'"
    )
    cli.add_argument("--target", type=float, default=0.9, help="part 'growth': recall to reach")
    cli.add_argument("--changes", type=int, default=4000, help="part 'changes': records")
    cli.add_argument("--faiss-key-bits", type=int, default=16, help="part 'faiss': bits of Faiss's keys")
    cli.add_argument("--flips", type=int, default=5, help="part 'faiss': the most bits that Faiss flips")
    run_parts("tables", cli, command, {"sweep": sweep, "growth": growth, "changes": changes, "faiss": faiss})


if __name__ == "__main__":
    start_over("lethevec.bench.tables", main)
