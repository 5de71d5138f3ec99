"""Does random operations on a folder of collections, and says on stdout what is done. See test_power_cut."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lethevec

from ..store.crash_worker import DIM, say, vector

NAMES = ("photos", "notes", "voices")
PEOPLE = ("ann", "bob", "cem", "dora")
SEALED = "voices"

# Of each collection, id to the number of its vector and its subject.
Live = dict[str, dict[str, list[Any]]]


def connect(folder: Path, **options: Any) -> lethevec.Database:
    """The folder of collections, whose keys lie in another folder."""
    return lethevec.connect(folder / "people", keys=folder / "elsewhere" / "keys", **options)


def step(choose: random.Random, live: Mapping[str, Mapping[str, list[Any]]], counter: int) -> dict[str, Any]:
    """What to do next."""
    missing = [name for name in NAMES if name not in live]
    if (missing and choose.random() < 0.5) or not live:
        return {"do": "make", "name": choose.choice(missing)}
    name = choose.choice(sorted(live))
    people = sorted({subject for records in live.values() for _, subject in records.values()})
    turn = choose.random()
    if turn < 0.4 or not people:
        numbers = range(counter, counter + choose.randint(1, 20))
        return {"do": "add", "name": name, "records": {f"{name}-{n}": [n, choose.choice(PEOPLE)] for n in numbers}}
    if turn < 0.55 and live[name]:
        ids = choose.sample(sorted(live[name]), min(3, len(live[name])))
        return {
            "do": "update",
            "name": name,
            "records": {id: [counter + i, live[name][id][1]] for i, id in enumerate(ids)},
        }
    if turn < 0.65 and live[name]:
        return {"do": "forget ids", "name": name, "ids": choose.sample(sorted(live[name]), min(3, len(live[name])))}
    if turn < 0.9:
        return {"do": "forget", "subject": choose.choice(people)}
    return {"do": "drop", "name": name} if turn < 0.96 else {"do": "rotate"}


def apply(step: dict[str, Any], live: Live, gone: set[int]) -> bool:
    """What an operation does to the expected records; vectors that left go to `gone`. Whether it is an erasure."""
    what, records = step["do"], live.get(step.get("name", ""), {})
    if what == "make":
        live[step["name"]] = {}
    elif what in ("add", "update"):
        gone.update(records[id][0] for id in step["records"] if id in records)
        records.update(step["records"])
    elif what == "forget ids":
        gone.update(records.pop(id)[0] for id in step["ids"])
    elif what == "forget":
        for some in live.values():
            for id in [id for id, (_, subject) in some.items() if subject == step["subject"]]:
                gone.add(some.pop(id)[0])
    elif what == "drop":
        gone.update(number for number, _ in live.pop(step["name"]).values())
    return what in ("forget ids", "forget", "drop")


def run(db: lethevec.Database, step: dict[str, Any]) -> None:
    """Do it."""
    what, name = step["do"], step.get("name", "")
    if what == "make":
        db.collection(name, dim=DIM, metric="l2", encrypt=name == SEALED or None)
    elif what in ("add", "update"):
        vectors = [vector(number) for number, _ in step["records"].values()]
        subjects = [subject for _, subject in step["records"].values()]
        getattr(db.collection(name), what)(vectors=vectors, ids=list(step["records"]), subjects=subjects)
    elif what == "forget ids":
        db.collection(name).forget(step["ids"])
    elif what == "forget":
        db.forget(subject=step["subject"])
    elif what == "drop":
        db.drop(name)
    else:
        db.rotate_keys()


def main(folder: Path, seed: int, state: Path, count: int) -> None:
    """Random operations on the records of `state`, then a close."""
    live: Live = json.loads(state.read_text())
    choose, counter = random.Random(seed), 100_000 * (seed + 1)
    with connect(folder) as db:
        say("open", [])
        for _ in range(count):
            now = step(choose, live, counter)
            counter += 100
            say("begin", [now])
            run(db, now)
            apply(now, live, set())
            say("done", [now])
            say("receipts", [{"hash": receipt.hash()} for receipt in db.receipts(all_kinds=True)[-1:]])
        say("begin", [])
    say("done", [])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
