"""Filters: searches and counts among what a filter on metadata lets through, beside LanceDB and Chroma.

The records are word vectors (those of the bundled words, with noise to make more of them) or random directions around
centres where another dimension is asked for, with metadata like that of a catalogue. Filters let 50, 25, 2 and 0.1 %
pass, by one field or several. Every search is timed by itself, all filters taking turns; recall is counted against the
exact answer among the records that pass. The first filter of a store makes the structure behind filters, and is timed
apart; opening has no part in it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec
from lethevec._filters import matches, parse

from ...datasets import words
from ..measuring.field import Line
from ..measuring.prepared import Prepared
from ..peers.filtering import OurStore, peers
from .run import Run

F32 = npt.NDArray[np.float32]
ROUNDS = 5
K = 10
QUERIES = 100

FILTERS: dict[str, dict[str, Any]] = {
    "50 %: kind": {"kind": "book"},
    "50 %: range of years": {"year": {"$gte": 1960}},
    "25 %: language": {"language": "de"},
    "25 %: kind and years": {"kind": "book", "year": {"$gte": 1960}},
    "2 %: shelf": {"shelf": 7},
    "2 %: price and years": {"price": {"$gte": 48.0}, "year": {"$gte": 1960}},
    "0.1 %: box": {"box": 123},
    "0.1 %: kind, language, shelf, years": {"kind": "book", "language": "de", "shelf": 7, "year": {"$gte": 1980}},
}
#: Ours alone: the others have no arrays, or no way to ask for them.
OURS: dict[str, dict[str, Any]] = {
    "2 %: a tag": {"tags": {"$contains": "tag-3"}},
    "25 % or 2 %": {"$or": [{"language": "de"}, {"shelf": 7}]},
}


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument(
        "--shapes", nargs="+", default=["50000x384", "1000000x100"], help="records x dimensions (50000x384 1000000x100)"
    )
    parser.add_argument("--peers-up-to", type=int, default=50_000, help="records up to which peers are measured too")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the stores are made")


def experiment(run: Run, given: Prepared) -> None:
    """Measure each shape."""
    for shape in run.options.shapes:
        records, dim = map(int, shape.split("x"))
        run.stage("filters", shape, given, lambda _, n=records, d=dim: measure(run, n, d))  # type: ignore[misc]


def vectors_of(n: int, dim: int, rng: np.random.Generator) -> F32:
    """Unit vectors with neighbours."""
    base = words().vectors if dim == 100 else rng.normal(size=(2000, dim)).astype(np.float32)
    base = (base / np.linalg.norm(base, axis=1, keepdims=True)).astype(np.float32)
    made = base[rng.integers(len(base), size=n)] + rng.normal(size=(n, dim)).astype(np.float32) * np.float32(
        0.7 / np.sqrt(dim)
    )
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


def payloads_of(n: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Metadata as a catalogue has it."""
    kinds = rng.choice(["book", "letter", "map", "photo"], size=n, p=[0.5, 0.3, 0.15, 0.05]).tolist()
    languages = rng.choice(["en", "de", "fr", "it"], size=n, p=[0.5, 0.25, 0.15, 0.1]).tolist()
    years, shelves, boxes = (rng.integers(*ends, size=n).tolist() for ends in ((1920, 2000), (0, 50), (0, 1000)))
    prices, tags = (rng.random(n) * 50).round(2).tolist(), rng.integers(0, 100, size=(n, 2)).tolist()
    return [
        {
            "kind": kinds[i],
            "language": languages[i],
            "year": years[i],
            "shelf": shelves[i],
            "box": boxes[i],
            "price": prices[i],
            "tags": [f"tag-{tag}" for tag in tags[i]],
        }
        for i in range(n)
    ]


