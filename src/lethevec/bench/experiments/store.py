"""The durable store: how long adding, opening and forgetting take, and how often the disk is waited for.

A forget waits for the disk several times (fsync), so its time is mostly that of the disk; the number of waits is
counted with strace where that is installed. `--folder` says where the stores are made: choose the disk that you care
about. `--encrypt` makes sealed stores; `--family`, `--source` and `--refine` say what index they have. Where codes are
kept (`usr`, `simhash`), a copy without them, a backup, is opened as well. "CPU" is the time of all threads of this
process: on a busy machine the other times tell more about its other users.

"SQLite alone" deletes the same rows from a copy of the store's database, with the same settings, one right after the
other: the transaction, and then emptying the log. It searches nothing, scrubs nothing and signs nothing. What a forget
takes beyond it is ours.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lethevec

from ..measuring.field import Line
from ..measuring.prepared import Prepared
from ..measuring.timing import timed
from .run import SOURCES, Run

ROUNDS = 10
BATCH = 10_000
FAMILIES = ("progressive", "superbit", "simhash", "usr")
KEPT = ("simhash", "usr")  # families whose codes a store keeps


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="numbers of records")
    parser.add_argument("--dim", type=int, default=100, help="numbers of a vector (100)")
    parser.add_argument("--per-subject", type=int, default=1000, help="records of a subject (1000)")
    parser.add_argument("--encrypt", action="store_true", help="make sealed stores")
    parser.add_argument("--family", choices=FAMILIES, help="the hash family of the index")
    parser.add_argument("--source", choices=SOURCES, help="the source of candidates of the index")
    parser.add_argument("--refine", action="store_true", help="with --source pivots: refined cells")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the stores are made")


def experiment(run: Run, given: Prepared) -> None:
    """Measure stores of each size."""
    run.stage("store", "", given, lambda _: stores(run))


def stores(run: Run) -> list[Line]:
    """One column for each size; then what encoding costs, and how often the disk is waited for."""
    o = run.options
    folder = Path(tempfile.mkdtemp(dir=o.folder))
    lines: list[Line] = []
    try:
        columns = {}
        for size in o.sizes:
            run.note(f"  {size:,} records")
            columns[size] = measure(run, folder, size)
            lines.append({"what": "store", "records": size, "dim": o.dim, **columns[size]})
        rows = [[name, *(_number(column[name]) for column in columns.values())] for name in columns[o.sizes[0]]]
        kind = "sealed store" if o.encrypt else "store"
        head = ["", *(f"{size:,} records" for size in columns)]
        run.table(f"The {kind}, {o.dim} float32 a record, load {os.getloadavg()[0]:.1f}", head, rows)
        codes = {family: f"{1e6 * encoding(o.dim, family):.2g}" for family in FAMILIES}
        run.table("CPU time to encode a million vectors", ["family", "s"], codes.items())
        waits = fsyncs(folder, o.dim, o.encrypt)
        if waits is None:
            run.note("  fsyncs: not counted (strace is not installed, or may not be used)")
        else:
            run.table("Waits for the disk (fsync)", ["operation", "fsyncs"], waits.items())
        lines.append({"what": "encoding", "seconds": codes, "fsyncs": waits})
    finally:
        shutil.rmtree(folder)
    return lines


def _number(value: float) -> str:
    return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def index_of(run: Run) -> dict[str, Any]:
    """What the command line says about the index, as `lethevec.open` takes it."""
    o = run.options
    made = {name: value for name in ("family", "source") if (value := getattr(o, name))}
    return {**made, "source": lethevec.Pivots(refine=True)} if o.refine else made


def batches(rng: np.random.Generator, records: int, dim: int, per_subject: int) -> Iterator[dict[str, Any]]:
    """Random vectors with ids, subjects (spread over the whole store) and small payloads."""
    subjects = max(1, records // per_subject)
    for start in range(0, records, BATCH):
        ids = range(start, min(records, start + BATCH))
        yield {
            "vectors": rng.normal(size=(len(ids), dim)).astype(np.float32),
            "ids": ids,
            "subjects": [f"subject-{id % subjects:06d}" for id in ids],
            "payloads": [{"n": id} for id in ids],
        }


def seconds(call: Any, *arguments: Any, **named: Any) -> tuple[float, Any]:
    """Seconds on the wall, because a disk is waited for; and the result."""
    turn = timed(1, lambda: call(*arguments, **named))
    return turn.wall, turn.answer


def fsyncs(folder: Path, dim: int, encrypt: bool) -> dict[str, int] | None:
    """How often each operation waits for the disk, counted from outside."""
    if shutil.which("strace") is None:
        return None
    code = """
        import os, sys, lethevec, numpy as np
        dim = int(sys.argv[2])
        def mark(name):
            os.write(2, f"<{name}>".encode())
        data = np.random.default_rng(0).normal(size=(3000, dim))
        with lethevec.open(sys.argv[1], dim, "l2", encrypt=sys.argv[3] == "True") as db:
            db.add(data, ids=range(3000), subjects=["many"] * 1000 + [None] * 2000)
            db.forget([2999])
            mark("add one"); db.add(data[0], ids=9000)
            mark("forget one"); db.forget([2998])
            mark("forget a subject of 1,000"); db.forget(subject="many")
            mark("end")
    """
    log = folder / "strace"
    command = ["strace", "-f", "-o", str(log), "-e", "trace=fsync,fdatasync,write", sys.executable, "-c"]
    command += [textwrap.dedent(code), str(folder / "traced"), str(dim), str(encrypt)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    counts: dict[str, int] = {}
    name = ""
    for line in log.read_text(errors="replace").splitlines():
        if marked := re.search(r'write\(2, "<(.+?)>"', line):
            name = marked[1]
            counts[name] = 0
        elif name and re.search(r"\b(fsync|fdatasync)\(", line):
            counts[name] += 1
    counts.pop("end", None)
    return counts


def encoding(dim: int, family: str = "progressive") -> float:
    """Seconds of CPU time that the code of one record takes: what keeping codes on disk could save at open."""
    hasher = lethevec.Index(dim, "cosine", family=family).config.hasher()
    vectors = np.random.default_rng(2).normal(size=(20_000, dim)).astype(np.float32)
    return min(timed(len(vectors), lambda: hasher.codes(vectors)).cpu for _ in range(5)) / len(vectors)


class BareSqlite:
    """A copy of a store's database, with nothing of ours at work."""

    def __init__(self, db: lethevec.Store, path: Path) -> None:
        db.backup(path)
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None)
        for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "cache_size=-32768"):
            self.connection.execute(f"PRAGMA {setting}").fetchone()

    def delete(self, condition: str, value: object) -> float:
        """Seconds to delete records and vectors, to commit, and to empty the log."""
        begin = time.perf_counter()
        self.connection.execute("BEGIN IMMEDIATE")
        slots = self.connection.execute(f"SELECT slot FROM records WHERE {condition}", (value,)).fetchall()
        for table in ("vectors", "records"):
            self.connection.executemany(f"DELETE FROM {table} WHERE slot = ?", slots)
        self.connection.execute("COMMIT")
        busy, _, _ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        took = time.perf_counter() - begin
        if busy or not slots:
            raise AssertionError(f"expected records to delete and a log to empty, got {len(slots)} and {busy}")
        return took

    def close(self) -> None:
        """Remove it."""
        self.connection.close()
        self.path.unlink()


