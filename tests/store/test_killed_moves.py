"""kill -9 at random moments of `import`, `export` and a backup: 9 times, or as LETHEVEC_KILLS says.

An import is there as a whole or not at all, the store opens and verifies, and the same import can be run again. An
export that was killed has no file under its name or a whole one, and what it had begun is gone after the next open or
forget.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lethevec import datasets
from lethevec._forgetting.verify import verify_chain
from lethevec._store import open as open_store

pytest.importorskip("click")

KILLS = int(os.environ.get("LETHEVEC_KILLS", "9"))
DIM, OLD, NEW = 8, 50, 6000
VECTORS = np.random.default_rng(8).normal(size=(OLD + NEW, DIM)).astype(np.float32)


def start(*arguments: object) -> subprocess.Popen[bytes]:
    """A command in a process of its own, which says when it has begun."""
    code = "import sys; from lethevec.cli.app import cli; print('go', flush=True); cli(sys.argv[1:])"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def run_and_kill(seconds: float, *arguments: object) -> bool:
    """Let a command run for so long, and kill it; whether it was still running."""
    with start(*arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        time.sleep(seconds)
        running = process.poll() is None
        process.kill()
    return running


def duration(*arguments: object) -> float:
    """How long a command takes."""
    with start(*arguments) as process:
        assert process.stdout is not None
        process.stdout.readline()
        begin = time.monotonic()
        assert process.wait() == 0
    return time.monotonic() - begin


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Records to import."""
    path = tmp_path / "records.jsonl"
    rows = ({"id": f"new-{i}", "vector": VECTORS[OLD + i].tolist(), "subject": f"s{i % 9}"} for i in range(NEW))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_killed_imports(tmp_path: Path, source: Path) -> None:
    """In one batch and in many: all or nothing either way."""
    choose, seen = random.Random(1), []
    takes = None
    for turn in range(KILLS):
        path = tmp_path / f"{turn}.lethe"
        with open_store(path, DIM, "l2") as db:
            db.add(VECTORS[:OLD], ids=range(OLD))
            receipt = db.forget([0])
        command = ("import", path, source, "--batch", choose.choice([100, 1000, 10_000]))
        if takes is None:
            takes = duration(*command)
            seen.append(NEW)
            continue
        run_and_kill(choose.uniform(0.1, 1.1) * takes, *command)
        with open_store(path) as db:
            count = len(db) - (OLD - 1)
            assert count in (0, NEW)
            assert db.verify(receipt)
            assert verify_chain(db.receipts(all_kinds=True))
        if not count:
            duration(*command)  # the same import again
        with open_store(path, read_only=True) as db:
            assert len(db) == OLD - 1 + NEW
            assert db.search(VECTORS[OLD + 5], k=1).ids[0].tolist() == ["new-5"]
        seen.append(count)
    assert KILLS < 20 or 0 in seen


@pytest.mark.parametrize("name", ["copy.jsonl", "copy.npz", "copy.lethe"])
def test_killed_exports(tmp_path: Path, name: str) -> None:
    choose, path = random.Random(2), tmp_path / "people.lethe"
    with open_store(path, DIM, "l2") as db:
        db.add(VECTORS, ids=[f"id-{i}" for i in range(OLD + NEW)], subjects="s")
    takes, left = 0.0, 0
    for turn in range(max(3, KILLS // 3)):
        apart = tmp_path / f"apart-{turn}"
        apart.mkdir()
        command = ("export", path, apart / name)
        if turn == 0:
            takes = duration(*command)
            continue
        run_and_kill(choose.uniform(0.1, 1.1) * takes, *command)
        left += any(file.name != name for file in apart.iterdir())
        with open_store(path) as db:
            if turn % 2:
                db.forget([f"id-{turn}"])
            assert verify_chain(db.receipts(all_kinds=True))
            there = len(db)
        # A note that was not complete yet may stay: it holds a path, and no copy had begun.
        notes = [file.name for file in tmp_path.iterdir() if "-copy-" in file.name]
        assert [note for note in notes if not note.endswith(".new")] == []
        assert [file.name for file in apart.iterdir()] in ([], [name])
        if (apart / name).exists():
            now = there + turn % 2
            if name.endswith(".lethe"):
                with open_store(apart / name, read_only=True) as copied:
                    assert len(copied) == now
            else:
                assert len(datasets.read_records(apart / name)) == now
    assert KILLS < 60 or left
