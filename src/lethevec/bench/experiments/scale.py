"""What building, changing and searching an index cost as it grows to millions of records, on one thread.

The vectors are made up, because nobody can be asked to download ten million: clusters of uneven sizes, each spread
along some directions far more than along others, so that neighbourhoods have about as many dimensions as in real
embeddings. Sizes are measured one after the other, each in an index that is built, changed one record at a time and
searched; so absolute times depend on the machine, and what counts is how they grow. Times are those of the CPU.

While records are changed, a second thread searches. The longest that one of its searches took says how long a change
stops others. Both threads need a core of their own for that, so this part is not pinned.
"""

from __future__ import annotations

import argparse
import threading
import time
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec

from ..measuring.field import Line
from ..measuring.prepared import Prepared
from ..measuring.timing import no_collection
from .growth import exponent
from .run import Run

F32 = npt.NDArray[np.float32]
ROUNDS = 3
K = 10
QUERIES = 200
CLUSTERS, SHAPES = 2000, 64
BLOCK = 100_000
EFFORTS = [2 ** (step / 4) for step in range(-16, 9)]


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--sizes", type=int, nargs="+", default=[300_000, 1_000_000, 3_000_000], help="records")
    parser.add_argument("--dim", type=int, default=96, help="dimensions (96)")
    parser.add_argument("--changes", type=int, default=3000, help="records that are added and forgotten (3000)")
    parser.add_argument("--target", type=float, default=0.9, help="recall that searches are to reach (0.9)")
    parser.add_argument("--refine", action="store_true", help="cells around means")


def experiment(run: Run, given: Prepared) -> None:
    """Measure all sizes."""
    run.stage("scale", "sizes", given, lambda _: measure(run))


def vectors_of(n: int, dim: int, seed: int) -> F32:
    """Unit vectors in clusters. The first ones are the same for every n."""
    shared = np.random.default_rng(0)
    top = shared.normal(size=(SHAPES, dim))
    shape_of = shared.integers(SHAPES, size=CLUSTERS)
    centres = 0.2 * (top[shape_of] + shared.normal(size=(CLUSTERS, dim)))
    spread = 2.0 / (1.0 + np.arange(dim) / 15.0)
    shapes = [np.linalg.qr(shared.normal(size=(dim, dim)))[0] * spread for _ in range(SHAPES)]
    shares = shared.lognormal(size=CLUSTERS)
    made = np.empty((n, dim), dtype=np.float32)
    for number, begin in enumerate(range(0, n, BLOCK)):
        rng = np.random.default_rng([seed, number])
        clusters = rng.choice(CLUSTERS, size=BLOCK, p=shares / shares.sum())
        x = centres[clusters]
        noise = rng.normal(size=(BLOCK, dim))
        for shape, directions in enumerate(shapes):
            rows = np.flatnonzero(shape_of[clusters] == shape)
            x[rows] += noise[rows] @ directions.T
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        made[begin : begin + BLOCK] = x[: n - begin]
    return made


def measure(run: Run) -> list[Line]:
    """One size after the other, then how it all grows."""
    lines = [_size(run, n) for n in run.options.sizes]
    rows = [
        [
            f"{line['records']:,}",
            f"{line['pivots']:,}",
            f"{line['build_s']:,.1f}",
            *(f"{line[f'{what}_{how}']:,.1f}" for what in ("add", "forget") for how in ("mean", "median")),
            f"{line['search_us']:,.1f}",
            f"{line['recall']:.3f}",
            f"{line['stop_ms']:,.1f}",
        ]
        for line in lines
    ]
    head = ["records", "pivots", "build, s", "add, us", "median", "forget, us", "median", "search, us", f"recall@{K}"]
    run.table("costs against size, one thread", [*head, "longest search beside changes, ms"], rows)
    if len(lines) > 1:
        sizes = run.options.sizes
        names = ("build_s", "search_us", "add_mean", "add_median", "forget_mean", "forget_median")
        fitted = {name: exponent(sizes, [line[name] for line in lines]) for name in names}
        run.note(", ".join(f"{name}: n^{power:.2f}" for name, power in fitted.items()))
        lines.append({"what": "exponents", **fitted})
    return lines


def _size(run: Run, n: int) -> Line:
    o = run.options
    x = vectors_of(n + o.changes + QUERIES, o.dim, 1)
    coming, queries = x[n : n + o.changes], x[n + o.changes :]
    index = lethevec.Index(o.dim, source=lethevec.Pivots(refine=o.refine))
    with run.pinned, no_collection():
        begin = time.process_time()
        index.add(x[:n], ids=np.arange(n), threads=1)
        build = time.process_time() - begin
        leaving = np.random.default_rng(5).choice(n, size=o.changes // 2, replace=False)
        adds, forgets = _changes(index, coming[: o.changes // 2], leaving)
        found = _search(run, index, queries)
    stop = _stop(index, queries, coming[o.changes // 2 :])
    line: Line = {"what": "scale", "records": n, "build_s": build, "pivots": index.stats()["pivots"], "stop_ms": stop}
    for what, took in (("add", adds), ("forget", forgets)):
        line |= {f"{what}_mean": took.mean(), f"{what}_median": float(np.median(took)), f"{what}_most": took.max()}
    run.note(f"  {n:,}: built in {build:.1f} s")
    return line | found


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
