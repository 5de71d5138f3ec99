"""What building, changing and searching an index cost as it grows to millions of records, on one thread.

The vectors are made up (see `stand_in`), because nobody can be asked to download ten million. Sizes are measured one
after the other, each in an index that is built, changed one record at a time and searched; so absolute times depend on
the machine, and what counts is how they grow. Times are those of the CPU. Memory is what the process grew by, with the
vectors that the index keeps.

The part `paper` is what the paper does at its own size (its largest set has 9,990,000 vectors of 96 numbers): codes of
every vector, all of them ranked by Hamming distance, precision against recall, and one point deleted at a time, beside
rivals that are trained again after a deletion (see `paper_size`). At ten million the set takes 4 GB on disk, and a
process up to 12 GB of memory.

While records are changed, a second thread searches. The longest that one of its searches took says how long a change
stops others. Both threads need a core of their own for that, so this part is not pinned.
"""

from __future__ import annotations

import argparse
import threading
import time
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec

from ..measuring.field import Field, Line
from ..measuring.memory import settled
from ..measuring.prepared import Prepared
from ..measuring.timing import no_collection
from ..peers.peer import F32
from ..report.figures import pyplot
from ..report.results import NAME, read, results_of
from . import paper_size
from .growth import exponent
from .run import Run
from .stand_in import stand_in, vectors_of

ROUNDS = 3
K = 10
QUERIES = 100  # that are timed, and as many that settings are chosen on
COMING = 4  # the seed of records that are added later
EFFORTS = [2 ** (step / 4) for step in range(-16, 9)]
#: What grows: the name of a line, what it is called, and whether it is a picture of its own.
GROWING = {
    "build_s": "build, s",
    "search_us": "search, us",
    "add_mean": "add one, us (mean)",
    "add_median": "add one, us (median)",
    "forget_mean": "forget one, us (mean)",
    "forget_median": "forget one, us (median)",
    "bytes": "memory, bytes",
}


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--sizes", type=int, nargs="+", default=[300_000, 1_000_000, 3_000_000], help="records")
    parser.add_argument("--dim", type=int, default=96, help="dimensions (96)")
    parser.add_argument("--changes", type=int, default=3000, help="records that are added and forgotten (3000)")
    parser.add_argument("--target", type=float, default=0.9, help="recall that searches are to reach (0.9)")
    parser.add_argument("--refine", action="store_true", help="cells around means")
    parser.add_argument(
        "--parts", default="sizes", help="what to measure, with commas, of sizes,paper; '' draws again (default: sizes)"
    )
    told = "how often rivals are trained again in the part 'paper' (1)"
    parser.add_argument("--retrains", type=int, default=1, metavar="N", help=told)
    told = "trees of Annoy in the part 'paper' (100: the least of ann-benchmarks, 16 GB at ten million)"
    parser.add_argument("--annoy-trees", type=int, default=100, metavar="N", help=told)
    for name, what in (("graph", "SymphonyQG"), ("store", "the durable store")):
        told = f"the largest size at which {what} is built in the part 'paper' (1000000)"
        parser.add_argument(f"--{name}-records", type=int, default=1_000_000, metavar="N", help=told)


def experiment(run: Run, given: Prepared) -> None:
    """Measure all sizes."""
    aside = ("sizes", "graph_records", "store_records", "retrains", "annoy_trees")
    if run.wants("sizes"):
        for n in run.options.sizes:
            of_size = stand_in(run.cache, n, run.options.dim, QUERIES, run.note)
            run.stage("scale", "size", of_size, partial(_size, run), aside=aside)
    if run.wants("paper"):
        paper_size.measure(run)
    # Of all results so far, so that sizes can be measured one at a time.
    if _found(run, "scale"):
        run.stage("scale", "sizes", given, lambda _: _growth(run), aside=[*aside, "clock"], always=True)
    if _found(run, "codes"):
        run.stage("scale", "paper", given, lambda _: paper_size.tell(run), aside=[*aside, "clock"], always=True)


def _found(run: Run, what: str) -> list[Line]:
    """The lines of all sizes that tell of one thing, from the smallest."""
    path = run.options.out / NAME
    lines = results_of(read(path), "scale") if path.exists() else []
    return sorted((line for line in lines if line.get("what") == what), key=lambda line: int(line["records"]))


