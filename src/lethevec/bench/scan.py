"""The in-memory index with source "scan" beside its rivals, on one thread: `python -m lethevec.bench.scan --data FILE`.

Four parts, each with its goals beside the figures:

* search: scan with rerank against Faiss RaBitQ FastScan and turbovec at equal recall, and Faiss IndexLSH at whatever
  recall that one reaches; one query at a time;
* paper: the paper's mode (USR codes, Hamming ranking, no vectors kept) against Faiss IndexBinaryFlat on codes of the
  same length. Faiss is given the queries as codes; ours hashes them within the time that is counted;
* forget: adding and forgetting, in batches and alone, in a small and in a large index;
* memory: bytes for each record, as the index counts them and as the process grew.

Without AVX-512 the goals for searching are half of what they are with it. `--isa` runs all of it with other
instructions.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lethevec

from . import peers
from .harness import Data, Report, Timing, interleave, load_data, now, one_by_one, parser, ratio, recall, start
from .memory import resident
from .ours import Lethevec
from .peer import Peer, queries_for, tune_to, unit
from .peers import FaissBinary
from .process import start_over

K = 10
SEARCH_GOALS = {"rabitq": 8.0, "turbovec": 5.0, "lsh": 6.0}
PAPER_GOALS = {"alone": 1.0, "batch": 2.0}
FORGET_GOALS = {"batch": 2.0, "alone": 5.0}  # microseconds for each record
ADD_GOAL = 2.0  # times the cost of encoding
MEMORY_GOAL = 64  # bytes for each record beside code and vector


def goal_here(goal: float) -> float:
    """The goal for the instructions in use."""
    return goal if lethevec.cpu_info().isa == "avx512" else goal / 2


# Search --------------------------------------------------------------------------------------------------------------


def search(report: Report, data: Data, arguments: argparse.Namespace) -> None:
    """Scan with rerank, and the rivals at the same recall."""
    ours = Lethevec("scan")
    rivals = {name: peer for name in SEARCH_GOALS for peer in peers.make([name])}
    competitors: list[Peer] = [ours, *rivals.values()]
    for peer in competitors:
        peer.build(data.train, data.metric)
        tune_to(peer, data, arguments.target, K)
    queries = queries_for(data)
    tasks = {peer.name: (len(queries), one_by_one(peer.search_one, queries, K)) for peer in competitors}
    timings = interleave(tasks, rounds=arguments.rounds, seconds=arguments.seconds)
    names = {peer.name: name for name, peer in rivals.items()}
    rows = []
    for peer in competitors:
        timing = timings[peer.name]
        got = recall(data, timing.answer, K)
        faster = ratio(timings[ours.name], timing)
        goal = goal_here(SEARCH_GOALS[names[peer.name]]) if peer is not ours else None
        report.add_timing(
            timing, part="search", data=data.name, recall=got, setting=peer.describe(), ratio=faster, goal=goal
        )
        rows.append(
            (
                peer.name,
                peer.describe(),
                f"{got:.4f}",
                f"{timing.rate:,.0f}",
                f"{timing.spread:.2f}",
                "" if goal is None else f"{faster:.1f}",
                "" if goal is None else f"{goal:g}",
            )
        )
    head = ("competitor", "setting", f"recall@{K}", "queries/s", "spread", "ours is faster by", "goal")
    title = f"{data.name}: recall of at least {arguments.target}, {len(queries)} queries one by one, {isa()}"
    report.table(title, head, rows)
    bandwidth(report, data, ours, timings[ours.name])


def bandwidth(report: Report, data: Data, ours: Lethevec, timing: Timing) -> None:
    """Bytes that a query reads, and the rate beside that of the memory."""
    queries = queries_for(data)
    work = ours.index.search(queries, k=K, effort=ours.effort, threads=1).work
    read = work.bytes_read / len(queries)
    rate, top = read * timing.rate / 1e9, memory_bandwidth()
    report.note(
        f"{data.name}: a query reads {read / 1e6:.2f} MB ({work.refined / len(queries):,.0f} codes refined, "
        f"{work.reranked / len(queries):,.0f} vectors): {rate:.1f} GB/s; memory here gives {top:.1f} GB/s to one thread"
    )
    report.add(
        part="bandwidth", data=data.name, bytes_read=read, rate=rate, memory_gb_per_second=top, work=work._asdict()
    )


def memory_bandwidth(megabytes: int = 512) -> float:
    """GB/s that one thread reads, by summing an array far larger than the caches; the best of five."""
    array = np.ones(megabytes * 125_000, dtype=np.int64)
    times = []
    for _ in range(5):
        begin = now()
        array.sum()
        times.append(now() - begin)
    return array.nbytes / min(times) / 1e9


# The paper's mode ----------------------------------------------------------------------------------------------------


def paper(report: Report, data: Data, arguments: argparse.Namespace) -> None:
    """USR codes ranked by Hamming distance, 768 and 2048 bits or the nearest that the dimension allows."""
    rows = []
    for wanted in (768, 2048):
        bits = data.dim * max(1, round(wanted / data.dim))
        rows += paper_at(report, data, bits, arguments)
    head = ("bits", "queries", "by", f"recall@{K}", "queries/s", "spread", "ours is faster by", "goal")
    report.table(f"{data.name}: the paper's mode (USR, Hamming), {isa()}", head, rows)


def paper_at(report: Report, data: Data, bits: int, arguments: argparse.Namespace) -> list[tuple[str, ...]]:
    queries = queries_for(data)
    base = unit(data.train) if data.metric == "cosine" else data.train
    # Without vectors the gain cannot follow the records under l2 and ip: it is fixed, for both sides.
    fixed: dict[str, Any] = {} if data.metric == "cosine" else {"mean_norm": float(np.linalg.norm(base, axis=1).mean())}
    ours = Lethevec("scan", family="usr", bits=bits, ranking="hamming", keep_vectors=False, **fixed)
    ours.build(data.train, data.metric)
    hasher = lethevec.hasher("usr", dim=data.dim, bits=bits, **fixed)
    tasks: dict[str, tuple[int, Callable[[], Any]]] = {
        "lethevec alone": (len(queries), one_by_one(ours.search_one, queries, K)),
        "lethevec batch": (len(queries), in_batches(ours.search_batch, queries)),
    }
    if FaissBinary.available():
        flat = FaissBinary()
        flat.build_codes(hasher.codes(base))
        codes: Any = hasher.codes(queries)
        tasks["faiss alone"] = (len(queries), one_by_one(flat.search_one, codes, K))
        tasks["faiss batch"] = (len(queries), in_batches(flat.search_batch, codes))
    else:
        report.note("Faiss IndexBinaryFlat is skipped: the package 'faiss' is not installed")
    timings = interleave(tasks, rounds=arguments.rounds, seconds=arguments.seconds)
    rows: list[tuple[str, ...]] = []
    for key, timing in timings.items():
        by, kind = key.split()
        got = recall(data, timing.answer, K)
        faster = ratio(timings[f"lethevec {kind}"], timing)
        goal = PAPER_GOALS[kind] if by == "faiss" else None
        report.add_timing(
            timing, part="paper", data=data.name, bits=bits, queries=kind, recall=got, ratio=faster, goal=goal
        )
        told = ("", "") if goal is None else (f"{faster:.2f}", f"{goal:g}")
        many = "alone" if kind == "alone" else "100 at once"
        rows.append((str(bits), many, by, f"{got:.4f}", f"{timing.rate:,.0f}", f"{timing.spread:.2f}", *told))
    return rows


def in_batches(search: Callable[[Any, int], Any], queries: Any, size: int = 100) -> Callable[[], Any]:
    return lambda: np.concatenate([search(queries[i : i + size], K) for i in range(0, len(queries), size)])


# Forgetting and memory -----------------------------------------------------------------------------------------------


def forget(report: Report, dim: int, metric: str, arguments: argparse.Namespace) -> None:
    """What add and forget cost in indexes of different sizes."""
    rows = []
    for size in arguments.sizes:
        rows += forget_at(report, dim, metric, size, arguments.rounds)
    head = ("records", "what", "us per record", "goal")
    report.table(f"Adding and forgetting, dim {dim}, {metric}, {isa()}", head, rows)


def forget_at(report: Report, dim: int, metric: str, size: int, rounds: int) -> list[tuple[str, ...]]:
    rng = np.random.default_rng(3)
    fresh = 10_000
    index = filled(dim, metric, size)
    memory(report, index, dim, size, growth(dim, metric, size))
    vectors = rng.standard_normal((fresh, dim), dtype=np.float32)
    ids = np.arange(size, size + fresh)
    hasher = index.config.hasher()
    took: dict[str, list[float]] = {
        name: [] for name in ("encode", "add, batch of 10,000", "forget, batches of 1,000", "forget, alone")
    }
    for _ in range(max(rounds, 3)):
        cpu = time.process_time()
        hasher.codes(vectors, threads=1)
        took["encode"].append(time.process_time() - cpu)
        # Add may use all cores; the CPU time of the process is what compares with encoding on one.
        cpu = time.process_time()
        index.add(vectors, ids=ids)
        took["add, batch of 10,000"].append(time.process_time() - cpu)
        begin = now()
        for first in range(0, fresh, 1000):
            index.forget(ids[first : first + 1000])
        took["forget, batches of 1,000"].append(now() - begin)
        index.add(vectors, ids=ids)
        alone = rng.permutation(ids)[:1000]
        begin = now()
        for one in alone.tolist():
            index.forget(one)
        took["forget, alone"].append((now() - begin) * (fresh / len(alone)))
        index.forget(ids, ignore_unknown=True)
    micros = {name: float(np.median(seconds)) / fresh * 1e6 for name, seconds in took.items()}
    goals = {
        "add, batch of 10,000": ADD_GOAL * micros["encode"],
        "forget, batches of 1,000": FORGET_GOALS["batch"],
        "forget, alone": FORGET_GOALS["alone"],
    }
    report.add(part="forget", dim=dim, metric=metric, records=size, micros=micros, goals=goals, rounds=took)
    return [
        (f"{size:,}", name, f"{cost:.2f}", f"{goals[name]:.2f}" if name in goals else "")
        for name, cost in micros.items()
    ]


def filled(dim: int, metric: str, size: int) -> Any:
    """An index of `size` random records, added in pieces."""
    rng = np.random.default_rng(4)
    index = lethevec.Index(dim=dim, metric=metric, source="scan")
    for first in range(0, size, 10_000):
        count = min(10_000, size - first)
        index.add(rng.standard_normal((count, dim), dtype=np.float32), ids=np.arange(first, first + count))
    return index


def growth(dim: int, metric: str, size: int) -> float:
    """Bytes for each record by which a new process grows: one whose memory nobody has used before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_growth_here, (dim, metric, size))


