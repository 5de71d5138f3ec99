"""Processes that die in the middle of an erasure over collections: 12 of them, or as LETHEVEC_KILLS says.

After each: the next `connect` completes it, there is one receipt, it verifies, nobody is half forgotten, and no file of
the folder has a byte of the person. The steps at which they die are spread over the whole call; with more kills than
there are steps, every step has its turn.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lethevec

from .conftest import PEOPLE

KILLS = int(os.environ.get("LETHEVEC_KILLS", "12"))
WORKER = Path(__file__).with_name("kill_worker.py")


def run(folder: Path, deadly: int, what: str, whom: str) -> int | None:
    """How many steps it took, or None if it died."""
    command = [sys.executable, str(WORKER), str(folder), str(deadly), what, whom]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=120)
    if done.returncode == 9:
        return None
    assert done.returncode == 0
    return int(done.stdout)


def places(steps: int, kills: int) -> list[int]:
    """Where to die: evenly spread, each place once as long as there are enough."""
    if kills >= steps:
        return [*range(1, steps + 1)] * (kills // steps)
    return sorted({1 + round(place * (steps - 1) / max(1, kills - 1)) for place in range(kills)})


def test_dying_in_the_middle_of_forgetting_a_person(filled, folder, tmp_path, residue):
    filled.close()
    template = tmp_path / "template"
    shutil.move(folder, template)
    shutil.copytree(template, folder)
    steps = run(folder, 0, "forget", PEOPLE[0])
    assert steps is not None
    died = completed = 0
    for place in places(steps, KILLS):
        shutil.rmtree(folder)
        shutil.copytree(template, folder)
        died += run(folder, place, "forget", PEOPLE[0]) is None
        with lethevec.connect(folder) as db:
            assert db.pending_erasures() == 0
            counts = [db.collection(name).subjects().get(PEOPLE[0], 0) for name in db.collections()]
            receipts = db.receipts()
            if receipts:
                completed += 1
                (receipt,) = receipts
                assert counts == [0, 0, 0]
                assert receipt.records == 42
                assert len(receipt.parts()) == 3
                assert lethevec.verify(receipt, key=db.public_key())
                outcome = db.verify(receipt, subject=PEOPLE[0])
                assert outcome, str(outcome)
                assert residue(0) == []
            else:
                # It died before it was written down, and nothing was deleted.
                assert place <= 2
                assert counts == [14, 14, 14]
            assert lethevec.verify_chain(db.receipts(all_kinds=True), key=db.public_key())
            assert db.collection("photos").search([0.0] * 8, k=3).ids.shape == (1, 3)
            db.close()
            assert not residue(0) or not receipts
    print(f"{died} died in {steps} steps, {completed} erasures were complete at the next open")
    assert died >= min(KILLS, steps) - 1
    assert completed


@pytest.mark.parametrize("name", ["photos", "voices"])
def test_dying_in_the_middle_of_a_drop(filled, folder, tmp_path, name):
    filled.close()
    template = tmp_path / "template"
    shutil.move(folder, template)
    shutil.copytree(template, folder)
    steps = run(folder, 0, "drop", name)
    assert steps is not None
    for place in places(steps, KILLS // 2):
        shutil.rmtree(folder)
        shutil.copytree(template, folder)
        run(folder, place, "drop", name)
        with lethevec.connect(folder) as db:
            assert db.pending_erasures() == 0
            if receipts := db.receipts():
                assert [receipt.kind for receipt in receipts] == ["drop"]
                assert name not in db
                assert len(list(folder.glob("c-*.lethe"))) == 2
                content = b"".join(path.read_bytes() for path in folder.iterdir())
                assert f"of {name}".encode() not in content
            else:
                assert place <= 2
                assert len(db.collection(name)) == 40
