"""Collections: erasing a person from all of them, access, and expiry, each beside what it is made of.

A person has 100 records in each of ten collections of 100,000. Forgetting them everywhere (one request, one signature)
takes turns with forgetting others from each collection by itself (ten receipts), on other subjects of the same folder.
`access` is beside reading all records, and an expiry run beside forgetting as many records by their ids in one call.
Times are on the wall, because a disk is waited for; `--folder` says which.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import numpy as np

import lethevec

from ..measuring.field import Line
from ..measuring.prepared import Prepared
from .run import Run

ROUNDS = 5
BATCH = 10_000


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--collections", type=int, default=10, help="how many there are (10)")
    parser.add_argument("--records", type=int, default=100_000, help="records in each (100,000)")
    parser.add_argument("--each", type=int, default=100, help="records of a person in each (100)")
    parser.add_argument("--expiring", type=int, default=10_000, help="records that expire at once (10,000)")
    parser.add_argument("--dim", type=int, default=100, help="numbers of a vector (100)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the folder is made")


def experiment(run: Run, given: Prepared) -> None:
    """Measure one folder."""
    run.stage("collections", "", given, lambda _: measure(run))


def measure(run: Run) -> list[Line]:
    """Erasing, access, expiry."""
    o = run.options
    place = Path(tempfile.mkdtemp(dir=o.folder))
    clock = _Clock()
    try:
        with lethevec.connect(place / "people", clock=clock) as db:
            names = [f"collection-{number}" for number in range(o.collections)]
            for name in names:
                run.note(f"  filling {name}")
                _fill(db.collection(name, dim=o.dim), o.records, o.dim, o.each)
            found = {**_erasing(run, db, names), **_access(db, names), **_expiry(run, db, names[0], clock)}
    finally:
        shutil.rmtree(place)
    rows = [[name, f"{value:,.4g}"] for name, value in found.items()]
    head = f"{o.collections} collections of {o.records:,} records, {o.each} of a person in each; medians"
    run.table(head, ["", "ms, or a ratio"], rows)
    return [{"what": "collections", "collections": o.collections, "records": o.records, "each": o.each, **found}]


class _Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def _fill(store: lethevec.Store, records: int, dim: int, each: int) -> None:
    """A person's records are spread over the whole collection."""
    rng = np.random.default_rng(1)
    people = max(1, records // each)
    store.load(
        (
            {
                "vectors": rng.normal(size=(len(ids), dim)).astype(np.float32),
                "ids": ids,
                "subjects": [f"person-{id % people:06d}" for id in ids],
                "payloads": [{"n": id} for id in ids],
            }
            for ids in (range(at, min(at + BATCH, records)) for at in range(0, records, BATCH))
        ),
        total=records,
    )


def _erasing(run: Run, db: lethevec.Database, names: list[str]) -> dict[str, float]:
    everywhere, single, work = [], [], []
    for turn in range(run.options.rounds or ROUNDS):
        people = [f"person-{2 * turn:06d}", f"person-{2 * turn + 1:06d}"]
        for way in ("everywhere", "single") if turn % 2 else ("single", "everywhere"):
            begin, before = time.perf_counter(), time.process_time()
            if way == "everywhere":
                receipt = db.forget(subject=people[0])
                everywhere.append(time.perf_counter() - begin)
                work.append(time.process_time() - before)
                assert receipt.records == len(names) * run.options.each
            else:
                for name in names:
                    db.collection(name).forget(subject=people[1])
                single.append(time.perf_counter() - begin)
    both = [a / b for a, b in zip(everywhere, single, strict=True)]
    return {
        "forget everywhere, one receipt": 1e3 * statistics.median(everywhere),
        "of which CPU": 1e3 * statistics.median(work),
        "the single forgets together": 1e3 * statistics.median(single),
        "ratio (at most 1.5)": statistics.median(both),
    }


def _access(db: lethevec.Database, names: list[str]) -> dict[str, float]:
    people = list(db.subjects())[-5:]
    times = []
    for person in people:
        begin = time.perf_counter()
        db.access(person)
        times.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    sum(record.subject == people[0] for name in names for record in db.collection(name))
    return {
        "access": 1e3 * statistics.median(times),
        "going through all records instead": 1e3 * (time.perf_counter() - begin),
    }


def _expiry(run: Run, db: lethevec.Database, name: str, clock: _Clock) -> dict[str, float]:
    store = db.collection(name)
    count = min(run.options.expiring, len(store) // 8)
    expiring: list[float] = []
    forgetting: list[float] = []
    for turn in range(3):
        ids = store.ids()
        rng = np.random.default_rng(turn)
        chosen = rng.choice(len(ids), 2 * count, replace=False).tolist()
        due, others = [ids[i] for i in chosen[:count]], [ids[i] for i in chosen[count:]]
        store.update(ids=due, expires=timedelta(days=1))
        store.update(ids=others, expires=timedelta(days=9_999))  # both were written alike
        db.complete_erasures()
        clock.ahead += 2 * 86_400
        for way in ("expire", "forget") if turn % 2 else ("forget", "expire"):
            begin = time.perf_counter()
            receipt = db.expire() if way == "expire" else store.forget(others)
            (expiring if way == "expire" else forgetting).append(time.perf_counter() - begin)
            assert receipt is not None
            assert receipt.records == count
        if len(store) < 8 * count:
            break
    return {
        f"expire {count:,} records": 1e3 * statistics.median(expiring),
        f"forget {count:,} records in one call": 1e3 * statistics.median(forgetting),
    }
