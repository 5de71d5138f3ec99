"""The power goes while a folder of collections is written to, whose keys lie in another folder: 20 times, or as
LETHEVEC_KILLS says.

As for a single store (`tests/store/test_power_cut.py`): from a trace of every call that changes a file come folders as
a disk may hold them, and each is opened. A person is forgotten in all collections or in none, a collection is there as
a whole or not at all, every acknowledged receipt is in a chain that verifies, and nothing that was acknowledged as
forgotten is in a file, even before the folder is opened.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

import lethevec

from ..store.conftest import find_leftovers
from ..store.crash_worker import vector
from ..store.power_disk import MODES, Disk, build_library, points, trace
from ..store.test_power_cut import keys_in
from .power_worker import SEALED, Live, apply, connect

CUTS = int(os.environ.get("LETHEVEC_KILLS", "20"))
OF_ONE_TRACE = 10
OPERATIONS = 20


@dataclass
class Told:
    """What a worker has said, and what follows from it."""

    live: Live = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    erasures: int = 0
    made: bool = False
    under_way: list[dict] | None = None
    receipt: str | None = None  # the hash of the newest that was seen
    erased: set[int] = field(default_factory=set)  # those of `gone` that no file may hold any more
    at_open: set[int] = field(default_factory=set)  # those of whom this is so once the folder has been opened again
    keys: set[bytes] = field(default_factory=set)  # every key of a record that was seen
    destroyed: set[bytes] = field(default_factory=set)

    def hear(self, text: bytes, disk: Disk) -> None:
        """One line of the worker."""
        kind, steps = json.loads(text)
        keys = {key for name in disk.names() if name.endswith("-vault") for key in keys_in(disk.read(name))}
        if kind == "open":
            self.made, self.erased = True, self.erased | self.at_open
        elif kind == "begin":
            self.under_way = steps
        elif kind == "done":
            self.under_way = None
            for step in steps:
                # What one collection forgets or drops takes along what was replaced there alone.
                left = {number for records in self.live.values() for number, _ in records.values()}
                if apply(step, self.live, self.gone):
                    self.erasures += 1
                    self.erased |= left & self.gone
                    self.destroyed |= self.keys - keys
        elif steps:
            self.receipt = steps[0]["hash"]
        self.keys |= keys


def held(db: lethevec.Database) -> Live:
    """What a folder holds: each vector is known by its number."""
    found: Live = {}
    for name in db.collections():
        found[name] = {}
        for record in db.collection(name):
            number = NUMBERS[record.vector.tobytes()]
            found[name][record.id] = [number, record.subject]
    return found


NUMBERS: dict[bytes, int] = {}  # of the vectors of all operations that were begun


def check(folder: Path, told: Told) -> Told:
    """Open what is left, and see that everything holds; what is known from now on."""
    leftovers = [vector(n) for n in sorted(told.erased)[-200:]]
    assert find_leftovers(folder, vectors=leftovers) == []
    vaults = [path.read_bytes() for path in folder.rglob("*-vault")]
    assert not told.destroyed & {key for vault in vaults for key in keys_in(vault)}, "a destroyed key came back"
    now = copy.deepcopy(told)
    with connect(folder) as db:
        found = held(db)
        if told.under_way:
            attempted, gone = copy.deepcopy(told.live), set(told.gone)
            erasures = sum(apply(step, attempted, gone) for step in told.under_way)
            if found == attempted and (found != told.live or len(db.receipts()) == told.erasures + erasures):
                left = {number for records in told.live.values() for number, _ in records.values()}
                now.live, now.gone, now.erasures = attempted, gone, told.erasures + erasures
                now.at_open = told.at_open | (gone & left if erasures else set())
        assert found == now.live, f"during {told.under_way}"
        assert db.pending_erasures() == 0
        assert len(db.receipts()) == now.erasures
        chain = db.receipts(all_kinds=True)
        assert told.receipt is None or told.receipt in {receipt.hash() for receipt in chain}
        assert lethevec.verify_chain(chain)
        vaults_left = [path.name for path in (folder / "elsewhere").glob("*-vault")]
        assert len(vaults_left) == len([name for name in now.live if name == SEALED]), (
            "the vault of a dropped collection"
        )
        for name, records in now.live.items():
            if records:
                id, (number, _) = sorted(records.items())[-1]
                assert db.collection(name).search(vector(number), k=1).ids.tolist() == [[id]]
    # Closed: what was replaced is gone too.
    assert find_leftovers(folder, vectors=[vector(n) for n in sorted(now.gone)[-200:]]) == []
    now.under_way = None
    return now


def test_power_cut(tmp_path: Path):
    library = build_library(tmp_path)
    choose = random.Random(4)
    told = Told()
    counts: Counter[str] = Counter()
    for turn in range(max(2, CUTS // OF_ONE_TRACE)):
        folder = tmp_path / f"turn-{turn}"
        if turn == 0:
            (folder / "elsewhere").mkdir(parents=True)
        disk = Disk(folder)
        state = tmp_path / f"state-{turn}.json"
        state.write_text(json.dumps(told.live))
        events = trace(library, folder, "tests.collections.power_worker", folder, turn, state, OPERATIONS)
        for event in events:
            if event.kind == "S":
                for step in json.loads(event.data)[1]:
                    NUMBERS.update({vector(n).tobytes(): n for n, _ in step.get("records", {}).values()})
                    counts[step.get("do", "receipt")] += json.loads(event.data)[0] == "done"
        chosen = points(events, choose, OF_ONE_TRACE)
        last = choose.randrange(OF_ONE_TRACE // 2, OF_ONE_TRACE)
        following = told
        place = 0
        for cut, point in enumerate(chosen):
            for event in events[place:point]:
                disk.follow(event)
                if event.kind == "S":
                    told.hear(event.data, disk)
            place = point
            mode = choose.choice(MODES)
            left = tmp_path / "left"
            disk.cut(left, choose, mode)
            if cut == last:
                shutil.copytree(left, tmp_path / f"turn-{turn + 1}")
            try:
                after = check(left, told)
            except BaseException as error:
                seed = f"turn {turn}, cut {cut} before event {point} of {len(events)}, of the unsynced: {mode}"
                error.args = (f"{seed}: {error}",)
                raise
            if cut == last:
                following = after
            counts["cuts"] += 1
            counts["something could be lost"] += disk.at_risk() > 0
            counts["during an operation"] += bool(told.under_way)
            counts["completed at the next open"] += after.erasures > told.erasures
            shutil.rmtree(left)
        for event in events[place:]:
            disk.follow(event)
        assert disk.differences(folder) == [], "the trace must have everything"
        shutil.rmtree(folder)
        told = following
    print(dict(counts))
    assert counts["something could be lost"] >= counts["cuts"] // 8, "or this shows nothing"
    assert counts["forget"], "or this shows nothing"
    assert told.destroyed, "keys must have been destroyed, or this shows nothing"
