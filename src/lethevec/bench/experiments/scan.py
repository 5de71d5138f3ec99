"""The in-memory index with source "scan" beside its rivals, on one thread.

Three parts, each with its goals beside the figures:

* search: scan with rerank against Faiss RaBitQ FastScan and turbovec at equal recall, and Faiss IndexLSH at whatever
  recall that one reaches; one query at a time;
* paper: the paper's mode (USR codes, Hamming ranking, no vectors kept) against Faiss IndexBinaryFlat on codes of the
  same length. Faiss is given the queries as codes; ours hashes them within the timed section;
* forget: adding and forgetting, in batches and alone, in a small and in a large index of random vectors; and bytes for
  each record, as the index counts them and as a new process grew.

Without AVX-512 the goals for searching are half of what they are with it. `--isa` runs all of it with other
instructions.
"""

from __future__ import annotations

import argparse
import multiprocessing
from typing import Any

import numpy as np

import lethevec

from .. import peers
from ..measuring.field import Competitor, Field, Line
from ..measuring.memory import resident
from ..measuring.prepared import Prepared
from ..measuring.timing import Timing, ratio, take_turns, task, timed
from ..measuring.turns import measured
from ..peers.peer import as_given
from .compare import K, table_at
from .run import Run

ROUNDS = 5
PARTS = "search,paper,forget"
SEARCH_GOALS = {"rabitq": 8.0, "turbovec": 5.0, "lsh": 6.0}
PAPER_GOALS = {"alone": 1.0, "batch": 2.0}
FORGET_GOALS = {"batch": 2.0, "alone": 5.0}  # microseconds for each record
ADD_GOAL = 2.0  # times the cost of encoding
MEMORY_GOAL = 64  # bytes for each record beside code and vector
FRESH = 10_000  # records that are added and forgotten


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--parts", default=PARTS, help=f"which parts, with commas ({PARTS})")
    parser.add_argument("--target", type=float, default=0.95, help="recall to reach in the part 'search' (0.95)")
    told = "numbers of records in the part 'forget' (10000 1000000)"
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 1_000_000], help=told)


def experiment(run: Run, given: Prepared) -> None:
    """Measure one data set; the part 'forget' only takes its dimension and metric."""
    if run.wants("search"):
        run.stage("scan", "search", given, lambda field: search(run, field))
    if run.wants("paper"):
        run.stage("scan", "paper", given, lambda field: paper(run, field))
    if run.wants("forget"):
        run.stage("scan", "forget", given, lambda field: forget(run, field.data.dim, field.data.metric))


def goal_here(goal: float) -> float:
    """The goal for the instructions in use."""
    return goal if lethevec.cpu_info().isa == "avx512" else goal / 2


# Search --------------------------------------------------------------------------------------------------------------


def search(run: Run, field: Field) -> list[Line]:
    """Scan with rerank, and the rivals at the same recall."""
    ours = Competitor("lethevec (scan)", "lethevec", {"source": "scan"})
    rivals = {name: Competitor(peers.SEARCHING[name]().name, name) for name in SEARCH_GOALS}
    field.enter([ours, *rivals.values()])
    goals = {one.name: goal_here(SEARCH_GOALS[name]) for name, one in rivals.items()}
    lines = table_at(run, field, run.options.target, goals)
    rate = next((line["rate"] for line in lines if line["competitor"] == ours.name), None)
    return [*lines, *([bandwidth(run, field, ours.name, rate)] if rate else [])]


def bandwidth(run: Run, field: Field, name: str, rate: float) -> Line:
    """Bytes that a query reads, and the rate beside that of the memory."""
    work, queries = field.ask(name, "work", k=K), len(field.data.test)
    read = work["bytes_read"] / queries
    top = memory_bandwidth()
    run.note(
        f"  a query reads {read / 1e6:.2f} MB ({work['refined'] / queries:,.0f} codes refined, "
        f"{work['reranked'] / queries:,.0f} vectors): {read * rate / 1e9:.1f} GB/s; "
        f"memory here gives {top:.1f} GB/s to one thread"
    )
    told = {"bytes_read": read, "gb_per_second": read * rate / 1e9, "memory_gb_per_second": top}
    return {"what": "bandwidth", **told, "work": work}


def memory_bandwidth(megabytes: int = 512) -> float:
    """GB/s that one thread reads, by summing an array far larger than the caches; the best of five."""
    array = np.ones(megabytes * 125_000, dtype=np.int64)
    return array.nbytes / min(timed(1, array.sum).cpu for _ in range(5)) / 1e9


# The paper's mode ----------------------------------------------------------------------------------------------------