def _growth_here(dim: int, metric: str, size: int) -> float:
    filled(dim, metric, 100)  # what is made once, at first use
    before = resident()
    index = filled(dim, metric, size)
    return (resident() - before) / len(index)


def memory(report: Report, index: Any, dim: int, size: int, grown: float) -> None:
    """Bytes for each record beside what the code and the vector take."""
    stats = index.stats()
    needed = index.config.hasher().code_bytes + 4 * dim
    report.add(part="memory", records=size, dim=dim, grown=grown, needed=needed, stats=stats)
    report.note(
        f"{size:,} records, dim {dim}: the index counts {stats['bytes_per_record']:.1f} bytes for each, a new process "
        f"grew by {grown:.1f}; code and vector take {needed}, and the goal is at most {needed + MEMORY_GOAL}"
    )


# The rest ------------------------------------------------------------------------------------------------------------


def isa() -> str:
    return str(lethevec.cpu_info().isa)


def rerun(arguments: argparse.Namespace, command: list[str]) -> int:
    """The same benchmark in a new process, with other instructions: they are chosen at import."""
    at = command.index("--isa")
    rest = command[:at] + command[at + 2 :]
    environment = {**os.environ, "LETHEVEC_ISA": arguments.isa}
    return subprocess.run([sys.executable, "-m", "lethevec.bench.scan", *rest], env=environment, check=False).returncode


