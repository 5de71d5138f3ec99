"""Hash tables as the source of candidates, on one thread, one query at a time.

Four parts:

* sweep: recall and queries per second against probes, for several numbers of tables and key bits, beside the scan;
  drawn as one figure for each data set;
* growth: what a query costs as the set grows, tables and scan both tuned to the same recall at each size, with the
  exponent of the power law fitted to each;
* changes: microseconds to add and to forget a record, taken at random, beside the scan, as the set grows;
* faiss: IndexBinaryHash and IndexBinaryMultiHash beside our tables on the same codes (USR, Hamming ranking, no
  vectors). Faiss is given the queries as codes; ours hashes them within the timed section.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from ..._index.sources import default_key_bits, default_probes
from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from ..measuring.turns import measured
from ..peers.peer import as_given
from ..report.figures import pyplot
from . import changes, growth
from .growth import K
from .run import Run

ROUNDS = 5
PARTS = "sweep,growth,changes,faiss"
#: The first is about the least that tables look into.
EFFORTS = (0.13, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.8)
Points = dict[str, list[tuple[float, float, float]]]


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--parts", default=PARTS, help=f"which parts, with commas ({PARTS})")
    parser.add_argument("--tables", type=int, nargs="*", default=[1, 2, 4], help="numbers of tables in 'sweep'")
    parser.add_argument("--key-bits", type=int, nargs="*", default=[8, 10, 12], help="bits of a key in 'sweep'")
    growth.options(parser)
    parser.add_argument("--changes", type=int, default=4000, help="records in the part 'changes' (4000)")
    parser.add_argument("--faiss-key-bits", type=int, default=16, help="bits of Faiss's keys in 'faiss' (16)")
    parser.add_argument("--flips", type=int, default=5, help="the most bits that Faiss flips in 'faiss' (5)")


def experiment(run: Run, given: Prepared) -> None:
    """Measure one data set."""
    if run.wants("sweep"):
        run.stage("tables", "sweep", given, lambda field: sweep(run, field))
    if run.wants("growth"):
        growth.growth(run, "tables", given, {name: {"source": name} for name in ("tables", "scan")})
    if run.wants("changes"):
        run.stage("tables", "changes", given, lambda field: one_by_one(run, field, given))
    if run.wants("faiss"):
        run.stage("tables", "faiss", given, lambda field: beside_faiss(run, field))


# Sweep ---------------------------------------------------------------------------------------------------------------


def sweep(run: Run, field: Field) -> list[Line]:
    """Every number of tables with every number of key bits, over a range of efforts; all take turns."""
    data, records = field.data, len(field.data.train)
    probes = {"scan": float("nan")}
    competitors = [Competitor("scan", "lethevec", {"source": "scan"})]
    for tables in run.options.tables:
        for bits in run.options.key_bits:
            name = f"L={tables}, b={bits}"
            probes[name] = default_probes(records, bits)
            made = {"source": "tables", "tables": tables, "key_bits": bits, "probes": probes[name]}
            competitors.append(Competitor(name, "lethevec", made))
    field.enter(competitors)
    each = {
        line["competitor"]: line["stats"]["bytes_tables"] / records for line in field.lines if line["what"] == "build"
    }
    entered = {f"{name}, {effort}": (field, name, [effort]) for name in field.workers for effort in EFFORTS}
    found = measured(entered, K, **run.turns)
    points: Points = {}
    lines: list[Line] = []
    rows = []
    for label, one in found.items():
        _, name, (effort,) = entered[label]
        looked = float(np.ceil(effort * probes[name]))
        points.setdefault(name, []).append((looked, one.recall, one.timing.rate))
        lines.append({"what": "sweep", "source": name, "effort": effort, "probes": looked, **one.line()})
        told = "" if name == "scan" else f"{looked:,.0f}"
        rows.append((name, told, f"{one.recall:.4f}", f"{one.timing.rate:,.0f}", f"{each[name]:.0f}"))
    head = ("source", "probes", f"recall@{K}", "queries/s", "bytes of tables for a record")
    run.table(f"{data.name}: tables, key bits and probes", head, rows)
    draw(run, data.name, records, points)
    return lines


def draw(run: Run, data: str, records: int, points: Points) -> None:
    """Recall against probes, and speed against recall."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for number, (label, own) in enumerate(points.items()):
        probes, got, rate = zip(*own, strict=True)
        style = {"color": "black", "linestyle": "--"} if label == "scan" else {"color": f"C{(number - 1) % 10}"}
        if label != "scan":
            left.plot(probes, got, marker=".", label=label, **style)
        right.plot(got, rate, marker=".", label=label, **style)
    left.set(xscale="log", xlabel="probes", ylabel=f"recall@{K}", title=f"{data}, {records:,} records")
    right.set(yscale="log", xlabel=f"recall@{K}", ylabel="queries per second, one thread", title="and what they cost")
    right.legend(fontsize="small")
    rows = [(label, *point) for label, own in points.items() for point in own]
    title = f"{data}: recall against probes, and speed against recall"
    caption = "L: tables, b: bits of a key. The dashed line is the scan."
    head = ("source", "probes", "recall", "queries per second")
    run.figure(figure, f"tables-{data}", title, caption, head, rows)


