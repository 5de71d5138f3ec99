"""What deletion leaves behind: forget some of the vectors, save as documented, and search the files for them.

Every peer gets the same vectors, deletes the same hundred by its own documented call and saves. Then every file that
it wrote is searched for the deleted vectors, in all the encodings that `lethevec.forgetting.residue` knows, down to
pieces of 23 bytes. As a control, the living vectors are searched for in the same files: where they cannot be found
either (a quantised index), finding nothing says nothing.

    python -m lethevec.bench.residue [--vectors 2000] [--forget 100] [--dim 100]

Peers that are not installed are skipped by name: pip install hnswlib faiss-cpu usearch chromadb sqlite-vec (and
pysqlite3-binary, where Python's own SQLite cannot load extensions).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lethevec.forgetting.residue import MemorySource, search, vector_needles

from .harness import F32, Report
from .process import start_over

Step = tuple[str, Path]
Peer = Callable[[F32, np.ndarray, Path], Iterator[Step]]


def lethevec_store(vectors: F32, gone: np.ndarray, folder: Path) -> Iterator[Step]:
    from lethevec.store import open as open_store

    with open_store(folder / "s.lethe", vectors.shape[1], "l2") as db:
        db.add(vectors, ids=range(len(vectors)))
        db.forget(gone)
        yield "store: forget", folder
    part = folder / "sealed"
    part.mkdir()
    with open_store(part / "s.lethe", vectors.shape[1], "l2", encrypt=True) as db:
        db.add(vectors, ids=range(len(vectors)))
        db.backup(part / "backup")
        db.forget(gone)
        yield "store, encrypt=True: forget, and a backup from before it", part


def lethevec_index(vectors: F32, gone: np.ndarray, folder: Path) -> Iterator[Step]:
    from lethevec import Index

    index = Index(vectors.shape[1], "l2")
    index.add(vectors, ids=range(len(vectors)))
    index.forget(gone)
    index.save(folder / "index")
    yield "index: forget, save", folder


def hnswlib(vectors: F32, gone: np.ndarray, folder: Path) -> Iterator[Step]:
    import hnswlib

    index = hnswlib.Index("l2", vectors.shape[1])
    index.init_index(len(vectors), ef_construction=100, M=16)
    index.add_items(vectors, np.arange(len(vectors)))
    for id in gone:
        index.mark_deleted(int(id))
    index.save_index(str(folder / "index"))
    yield "mark_deleted, save_index", folder


def faiss(vectors: F32, gone: np.ndarray, folder: Path) -> Iterator[Step]:
    faiss = importlib.import_module("faiss")
    dim = vectors.shape[1]
    for name, index in (
        ("Flat", faiss.IndexIDMap2(faiss.IndexFlatL2(dim))),
        ("IVF16,Flat", faiss.index_factory(dim, "IVF16,Flat")),
    ):
        if not index.is_trained:
            index.train(vectors)
        index.add_with_ids(vectors, np.arange(len(vectors), dtype=np.int64))
        index.remove_ids(gone.astype(np.int64))
        part = folder / name
        part.mkdir()
        faiss.write_index(index, str(part / "index"))
        yield f"{name}: remove_ids, write_index", part


def usearch(vectors: F32, gone: np.ndarray, folder: Path) -> Iterator[Step]:
    from usearch.index import Index

    index = Index(ndim=vectors.shape[1], metric="l2sq", dtype="f32")
    index.add(np.arange(len(vectors)), vectors)
    index.remove(gone.astype(np.uint64))
    index.save(str(folder / "index"))
    yield "remove, save", folder


def chroma(vectors: F32, gone: np.ndarray, folder: Path) -> Iterator[Step]:
    import chromadb

    client = chromadb.PersistentClient(str(folder), settings=chromadb.Settings(anonymized_telemetry=False))
    # A low threshold, so that a small run is written to the vector segment as a large one would be.
    collection = client.create_collection("vectors", metadata={"hnsw:sync_threshold": 500, "hnsw:batch_size": 100})
    for start in range(0, len(vectors), 1000):
        part = vectors[start : start + 1000]
        collection.add(ids=[str(start + i) for i in range(len(part))], embeddings=part.tolist())
    collection.delete(ids=[str(id) for id in gone])
    yield "delete", folder
    places = [Path(sys.executable).parent / "chroma", Path(chromadb.__file__).parents[1] / "bin" / "chroma"]
    tool = shutil.which("chroma") or next((str(place) for place in places if place.exists()), None)
    if tool is not None:
        command = [sys.executable, tool, "vacuum", "--path", str(folder), "--force"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        yield ("delete, vacuum" if done.returncode == 0 else "delete, vacuum (failed)"), folder


def sqlite_vec(vectors: F32, gone: np.ndarray, folder: Path) -> Iterator[Step]:
    import sqlite_vec

    driver: Any = sqlite3
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        # This Python's SQLite cannot load extensions: pip install pysqlite3-binary
        driver = importlib.import_module("pysqlite3")

    for journal, secure in (("DELETE", "OFF"), ("WAL", "OFF"), ("WAL", "ON")):
        part = folder / (journal + secure)
        part.mkdir()
        connection = driver.connect(part / "db")
        connection.enable_load_extension(True)
        sqlite_vec.load(connection)
        connection.execute(f"PRAGMA journal_mode={journal}")
        connection.execute(f"PRAGMA secure_delete={secure}")
        connection.execute(f"CREATE VIRTUAL TABLE v USING vec0(embedding float[{vectors.shape[1]}])")
        rows = ((i, vector.tobytes()) for i, vector in enumerate(vectors))
        connection.executemany("INSERT INTO v(rowid, embedding) VALUES (?, ?)", rows)
        connection.commit()
        connection.executemany("DELETE FROM v WHERE rowid = ?", ((int(id),) for id in gone))
        connection.commit()
        settings = f"(journal {journal}, secure_delete {secure})"
        yield f"DELETE {settings}", part
        connection.execute("VACUUM")
        yield f"DELETE, VACUUM {settings}", part
        if journal == "WAL":
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            yield f"DELETE, VACUUM, checkpoint {settings}", part
        connection.close()


def plain_sqlite(vectors: F32, gone: np.ndarray, folder: Path) -> Iterator[Step]:
    """What the store would be without its scrubber: a table of BLOBs in random order, under secure_delete=ON."""
    rng = np.random.default_rng(2)
    connection = sqlite3.connect(folder / "db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, note BLOB, vector BLOB)")
    keys = rng.permutation(len(vectors))
    connection.execute("BEGIN")
    for place, key in enumerate(keys.tolist()):
        note = bytes(int(rng.integers(0, 600)))
        connection.execute("INSERT INTO t VALUES (?, ?, ?)", (key, note, vectors[place].tobytes()))
    connection.execute("COMMIT")
    connection.executemany("DELETE FROM t WHERE a = ?", ((int(keys[id]),) for id in gone))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    yield "DELETE, checkpoint (journal WAL, secure_delete ON)", folder
    connection.close()


PEERS: dict[str, tuple[Peer, str]] = {
    "lethevec (store)": (lethevec_store, "lethevec"),
    "lethevec (index)": (lethevec_index, "lethevec"),
    "hnswlib": (hnswlib, "hnswlib"),
    "faiss": (faiss, "faiss-cpu"),
    "usearch": (usearch, "usearch"),
    "chroma": (chroma, "chromadb"),
    "sqlite-vec": (sqlite_vec, "sqlite-vec"),
    "SQLite": (plain_sqlite, ""),
}


def found_of(vectors: F32, folder: Path) -> list[float]:
    """Of each vector, the share that is found in the folder's files, in the encoding of which most is."""
    # Read in a child: this process may hold SQLite connections to these files, whose locks a close would drop.
    copy = Path(tempfile.mkdtemp())
    try:
        subprocess.run(["cp", "-r", str(folder), str(copy / "files")], check=True)
        files = [path for path in sorted((copy / "files").rglob("*")) if path.is_file()]
        sources = [MemorySource(path.name, path.read_bytes()) for path in files]
        forms = [vector_needles(vector, str(number)) for number, vector in enumerate(vectors)]
        found = search(sources, [needle for form in forms for needle in form]).bytes_by_label
        return [max(found.get(needle.label, 0) / len(needle.data) for needle in form) for form in forms]
    finally:
        shutil.rmtree(copy)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=2000)
    parser.add_argument("--forget", type=int, default=100)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--out", type=Path, help="folder for the results")
    options = parser.parse_args(arguments)
    report = Report("residue", vars(options), options.out)
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(options.vectors, options.dim)).astype(np.float32)
    chosen = rng.permutation(options.vectors)
    gone, stay = np.sort(chosen[: options.forget]), chosen[-options.forget :]
    total = options.forget * options.dim * 4
    rows = []
    for name, (peer, package) in PEERS.items():
        folder = Path(tempfile.mkdtemp())
        try:
            version = importlib.metadata.version(package) if package else sqlite3.sqlite_version
            for step, files in peer(vectors, gone, folder):
                left = found_of(vectors[gone], files)
                control = found_of(vectors[stay], files)
                amount = round(sum(left) / options.forget * total)
                whole, some = sum(share == 1 for share in left), sum(share > 0 for share in left)
                seen = sum(share > 0 for share in control)
                rows.append(
                    (f"{name} {version}", step, f"{amount:,} of {total:,}", whole, some, f"{seen} of {len(stay)}")
                )
                report.add(
                    peer=name, version=version, step=step, bytes=amount, of=total, whole=whole, some=some, control=seen
                )
        except (ImportError, importlib.metadata.PackageNotFoundError) as error:
            missing = {"pysqlite3": "pysqlite3-binary"}.get(error.name or "", package)
            report.note(f"{name}: {missing} is not installed, skipped (pip install {missing})")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    head = (
        "library",
        "how it deletes and saves",
        "bytes of forgotten vectors found",
        "whole vectors",
        "with any trace",
        "living ones found",
    )
    report.table(f"{options.forget} of {options.vectors:,} vectors forgotten, {options.dim} float32 each", head, rows)


if __name__ == "__main__":
    start_over("lethevec.bench.residue", main)