def main(command: list[str] | None = None) -> None:
    command = sys.argv[1:] if command is None else command
    cli = parser(__doc__ or "")
    cli.add_argument("--isa", choices=("scalar", "avx2", "avx512", "neon"), help="run with these instructions")
    cli.add_argument("--parts", default="search,paper,forget", help="which, with commas")
    cli.add_argument("--target", type=float, default=0.95, help="recall to reach in the part 'search'")
    cli.add_argument("--sizes", type=int, nargs="*", default=[10_000, 1_000_000], help="records in the part 'forget'")
    arguments = cli.parse_args(command)
    if arguments.isa:
        sys.exit(rerun(arguments, command))
    start(arguments)
    if not Lethevec.available():
        sys.exit("lethevec.Index does not exist in this version: there is nothing to measure")
    report = Report("scan", vars(arguments), arguments.out)
    parts = arguments.parts.split(",")
    sets = load_data(arguments.data, arguments.queries)
    for data in sets:
        if "search" in parts:
            search(report, data, arguments)
        if "paper" in parts:
            paper(report, data, arguments)
    if "forget" in parts:
        forget(report, sets[0].dim, sets[0].metric, arguments)
    report.note(f"Results: {report.path}")


if __name__ == "__main__":
    start_over("lethevec.bench.scan", main)
