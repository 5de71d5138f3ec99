"""Makes the golden store of a format version. Run once for each, and keep what it made for ever:

python tests/store/golden/make.py 2 tests/store/golden/v2
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

USR = {"family": "usr", "bits": 8 * 16}
#: How to have a new store of that version.
VERSIONS: dict[int, dict] = {1: {}, 2: {"encrypt": True}, 3: {"index": USR}, 4: {"index": USR, "encrypt": True}}


def vectors() -> np.ndarray:
    """Twelve vectors of eight numbers, without a random generator."""
    return (np.arange(96).reshape(12, 8) * 37 % 101 / 16 - 3).astype(np.float32)


def main(version: int, folder: Path) -> None:
    """Write the store, its keys, and what they must be read as."""
    from lethevec._store import open as open_store

    folder.mkdir(parents=True)
    ids = [*range(6), *(f"name-{i}" for i in range(6))]
    with open_store(folder / "golden.lethe", 8, "l2", **VERSIONS[version]) as db:
        subjects = [None, "alice", "bob"] * 4
        db.add(vectors(), ids=ids, subjects=subjects, payloads=[None if i % 2 else {"n": i} for i in range(12)])
        receipts = [db.forget(["name-3", 2]), db.forget(subject="bob")]
        db.rotate_keys("golden")
        receipts.append(db.forget([0]))
        expected = {
            "digest": db.digest(),
            "ids": [record.id for record in db],
            "nearest": db.search(vectors(), k=3).ids.tolist(),
            "receipts": [receipt.to_json() for receipt in receipts],
        }
    (folder / "golden.lethe-lock").unlink()
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
