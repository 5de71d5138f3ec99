"""The power goes: what was not synced is lost, or half there. 20 times each for a store in the clear, a sealed one, and
one whose keys lie in another folder; or as often as LETHEVEC_KILLS says.

A worker makes a store and writes to it while every call that changes a file is traced (power_trace.c). From the trace
come folders as a disk may hold them when the power goes between two of those calls (power_disk.py). Each of them is
opened: what was acknowledged is there, what was under way is there as a whole or not at all, every acknowledged
receipt is in a chain that verifies, and no file has a byte of what was acknowledged as forgotten, even before the store
is opened, or of what was forgotten at all, once it is open. One of the folders is where the next worker goes on.
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

from lethevec._forgetting.verify import verify_chain
from lethevec._store import open as open_store
from lethevec._store.vault import HEADER, KEY

from .conftest import account, find_leftovers
from .crash_worker import DIM, vector
from .power_disk import MODES, Disk, Event, build_library, points, trace
from .power_worker import LAYOUTS, options
from .test_crash import apply, held

CUTS = int(os.environ.get("LETHEVEC_KILLS", "20"))
OF_ONE_TRACE = 10
NAME = "s.lethe"


def vault_of(layout: str) -> str:
    """Where the vault is, below the folder of the store."""
    return str(LAYOUTS[layout].get("keys", NAME + "-keys")) + "-vault"


@dataclass
class Told:
    """What a worker has said, and what follows from it."""

    vault: str
    live: dict[str, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    forgets: int = 0
    made: bool = False
    under_way: list[dict] | None = None
    receipt: str | None = None  # the hash of the newest that was seen
    erased: set[int] = field(default_factory=set)  # those of `gone` that no file may hold any more
    at_open: set[int] = field(default_factory=set)  # those of whom this is so once the store has been opened again
    keys: set[bytes] = field(default_factory=set)  # every key that was seen in the vault
    destroyed: set[bytes] = field(default_factory=set)

    def hear(self, text: bytes, disk: Disk) -> None:
        """One line of the worker."""
        kind, steps = json.loads(text)
        if kind == "open":
            self.made, self.erased = True, self.erased | self.at_open
        elif kind == "begin":
            self.under_way = steps
        elif kind == "done":
            forgets = apply(steps, self.live, self.gone)
            self.forgets += forgets
            self.under_way = None
            if forgets:
                self.erased = set(self.gone)
                self.destroyed |= self.keys - keys_in(disk.read(self.vault))
        elif steps:
            self.receipt = steps[0]["hash"]
        self.keys |= keys_in(disk.read(self.vault))


def keys_in(vault: bytes) -> set[bytes]:
    """The keys of a vault."""
    return {vault[at : at + KEY] for at in range(HEADER, len(vault), KEY)} - {bytes(KEY)}


def trace_worker(library: Path, folder: Path, seed: int, live: dict[str, int], layout: str) -> list[Event]:
    """Let a worker do a number of operations, and return what it did to its files."""
    state = folder.with_suffix(".json")
    state.write_text(json.dumps(live))
    return trace(library, folder, "tests.store.power_worker", folder / NAME, seed, state, 15, layout)


def check(folder: Path, told: Told, layout: str) -> Told:
    """Open what is left, and see that everything holds; what is known from now on."""
    assert find_leftovers(folder, vectors=[vector(n) for n in sorted(told.erased)[-200:]]) == []
    vault = folder / told.vault
    if vault.exists():
        assert not keys_in(vault.read_bytes()) & told.destroyed, "a destroyed key came back"
    now = copy.deepcopy(told)
    given = options(folder, layout)
    if told.made:
        attempted = dict(told.live)
        apply(told.under_way or [], attempted, set())
        keys = {name: value for name, value in given.items() if name == "keys"}
        with open_store(folder / NAME, read_only=True, **keys) as db:
            assert held(db) in (told.live, attempted), "what a reader sees"
    with open_store(folder / NAME, DIM, "l2", **given) as db:
        found = held(db)
        if told.under_way is not None:
            attempted, gone = dict(told.live), set(told.gone)
            forgets = apply(told.under_way, attempted, gone)
            # A forget of nothing leaves the records as they are, and is known by its receipt alone.
            if found == attempted and (found != told.live or len(db.receipts()) == told.forgets + forgets):
                now.live, now.gone, now.forgets = attempted, gone, told.forgets + forgets
                now.at_open = set(gone) if forgets else told.at_open
        assert found == now.live, f"during {told.under_way}"
        assert len(db) == len(now.live)
        assert db.pending_erasures() == 0
        erasures = db.receipts()
        assert len(erasures) == now.forgets
        chain = db.receipts(all_kinds=True)
        assert told.receipt is None or told.receipt in {receipt.hash() for receipt in chain}
        assert verify_chain(chain)
        if erasures:
            assert db.verify(erasures[-1])
        assert find_leftovers(folder, vectors=[vector(n) for n in sorted(now.gone)[-200:]]) == []
        if now.live:
            id, number = sorted(now.live.items())[-1]
            assert db.search(vector(number), k=1).ids.tolist() == [[id]]
    assert account(folder / NAME) == {}
    assert find_leftovers(folder, vectors=[vector(n) for n in sorted(now.gone)[-200:]]) == []
    now.under_way = None
    return now


@pytest.mark.parametrize("layout", LAYOUTS)
def test_power_cut(tmp_path: Path, layout: str):
    library = build_library(tmp_path)
    choose = random.Random(3)
    told = Told(vault_of(layout))
    counts: Counter[str] = Counter()
    for turn in range(max(2, CUTS // OF_ONE_TRACE)):
        folder = tmp_path / f"turn-{turn}"
        if turn == 0:
            (folder / "elsewhere").mkdir(parents=True)
        disk = Disk(folder)
        events = trace_worker(library, folder, turn, told.live, layout)
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
            seed = f"turn {turn}, cut {cut} before event {point} of {len(events)}, of the unsynced: {mode}"
            try:
                after = check(left, told, layout)
            except BaseException as error:
                error.args = (f"{seed}: {error}",)
                raise
            if cut == last:
                following = after
            counts["cuts"] += 1
            counts["something could be lost"] += disk.at_risk() > 0
            counts["during an operation"] += told.under_way is not None
            counts["forgets completed at the next open"] += after.forgets > told.forgets
            shutil.rmtree(left)
        for event in events[place:]:
            disk.follow(event)
        assert disk.differences(folder) == [], "the trace must have everything"
        shutil.rmtree(folder)
        told = following
    print(f"{layout}: {dict(counts)}")
    assert counts["something could be lost"] >= counts["cuts"] // 8, "or this shows nothing"
    if layout != "plain":
        assert told.destroyed, "keys must have been destroyed, or this shows nothing"