# Changes -------------------------------------------------------------------------------------------------------------


def one_by_one(run: Run, field: Field, given: Prepared) -> list[Line]:
    """One record at a time, at random, in indexes of growing size; what is forgotten is added again."""
    lines: list[Line] = []
    rows = []
    for n in growth.sizes_of(run, given):
        indexes = {source: changes.build(field.data, source, n) for source in ("tables", "scan")}
        for source, one in changes.change(run, field.data, indexes, 2 * [run.options.changes]).items():
            times = {"add": float(np.median(one.adds)), "forget": float(np.median(one.forgets))}
            each = one.index.stats()["bytes_tables"] / n
            rows.append((f"{n:,}", source, *(f"{time:.1f}" for time in times.values()), f"{each:.0f}"))
            lines.append({"what": "changes", "records": n, "source": source, "bytes_of_tables": each, **times})
    head = ("records", "source", "us to add", "to forget", "bytes of tables for a record")
    run.table(f"{field.data.name}: changes, one record at a time, one thread, medians", head, rows)
    return lines


# Faiss ---------------------------------------------------------------------------------------------------------------


def beside_faiss(run: Run, field: Field) -> list[Line]:
    """Hash tables over the same binary codes: ours, and Faiss's two."""
    data, records = field.data, len(field.data.train)
    step = math.lcm(8, data.dim)
    bits = -(-512 // step) * step
    norm = float(np.linalg.norm(as_given(data.train, data.metric), axis=1).mean())
    # Few probes, so that efforts reach down to where Faiss is fast.
    probes = max(8, default_probes(records, default_key_bits(records, data.dim)) // 8)
    codes = {"bits": bits, "mean_norm": norm}
    paper = {"family": "usr", "ranking": "hamming", "keep_vectors": False, **codes}
    key = {"key_bits": run.options.faiss_key_bits, **codes}
    flips = [[float(count)] for count in range(run.options.flips + 1)]
    entries: tuple[tuple[Competitor, list[list[float]]], ...] = (
        (Competitor("Faiss IndexBinaryFlat", "binary-flat", codes), [[]]),
        (
            Competitor("lethevec tables", "lethevec", {"source": "tables", "probes": probes, **paper}),
            [[effort] for effort in (*EFFORTS, 8.0, 16.0)],
        ),
        (Competitor("Faiss IndexBinaryHash", "binary-hash", key), flips),
        (Competitor("Faiss IndexBinaryMultiHash", "binary-multihash", key), flips[:4]),
    )
    field.enter(one for one, _ in entries)
    entered = {
        f"{one.name}, {setting}": (field, one.name, setting)
        for one, settings in entries
        for setting in settings
        if one.name in field.workers
    }
    found = measured(entered, K, **run.turns)
    told = sorted(((one.recall, entered[label][1], one) for label, one in found.items()), key=lambda row: row[:2])
    rows = [(name, one.setting, f"{got:.4f}", f"{one.timing.rate:,.0f}") for got, name, one in told]
    title = f"{data.name}: hash tables over the same {bits}-bit USR codes, ranked by Hamming distance"
    run.table(title, ("index", "setting", f"recall@{K}", "queries/s"), rows)
    return [{"what": "faiss", "competitor": name, "bits": bits, **one.line()} for _, name, one in told]
