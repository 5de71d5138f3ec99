"""kill -9 at random points of adds, updates, upserts, forgets and transactions of them, in a real process: 20 times, or
as LETHEVEC_KILLS says.

After each kill: what was acknowledged is there, what was under way is there as a whole or not at all, every
acknowledged forget has its receipt, erasures are complete once the store is opened again, and no file has a byte of
what is gone. Then the same with codes that are kept, with images of cells, and with sealed records, half as often;
there, backups that were made on the way must in the end hold what lives, and nothing that was forgotten, as far as
anybody can read.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from lethevec import Index, Pivots
from lethevec._forgetting.verify import verify_chain
from lethevec._store import Store
from lethevec._store import open as open_store
from lethevec._store.vault import Vault

from ..index.pivots.conftest import native_state
from .conftest import account, find_leftovers
from .crash_worker import DIM, vector

KILLS = int(os.environ.get("LETHEVEC_KILLS", "20"))
CODES = {"family": "usr", "bits": 12 * DIM}
CELLS = {"source": Pivots(cell_size=4)}
WORKER = Path(__file__).with_name("crash_worker.py")


def run_and_kill(path: Path, seed: int, state: Path, after: float) -> list[list]:
    """Let a worker write for so many seconds, kill it, and return what it said."""
    command = [sys.executable, str(WORKER), str(path), str(seed), str(state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        lines = [worker.stdout.readline()]
        assert json.loads(lines[0])[0] == "open"
        time.sleep(after)
        assert worker.poll() is None, "the worker must not stop by itself"
        worker.kill()
        lines += worker.stdout.readlines()
    return [json.loads(line) for line in lines if line.endswith("\n")]


def apply(steps: list[dict], live: dict[str, int], gone: set[int]) -> int:
    """What operations do to the expected records; numbers of vectors that left go to `gone`. How many forget."""
    forgets = 0
    for step in steps:
        if step["do"].startswith("forget"):
            forgets += 1
            wanted = step.get("ids") or [id for id, number in live.items() if number % 7 == step["part"]]
            gone.update(live.pop(id) for id in wanted if id in live)
        else:
            for id, number in step["records"].items():
                if step["do"] != "add" and id not in live and id not in step.get("new", ()):
                    continue
                if id in live:
                    gone.add(live[id])
                live[id] = number
    return forgets


def payloads(numbers: Iterable[int]) -> list[dict]:
    """As the worker writes them."""
    return [{"n": number, "part": number % 7} for number in numbers]


def vault_keys(path: Path) -> list[bytes | None]:
    """Every key that a vault has or had."""
    vault = Vault(path, writable=False)
    keys = vault.get(range(vault.next))
    vault.close()
    return keys


def held(db: Store) -> dict[str, int]:
    """What the store holds, each record checked to be whole."""
    found = {}
    for record in db:
        number = record.payload["n"]
        assert np.array_equal(record.vector, vector(number)), "half a record"
        found[record.id] = number
    return found


def check_codes(db: Store) -> None:
    """Every record has a code in the file once the store is open, and it is what the vector gives: the search for
    leftovers cannot know codes of every gain, but what is neither this nor zero is found by `account`."""
    found = list(db._session.tables.read_from(0, 1 << 20))
    codes = db._codes.of([record.slot for record in found])
    assert None not in codes
    if found:
        rows = np.array([record.number for record in found])
        made = np.array([np.frombuffer(record.vector, dtype="<f4") for record in found])
        assert db._codes.keeper.differing(made, rows, codes) == 0
    (count,) = db._session.connection.execute("SELECT count(*) FROM main.codes").fetchone()
    assert count == len(found)


def check_cells(db: Store) -> None:
    """Whether the store was opened by an image or not, its cells are those that its records make."""
    index = db._mirror.index
    made = Index._of(index.config)
    if len(index):
        made.add(index.vectors(index.ids()), ids=index.ids())
        assert native_state(index) == native_state(made)


@pytest.mark.parametrize(
    ("kills", "encrypt", "index"),
    [
        (KILLS, False, None),
        (KILLS // 2, True, None),
        (KILLS // 2, False, CODES),
        (KILLS // 2, False, CELLS),
        (KILLS // 4, True, CODES),
    ],
    ids=["plain", "sealed", "codes", "images", "sealed codes"],
)
def test_kill_9(tmp_path: Path, kills: int, encrypt: bool, index: dict | None):
    choose = random.Random(12)
    folder = tmp_path / "store"
    folder.mkdir()
    path, state = folder / "s.lethe", tmp_path / "state.json"
    live: dict[str, int] = {}
    gone: set[int] = set()
    receipts = 0
    interrupted: Counter[str] = Counter()
    completed_at_open = 0
    backups: list[tuple[Path, set[str]]] = []
    gains: set[float] = set()
    images = 0  # opens that one was used for
    with open_store(path, DIM, "l2", encrypt=encrypt, index=index) as db:
        if encrypt:
            live = {f"first-{n:08d}": n for n in range(1, 61)}
            db.add([vector(n) for n in live.values()], ids=list(live), payloads=payloads(live.values()))
            backups.append((tmp_path / "backup", set(live)))
            db.backup(backups[-1][0])
    for kill in range(kills):
        state.write_text(json.dumps(live))
        said = run_and_kill(path, kill, state, choose.uniform(0.0, 0.25))
        under_way = None
        for kind, steps in said[1:]:
            under_way = steps if kind == "begin" else None
            if kind == "done":
                receipts += apply(steps, live, gone)
        with open_store(path) as db:
            now = held(db)
            if under_way is not None:
                interrupted["transaction" if len(under_way) > 1 else under_way[0]["do"]] += 1
                attempted, also_gone = dict(live), set(gone)
                forgets = apply(under_way, attempted, also_gone)
                # A forget of nothing leaves the records as they are, and is known by its receipt alone.
                if now == attempted and (now != live or len(db.receipts()) == receipts + forgets):
                    live, gone = attempted, also_gone
                    receipts += forgets
            assert now == live, f"kill {kill}, during {under_way}"
            assert len(db) == len(live)
            assert db.pending_erasures() == 0
            erasures = db.receipts()
            assert len(erasures) == receipts
            completed_at_open = sum(receipt["residue"]["records"] == 0 for receipt in erasures)
            assert verify_chain(db.receipts(all_kinds=True))
            assert find_leftovers(folder, vectors=[vector(n) for n in sorted(gone)[-400:]]) == []
            assert account(path) == {}
            gains.add(db._mirror.index.stats()["mean_norm"])
            if index is CODES:
                check_codes(db)
            if index is CELLS:
                check_cells(db)
                images += db._image.usable
            if live:
                id, number = choose.choice(sorted(live.items()))
                assert db.search(vector(number), k=1).ids.tolist() == [[id]]
            if erasures and kill % 5 == 4:
                assert db.verify(erasures[-1])
                fresh = tmp_path / f"fresh-{kill}"
                fresh.mkdir()
                with open_store(fresh / "f", DIM, "l2", index=index) as other:
                    numbers = list(live.values())
                    if numbers:
                        other.add([vector(n) for n in numbers], ids=list(live), payloads=payloads(numbers))
                    assert other.digest() == db.digest()
                if encrypt:
                    backups.append((tmp_path / f"backup-{kill}", set(live)))
                    db.backup(backups[-1][0])
    if encrypt and live:
        with open_store(path) as db:
            db.forget(sorted(live)[::2])
        for id in sorted(live)[::2]:
            del live[id]
    for backup, held_then in backups:
        with open_store(backup, read_only=True, keys=folder / "s.lethe-keys", drop_unreadable=True) as old:
            assert {record.id for record in old} == held_then & set(live)
    if encrypt:
        assert backups[0][1] - set(live), "something was forgotten since, or this is vain"
        readable = sum(key is not None for key in vault_keys(folder / "s.lethe-keys-vault"))
        assert len(live) < readable <= len(live) + 1 + 160 * kills, "a key too many only where an add was killed"
    print(
        f"{kills} kills, in the middle of {dict(interrupted)}; {completed_at_open} erasures completed at the next open"
    )
    if index is CODES:
        print(f"the gain of the codes was {sorted(gains)}")
    if index is CELLS:
        print(f"{images} images were used")
    assert sum(interrupted.values()) >= kills // 4, "kills must hit operations, or this shows nothing"