def measure(run: Run, n: int, dim: int) -> list[Line]:
    """One shape: ours, and the peers where it is small enough."""
    rng = np.random.default_rng(0)
    vectors, payloads = vectors_of(n + QUERIES, dim, rng), payloads_of(n, rng)
    records, queries = vectors[:n], vectors[n:]
    passing = {name: _rows(where, payloads) for name, where in {**FILTERS, **OURS}.items()}
    truth = {name: _nearest(records, queries, rows) for name, rows in passing.items()}
    truth["none"] = _nearest(records, queries, np.arange(n))
    kinds = [OurStore, *(peers() if n <= run.options.peers_up_to else [])]
    lines: list[Line] = []
    for kind in kinds:
        folder = Path(tempfile.mkdtemp(dir=run.options.folder))
        try:
            run.note(f"  {kind.name}: loading {n:,} x {dim}")
            store = kind(folder, records, payloads)
            if isinstance(store, OurStore):
                lines.append(_costs(run, store, n, dim))
            wheres: dict[str, dict[str, Any] | None] = {"none": None, **FILTERS}
            if isinstance(store, OurStore):
                wheres |= OURS
            lines += _lines(run, store, queries, wheres, truth, passing)
            store.close()
        finally:
            shutil.rmtree(folder)
    _show(run, lines, n, dim)
    return lines


def _costs(run: Run, store: OurStore, n: int, dim: int) -> Line:
    """What filters cost beside their searches: opening, the first filter, memory."""
    store.db.close()
    opening = _seconds(lambda: setattr(store, "db", lethevec.open(store.path)))
    first = _seconds(lambda: store.db.count({"kind": "book"}))
    run.note(f"  opening {opening:.2f} s, the first filter {first:.2f} s")
    return {"what": "costs", "shape": f"{n}x{dim}", "open_s": opening, "first_filter_s": first}


def _lines(run: Run, store: Any, queries: F32, wheres: Any, truth: Any, passing: Any) -> list[Line]:
    searches: dict[str, list[float]] = {name: [] for name in wheres}
    counts: dict[str, list[float]] = {name: [] for name in wheres if name != "none"}
    right = dict.fromkeys(wheres, 0)
    with run.pinned:
        for turn in range(run.options.rounds):
            for name, where in wheres.items():
                for row, query in enumerate(queries):
                    begin = time.perf_counter()
                    found = store.search(query, K, where)
                    searches[name].append(time.perf_counter() - begin)
                    if turn == 0:
                        right[name] += len(set(found) & set(truth[name][row]))
                if where is not None:
                    for _ in range(10):
                        begin = time.perf_counter()
                        number = store.count(where)
                        counts[name].append(time.perf_counter() - begin)
                    if number != len(passing[name]):
                        raise AssertionError(f"{store.name}: {name}: expected {len(passing[name])}, got {number}")
    return [
        {
            "what": "filter",
            "competitor": store.name,
            "filter": name,
            "passing": None if name == "none" else len(passing[name]),
            "search_us": 1e6 * float(np.median(searches[name])),
            "count_us": 1e6 * float(np.median(counts[name])) if name in counts else None,
            "recall": right[name] / sum(len(rows) for rows in truth[name]),
        }
        for name in wheres
    ]


def _show(run: Run, lines: list[Line], n: int, dim: int) -> None:
    for name in dict.fromkeys(line["competitor"] for line in lines if line["what"] == "filter"):
        own = [line for line in lines if line.get("competitor") == name]
        plain = own[0]["search_us"]
        rows = [
            [
                line["filter"],
                "" if line["passing"] is None else f"{line['passing']:,}",
                f"{line['search_us']:,.0f}",
                f"{line['search_us'] / plain:.2f}",
                f"{line['recall']:.3f}",
                "" if line["count_us"] is None else f"{line['count_us']:,.0f}",
            ]
            for line in own
        ]
        head = ["filter", "pass", "search, us", "times no filter", "recall@10", "count, us"]
        run.table(f"{name}, {n:,} x {dim}", head, rows)


def _rows(where: dict[str, Any], payloads: list[dict[str, Any]]) -> npt.NDArray[np.int64]:
    node = parse(where)
    return np.array([i for i, payload in enumerate(payloads) if matches(node, i, None, payload)], dtype=np.int64)


def _nearest(records: F32, queries: F32, rows: npt.NDArray[np.int64]) -> list[list[int]]:
    """The exact answers among some records."""
    best: list[list[int]] = []
    for start in range(0, len(queries), 10):
        scores = queries[start : start + 10] @ records[rows].T
        k = min(K, len(rows))
        order = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        best += [rows[one].tolist() for one in order]
    return best


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
