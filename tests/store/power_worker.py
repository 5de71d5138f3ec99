"""Makes or opens a store, does so many random operations, and says on stdout what is done. See test_power_cut."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from .crash_worker import DIM, Worker, say

# How stores are made: in the clear, sealed, and sealed with the keys in another folder. Each is opened with these.
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sealed": {"encrypt": True},
    "keys elsewhere": {"encrypt": True, "keys": "elsewhere/keys"},
}


def options(folder: Path, layout: str) -> dict[str, Any]:
    """What a store in this folder is opened with."""
    given = dict(LAYOUTS[layout])
    if "keys" in given:
        given["keys"] = folder / given["keys"]
    return given


def main(path: str, seed: int, state: str, count: int, layout: str) -> None:
    """Random operations on the records of `state` (id to number of its vector), then a close."""
    from lethevec._store import open as open_store

    live: dict[str, int] = json.loads(Path(state).read_text())
    counter = max(live.values(), default=0) + 1000 * (seed + 1)
    with open_store(path, DIM, "l2", **options(Path(path).parent, layout)) as db:
        say("open", [])
        choose = random.Random(seed)
        worker = Worker(db, choose, live, counter)
        for _ in range(count):
            if choose.random() < 0.1:
                say("begin", [])
                receipt = db.rotate_keys()
                say("done", [])
                say("receipts", [{"hash": receipt.hash()}])
            steps = worker.steps()
            say("begin", steps)
            worker.do(steps)
            say("done", steps)
            say("receipts", [{"hash": receipt.hash()} for receipt in db.receipts(all_kinds=True)[-1:]])
        say("begin", [])
    say("done", [])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5])
