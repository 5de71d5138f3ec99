"""Makes a golden store of each kind. Run once for a format version, and keep what it made for ever:

python tests/store/golden/make.py tests/store/golden
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

USR = {"family": "usr", "bits": 8 * 16}
#: How to have a new store of each kind, and the page size that it has.
KINDS: dict[str, tuple[dict, int]] = {
    "plain": ({}, 4096),
    "sealed": ({"encrypt": True}, 4096),
    "codes": ({"index": USR}, 4096),
    "sealed-codes": ({"index": USR, "encrypt": True}, 4096),
    "large-pages": ({"dim": 512}, 16384),
}


def vectors(dim: int = 8) -> np.ndarray:
    """Twelve vectors, without a random generator."""
    return (np.arange(12 * dim).reshape(12, dim) * 37 % 101 / 16 - 3).astype(np.float32)


def main(kind: str, folder: Path) -> None:
    """Write the store, its keys, and what they must be read as."""
    from lethevec._store import open as open_store

    folder.mkdir(parents=True)
    ids = [*range(6), *(f"name-{i}" for i in range(6))]
    with open_store(folder / "golden.lethe", metric="l2", **{"dim": 8, **KINDS[kind][0]}) as db:
        subjects = [None, "alice", "bob"] * 4
        db.add(vectors(db.dim), ids=ids, subjects=subjects, payloads=[None if i % 2 else {"n": i} for i in range(12)])
        receipts = [db.forget(["name-3", 2]), db.forget(subject="bob")]
        db.rotate_keys("golden")
        receipts.append(db.forget([0]))
        expected = {
            "digest": db.digest(),
            "ids": [record.id for record in db],
            "nearest": db.search(vectors(db.dim), k=3).ids.tolist(),
            "receipts": [receipt.to_json() for receipt in receipts],
        }
    (folder / "golden.lethe-lock").unlink()
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    for kind in KINDS:
        main(kind, Path(sys.argv[1]) / f"v1-{kind}")
