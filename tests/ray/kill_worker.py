"""A driver that adds, searches and forgets until it is killed, and notes everything in a log before and after.

    python -m tests.ray.kill_worker ADDRESS FOLDER NAME LOG SEED

A line of the log is written and synced before a call ("try") and after it ("done"). What was tried and not done may or
may not have happened; what was done must be true from then on, whatever is killed.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.ray.engine import LOOPBACK

DIM = 16


def vector_of(id: int) -> np.ndarray:
    return np.random.default_rng(id).standard_normal(DIM).astype(np.float32)


class Model:
    """What a log says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.added: set[int] = set()
        self.gone: set[int] = set()
        self.unsure: set[int] = set()
        self.next = 0
        self.calls = 0
        self.wrong: list[Any] = []
        open_tries: dict[int, dict[str, Any]] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the last line of a driver that was killed
            if entry["what"] == "try":
                open_tries[entry["call"]] = entry
                self.next = max([self.next, *[id + 1 for id in entry["ids"]]])
                self.calls = max(self.calls, entry["call"] + 1)
            elif entry["what"] == "wrong":
                self.wrong.append(entry)
            else:
                done = open_tries.pop(entry["call"])
                if done["op"] == "add":
                    self.added.update(done["ids"])
                else:
                    self.gone.update(done["ids"])
        for entry in open_tries.values():
            if entry["op"] == "add":
                self.unsure.update(set(entry["ids"]) - self.gone)
            else:
                self.unsure.update(set(entry["ids"]) - self.gone)
        self.log = path.open("a")

    def note(self, what: str, op: str, ids: list[int], call: int) -> None:
        self.log.write(json.dumps({"what": what, "op": op, "ids": ids, "call": call}) + "\n")
        self.log.flush()
        os.fsync(self.log.fileno())

    @property
    def sure(self) -> set[int]:
        """What must be there."""
        return self.added - self.gone - self.unsure


def main(address: str, folder: str, name: str, log: str, seed: str) -> None:
    import ray

    import lethevec.cluster
    from lethevec.errors import ErasureIncompleteError, LethevecError

    ray.init(address=address, namespace="lethevec", log_to_driver=False, _node_ip_address=LOOPBACK)
    rng = random.Random(seed)
    db = lethevec.cluster.connect(folder=folder, name=name, takeover=True, timeout=90.0)
    people = db.collection("people", dim=DIM, metric="l2")
    model = Model(Path(log))
    while True:
        call, model.calls = model.calls, model.calls + 1
        if rng.random() < 0.6 or len(model.sure) < 20:
            ids = list(range(model.next, model.next + rng.randint(1, 20)))
            model.next = ids[-1] + 1
            model.note("try", "add", ids, call)
            try:
                people.add([vector_of(id) for id in ids], ids, subjects=[f"p{id % 40}" for id in ids])
                model.note("done", "add", ids, call)
                model.added.update(ids)
            except LethevecError:
                model.unsure.update(ids)
        else:
            if rng.random() < 0.5:
                ids = rng.sample(sorted(model.sure), 3)
                arguments: dict[str, Any] = {"ids": ids, "ignore_unknown": True}
            else:
                person = rng.randint(0, 39)
                ids = [id for id in model.added | model.unsure if id % 40 == person]
                arguments = {"subject": f"p{person}", "ignore_unknown": True}
            model.note("try", "forget", ids, call)
            try:
                people.forget(**arguments, timeout=5)
            except ErasureIncompleteError:
                pass  # in no answer from now on, which is what is checked
            except LethevecError:
                model.unsure.update(ids)
                continue
            model.note("done", "forget", ids, call)
            model.gone.update(ids)
        target = rng.choice(sorted(model.gone or {0}))
        try:
            found = {hit.id for hit in people.search(vector_of(target), 50)[0]}
        except LethevecError:
            time.sleep(0.1)
            continue
        if found & model.gone:
            model.note("wrong", "search", sorted(found & model.gone), call)


if __name__ == "__main__":
    main(*sys.argv[1:6])
