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


def say(kind: str, steps: list[dict]) -> None:
    """One line, at once: the reader must have it before the kill."""
    sys.stdout.write(json.dumps([kind, steps]) + "\n")
    sys.stdout.flush()


class Worker:
    """Random operations on records (id to number of its vector), each said before and after it is done."""

    def __init__(self, db, choose: random.Random, live: dict[str, int], counter: int) -> None:
        self.db = db
        self.choose = choose
        self.live = live
        self.counter = counter

    def numbered(self, ids: list[str]) -> dict[str, int]:
        """New numbers for these ids."""
        new = {id: self.counter + i for i, id in enumerate(ids)}
        self.counter += len(new)
        return new

    def put(self, call: str, new: dict[str, int]) -> None:
        """Write records by this call."""
        if not new:
            return
        numbers = list(new.values())
        payloads = [{"n": n, "part": n % 7} for n in numbers]
        getattr(self.db, call)(vectors=[vector(n) for n in numbers], ids=list(new), payloads=payloads)
        self.live.update(new)

    def steps(self) -> list[dict]:
        """What to do next: one operation, or several in a transaction."""
        if self.choose.random() < 0.25:
            return [self.step() for _ in range(self.choose.randint(2, 4))]
        return [self.step()]

    def step(self) -> dict:
        """One operation."""
        turn, live = self.choose.random(), sorted(self.live)
        new = [f"person-{self.counter + i:08d}" for i in range(self.choose.randint(1, 40))]
        if turn < 0.35 or len(live) < 10:
            return {"do": "add", "records": self.numbered(new)}
        if turn < 0.5:
            return {"do": "update", "records": self.numbered(self.choose.sample(live, self.choose.randint(1, 5)))}
        if turn < 0.65:
            ids = self.choose.sample(live, self.choose.randint(1, 5)) + new[:5]
            return {"do": "upsert", "records": self.numbered(ids), "new": new[:5]}
        if turn < 0.8:
            return {"do": "forget where", "part": self.choose.randrange(7)}
        return {"do": "forget", "ids": self.choose.sample(live, self.choose.randint(1, min(len(live), 30)))}

    def run(self, step: dict) -> None:
        """Do one operation; what it asks for may be gone by an earlier step of the same transaction."""
        if step["do"] == "forget":
            self.db.forget(step["ids"], ignore_unknown=True)
            for id in step["ids"]:
                self.live.pop(id, None)
        elif step["do"] == "forget where":
            self.db.forget(where={"part": step["part"]})
            for id in [id for id, number in self.live.items() if number % 7 == step["part"]]:
                del self.live[id]
        elif step["do"] == "add":
            self.put("add", step["records"])
        else:  # no forgotten id comes back, so that every receipt goes on holding
            there = {*self.live, *step.get("new", ())}
            self.put(step["do"], {id: number for id, number in step["records"].items() if id in there})

    def do(self, steps: list[dict]) -> None:
        """One operation, or several in a transaction."""
        if len(steps) == 1:
            self.run(steps[0])
        else:
            with self.db.transaction():
                for step in steps:
                    self.run(step)

    def work(self) -> None:
        """For ever."""
        while True:
            steps = self.steps()
            say("begin", steps)
            self.do(steps)
            say("done", steps)
            self.db.write_image()


def main(path: str, seed: int, state: str) -> None:
    """Random operations on the records of `state` (id to number of its vector), for ever."""
    from lethevec._store import open as open_store

    live: dict[str, int] = json.loads(Path(state).read_text())
    counter = max(live.values(), default=0) + 1000 * (seed + 1)
    with open_store(path) as db:
        say("open", [])
        Worker(db, random.Random(seed), live, counter).work()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
