"""The durable store: how long adding, opening and forgetting take, and how often the disk is waited for.

    python -m lethevec.bench.store [--sizes 10000 1000000] [--dim 100] [--folder .] [--encrypt]
                                   [--family usr] [--source pivots] [--refine 1]

A forget waits for the disk several times (fsync), so its time is mostly that of the disk; the number of waits is
counted with strace where that is installed. `--folder` says where the stores are made: on the disk that you care
about. `--encrypt` makes sealed stores; `--family`, `--source` and `--refine` say what index they have. Where codes are
kept (`usr`, `simhash`), a copy without them, a backup, is opened as well. "CPU" is the time of all threads of this
process: what a busy machine says of the rest is mostly about the others on it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lethevec import Index
from lethevec.hashing import FAMILIES
from lethevec.index.sources import SOURCES
from lethevec.store import Store
from lethevec.store import open as open_store

from .harness import Report
from .process import start_over

PER_SUBJECT = 1000
BATCH = 10_000


def batches(rng: np.random.Generator, records: int, dim: int) -> Iterator[dict[str, Any]]:
    """Random vectors with ids, subjects (1,000 records each, spread over the whole store) and small payloads."""
    subjects = max(1, records // PER_SUBJECT)
    for start in range(0, records, BATCH):
        ids = range(start, min(records, start + BATCH))
        yield {
            "vectors": rng.normal(size=(len(ids), dim)).astype(np.float32),
            "ids": ids,
            "subjects": [f"subject-{id % subjects:06d}" for id in ids],
            "payloads": [{"n": id} for id in ids],
        }


def seconds(call: Any, *arguments: Any, **named: Any) -> tuple[float, Any]:
    """Seconds on the wall, for a disk is waited for; and the result."""
    begin = time.perf_counter()
    result = call(*arguments, **named)
    return time.perf_counter() - begin, result


def fsyncs(folder: Path, dim: int, encrypt: bool) -> dict[str, int] | None:
    """How often each operation waits for the disk, counted from outside."""
    if shutil.which("strace") is None:
        return None
    code = """
        import os, sys, numpy as np
        from lethevec.store import open as open_store
        dim = int(sys.argv[2])
        def mark(name):
            os.write(2, f"<{name}>".encode())
        data = np.random.default_rng(0).normal(size=(3000, dim))
        with open_store(sys.argv[1], dim, "l2", encrypt=sys.argv[3] == "True") as db:
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
    hash_family = Index(dim, "cosine", family=family).config.hasher()
    vectors = np.random.default_rng(2).normal(size=(20_000, dim)).astype(np.float32)
    times = []
    for _ in range(5):
        begin = time.process_time()
        hash_family.codes(vectors)
        times.append(time.process_time() - begin)
    return min(times) / len(vectors)


def without_codes(db: Store, path: Path) -> float:
    """Seconds of CPU time to open a copy that has no codes."""
    keys = db.path.with_name(db.path.name + "-keys")
    db.backup(path)
    begin = time.process_time()
    open_store(path, read_only=True, keys=keys).close()
    path.unlink()
    return time.process_time() - begin


def measure(
    report: Report, folder: Path, records: int, dim: int, rounds: int, encrypt: bool, index: dict[str, Any]
) -> list[list[str]]:
    rng = np.random.default_rng(1)
    path = folder / f"{records}.lethe"
    db: Store = open_store(path, dim, "cosine", encrypt=encrypt, index=index)
    made = list(batches(rng, records, dim)) if records <= 20 * BATCH else batches(rng, records, dim)
    load, _ = seconds(db.load, made, total=records)
    closing, _ = seconds(db.close)
    busy = time.process_time()
    opening, db = seconds(open_store, path)
    busy = time.process_time() - busy
    copy = without_codes(db, folder / "copy") if db._session.tables.codes.names else None
    reading, reader = seconds(open_store, path, read_only=True)
    extra = rng.normal(size=(100 * rounds + rounds, dim)).astype(np.float32)
    first = records + 1
    one_add = [seconds(db.add, extra[i], ids=first + i)[0] for i in range(rounds)]
    batch_add = []
    for turn in range(rounds):
        start = rounds + 100 * turn
        ids = range(first + start, first + start + 100)
        batch_add.append(seconds(db.add, extra[start : start + 100], ids=ids)[0] / 100)
    one, follow = [], []
    for turn in range(rounds):
        id = int(rng.integers(records // rounds) + turn * (records // rounds))
        one.append(seconds(db.forget, [id])[0])
        follow.append(seconds(reader.search, extra[0], 1)[0])
    subject = [
        seconds(db.forget, subject=f"subject-{turn:06d}")[0] for turn in range(min(rounds, records // PER_SUBJECT, 5))
    ]
    everything, _ = seconds(db.forget, [first], search_all=True)
    size = path.stat().st_size
    reader.close()
    db.close()

    def middle(times: list[float]) -> float:
        return float(np.median(times))

    figures = {
        "bulk load, records/s": records / load,
        "add in batches of 100, records/s": 1 / middle(batch_add),
        "add one, ms": 1e3 * middle(one_add),
        "forget one, ms": 1e3 * middle(one),
        "forget a subject of 1,000, ms": 1e3 * middle(subject),
        "forget one and search every byte, ms": 1e3 * everything,
        "a reader's next search after a forget, ms": 1e3 * middle(follow),
        "open, s": opening,
        "open, CPU s": busy,
        **({} if copy is None else {"open a copy without codes, CPU s": copy}),
        "encoding all, CPU s": encoding(dim, index.get("family", "progressive")) * records,
        "open read-only, s": reading,
        "close, s": closing,
        "bytes per record": size / records,
    }
    report.add(records=records, dim=dim, **figures)
    return [[name, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"] for name, value in figures.items()]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--encrypt", action="store_true")
    parser.add_argument("--family", choices=[name for name in FAMILIES if name != "faiss-lsh"])
    parser.add_argument("--source", choices=SOURCES)
    parser.add_argument("--refine", type=int, help="with --source pivots")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--out", type=Path, help="folder for the results")
    options = parser.parse_args(arguments)
    report = Report("store", {**vars(options), "folder": str(options.folder)}, options.out)
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        index = {name: value for name in ("family", "source", "refine") if (value := getattr(options, name))}
        columns = {
            size: measure(report, folder, size, options.dim, options.rounds, options.encrypt, index)
            for size in options.sizes
        }
        rows = [[line[0][0], *(column[1] for column in line)] for line in zip(*columns.values(), strict=True)]
        head = ["", *(f"{size:,} records" for size in columns)]
        kind = "sealed store" if options.encrypt else "store"
        report.table(f"The {kind}, {options.dim} float32 a record, load {os.getloadavg()[0]:.1f}", head, rows)
        codes = {
            family: f"{1e6 * encoding(options.dim, family):.2g}"
            for family in ("progressive", "superbit", "simhash", "usr")
        }
        report.add(encoding=codes)
        report.table("CPU time to encode a million vectors", ["family", "s"], codes.items())
        waits = fsyncs(folder, options.dim, options.encrypt)
        if waits is None:
            report.note("fsyncs: not counted (strace is not installed, or may not be used)")
        else:
            report.add(fsyncs=waits)
            report.table("Waits for the disk (fsync)", ["operation", "fsyncs"], waits.items())
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    start_over("lethevec.bench.store", main)
