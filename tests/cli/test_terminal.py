"""What a person at a terminal sees while a command works: a line with a rate; and that nobody else sees it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lethevec

pty = pytest.importorskip("pty")

# The lines come after a second. Here they come at once, so that little work is enough to see them.
AT_ONCE = "import lethevec._progress as p; p.DELAY = p.INTERVAL = 0.0; from lethevec.cli import main; main()"

RATES = {"records": r"[\d,]+ records/s", "bytes": r"[\d.]+ ([kMG]B|B)/s", "queries": r"[\d,]+ queries/s"}
RATES["receipts"] = r"[\d,]+ receipts/s"


def run(folder: Path, *arguments: str, terminal: bool) -> tuple[str, str]:
    """Run a command whose stderr is a terminal, or is not; what goes to stdout, and to stderr."""
    command = [sys.executable, "-c", AT_ONCE, *arguments]
    environment = {**os.environ, "COLUMNS": "200"}
    if not terminal:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        )
        return done.stdout, done.stderr
    ours, theirs = pty.openpty()
    with (folder / "stdout").open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=theirs
        )
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # the last of those who could write has gone
            pass
    os.close(ours)
    assert process.wait() == 0, shown.decode()
    return (folder / "stdout").read_text(errors="replace"), shown.decode()


def screen(shown: str) -> str:
    """What is left on the last line of the terminal."""
    line = ""
    for part in shown.split("\n")[-1].split("\r"):
        line = part + line[len(part) :]
    return line.rstrip()


# What to run, and each line that is shown while it runs, with its rate.
COMMANDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "add": (["add", "new.lethe", "x.npy"], {"adding": "records"}),
    "search": (["search", "people.lethe", "x.npy", "--json"], {"loading": "records", "searching": "queries"}),
    "tune": (["tune", "people.lethe", "x.npy"], {"tuning": "queries"}),
    "tune by records": (["tune", "people.lethe"], {"choosing queries": "records", "tuning": "queries"}),
    "export": (["export", "people.lethe", "x.jsonl"], {"exporting": "records"}),
    "backup": (["export", "people.lethe", "x.lethe"], {"copying": "records"}),
    "restore": (["import", "copy.lethe", "old.lethe"], {"copying": "bytes", "loading": "records"}),
    "import": (["import", "people.lethe", "y.npy", "--present", "skip"], {"importing": "records"}),
    "forget": (
        ["forget", "people.lethe", "--subject", "ann-the-first", "--search-all"],
        {"forgetting": "records", "clearing unused bytes": "bytes", "searching for what is left": "bytes"},
    ),
    "verify": (
        ["verify", "people.lethe", "--subject", "bob-the-second"],
        {"checking unused bytes": "bytes", "searching for what is left": "bytes"},
    ),
    "verify a chain": (["verify", "--chain", "chain.jsonl"], {"checking": "receipts"}),
}


@pytest.fixture
def folder(store, vectors) -> Path:
    """The store of the other tests with a receipt, and files to work on."""
    with lethevec.open(store) as db:
        db.forget(subject="bob-the-second")
        db.backup(store.parent / "old.lethe")
        chain = [receipt.to_json() + "\n" for receipt in db.receipts(all_kinds=True)]
    (store.parent / "chain.jsonl").write_text("".join(chain))
    np.save(store.parent / "x.npy", vectors[:20])
    np.save(store.parent / "y.npy", vectors)
    return store.parent


@pytest.mark.parametrize("name", COMMANDS)
def test_long_work_shows_a_rate_on_a_terminal(folder, name):
    arguments, wanted = COMMANDS[name]
    _, shown = run(folder, *arguments, terminal=True)
    for label, unit in wanted.items():
        assert re.search(rf"\r{re.escape(label)}  [^\r]*{RATES[unit]}", shown), f"{label}: {shown!r}"
    assert screen(shown) == "", "a line was left behind"


@pytest.mark.parametrize("name", COMMANDS)
def test_nobody_else_sees_it(folder, name):
    arguments, wanted = COMMANDS[name]
    out, error = run(folder, *arguments, terminal=False)
    assert "\r" not in out + error
    assert "/s" not in error
    for label in wanted:
        assert f"{label}  " not in error


def test_answers_are_the_same_with_a_terminal(folder):
    out, _ = run(folder, "search", "people.lethe", "x.npy", "--json", terminal=True)
    assert len([json.loads(line) for line in out.splitlines()]) == 20
    assert run(folder, "search", "people.lethe", "x.npy", "--json", terminal=False)[0] == out
