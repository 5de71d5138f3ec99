"""`make demo`, or `lethevec demo`: a person is forgotten, on 20,000 real words, and every claim is checked at once.

A durable store is built and searched; the words of one invented owner are forgotten; the files are searched for their
bytes, the receipt is checked, and a second store that never held them turns out to be the same. Then the demo shows
what codes alone find, and compares with Faiss where it is installed. Everything is computed while you watch. Only
public names are used, so the demo also serves as an example. The store stays for the reader to play with.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec
from lethevec import datasets

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

OWNER = "lena@example.org"  # invented, and so is her claim to all words with l
FOLDER = Path("lethevec-demo")
STORE, NEVER, RECEIPT = "words.lethe", "never.lethe", "receipt.json"
FAMILIES = ("simhash", "superbit", "usr", "progressive")
BITS = 400
LSH_BITS = 800
K = 10
ROUNDS = 3
FEWEST = 5000  # words, so that those that are shown are among them


def main(command: Sequence[str] | None = None) -> None:
    """Tell the whole story."""
    parser = argparse.ArgumentParser(prog="lethevec demo", description="What lethevec does, on real word vectors.")
    parser.add_argument("--words", type=int, default=20_000, metavar="N", help="use the N most frequent words (20000)")
    parser.add_argument("--queries", type=int, default=300, metavar="N", help="words to measure recall with (300)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"where the store is left ({FOLDER})")
    arguments = parser.parse_args(command)
    most = len(datasets.words().words)
    if not FEWEST <= arguments.words <= most or not 1 <= arguments.queries <= arguments.words:
        got = f"{arguments.words} and {arguments.queries}"
        parser.error(f"expected --words from {FEWEST} to {most} and --queries from 1 to as many, got {got}")
    records = datasets.word_records(arguments.words)
    cpu = lethevec.cpu_info()
    print(f"lethevec {lethevec.__version__}, {cpu.isa} instructions; {len(records):,} words, 100 numbers each (GloVe)")
    try:
        story(records, arguments.folder)
    except lethevec.errors.MissingDependencyError as error:
        sys.exit(f"lethevec demo: {error}")
    sample = np.random.default_rng(0).choice(len(records), arguments.queries, replace=False)
    true = true_neighbours(records.vectors, sample)
    families(records.vectors, true, sample)
    beside_faiss(records.vectors, true, sample)
    farewell(arguments.folder / STORE)


def heading(text: str) -> None:
    """A line above each part."""
    print(f"\n{text}\n{'-' * len(text)}")


def table(align: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they must be; `align` has an l (left) or r (right) for each."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for side, cell, width in zip(align, row, widths, strict=True)
        ]
        print("  " + "  ".join(cells).rstrip())


# --- The story -------------------------------------------------------------------------------------------------------


def story(records: datasets.Records, folder: Path) -> None:
    """Build, search, forget, look for traces, check the receipt, compare with a store that never knew."""
    make_room(folder)
    store, dim = folder / STORE, records.vectors.shape[1]
    hers = np.flatnonzero([subject == OWNER for subject in records.subjects or []])

    heading("1. A store on disk")
    begin = time.perf_counter()
    with lethevec.open(store, dim=dim, metric="cosine") as db:
        fill(db, records, np.arange(len(records)))
        print(f"  {len(db):,} words in {store}, made in {time.perf_counter() - begin:.1f} s")
        print(f"  nearest to 'paris': {neighbours(db, 'paris')}")

    heading(f"2. {OWNER} asks to be forgotten")
    print(f"  Suppose that all {len(hers):,} words that begin with l are hers. Now the files hold the raw bytes of")
    print(f"  {sum(count_present(path, records.vectors[hers]) for path in files(folder)):,} of her vectors.\n")
    with lethevec.open(store) as db:
        begin = time.perf_counter()
        receipt = db.forget(subject=OWNER)
        took = time.perf_counter() - begin
        print(f"  db.forget(subject={OWNER!r}): {receipt.records:,} records in {took:.2f} s")
        print(f"  nearest to 'paris': {neighbours(db, 'paris')}\n")
    (folder / RECEIPT).write_text(receipt.to_json() + "\n", encoding="utf-8")
    print("  Afterwards every file is searched for the raw bytes of her vectors (a quarter of one would count):")
    found = [(path, count_present(path, records.vectors[hers])) for path in files(folder)]
    rows = [[path.name, f"{path.stat().st_size:,}", f"{count:,} of {len(hers):,}"] for path, count in found]
    table("lrr", ["file", "bytes", "vectors found"], rows)

    heading("3. The receipt, checked against the store as it is now")
    with lethevec.open(store) as db:
        words = [
            id for id, subject in zip(listed(records.ids), records.subjects or [], strict=True) if subject == OWNER
        ]
        outcome = db.verify(receipt, ids=words, subject=OWNER, vectors=records.vectors[hers[:20]])
        names = {True: "passed", False: "FAILED", None: "not checked"}
        table("lll", ["check", "", ""], [[check.name, names[check.passed], check.detail] for check in outcome.checks])
        print(f"  The receipt is {'valid' if outcome else 'NOT VALID'}. It is in {folder / RECEIPT}, and in the store.")

        heading("4. A second store, which never held her words")
        with lethevec.open(folder / NEVER, dim=dim, metric="cosine") as never:
            others = np.setdiff1d(np.arange(len(records)), hers)
            fill(never, records, np.random.default_rng(1).permutation(others))
            compare(db, never, records.vectors)
    remove(folder, NEVER)


def make_room(folder: Path) -> None:
    """The folder, without what an earlier run left; other files are not ours to touch."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (STORE, NEVER, RECEIPT):
        remove(folder, name)


