"""What building, changing and searching an index cost as it grows to millions of records, on one thread.

The vectors are made up, because nobody can be asked to download ten million: clusters of uneven sizes, each spread
along some directions far more than along others, so that neighbourhoods have about as many dimensions as in real
embeddings. Sizes are measured one after the other, each in an index that is built, changed one record at a time and
searched; so absolute times depend on the machine, and what counts is how they grow. Times are those of the CPU.

The part `paper` is what the paper does at its own size (its largest set has 9,990,000 vectors of 96 numbers): USR codes
of 8 bits a number of every vector, all of them ranked by Hamming distance; encoding, memory, a search, and one point
deleted at a time. Beside it Faiss IVFPQ, which the paper trains again after a deletion, and its own delete. Vectors and
codes of 10,000,000 take about 6 GB. The local dimension of the vectors is estimated from the distances to the 100
nearest of each query (Levina and Bickel 2004), so that it can be compared with that of real sets.

While records are changed, a second thread searches. The longest that one of its searches took says how long a change
stops others. Both threads need a core of their own for that, so this part is not pinned.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec

from ..measuring.data import nearest_of
from ..measuring.field import Line
from ..measuring.memory import settled
from ..measuring.prepared import Prepared
from ..measuring.timing import no_collection
from ..peers.faiss import FaissIVFPQ
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
    parser.add_argument(
        "--parts", default="sizes", help="what to measure, with commas, of sizes,paper (default: sizes)"
    )


def experiment(run: Run, given: Prepared) -> None:
    """Measure all sizes."""
    if run.wants("sizes"):
        run.stage("scale", "sizes", given, lambda _: measure(run))
    if run.wants("paper"):
        run.stage("scale", "paper", given, lambda _: paper(run))


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


# The paper at its size ------------------------------------------------------------------------------------------------

POINTS = 10  # that are deleted, one at a time, after a first one
PAPER_QUERIES = 100
NEAREST = 100


def paper(run: Run) -> list[Line]:
    """USR codes of every vector, and Faiss IVFPQ, one size after the other."""
    lines = [line for n in run.options.sizes for line in _paper_size(run, n)]
    rows = [
        [
            f"{line['records']:,}",
            line["competitor"],
            f"{line['build_s']:,.1f}",
            f"{line['bytes'] / 1e6:,.0f}",
            f"{line['search_ms']:,.2f}",
            f"{line['recall']:.3f}",
            f"{1e6 * line['delete_s']:,.1f}",
        ]
        for line in lines
    ]
    head = ["records", "by", "encoding or building, CPU s", "MB", "ms/query", f"recall@{K}", "us to delete one, mean"]
    run.table("the paper's codes at its size, one thread", head, rows)
    return lines


def local_dimension(nearest: npt.NDArray[np.float64]) -> float:
    """The maximum-likelihood estimate of Levina and Bickel, averaged over its inverse as MacKay and Ghahramani advise,
    from the Euclidean distances of queries to their nearest, ascending."""
    logs = np.log(nearest[:, -1:] / nearest[:, :-1])
    return float(1 / logs.mean())


def _paper_size(run: Run, n: int) -> list[Line]:
    dim = run.options.dim
    x = vectors_of(n + PAPER_QUERIES, dim, 1)
    x, queries = x[:n], x[n:].copy()
    # Unit vectors: the Euclidean distance follows from that by cosine.
    cosine = nearest_of("cosine", x, queries, NEAREST)
    dimension = local_dimension(np.sqrt(np.maximum(2 * cosine, 1e-12)))
    run.note(f"  {n:,}: local dimension {dimension:.1f}")
    limit = cosine[:, K - 1 : K] + 1e-6
    leaving = np.random.default_rng(5).choice(n, size=POINTS + 1, replace=False)

    def line(name: str, build: float, size: int, ids: Any, search: float, deletes: list[float]) -> Line:
        # An answer is right when it is as near as the K-th true neighbour.
        near = 1 - np.einsum("qkd,qd->qk", x[ids].astype(np.float64), queries.astype(np.float64))
        recall = float(((near <= limit) & (ids >= 0)).mean())
        run.note(
            f"  {name}: {build:.1f} s of CPU, {size / 1e6:,.0f} MB, {1e6 * float(np.mean(deletes)):,.1f} us to delete"
        )
        about: Line = {"what": "paper", "records": n, "dim": dim, "local_dimension": dimension, "competitor": name}
        told = {
            "build_s": build,
            "bytes": size,
            "search_ms": search,
            "recall": recall,
            "delete_s": float(np.mean(deletes)),
        }
        return {**about, **told, "deletes": deletes}

    with run.pinned, no_collection():
        before = settled()
        index = lethevec.Index(
            dim, family="usr", bits=8 * dim, steps=17, ranking="hamming", keep_vectors=False, source="scan"
        )
        begin = time.process_time()
        for start in range(0, n, BLOCK):
            index.add(x[start : start + BLOCK], ids=np.arange(start, min(n, start + BLOCK)), threads=1)
        build, size = time.process_time() - begin, settled() - before
        begin = time.process_time()
        found = np.concatenate([index.search(query, K, threads=1).ids for query in queries])
        search = 1e3 * (time.process_time() - begin) / len(queries)
        deletes = [_seconds(index.forget, id) for id in leaving.tolist()]
        lines = [line(f"USR (T = 17), {8 * dim} bits", build, size, found, search, deletes[1:])]
        del index
        if FaissIVFPQ.missing():
            run.note("  Faiss IVFPQ: the package 'faiss-cpu' is not installed")
            return lines
        before = settled()
        peer = FaissIVFPQ(refined=False)
        begin = time.process_time()
        peer.start(x[:: max(1, n // 250_000)], "cosine")  # more than it takes samples of
        for start in range(0, n, BLOCK):
            peer.insert(x[start : start + BLOCK], np.arange(start, min(n, start + BLOCK)))
        build, size = time.process_time() - begin, settled() - before
        peer.set((32.0,))
        begin = time.process_time()
        found = np.stack([peer.search_one(query, K) for query in queries])
        search = 1e3 * (time.process_time() - begin) / len(queries)
        own = [_seconds(peer.delete, np.array([id])) for id in leaving.tolist()]
        lines.append(line("Faiss IVFPQ fast-scan, nprobe=32, remove_ids", build, size, found, search, own[1:]))
        trained: Line = {**lines[-1], "competitor": "Faiss IVFPQ fast-scan, nprobe=32, retrained", "delete_s": build}
        lines.append({**trained, "deletes": [build]})
    return lines


def _seconds(call: Callable[[Any], object], given: Any) -> float:
    begin = time.process_time()
    call(given)
    return time.process_time() - begin
