"""What deletion leaves behind: forget some of the vectors, save as documented, and search the files for them.

Every peer gets the same vectors, deletes the same hundred by its own documented call and saves. Then every file that it
wrote is searched for the deleted vectors, in all the encodings that our own search for residue knows, down to pieces of
23 bytes. As a control, the living vectors are searched for in the same files: where they cannot be found either (a
quantised index), finding nothing says nothing.

Peers that are not installed are skipped by name: pip install hnswlib faiss-cpu usearch rabitqlib zvec chromadb
sqlite-vec (and pysqlite3-binary, where Python's own SQLite cannot load extensions).
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .. import peers
from ..measuring import prepared
from ..measuring.data import with_truth
from ..measuring.field import Competitor, Field, Line
from ..measuring.machine import version_of
from ..measuring.prepared import Prepared
from ..measuring.residue import found_of
from ..peers.peer import Ids
from .run import Run

#: A label for each, and who deletes.
ERASING = (
    ("lethevec (store)", Competitor("store", "store")),
    ("lethevec (store)", Competitor("sealed store", "store", {"encrypt": True})),
    ("lethevec (index)", Competitor("index", "lethevec", {"source": None})),
    ("hnswlib", Competitor("hnswlib", "hnswlib")),
    ("faiss", Competitor("Faiss Flat", "flat", {"deletes": True})),
    ("faiss", Competitor("Faiss IVF16,Flat", "ivf-flat")),
    ("usearch", Competitor("usearch", "usearch")),
    ("RaBitQ IVF", Competitor("RaBitQ IVF", "rabitq-ivf", {"deletes": True})),
    ("zvec", Competitor("zvec", "zvec")),
    ("chroma", Competitor("chroma", "chroma")),
    *(
        (
            "sqlite-vec",
            Competitor(f"sqlite-vec {journal} {secure}", "sqlite-vec", {"journal": journal, "secure_delete": secure}),
        )
        for journal, secure in (("DELETE", "OFF"), ("WAL", "OFF"), ("WAL", "ON"))
    ),
    ("SQLite", Competitor("SQLite", "sqlite")),
)


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--vectors", type=int, default=2000, help="how many vectors are added (2000)")
    parser.add_argument("--forget", type=int, default=100, help="how many of them are deleted (100)")
    parser.add_argument("--dim", type=int, default=100, help="numbers of a vector (100)")


def experiment(run: Run, _: Prepared) -> None:
    """Look at all of them, on random vectors."""
    count, dim = run.options.vectors, run.options.dim
    folder = run.cache / f"random-{count}x{dim}"
    if not (folder / "meta.json").exists():
        vectors = np.random.default_rng(1).normal(size=(count, dim)).astype(np.float32)
        prepared.write(with_truth(folder.name, "l2", vectors, vectors[:1]), folder)
    given = Prepared(prepared.read(folder), folder, folder.name)
    run.stage("residue", "", given, lambda field: measure(run, field))


def measure(run: Run, field: Field) -> list[Line]:
    """Delete, save, search; one library after another."""
    count, vectors = run.options.forget, field.data.train
    chosen = np.random.default_rng(2).permutation(len(vectors))
    gone, stay = np.sort(chosen[:count]), chosen[-count:]
    total = count * field.data.dim * 4
    lines: list[Line] = []
    rows = []
    for label, one in ERASING:
        field.enter([one])
        for step, files in _steps(field, one.name, gone):
            left, control = found_of(vectors[gone], files), found_of(vectors[stay], files)
            amount = round(sum(left) / count * total)
            whole, some = sum(share == 1 for share in left), sum(share > 0 for share in left)
            seen = sum(share > 0 for share in control)
            name = f"{label} {_version(one.kind)}"
            rows.append((name, step, f"{amount:,} of {total:,}", whole, some, f"{seen} of {len(stay)}"))
            about = {"what": "residue", "peer": label, "version": _version(one.kind), "step_done": step}
            lines.append({**about, "bytes": amount, "of": total, "whole": whole, "some": some, "control": seen})
        field.close()
    head = (
        "library",
        "how it deletes and saves",
        "bytes of forgotten vectors found",
        "whole vectors",
        "with any trace",
        "living ones found",
    )
    run.table(f"{count} of {len(vectors):,} vectors forgotten, {field.data.dim} float32 each", head, rows)
    return lines


def _steps(field: Field, name: str, gone: Ids) -> Iterator[tuple[str, Path]]:
    """Each step of deleting, with the folder of the files while it is as that step left it."""
    place = tempfile.mkdtemp(prefix="lethevec-bench-")
    try:
        if name in field.workers:
            field.ask(name, "erase", rows=gone.tolist(), folder=place)
        while name in field.workers and (step := field.ask(name, "erase_next")) is not None:
            yield step[0], Path(step[1])
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _version(kind: str) -> str:
    made = peers.KINDS[kind]
    return sqlite3.sqlite_version if kind == "sqlite" else version_of(made.package or made.module) or "?"
