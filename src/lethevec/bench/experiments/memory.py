"""What a record costs in memory, and how long a store takes to open.

`bytes`: by how much the process of each library grows when it is built, beside the bytes that the library says, at
equal recall; ours with vectors as they are, in a small form or in a file (`--kept`). `forms`: vectors kept as they are,
as float16 and as int8: what a record takes, the recall at effort 1 and of the exact ranking of what is kept, and the
time of a query as a ratio to float32. `opening`: a store of all vectors, opened with and without its image (see the
page on the guarantee), as a ratio to the time that it takes to read its file from the first byte to the last. Files are
in the system's cache, so that the ratio does not depend on the disk; where reading is slower, it is smaller.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import lethevec
from lethevec._native import default_threads

from ..measuring.data import recall
from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from ..measuring.turns import at_recall
from .peers import others, peers_option
from .run import Run

K = 10
ROUNDS = 5
PARTS = "bytes,forms,opening"
FORMS: tuple[bool | str, ...] = (True, "float16", "int8")
KEPT: dict[str, dict[str, str]] = {  # how ours may keep vectors: what to tell an index
    "float32": {},
    "float16": {"keep_vectors": "float16"},
    "int8": {"keep_vectors": "int8"},
    "file": {"vectors": "file"},
}


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    peers_option(parser, "hnswlib,symqg,ivfpq")
    parser.add_argument("--sources", default="scan,pivots", help="sources of lethevec, with commas (scan,pivots)")
    told = f"how ours keep vectors, of {','.join(KEPT)} (float32,int8)"
    parser.add_argument("--kept", type=_kept, default="float32,int8", help=told)
    parser.add_argument("--target", type=float, default=0.95, help="recall to reach (0.95)")
    parser.add_argument("--parts", default=PARTS, help=f"which parts, with commas ({PARTS})")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where stores are made")


def _kept(names: str) -> str:
    unknown = [name for name in names.split(",") if name not in KEPT]
    if unknown:
        raise argparse.ArgumentTypeError(f"expected names of {', '.join(KEPT)}, got {unknown[0]!r}")
    return names


def experiment(run: Run, given: Prepared) -> None:
    """Measure one data set."""
    if run.wants("bytes"):
        run.stage("memory", "libraries", given, lambda field: libraries(run, field))
    if run.wants("forms"):
        run.stage("memory", "forms", given, lambda _: forms(run, given))
    if run.wants("opening"):
        run.stage("memory", "opening", given, lambda _: opening(run, given))


def libraries(run: Run, field: Field) -> list[Line]:
    """Everybody built and tuned; a table of bytes."""
    data, target = field.data, run.options.target
    sources = [name for name in run.options.sources.split(",") if name]
    ours = [
        Competitor(f"lethevec ({', '.join([name, *KEPT[how].values()])})", "lethevec", {"source": name, **KEPT[how]})
        for name in sources
        for how in run.options.kept.split(",")
    ]
    field.enter([*ours, *others(run.options.peers)])
    built = {line["competitor"]: line for line in field.lines if line["what"] == "build"}
    alone = at_recall(field, target, k=K, **run.turns)
    own = data.train.shape[1] * 4
    rows: list[tuple[str, ...]] = []
    lines: list[Line] = []
    for name, one in alone.items():
        each = built[name]["bytes"] / len(data.train)
        told = built[name].get("stats", {}).get("bytes_per_record")
        says = "" if told is None else f"{told:,.0f}"
        rows.append((name, f"{each:,.0f}", f"{each / own:.2f}", says, f"{one.recall:.4f}", one.setting))
        line = {"what": "bytes", "competitor": name, "grew": each, "says": told, "vector": own}
        lines.append({**line, "target": target, "recall": one.recall, "setting": one.setting})
    head = ("competitor", "bytes a record", "of the vector's", "says", f"recall@{K}", "setting")
    run.table(f"{data.name}: what the process grew by, at a recall of {target}", head, rows)
    return lines


def forms(run: Run, given: Prepared) -> list[Line]:
    """Ours in each form of its vectors, which take turns."""
    data = given.data
    queries = np.ascontiguousarray(data.test)
    lines: list[Line] = []
    rows: list[tuple[str, ...]] = []
    for source in [name for name in run.options.sources.split(",") if name]:
        made: dict[str, lethevec.Index] = {}
        for form in FORMS:
            index = made["float32" if form is True else str(form)] = lethevec.Index(
                data.dim, data.metric, source=source, keep_vectors=form
            )
            index.add(data.train, ids=range(len(data.train)))
        turns: dict[str, list[float]] = {name: [] for name in made}
        for _ in range(run.options.rounds):
            for name, index in made.items():
                turns[name].append(_seconds(_one_by_one, index, queries))
        for name, index in made.items():
            ratio = median(own / plain for own, plain in zip(turns[name], turns["float32"], strict=True))
            stats = index.stats()
            says, vector = stats["bytes_per_record"], stats["bytes_vectors"] / stats["records"]
            found = recall(data, index.search(queries, K).ids, K)
            exact = recall(data, index.search(queries, K, effort=np.inf, threads=None).ids, K)
            rows.append(
                (source, name, f"{vector:,.0f}", f"{says:,.0f}", f"{found:.4f}", f"{exact:.4f}", f"{ratio:.2f}")
            )
            line = {"what": "forms", "source": source, "form": name, "vector": vector, "says": says}
            lines.append({**line, "recall": found, "recall_of_the_exact_ranking": exact, "time": ratio})
    head = ("source", "form", "bytes of a vector", "of a record", f"recall@{K} at effort 1", "at inf", "time")
    run.table(f"{data.name}: small forms of {len(data.train):,} vectors", head, rows)
    return lines


def _one_by_one(index: lethevec.Index, queries: Any) -> None:
    for query in queries:
        index.search(query, K)


def opening(run: Run, given: Prepared) -> list[Line]:
    """A store of all vectors."""
    data = given.data
    folder = Path(tempfile.mkdtemp(dir=run.options.folder))
    rows, lines = [], []
    try:
        for source in [name for name in run.options.sources.split(",") if name]:
            path = folder / f"{source}.lethe"
            with lethevec.open(path, data.dim, data.metric, index={"source": source}) as db:
                db.load([{"vectors": np.array(data.train), "ids": range(len(data.train))}])
            turns: dict[str, list[float]] = {"read": [], "open": [], "reader": []}
            for _ in range(run.options.rounds):
                turns["read"].append(_seconds(read_through, path))
                turns["open"].append(_open(path, read_only=False))
                turns["reader"].append(_open(path, read_only=True))
            without = folder / "copy"
            with lethevec.open(path) as db:
                db.backup(without)
            keys = path.with_name(path.name + "-keys")
            plain = _open(without, read_only=True, keys=keys)
            without.unlink()
            read, opened, reader = (median(turns[name]) for name in ("read", "open", "reader"))
            line = {"what": "opening", "source": source, "read": read, "open": opened, "reader": reader}
            lines.append({**line, "without_image": plain, "ratio": opened / read, "bytes": path.stat().st_size})
            told = (read, opened, opened / read, reader, plain)
            rows.append((source, f"{path.stat().st_size / 1e6:,.0f}", *(f"{value:.3g}" for value in told)))
    finally:
        shutil.rmtree(folder)
    head = ("source", "MB", "read, s", "open, s", "ratio", "for reading, s", "a copy without an image, s")
    run.table(f"{data.name}: opening a store of {len(data.train):,} records, {default_threads()} cores", head, rows)
    return lines


def read_through(path: Path) -> int:
    """Read a file from the first byte to the last."""
    room, total = bytearray(1 << 20), 0
    with path.open("rb", buffering=0) as file:
        while got := file.readinto(room):
            total += got
    return total


def _open(path: Path, **options: Any) -> float:
    begin = time.perf_counter()
    db = lethevec.open(path, **options)
    took = time.perf_counter() - begin
    db.close()
    return took


def _seconds(work: Callable[..., Any], *given: Any, **named: Any) -> float:
    begin = time.perf_counter()
    work(*given, **named)
    return time.perf_counter() - begin
