"""`forget` and `verify`, from outside."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np

import lethevec
from lethevec.cli import erasure


def test_forget_and_verify(run, ask, store, tmp_path, vectors):
    answer = ask("forget", store, "--subject", "ann-the-first", "--receipt", "r.json", "--search-all")
    assert (answer["forgotten"], answer["records"]) == (20, 40)
    assert json.loads((tmp_path / "r.json").read_text()) == answer["receipt"]
    np.save(tmp_path / "gone.npy", vectors[::3])
    arguments = ["verify", store, "r.json", "--subject", "ann-the-first", "--vectors", "gone.npy"]
    outcome = ask(*arguments)
    assert outcome["verified"]
    assert {check["name"] for check in outcome["checks"]} >= {"signature", "absent", "about", "residue", "unused bytes"}
    assert all(check["passed"] for check in outcome["checks"])
    assert "verified  yes" in run(*arguments).stdout
    assert ask("verify", store, "-", stdin=(tmp_path / "r.json").read_text())["verified"]
    assert ask("verify", store, answer["receipt"]["sequence"])["verified"]
    wrong = ask("verify", store, "--subject", "bob-the-second", code=1)
    assert [check["name"] for check in wrong["checks"] if check["passed"] is False] == ["about"]
    changed = {**answer["receipt"], "records": 19}
    (tmp_path / "r2.json").write_text(json.dumps(changed))
    result = run("verify", store, "r2.json", code=1)
    assert "FAILED" in result.stdout
    assert "verified  NO" in result.stdout


def test_forget_ids(run, ask, store, tmp_path, digest):
    assert ask("forget", store, "3", "5")["forgotten"] == 2
    (tmp_path / "ids.txt").write_text("7\n\n8\n")
    assert ask("forget", store, "--ids-from", "ids.txt")["forgotten"] == 2
    assert ask("forget", store, "--ids-from", "-", stdin="9\n")["forgotten"] == 1
    before = digest(store)
    run("forget", store, "10", "3", code=1)
    assert digest(store) == before
    assert ask("forget", store, "10", "3", "--ignore-unknown")["forgotten"] == 1
    assert "got one that is there already" in run("forget", store, "11", "--receipt", "ids.txt", code=1).stderr
    # A file that cannot be written is refused before anything is forgotten; an unknown id leaves no empty file.
    assert "can be written" in run("forget", store, "11", "--receipt", "none/r.json", code=1).stderr
    assert run("search", store, "--id", "11", "-k", "1").stdout
    run("forget", store, "no such id", "--receipt", "new.json", code=1)
    assert not (tmp_path / "new.json").exists()
    assert "11" in [str(i) for i in range(60) if i in lethevec.open(store, read_only=True)]


def test_a_receipt_that_cannot_be_written(run, ask, store, tmp_path, monkeypatch):
    class Full:
        name = "r.json"

        def write(self, data):
            raise OSError("no space left")

    monkeypatch.setattr(erasure, "_receipt_file", lambda path: nullcontext(Full()))
    told = run("forget", store, "11", "--receipt", "r.json", code=1).stderr
    assert "the records are forgotten, but the receipt could not be written here (no space left)" in told
    assert "the store keeps it, with number 1" in told
    assert ask("verify", store, "1", "--id", "11")["verified"]


def test_a_terminal_is_asked_first(run, store, monkeypatch, digest):
    class Terminal:
        """What click reads from is replaced by its runner; only the question whether it is a terminal is ours."""

        def __getattr__(self, name):
            import sys

            return (lambda: True) if name == "isatty" else getattr(sys, name)

    class Sys:
        stdin = stdout = Terminal()

    monkeypatch.setattr(erasure, "sys", Sys)
    before = digest(store)
    result = run("forget", store, "--subject", "ann-the-first", code=1, stdin="n\n")
    assert "Forget 20 records of ann-the-first for good?" in result.output
    assert digest(store) == before
    run("forget", store, "--subject", "ann-the-first", stdin="y\n")
    run("forget", store, "--subject", "bob-the-second", "--yes")
    with lethevec.open(store) as db:
        assert db.subjects() == {"cem-the-third": 20}


def test_a_reader_in_the_way_is_code_4(run, store):
    import sqlite3

    other = sqlite3.connect(store)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM records").fetchone()
    try:
        result = run("forget", store, "3", "--timeout", "0", code=4)
        assert "erasure is not complete" in result.stderr
    finally:
        other.close()
    assert "1; 0 erasures wait" in run_after_opening(run, store)


def run_after_opening(run, store) -> str:
    lethevec.open(store).close()  # completes what waits
    return str(run("info", store).stdout)


def test_a_chain_by_itself(run, ask, store, tmp_path):
    run("forget", store, "1")
    run("forget", store, "2")
    run("export", store, "chain.jsonl", "--receipts")
    key = ask("info", store)["public_key"]
    assert ask("verify", "--chain", "chain.jsonl", "--first-key", key)["verified"]
    run("verify", "--chain", "chain.jsonl", "--first-key", "00" * 32, code=1)
    assert "64 hexadecimal digits" in run("verify", "--chain", "chain.jsonl", "--first-key", "zz", code=1).stderr
    lines = (tmp_path / "chain.jsonl").read_text().splitlines()
    (tmp_path / "cut.jsonl").write_text("\n".join([lines[0], lines[2]]))
    assert not ask("verify", "--chain", "cut.jsonl", code=1)["verified"]
