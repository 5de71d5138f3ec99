"""Write the golden snapshots of the index: tests/golden/index-v<version>-*.snapshot, and what is known of them as JSON.

    python tools/make_index_golden.py

Run it once for each version of the format, and keep the files of all versions: a later lethevec must still read them. A
run that would change a file of the present version is a change of format, so it stops; `--replace` overrides that, for
a version that was never released.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec
from lethevec import Auto, Graph, Pivots, Tables, reference
from lethevec._index.snapshot import VERSION

FOLDER = Path(__file__).parent.parent / "tests" / "golden"
DIM, RECORDS, QUERIES = 12, 40, 3
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "vectors": {"metric": "l2", "source": "scan"},
    "codes": {"metric": "cosine", "keep_vectors": False, "bits": 3 * DIM, "seed": 5},
    "usr": {"metric": "ip", "family": "usr", "bits": 2 * DIM, "steps": 3, "ranking": "hamming"},
    "cut": {"metric": "l2", "family": "superbit", "bits": 17, "keep_vectors": False},
    "empty": {"source": "scan"},
    "tables": {
        "metric": "cosine",
        "source": Tables(tables=2, key_bits=3, probes=5, expected=40),
        "bits": 2 * DIM,
    },
    "pivots": {
        "metric": "l2",
        "source": Pivots(cell_size=5, refine=True, key="00112233445566778899aabbccddeeff"),
    },
    "auto": {"metric": "ip", "source": Auto(pivots_from=30, pivots=Pivots(cell_size=6))},
    "graph": {
        "metric": "l2",
        "source": Graph(cell_size=5, cells=4, pool=8, key="00112233445566778899aabbccddeeff"),
    },
    "float16": {"metric": "ip", "source": "scan", "keep_vectors": "float16"},
    "int8": {"metric": "cosine", "source": "scan", "keep_vectors": "int8", "seed": 3},
}


def records() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Vectors and ids from the spec's generator, which is fixed for good; eighths, so that files are easy to read."""
    numbers = reference.words(1, 1, (RECORDS + QUERIES) * DIM) >> np.uint64(59)
    x = ((numbers.astype(np.float32) - np.float32(15.5)) / np.float32(4)).reshape(-1, DIM)
    ids = (np.arange(RECORDS, dtype=np.int64) * 7919) % 1009 - 300
    return x, ids


def make(name: str) -> tuple[bytes, dict[str, Any]]:
    """One snapshot, and what a reader must find in it."""
    x, ids = records()
    index = lethevec.Index(DIM, **CONFIGURATIONS[name])
    if name != "empty":
        index.add(x[:RECORDS], ids=ids)
    with tempfile.TemporaryDirectory() as folder:
        index.save(Path(folder) / "snapshot")
        data = (Path(folder) / "snapshot").read_bytes()
    hits = index.search(x[RECORDS:], k=4)
    known = {
        "config": json.loads(index.config.canonical()),
        "records": len(index),
        "digest": index.digest(),
        "ids": hits.ids.tolist(),
        "distances": [[float(d).hex() for d in row] for row in hits.distances.tolist()],
    }
    return data, known


def main() -> None:
    """Write all files, or say which would change."""
    made = {name: make(name) for name in CONFIGURATIONS}
    files = {f"index-v{VERSION}-{name}.snapshot": data for name, (data, _) in made.items()}
    known = {name: facts for name, (_, facts) in made.items()}
    files[f"index-v{VERSION}.json"] = (json.dumps(known, indent=1, sort_keys=True) + "\n").encode()
    changed = [
        name for name, data in files.items() if (FOLDER / name).exists() and (FOLDER / name).read_bytes() != data
    ]
    if changed and "--replace" not in sys.argv[1:]:
        sys.exit(f"format {VERSION} would change: {', '.join(changed)}")
    for name, data in files.items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
