"""The paper's three questions on 20,000 real word vectors, in half a minute.

    python examples/the_paper.py

1. Do codes that are refined by self-reconstruction (USR) rank better than those of simHash and Super-Bit LSH?
2. Does that hold for tables, where few buckets are looked into?
3. What does deletion cost, where nothing is trained?

`lethevec bench all` runs the experiments in full, with the peers beside ours and pictures.
"""

from __future__ import annotations

import time

import numpy as np

import lethevec
from lethevec import datasets

QUERIES = 100
K = 10
ONES = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)


def recall(found: np.ndarray, truth: np.ndarray) -> float:
    """The share of the true neighbours that was found."""
    return float(np.mean([len(set(a) & set(b)) / K for a, b in zip(found.tolist(), truth.tolist(), strict=True)]))


def main() -> None:
    """Print one table for each question."""
    _, vectors = datasets.words()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(vectors))
    queries, records = vectors[order[:QUERIES]], vectors[order[QUERIES:]]
    exact = lethevec.Index(dim=100, source="scan")
    exact.add(records, ids=np.arange(len(records)))
    truth = exact.search(queries, k=K, effort=float("inf")).ids

    print("1. recall@10 of ranking all codes by Hamming distance")
    print(f"{'bits':>8} {'simHash':>9} {'Super-Bit':>10} {'USR':>6}")
    for expansion in (2, 4, 8):
        row = []
        for family in ("simhash", "superbit", "usr"):
            hasher = lethevec.hasher(family, dim=100, expansion=expansion, seed=1)
            unit = records / np.linalg.norm(records, axis=1, keepdims=True)
            asked = queries / np.linalg.norm(queries, axis=1, keepdims=True)
            codes, own = hasher.codes(unit), hasher.codes(asked)
            distances = np.stack([ONES[codes ^ code].sum(axis=1, dtype=np.int32) for code in own])
            row.append(recall(np.argsort(distances, axis=1, kind="stable")[:, :K], truth))
        print(f"{100 * expansion:>8} {row[0]:>9.3f} {row[1]:>10.3f} {row[2]:>6.3f}")

    print("\n2. recall@10 with hash tables, by effort")
    tables = lethevec.Index(dim=100, source="tables")
    tables.add(records, ids=np.arange(len(records)))
    for effort in (0.25, 0.5, 1.0, 2.0):
        print(f"    effort {effort:<5} {recall(tables.search(queries, k=K, effort=effort).ids, truth):.3f}")

    print("\n3. a tenth of the records is forgotten")
    gone = np.arange(0, len(records), 10)
    start = time.perf_counter()
    exact.forget(gone)
    seconds = time.perf_counter() - start
    rest = np.setdiff1d(np.arange(len(records)), gone)
    fresh = lethevec.Index(dim=100, source="scan")
    fresh.add(records[rest], ids=rest)
    print(f"    {len(gone):,} records in {1e3 * seconds:.1f} ms, without any training")
    print(f"    equal to an index that never held them: {exact.digest() == fresh.digest()}")


if __name__ == "__main__":
    main()
