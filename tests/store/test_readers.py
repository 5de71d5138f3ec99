"""Three processes read while one writes, and every answer is checked against what the writer has said so far.

The writer notes in a shared file, before and after each change, what it is about to do and what is done. A reader takes
its answer between two looks at that file: what was there all the time must be there, what was gone all the time must
not. LETHEVEC_SECONDS says how long; `make test-long` takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import lethevec

SECONDS = float(os.environ.get("LETHEVEC_SECONDS", "3"))
READERS = 3

COMMON = r"""
import mmap, random, sys, time
import numpy as np
import lethevec

DIM, IDS = 8, 400
LEAST = 10  # changes and answers, however slow the machine is
path, board, seed, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
random.seed(seed)
# For each id two bytes: the version that is surely there (0: none) and the one that is on its way (255: leaving). After
# them one for each process, which says that it has opened the store.
file = open(board, "r+b")
board = mmap.mmap(file.fileno(), 0)
state = memoryview(board)[: 2 * IDS]


# Waits for the others, which may take long to start, and says when to stop.
def begin():
    board[2 * IDS + seed] = 1
    patience = time.monotonic() + 100
    while 0 in board[2 * IDS :] and time.monotonic() < patience:
        time.sleep(0.01)
    return time.monotonic() + seconds


def vector(id, version):
    return np.random.default_rng([id, version]).normal(size=DIM).astype(np.float32)
"""

WRITER = (
    COMMON
    + r"""
with lethevec.open(path) as db:
    changes, end = 0, begin()
    while changes < LEAST or time.monotonic() < end:
        some = random.sample(range(IDS), random.choice([1, 1, 5, 40]))
        live = [id for id in some if state[2 * id]]
        new = [id for id in some if not state[2 * id]]
        what = random.choice(["add", "update", "forget"])
        if what == "add" and new:
            for id in new: state[2 * id + 1] = 1
            db.add([vector(id, 1) for id in new], ids=new, subjects=[f"s{id % 9}" for id in new])
            for id in new: state[2 * id], state[2 * id + 1] = 1, 0
        elif what == "update" and live:
            versions = {id: state[2 * id] % 200 + 1 for id in live}
            for id in live: state[2 * id + 1] = versions[id]
            db.update([vector(id, versions[id]) for id in live], ids=live)
            for id in live: state[2 * id], state[2 * id + 1] = versions[id], 0
        elif what == "forget" and live:
            for id in live: state[2 * id + 1] = 255
            receipt = db.forget(live)
            for id in live: state[2 * id], state[2 * id + 1] = 0, 0
            assert receipt.records == len(live)
        changes += 1
print(changes)
"""
)

READER = (
    COMMON
    + r"""
with lethevec.open(path, read_only=True) as db:
    answers, end = 0, begin()
    while answers < LEAST or time.monotonic() < end:
        id = random.randrange(IDS)
        before = bytes(state)
        version = before[2 * id] or 1
        what = random.choice(["search", "search", "search", "get", "ids"])
        if what == "search":
            hits = db.search(vector(id, version), k=3)
            found = {int(one): float(far) for one, far in zip(hits.ids[0], hits.distances[0]) if np.isfinite(far)}
        elif what == "ids":
            found = dict.fromkeys(db.ids())
        else:
            try:
                [record] = db.get([id])
                found = {id: float(np.linalg.norm(record.vector - vector(id, version)))}
            except lethevec.errors.UnknownIdError:
                found = {}
        after = bytes(state)
        def calm(one):
            return before[2 * one : 2 * one + 2] == after[2 * one : 2 * one + 2] and not before[2 * one + 1]
        for one, far in found.items():
            if calm(one):
                assert before[2 * one], f"{what}: {one} was forgotten before the call began"
                if far is not None:
                    truth = float(np.linalg.norm(vector(one, before[2 * one]) - vector(id, version)))
                    assert abs(far - truth) < 1e-3, f"{what}: {one} is {truth} away, got {far}"
        if calm(id) and before[2 * id] and what != "ids":
            assert id in found, f"{what}: {id} was there all the time"
        if what == "ids":
            missing = [one for one in range(IDS) if calm(one) and before[2 * one] and one not in found]
            assert not missing, f"ids: {missing} were there all the time"
        answers += 1
print(answers)
"""
)


@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "sealed"])
def test_every_answer_is_one_that_could_be(tmp_path, encrypt):
    path, board = tmp_path / "people.lethe", tmp_path / "board"
    board.write_bytes(bytes(2 * 400 + 1 + READERS))
    lethevec.open(path, dim=8, metric="l2", encrypt=encrypt).close()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER if seed == 0 else READER, path, board, str(seed), str(SECONDS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(1 + READERS)
    ]
    done = [process.communicate(timeout=SECONDS + 300) for process in processes]
    for process, (_, error) in zip(processes, done, strict=True):
        assert process.returncode == 0, error[-3000:]
    changes, *answers = (int(out) for out, _ in done)
    print(f"{changes} changes, {sum(answers)} answers")
    assert min(changes, *answers) >= 10
    with lethevec.open(path) as db:
        live = [id for id in range(400) if board.read_bytes()[2 * id]]
        assert db.ids() == live