def paper(run: Run, field: Field) -> list[Line]:
    """USR codes ranked by Hamming distance, 768 and 2048 bits or the nearest that the dimension allows."""
    data = field.data
    rows: list[tuple[str, ...]] = []
    lines: list[Line] = []
    # Without vectors the gain cannot follow the records under l2 and ip: it is fixed, for both sides.
    fixed: dict[str, Any] = {}
    if data.metric != "cosine":
        fixed["mean_norm"] = float(np.linalg.norm(as_given(data.train, data.metric), axis=1).mean())
    for wanted in (768, 2048):
        bits = data.dim * max(1, round(wanted / data.dim))
        codes = {"family": "usr", "ranking": "hamming", "keep_vectors": False}
        field.enter(
            [
                Competitor("lethevec", "lethevec", {"source": "scan", **codes, "bits": bits, **fixed}),
                Competitor("faiss", "binary-flat", {"bits": bits, **fixed}),
            ]
        )
        for kind, size in (("alone", 1), ("batch", 100)):
            found = measured({name: (field, name, None) for name in field.workers}, K, batch=size, **run.turns)
            for name, one in found.items():
                faster = ratio(found["lethevec"].timing, one.timing) if "lethevec" in found else None
                goal = PAPER_GOALS[kind] if name == "faiss" else None
                about = {"what": "paper", "competitor": name, "bits": bits, "asked": kind, "ratio": faster}
                lines.append({**about, "goal": goal, **one.line()})
                told = ("", "") if goal is None or faster is None else (f"{faster:.2f}", f"{goal:g}")
                many = "alone" if kind == "alone" else "100 at once"
                speed = (f"{one.timing.rate:,.0f}", f"{one.timing.spread:.2f}")
                rows.append((str(bits), many, name, f"{one.recall:.4f}", *speed, *told))
        field.close()
    head = ("bits", "queries", "by", f"recall@{K}", "queries/s", "spread", "ours is faster by", "goal")
    run.table(f"{data.name}: the paper's mode (USR, Hamming), {lethevec.cpu_info().isa}", head, rows)
    return lines


# Forgetting and memory -----------------------------------------------------------------------------------------------


def forget(run: Run, dim: int, metric: str) -> list[Line]:
    """What add and forget cost in indexes of different sizes."""
    rows: list[tuple[str, ...]] = []
    lines: list[Line] = []
    for size in run.options.sizes:
        index = filled(dim, metric, size)
        lines.append(memory(run, index, dim, size, growth(dim, metric, size)))
        with run.pinned:
            timings = changed(index, run.options.rounds, run.options.clock)
        micros = {name: timing.micros for name, timing in timings.items()}
        goals = {
            "add, batch of 10,000": ADD_GOAL * micros["encode"],
            "forget, batches of 1,000": FORGET_GOALS["batch"],
            "forget, alone": FORGET_GOALS["alone"],
        }
        lines.append({"what": "forget", "records": size, "micros": micros, "goals": goals})
        lines += [{"what": "turns", "records": size, "of": name, **timing.line()} for name, timing in timings.items()]
        for name, cost in micros.items():
            rows.append((f"{size:,}", name, f"{cost:.2f}", f"{goals[name]:.2f}" if name in goals else ""))
    head = ("records", "what", "us per record", "goal")
    run.table(f"Adding and forgetting, dim {dim}, {metric}, {lethevec.cpu_info().isa}", head, rows)
    return lines


def changed(index: lethevec.Index, rounds: int, clock: str) -> dict[str, Timing]:
    """Encode, add and forget random records, in turns; every round leaves the index as it was."""
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((FRESH, index.dim), dtype=np.float32)
    ids = np.arange(len(index), len(index) + FRESH)
    hasher = index.config.hasher()
    alone = rng.permutation(ids)[:1000].tolist()

    def forget_batches() -> None:
        for first in range(0, FRESH, 1000):
            index.forget(ids[first : first + 1000])

    def forget_alone() -> None:
        for one in alone:
            index.forget(one)

    def add_again() -> None:
        index.add(vectors, ids=ids)

    def forget_rest() -> None:
        index.forget(np.setdiff1d(ids, alone))

    timings = take_turns(
        {
            "encode": task(FRESH, lambda: hasher.codes(vectors, threads=1)),
            "add, batch of 10,000": task(FRESH, lambda: index.add(vectors, ids=ids, threads=1)),
            "forget, batches of 1,000": task(FRESH, forget_batches),
            "": task(1, add_again),  # not told: it makes room for the next
            "forget, alone": task(len(alone), forget_alone),
            " ": task(1, forget_rest),
        },
        rounds=max(rounds, 3),
        clock=clock,
    )
    return {name: timing for name, timing in timings.items() if name.strip()}


def filled(dim: int, metric: str, size: int) -> lethevec.Index:
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


def memory(run: Run, index: lethevec.Index, dim: int, size: int, grown: float) -> Line:
    """Bytes for each record beside what the code and the vector take."""
    stats = index.stats()
    needed = index.config.hasher().code_bytes + 4 * dim
    run.note(
        f"  {size:,} records, dim {dim}: the index counts {stats['bytes_per_record']:.1f} bytes for each, a new "
        f"process grew by {grown:.1f}; code and vector take {needed}, and the goal is at most {needed + MEMORY_GOAL}"
    )
    return {"what": "memory", "records": size, "dim": dim, "grown": grown, "needed": needed, "stats": stats}