def remove(folder: Path, name: str) -> None:
    """The files of a store, or one file."""
    for suffix in ("", "-wal", "-shm", "-lock", "-keys", "-reserve"):
        (folder / (name + suffix)).unlink(missing_ok=True)


def files(folder: Path) -> list[Path]:
    """All files of the store that hold anything at all."""
    return [path for path in sorted(folder.glob(STORE + "*")) if path.stat().st_size]


def neighbours(db: lethevec.Store, word: str) -> str:
    """The nearest words, the word itself left out."""
    [record] = db.get([word])
    assert record.vector is not None
    return ", ".join(str(hit.id) for hit in db.search(record.vector, k=8)[0][1:])


def count_present(path: Path, vectors: F32) -> int:
    """How many of the vectors have left a quarter of themselves or more in a file, byte for byte, at any place.

    Only for files of a store that is closed: closing a file that SQLite has open in this process drops its locks.
    """
    data = path.read_bytes()
    quarters = np.array_split(np.arange(vectors.shape[1]), 4)
    return sum(any(vector[part].tobytes() in data for part in quarters) for vector in vectors)


def listed(ids: Any) -> list[Any]:
    """Ids as a list."""
    return ids if isinstance(ids, list) else np.asarray(ids).tolist()


def fill(db: lethevec.Store, records: datasets.Records, order: I64) -> None:
    """Add records in a given order, in batches."""
    ids, subjects, payloads = listed(records.ids), records.subjects or [], records.payloads or []
    db.load(
        {
            "vectors": records.vectors[part],
            "ids": [ids[i] for i in part],
            "subjects": [subjects[i] for i in part],
            "payloads": [payloads[i] for i in part],
        }
        for part in np.array_split(order, 7)
    )


def compare(db: lethevec.Store, never: lethevec.Store, vectors: F32) -> None:
    """Digests and answers of the two."""
    print("  It was filled with the other words only, in another order and in batches.")
    answers = db.search(vectors[:500], threads=2), never.search(vectors[:500], threads=2)
    same = bool((answers[0].ids == answers[1].ids).all() and (answers[0].distances == answers[1].distances).all())
    table(
        "lrrl",
        ["", "the one that forgot", "the one that never knew", ""],
        [
            ["records", f"{len(db):,}", f"{len(never):,}", verdict(len(db) == len(never))],
            ["digest", db.digest()[:16] + "...", never.digest()[:16] + "...", verdict(db.digest() == never.digest())],
            ["500 searches", "", "", verdict(same)],
        ],
    )


def verdict(equal: bool) -> str:
    """The outcome of a comparison in words."""
    return "equal" if equal else "DIFFERENT"


def farewell(store: Path) -> None:
    """What is left, and what one can do with it."""
    heading("The store is yours to play with")
    beside = Path(sys.executable).with_name("lethevec")
    name = "lethevec" if shutil.which("lethevec") or not beside.exists() else os.path.relpath(beside)
    for line in (
        f"info {store} --subjects",
        f"search {store} --id doctor -k 5",
        f"forget {store} guitar piano",
        f"verify {store} --id guitar --id piano",
        "--help",
    ):
        print(f"  {name} {line}")


