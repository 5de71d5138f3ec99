"""`make demo`, or `python -m lethevec.demo`: 20,000 real words are hashed, searched and, some of them, forgotten.

Three parts: the hash families side by side, forgetting and how to check it, and Faiss beside us where it is installed.
Everything is computed here and now; only public names are used, so it also serves as an example.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
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

FAMILIES = ("simhash", "superbit", "usr", "progressive", "faiss-lsh")
SIZES = (200, 800)  # bits
K = 10
SHOWN = ("paris", "piano", "doctor")
LINES = 6  # neighbours that are shown
ROUNDS = 3
FEWEST = 5000  # words, so that those above are among them


def main(command: Sequence[str] | None = None) -> None:
    """Run the three parts."""
    cli = argparse.ArgumentParser(
        prog="python -m lethevec.demo", description="What lethevec does, on real word vectors."
    )
    cli.add_argument("--words", type=int, default=20_000, metavar="N", help="use the N most frequent words (20000)")
    cli.add_argument("--queries", type=int, default=300, metavar="N", help="words to measure recall with (300)")
    arguments = cli.parse_args(command)
    names, vectors = datasets.words()
    if not FEWEST <= arguments.words <= len(names) or not 1 <= arguments.queries <= arguments.words:
        cli.error(f"--words: expected {FEWEST} to {len(names)}, and --queries: 1 to as many, got {arguments}")
    names, vectors = names[: arguments.words], vectors[: arguments.words]
    cpu = lethevec.cpu_info()
    print(f"lethevec {lethevec.__version__}, {cpu.isa} instructions; {len(names):,} words, 100 numbers each (GloVe)")
    true = true_neighbours(vectors)
    sample = np.random.default_rng(0).choice(len(names), arguments.queries, replace=False)
    families(names, vectors, true, sample)
    forgetting(names, vectors)
    beside_faiss(vectors, true, sample)


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


# --- What is true ----------------------------------------------------------------------------------------------------


def true_neighbours(vectors: F32) -> Callable[[I64], I64]:
    """A function that finds the K nearest words by cosine, the word itself left out, by comparing with all of them."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def find(rows: I64) -> I64:
        cosine = units[rows] @ units.T
        cosine[np.arange(len(rows)), rows] = -np.inf
        return np.argsort(-cosine, axis=1, kind="stable")[:, :K]

    return find


def without_self(ids: I64, rows: I64) -> I64:
    """Answers (n, K + 1) to (n, K): the word that was asked for goes, or the last answer where it was not found."""
    return np.stack([answer[answer != row][:K] for answer, row in zip(ids, rows, strict=True)])


def recall(found: I64, true: I64) -> float:
    """The share of the true neighbours that were found."""
    return float(np.mean([len(set(a) & set(b)) / K for a, b in zip(found.tolist(), true.tolist(), strict=True)]))


# --- Part 1 ----------------------------------------------------------------------------------------------------------


def families(names: Sequence[str], vectors: F32, true: Callable[[I64], I64], sample: I64) -> None:
    """Neighbours by codes alone, of each family, beside the true ones."""
    heading("1. Hash families: what codes alone find")
    shown = np.array([names.index(word) for word in SHOWN])
    truth = true(np.concatenate([shown, sample]))
    asked = vectors[np.concatenate([shown, sample])]
    lists: list[I64] = []
    rows = []
    for family in FAMILIES:
        row = [family]
        for bits in SIZES:
            hasher = lethevec.hasher(family, dim=vectors.shape[1], bits=bits)
            hasher.codes(vectors[:1])  # draws its random tables
            begin = time.perf_counter()
            hasher.codes(vectors)
            row.append(f"{1e6 * (time.perf_counter() - begin) / len(vectors):.1f}")
            for ranking in ("hamming", "asymmetric"):
                index = lethevec.Index(
                    dim=vectors.shape[1], metric="cosine", family=family, bits=bits, ranking=ranking, keep_vectors=False
                )
                index.add(vectors, ids=np.arange(len(names)))
                found = without_self(index.search(asked, k=K + 1, threads=None).ids, np.concatenate([shown, sample]))
                row.append(f"{recall(found[len(shown) :], truth[len(shown) :]):.3f}")
            if bits == SIZES[0]:
                lists.append(found[: len(shown)])
        rows.append(row)
    for i, word in enumerate(SHOWN):
        near = truth[i].tolist()
        columns = [[names[id] if id in near else f"({names[id]})" for id in found[i].tolist()] for found in lists]
        print(f"  nearest to {word!r} by {SIZES[0]} bits a word; in brackets what is not among the true ten")
        lines = list(zip([names[id] for id in near], *columns, strict=True))[:LINES]
        table("l" * (1 + len(FAMILIES)), ["true", *FAMILIES], lines)
        print()
    print(
        f"  recall@{K} over {len(sample)} words: codes compared with the code of the query (Hamming) and with the query"
    )
    print("  itself (asymm.); and microseconds to hash a vector, all cores")
    head = ["family", *(f"{what}{bits}" for bits in SIZES for what in ("us at ", "Hamming ", "asymm. "))]
    table("l" + "r" * (len(head) - 1), head, rows)
    print("  Progressive codes are made for asymmetric comparison: their bits do not weigh the same.")
    print(f"  faiss-lsh is the rule of Faiss: simhash below {vectors.shape[1]} bits, superbit from there on.")