def _growth(run: Run) -> list[Line]:
    """How it all grows, from the results so far."""
    lines = list({line["records"]: line for line in _found(run, "scale")}.values())
    sizes = [line["records"] for line in lines]
    rows = [
        [
            f"{line['records']:,}",
            f"{line['pivots']:,}",
            f"{line['build_s']:,.1f}",
            *(f"{line[f'{what}_{how}']:,.1f}" for what in ("add", "forget") for how in ("mean", "median")),
            f"{line['search_us']:,.1f}",
            f"{line['recall']:.3f}",
            f"{line['bytes'] / line['records']:,.0f}",
            f"{line['stop_ms']:,.1f}",
        ]
        for line in lines
    ]
    head = ["records", "pivots", "build, s", "add, us", "median", "forget, us", "median", "search, us", f"recall@{K}"]
    head += ["bytes a record", "longest search beside changes, ms"]
    run.table("costs against size, one thread", head, rows)
    if len(lines) < 2:
        return []
    fitted = {name: exponent(sizes, [line[name] for line in lines]) for name in GROWING}
    run.note(", ".join(f"{name}: n^{power:.2f}" for name, power in fitted.items()))
    figure, places = pyplot().subplots(2, 4, figsize=(12, 5.2), layout="constrained")
    for axes, (name, told) in zip(places.flat, GROWING.items(), strict=False):
        axes.plot(sizes, [line[name] for line in lines], marker="o", color="#e8590c")
        axes.set(xscale="log", yscale="log", xlabel="records", title=f"{told}: n^{fitted[name]:.2f}")
    places.flat[-1].set_visible(False)
    title = f"What an index with pivots costs as it grows from {sizes[0]:,} to {sizes[-1]:,} records"
    caption = f"One thread, CPU time, made-up vectors; searches at a recall of {run.options.target}."
    numbers = [[n, *(line[name] for name in GROWING), line["recall"]] for n, line in zip(sizes, lines, strict=True)]
    run.figure(figure, "scale-growth", title, caption, ("records", *GROWING, "recall"), numbers)
    return [{"what": "exponents", **fitted}]


def _size(run: Run, field: Field) -> list[Line]:
    o, data = run.options, field.data
    n = len(data.train)
    coming = vectors_of(o.changes, o.dim, COMING)
    before = settled()
    index = lethevec.Index(o.dim, source=lethevec.Pivots(refine=o.refine))
    with run.pinned, no_collection():
        begin = time.process_time()
        index.add(data.train, ids=np.arange(n), threads=1)
        build = time.process_time() - begin
        size = settled() - before
        leaving = np.random.default_rng(5).choice(n, size=o.changes // 2, replace=False)
        adds, forgets = _changes(index, coming[: o.changes // 2], leaving)
        found = _search(run, index, np.concatenate([data.test, data.for_tuning().test]))
    stop = _stop(index, data.test, coming[o.changes // 2 :])
    line: Line = {"what": "scale", "build_s": build, "bytes": size, "pivots": index.stats()["pivots"], "stop_ms": stop}
    for what, took in (("add", adds), ("forget", forgets)):
        line |= {f"{what}_mean": took.mean(), f"{what}_median": float(np.median(took)), f"{what}_most": took.max()}
    run.note(f"  {n:,}: built in {build:.1f} s, {size / n:,.0f} bytes a record")
    return [line | found]


def _changes(index: lethevec.Index, coming: F32, leaving: npt.NDArray[np.int64]) -> tuple[Any, Any]:
    """Microseconds to add each of these, and to forget each of those, in turns."""
    adds, forgets = [], []
    first = len(index)
    for i, id in enumerate(leaving.tolist()):
        begin = time.process_time()
        index.add(coming[i : i + 1], ids=[first + i], threads=1)
        middle = time.process_time()
        index.forget(id)
        adds.append(1e6 * (middle - begin))
        forgets.append(1e6 * (time.process_time() - middle))
    return np.array(adds), np.array(forgets)


def _search(run: Run, index: lethevec.Index, queries: F32) -> dict[str, float]:
    """Microseconds of a query with the least effort that reaches the recall on one half of the queries; the recall is
    that of the other half."""
    true = index.search(queries, K, effort=np.inf).ids
    one, other = slice(None, None, 2), slice(1, None, 2)

    def recall(half: slice, effort: float) -> float:
        found = index.search(queries[half], K, effort=effort).ids
        return float(
            np.mean([len(set(a) & set(b)) / K for a, b in zip(found.tolist(), true[half].tolist(), strict=True)])
        )

    effort = next((e for e in EFFORTS if recall(one, e) >= run.options.target), EFFORTS[-1])
    took = []
    for _ in range(run.options.rounds):
        for query in queries[other]:
            begin = time.process_time()
            index.search(query, K, effort=effort)
            took.append(time.process_time() - begin)
    return {"effort": effort, "search_us": 1e6 * float(np.median(took)), "recall": recall(other, effort)}


def _stop(index: lethevec.Index, queries: F32, coming: F32) -> float:
    """Milliseconds of the longest search on another thread while records come."""
    done, longest = threading.Event(), [0.0]

    def search() -> None:
        while not done.is_set():
            for query in queries:
                begin = time.perf_counter()
                index.search(query, K, effort=0.1)
                longest[0] = max(longest[0], time.perf_counter() - begin)

    thread = threading.Thread(target=search)
    thread.start()
    try:
        for i, vector in enumerate(coming):
            index.add(vector[None], ids=[10**12 + i], threads=1)
    finally:
        done.set()
        thread.join()
    return 1e3 * longest[0]