# --- What is true ----------------------------------------------------------------------------------------------------


def true_neighbours(vectors: F32, rows: I64) -> I64:
    """The K nearest words by cosine, the word itself left out, by comparing with all of them."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = units[rows] @ units.T
    cosine[np.arange(len(rows)), rows] = -np.inf
    return np.argsort(-cosine, axis=1, kind="stable")[:, :K]


def without_self(ids: I64, rows: I64) -> I64:
    """Answers (n, K + 1) to (n, K): the word that was asked for goes, or the last answer where it was not found."""
    return np.stack([answer[answer != row][:K] for answer, row in zip(ids, rows, strict=True)])


def recall(found: I64, true: I64) -> float:
    """The share of the true neighbours that were found."""
    return float(np.mean([len(set(a) & set(b)) / K for a, b in zip(found.tolist(), true.tolist(), strict=True)]))


# --- What codes alone find -------------------------------------------------------------------------------------------


def families(vectors: F32, true: I64, sample: I64) -> None:
    """Recall by codes alone, of each family."""
    heading(f"5. What codes of {BITS} bits find by themselves, without the vectors")
    rows = []
    for family in FAMILIES:
        hasher = lethevec.hasher(family, dim=vectors.shape[1], bits=BITS)
        hasher.codes(vectors[:1])  # draws its random tables
        begin = time.perf_counter()
        hasher.codes(vectors)
        row = [family, f"{1e6 * (time.perf_counter() - begin) / len(vectors):.1f}"]
        for ranking in ("hamming", "asymmetric"):
            index = lethevec.Index(
                dim=vectors.shape[1], metric="cosine", family=family, bits=BITS, ranking=ranking, keep_vectors=False
            )
            index.add(vectors, ids=np.arange(len(vectors)))
            found = without_self(index.search(vectors[sample], k=K + 1, threads=None).ids, sample)
            row.append(f"{recall(found, true):.3f}")
        rows.append(row)
    table("lrrr", ["family", "us per vector", f"recall@{K}, Hamming", "asymmetric"], rows)
    print("  Hamming: codes are compared with the code of the query (the paper).")
    print("  Asymmetric: they are compared with the query itself (ours).")


# --- Beside Faiss ----------------------------------------------------------------------------------------------------


def beside_faiss(vectors: F32, true: I64, sample: I64) -> None:
    """Queries one by one on one thread: ours, Faiss's LSH and its exact search, taking turns."""
    heading("6. Compared with Faiss: one query at a time, one thread")
    try:
        import faiss
    except ImportError:
        print("  Faiss is not installed, so there is nothing to compare with. To get it: pip install faiss-cpu")
        return
    faiss.omp_set_num_threads(1)
    n, dim = vectors.shape
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    index = lethevec.Index(dim=dim, metric="cosine")
    index.add(vectors, ids=np.arange(n))
    lsh, exact = faiss.IndexLSH(dim, LSH_BITS), faiss.IndexFlatIP(dim)
    for theirs in (lsh, exact):
        theirs.train(units)
        theirs.add(units)
    searches: dict[str, Callable[[F32], Any]] = {
        "lethevec.Index, defaults": lambda q: index.search(q, k=K + 1).ids[0],
        f"faiss.IndexLSH, {LSH_BITS} bits": lambda q: lsh.search(q, K + 1)[1][0],
        "faiss.IndexFlatIP (exact)": lambda q: exact.search(q, K + 1)[1][0],
    }
    took: dict[str, list[float]] = {name: [] for name in searches}
    answers: dict[str, I64] = {}
    for _ in range(ROUNDS):
        for name, search in searches.items():
            begin = time.perf_counter()
            found = [search(units[row : row + 1]) for row in sample]
            took[name].append(time.perf_counter() - begin)
            answers[name] = np.stack(found)
    ours = statistics.median(took[next(iter(searches))])
    table(
        "lrrr",
        ["", f"recall@{K}", "queries/s", "time, ours = 1"],
        [
            [
                name,
                f"{recall(without_self(answers[name], sample), true):.3f}",
                f"{len(sample) / statistics.median(seconds):,.0f}",
                f"{statistics.median(seconds) / ours:.2f}",
            ]
            for name, seconds in took.items()
        ],
    )
    print(f"  {n:,} vectors are few. For more vectors and more peers: make bench, or lethevec bench -- --help")


if __name__ == "__main__":
    main()