# --- Part 2 ----------------------------------------------------------------------------------------------------------


def forgetting(names: Sequence[str], vectors: F32) -> None:
    """Somebody asks to be forgotten; afterwards the index is one that never knew them."""
    heading("2. Forgetting: as if it had never been there")
    letter = "l"
    theirs = np.array([i for i, word in enumerate(names) if word.startswith(letter)])
    others = np.array([i for i, word in enumerate(names) if not word.startswith(letter)])
    index = lethevec.Index(dim=vectors.shape[1], metric="cosine")
    index.add(vectors, ids=np.arange(len(names)))
    paris = vectors[names.index("paris")]
    print(f"  {len(index):,} words are in. Say that one person gave all {len(theirs):,} that begin with {letter!r}.")
    print(f"  nearest to 'paris': {spell(names, index, paris)}")
    with tempfile.TemporaryDirectory() as folder:
        before, after, never = (Path(folder) / name for name in ("before", "after", "never"))
        index.save(before)
        begin = time.perf_counter()
        gone = index.forget(theirs)
        took = time.perf_counter() - begin
        index.save(after)
        print(f"\n  index.forget(...): {gone:,} records in {1e3 * took:.1f} ms, {1e6 * took / gone:.2f} us each")
        print(f"  nearest to 'paris': {spell(names, index, paris)}")

        fresh = lethevec.Index(dim=vectors.shape[1], metric="cosine")
        for part in np.array_split(np.random.default_rng(1).permutation(others), 7):
            fresh.add(vectors[part], ids=part)
        fresh.save(never)
        print("\n  Beside it a second index that never saw them, made from the others in another order and in batches:")
        equal = np.array_equal(index.search(vectors[:500]).ids, fresh.search(vectors[:500]).ids)
        table(
            "lrrl",
            ["", "the one that forgot", "the one that never knew", ""],
            [
                [
                    "digest",
                    index.digest()[:16] + "...",
                    fresh.digest()[:16] + "...",
                    verdict(index.digest() == fresh.digest()),
                ],
                ["snapshot", size(after), size(never), verdict(after.read_bytes() == never.read_bytes())],
                ["500 searches", "", "", verdict(equal)],
            ],
        )
        print("\n  The forgotten vectors looked for in the raw bytes of the snapshots (a quarter of one would count):")
        table(
            "lrr",
            ["file", "size", "vectors found"],
            [
                [path.name, size(path), f"{count_present(path.read_bytes(), vectors[theirs]):,} of {gone:,}"]
                for path in (before, after)
            ],
        )


def spell(names: Sequence[str], index: lethevec.Index, query: F32) -> str:
    """The nearest words, the first (the query itself) left out."""
    return ", ".join(names[id] for id in index.search(query, k=9).ids[0][1:])


def verdict(equal: bool) -> str:
    """In words."""
    return "equal" if equal else "DIFFERENT"


def size(path: Path) -> str:
    """Bytes of a file."""
    return f"{path.stat().st_size:,} bytes"


def count_present(data: bytes, vectors: F32) -> int:
    """How many of the vectors have left a quarter of themselves or more in the data, byte for byte, at any place."""
    quarters = np.array_split(np.arange(vectors.shape[1]), 4)
    return sum(any(vector[part].tobytes() in data for part in quarters) for vector in vectors)


# --- Part 3 ----------------------------------------------------------------------------------------------------------


def beside_faiss(vectors: F32, true: Callable[[I64], I64], sample: I64) -> None:
    """Queries one by one on one thread: ours, Faiss's LSH and its exact search, taking turns."""
    heading("3. Beside Faiss: one query at a time, one thread")
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
    lsh, exact = faiss.IndexLSH(dim, SIZES[-1]), faiss.IndexFlatIP(dim)
    for theirs in (lsh, exact):
        theirs.train(units)
        theirs.add(units)
    searches: dict[str, Callable[[F32], Any]] = {
        "lethevec.Index, as it comes": lambda q: index.search(q, k=K + 1).ids[0],
        f"faiss.IndexLSH, {SIZES[-1]} bits": lambda q: lsh.search(q, K + 1)[1][0],
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
    truth = true(sample)
    ours = statistics.median(took[next(iter(searches))])
    table(
        "lrrr",
        ["", f"recall@{K}", "queries/s", "time, ours = 1"],
        [
            [
                name,
                f"{recall(without_self(answers[name], sample), truth):.3f}",
                f"{len(sample) / statistics.median(seconds):,.0f}",
                f"{statistics.median(seconds) / ours:.2f}",
            ]
            for name, seconds in took.items()
        ],
    )
    print(f"  {n:,} vectors are few. On more, and beside more peers: make bench, or python -m lethevec.bench --help")


if __name__ == "__main__":
    main()