def without_codes(db: lethevec.Store, path: Path) -> float:
    """Seconds of CPU time to open a copy that has no codes."""
    keys = db.path.with_name(db.path.name + "-keys")
    db.backup(path)
    turn = timed(1, lambda: lethevec.open(path, read_only=True, keys=keys).close())
    path.unlink()
    return turn.cpu


def measure(run: Run, folder: Path, records: int) -> dict[str, float]:
    """All figures of one store."""
    o, rounds = run.options, run.options.rounds
    rng = np.random.default_rng(1)
    path = folder / f"{records}.lethe"
    db: lethevec.Store = lethevec.open(path, o.dim, "cosine", encrypt=o.encrypt, index=index_of(run))
    coming = batches(rng, records, o.dim, o.per_subject)
    made = list(coming) if records <= 20 * BATCH else coming
    load, _ = seconds(db.load, made, total=records)
    closing, _ = seconds(db.close)
    busy = time.process_time()
    opening, db = seconds(lethevec.open, path)
    busy = time.process_time() - busy
    copy = without_codes(db, folder / "copy") if o.family in KEPT else None
    reading, reader = seconds(lethevec.open, path, read_only=True)
    extra = rng.normal(size=(100 * rounds + rounds, o.dim)).astype(np.float32)
    first = records + 1
    one_add = [seconds(db.add, extra[i], ids=first + i)[0] for i in range(rounds)]
    batch_add = []
    for turn in range(rounds):
        start = rounds + 100 * turn
        ids = range(first + start, first + start + 100)
        batch_add.append(seconds(db.add, extra[start : start + 100], ids=ids)[0] / 100)
    # Sealed records are under other names, and no row says whose they are.
    bare = None if o.encrypt else BareSqlite(db, folder / "bare")
    one, follow, one_bare, subject, subject_bare = [], [], [], [], []
    for turn in range(rounds):
        id = int(rng.integers(records // rounds) + turn * (records // rounds))
        one.append(seconds(db.forget, [id])[0])
        follow.append(seconds(reader.search, extra[0], 1)[0])
        if bare:
            one_bare.append(bare.delete("number = ?", id))
    for turn in range(min(rounds, max(1, records // o.per_subject))):
        subject.append(seconds(db.forget, subject=f"subject-{turn:06d}")[0])
        if bare:
            subject_bare.append(bare.delete("subject = ?", f"subject-{turn:06d}"))
    if bare:
        bare.close()
    everything, _ = seconds(db.forget, [first], search_all=True)
    size = path.stat().st_size
    reader.close()
    db.close()

    def middle(times: list[float]) -> float:
        return float(np.median(times))

    return {
        "bulk load, records/s": records / load,
        "add in batches of 100, records/s": 1 / middle(batch_add),
        "add one, ms": 1e3 * middle(one_add),
        "forget one, ms": 1e3 * middle(one),
        f"forget a subject of {o.per_subject:,}, ms": 1e3 * middle(subject),
        **(
            {}
            if bare is None
            else {
                "SQLite alone: delete one, ms": 1e3 * middle(one_bare),
                f"SQLite alone: delete a subject of {o.per_subject:,}, ms": 1e3 * middle(subject_bare),
            }
        ),
        "forget one and search every byte, ms": 1e3 * everything,
        "a reader's next search after a forget, ms": 1e3 * middle(follow),
        "open, s": opening,
        "open, CPU s": busy,
        **({} if copy is None else {"open a copy without codes, CPU s": copy}),
        "encoding all, CPU s": encoding(o.dim, o.family or "progressive") * records,
        "open read-only, s": reading,
        "close, s": closing,
        "bytes per record": size / records,
    }
