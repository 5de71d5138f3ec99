"""Random histories of a cluster, with faults, beside one store that has none."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import numpy as np

from lethevec.cluster import verify
from lethevec.errors import ErasureIncompleteError, UnavailableError
from tests.cluster.conftest import Lab, same_answers

DIM = 6


class History:
    """A model of what was acknowledged, and what a cluster must therefore hold.

    A write that failed may or may not have happened: its ids are looked up when the cluster answers again.
    """

    def __init__(self, lab: Lab, rng: random.Random) -> None:
        self.lab = lab
        self.rng = rng
        self.db = lab.connect("driver-0", shards=rng.choice([1, 2, 3]), replicas=2)
        self.store = lab.one.collection("people", dim=DIM, metric="l2")
        self.collection = self.db.collection("people", dim=DIM, metric="l2")
        self.forgotten: set[Any] = set()
        self.drivers = 1
        self.next = 0
        self.log: list[str] = []

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.rng.choice(
                [self.add] * 5
                + [self.update, self.forget, self.forget_person, self.kill, self.back, self.look] * 2
                + [self.cut, self.new_driver, self.move]
            )
            self.log.append(step.__name__)
            step()
            self.look()

    # --- What users do ---

    def add(self) -> None:
        n = self.rng.randint(1, 12)
        ids = [self.next + k if (self.next + k) % 2 else f"r{self.next + k}" for k in range(n)]
        self.next += n
        vectors = np.array([[self.rng.randint(-3, 3) + 0.5 for _ in range(DIM)] for _ in ids], dtype=np.float32)
        subjects = [f"p{self.rng.randint(0, 9)}" for _ in ids]
        self.write(lambda c: c.upsert(vectors, ids, subjects=subjects))

    def update(self) -> None:
        ids = self.some()
        if ids:
            self.write(lambda c: c.update(ids=ids, payloads=[{"seen": self.next}] * len(ids)))

    def write(self, change: Any) -> None:
        for _ in range(3):
            try:
                change(self.collection)
                break
            except UnavailableError:
                self.back()  # a write that was not acknowledged is asked for again
        else:
            raise AssertionError("no member takes writes")
        change(self.store)

    def some(self) -> list[Any]:
        ids = self.store.ids()
        return self.rng.sample(ids, min(len(ids), self.rng.randint(1, 4)))

    def forget(self) -> None:
        ids = self.some()
        if ids:
            self.erase(lambda c: c.forget(ids, ignore_unknown=True))
            self.forgotten.update(ids)

    def forget_person(self) -> None:
        person = f"p{self.rng.randint(0, 9)}"
        ids = self.store.ids(subject=person)
        self.erase(lambda c: c.forget(subject=person, ignore_unknown=True))
        self.forgotten.update(ids)

    def erase(self, change: Any) -> None:
        with suppress(ErasureIncompleteError):
            assert verify(change(self.collection), key=self.db.public_key())
        change(self.store)

    def look(self) -> None:
        """No question is answered with what was forgotten."""
        query = np.zeros(DIM, dtype=np.float32)
        try:
            found = {hit.id for hit in self.collection.search(query, 200)[0]}
        except UnavailableError:
            self.back()
            return
        gone = self.forgotten - set(self.store.ids())
        assert not found & gone, (found & gone, self.log)

    # --- What goes wrong ---

    def kill(self) -> None:
        """At most one member of each shard at a time, so that one that has everything is left."""
        epoch = self.db.driver.epoch
        names = [m.name for m in epoch.in_state("live") if len(epoch.of_shard(m.shard, "live")) > 1]
        if names:
            self.lab.net.kill(self.rng.choice(names))

    def cut(self) -> None:
        epoch = self.db.driver.epoch
        names = [m.name for m in epoch.in_state("live") if len(epoch.of_shard(m.shard, "live")) > 1]
        if names:
            for end in ("registry", f"driver-{self.drivers - 1}"):
                self.lab.net.cut(self.rng.choice(names), end)

    def back(self) -> None:
        self.lab.net.cuts.clear()
        for name in self.db.driver.epoch.members:
            self.lab.restart(self.db, name)

    def new_driver(self) -> None:
        """The driver dies without a word."""
        self.db._stop.set()
        self.drivers += 1
        self.back()
        self.db = self.lab.connect(f"driver-{self.drivers - 1}", takeover=True)
        self.collection = self.db.collection("people")

    def move(self) -> None:
        self.back()
        self.lab.wait_live(self.db)
        self.db.rebalance(shards=self.rng.choice([1, 2, 3]))

    def settle(self) -> None:
        self.back()
        self.lab.wait_live(self.db, 40)
        self.db.complete_erasures(timeout=20)
        same_answers(self.collection, self.store, np.zeros((1, DIM), dtype=np.float32) + 0.5)
        for receipt in self.db.receipts():
            assert verify(receipt, key=self.db.public_key())
        by_shard: dict[int, set[str]] = {}
        for entry in self.db.status()["members"]:
            by_shard.setdefault(entry["shard"], set()).add(str(entry.get("digests")))
        assert all(len(digests) == 1 for digests in by_shard.values()), by_shard
