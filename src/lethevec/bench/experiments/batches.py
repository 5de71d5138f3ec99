"""What batches of queries and many cores give.

`queries`: the same queries in single calls, in batches on one thread, and in batches on all threads, everybody at equal
recall and by the library's own call for a batch. `building`: our sources built, loaded from a snapshot and opened from
a store, on one core and on all.

Batches on all threads are measured on the wall, whatever `--clock` says, and their CPU time beside it: where a query
costs no more of it than on one thread, it is the machine that has to be quiet.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import lethevec
from lethevec._native import default_threads

from ..measuring.data import Data
from ..measuring.field import Competitor, Field, Line
from ..measuring.prepared import Prepared
from ..measuring.timing import Pin, Timing, ratio, timed
from ..measuring.turns import at_recall, measured
from ..peers import KINDS
from ..peers.peer import F32
from .peers import others, peers_option
from .run import Run

K = 10
ROUNDS = 7
PARTS = "queries,building"
ALONE, BATCH, SHARED = "alone", "batch", "shared"


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    peers_option(parser, "symqg,ivfpq,hnswlib")
    parser.add_argument("--sources", default="scan,pivots,graph", help="sources of lethevec (scan,pivots,graph)")
    parser.add_argument("--target", type=float, default=0.95, help="recall to reach (0.95)")
    parser.add_argument("--batch", type=int, default=1000, help="queries in a batch (1000)")
    parser.add_argument("--parts", default=PARTS, help=f"which parts, with commas ({PARTS})")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where stores are made")


def experiment(run: Run, given: Prepared) -> None:
    """Measure one data set."""
    if run.wants("queries"):
        run.stage("batches", "queries", given, lambda field: queries(run, field))
    if run.wants("building"):
        run.stage("batches", "building", given, lambda _: building(run, given))


def sources(run: Run) -> list[str]:
    """Those that are asked for."""
    return [name for name in run.options.sources.split(",") if name]


def queries(run: Run, field: Field) -> list[Line]:
    """Everybody built and tuned; then the three ways take turns."""
    options, many = run.options, default_threads()
    ours = [Competitor(f"lethevec ({name})", "lethevec", {"source": name}) for name in sources(run)]
    competitors = [*ours, *others(options.peers)]
    field.enter(competitors)
    at_recall(field, options.target, k=K, **run.turns)
    ways: dict[str, dict[str, Any]] = {ALONE: {}, BATCH: {"batch": options.batch}}
    if many > 1:
        ways[SHARED] = {"batch": options.batch, "threads": many}
    # Only those whose own call for a batch has threads.
    sharing = {one.name for one in competitors if KINDS[one.kind].shares}
    labels = {
        (name, way): f"{name}, {way}" for name in field.workers for way in ways if way != SHARED or name in sharing
    }
    entered = {label: (field, name, None) for (name, _), label in labels.items()}
    each = {label: ways[way] for (_, way), label in labels.items()}
    found = measured(entered, K, **run.turns, each=each)
    rows, lines = [], []
    for name in field.workers:
        own = [label for (whose, _), label in labels.items() if whose == name]
        if any(label not in found for label in own):
            continue
        alone, batch = (found[labels[name, way]].timing for way in (ALONE, BATCH))
        line = {"what": "queries", "competitor": name, "batch": options.batch, "threads": many}
        line |= {"alone_us": alone.micros, "batch_us": batch.micros, "faster": ratio(batch, alone)}
        told = [f"{alone.micros:.1f}", f"{batch.micros:.1f}", f"{line['faster']:.2f}"]
        if (name, SHARED) in labels:
            line |= on_all(batch, found[labels[name, SHARED]].timing)
            told += [f"{line['shared_us']:.1f}", f"{line['cores']:.2f}", f"{line['cpu']:.2f}"]
        elif many > 1:
            told += ["", "", ""]
        one = found[labels[name, BATCH]]
        lines.append({**line, "recall": one.recall, "setting": one.setting})
        rows.append((name, *told, f"{one.recall:.4f}", one.setting))
    head = ["competitor", "single calls, us", f"batches of {options.batch:,}, us", "faster by"]
    head += [f"on {many} threads, us", "faster by", "CPU of one thread"] if many > 1 else []
    run.table(f"{field.data.name}: a query", [*head, f"recall@{K}", "setting"], rows)
    return lines


def on_all(one: Timing, shared: Timing) -> dict[str, float]:
    """A batch on all threads beside the same batch on one."""
    wall = [first.wall / second.wall for first, second in zip(one.turns, shared.turns, strict=True)]
    cpu = [second.cpu / first.cpu for first, second in zip(one.turns, shared.turns, strict=True)]
    micros = median(1e6 * turn.wall / turn.work for turn in shared.turns)
    return {"shared_us": micros, "cores": median(wall), "cpu": median(cpu)}


def build(data: Data, source: str, vectors: F32) -> lethevec.Index:
    """An index of them."""
    index = lethevec.Index(data.dim, data.metric, source=source)
    index.add(vectors, ids=np.arange(len(vectors)))
    return index


def open_and_close(path: Path, **options: Any) -> None:
    """A store, as a reader opens it."""
    lethevec.open(path, read_only=True, **options).close()


def building(run: Run, given: Prepared) -> list[Line]:
    """What makes an index, with one core to use and with all of them."""
    data, options, many = given.data, run.options, default_threads()
    train, pin = np.array(data.train), Pin(options.pin)
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    rows, lines = [], []
    try:
        for source in sources(run):
            snapshot, path, copy = folder / source, folder / f"{source}.lethe", folder / f"{source}-copy.lethe"
            build(data, source, train).save(snapshot)
            with lethevec.open(path, data.dim, data.metric, index={"source": source}) as db:
                db.load([{"vectors": train, "ids": range(len(train))}])
                db.backup(copy)  # a backup has no image
            keys = path.with_name(path.name + "-keys")
            ways: dict[str, Callable[[], object]] = {
                "add": partial(build, data, source, train),
                "Index.load": partial(lethevec.Index.load, snapshot),
                "open, with an image": partial(open_and_close, path),
                "open, without": partial(open_and_close, copy, keys=keys),
            }
            for what, way in ways.items():
                times: dict[bool, list[float]] = {True: [], False: []}
                for _ in range(min(3, options.rounds)):
                    for alone, took in times.items():
                        pin.one() if alone else pin.release()
                        took.append(timed(1, way).wall)
                one, shared = median(times[True]), median(times[False])
                times_faster = median(a / b for a, b in zip(times[True], times[False], strict=True))
                line = {"what": "building", "source": source, "how": what, "one": one, "all": shared}
                lines.append({**line, "cores": times_faster, "threads": many})
                rows.append((source, what, f"{one:.3g}", f"{shared:.3g}", f"{times_faster:.2f}"))
    finally:
        pin.release()
        shutil.rmtree(folder)
    head = ("source", "what", "one core, s", f"{many} cores, s", "faster by")
    run.table(f"{data.name}: {len(train):,} records on one core and on all", head, rows)
    return lines
