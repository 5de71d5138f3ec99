"""Writes to a store until it is killed, and says on stdout what it is about to do and what is done. See test_crash."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np

DIM = 12


def vector(number: int) -> np.ndarray:
    """The vector with this number: nobody else's. The mean norm is about where the gain of codes moves."""
    scale = 0.58 + 0.25 * (number % 5)
    return (scale * np.random.default_rng(number).normal(size=DIM)).astype(np.float32)


def say(kind: str, operation: dict) -> None:
    """One line, at once: the reader must have it before the kill."""
    sys.stdout.write(json.dumps([kind, operation]) + "\n")
    sys.stdout.flush()


def main(path: str, seed: int, state: str) -> None:
    """Random operations on the records of `state` (id to number of its vector), for ever."""
    from lethevec._store import open as open_store

    choose = random.Random(seed)
    live: dict[str, int] = json.loads(Path(state).read_text())
    counter = max(live.values(), default=0) + 1000 * (seed + 1)
    with open_store(path) as db:
        say("open", {})
        while True:
            turn = choose.random()
            if turn < 0.45 or len(live) < 10:
                new = {f"person-{counter + i:08d}": counter + i for i in range(choose.randint(1, 40))}
                counter += len(new)
                operation = {"do": "add", "records": new}
                say("begin", operation)
                db.add([vector(n) for n in new.values()], ids=list(new), payloads=[{"n": n} for n in new.values()])
                live.update(new)
            elif turn < 0.6:
                ids = choose.sample(sorted(live), choose.randint(1, 5))
                new = {id: counter + i for i, id in enumerate(ids)}
                counter += len(new)
                operation = {"do": "update", "records": new}
                say("begin", operation)
                payloads = [{"n": n} for n in new.values()]
                db.update(ids=ids, vectors=[vector(n) for n in new.values()], payloads=payloads)
                live.update(new)
            else:
                ids = choose.sample(sorted(live), choose.randint(1, min(len(live), 30)))
                operation = {"do": "forget", "ids": ids}
                say("begin", operation)
                db.forget(ids)
                for id in ids:
                    del live[id]
            say("done", operation)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
