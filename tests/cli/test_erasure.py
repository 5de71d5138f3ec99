"""`forget` and `verify`, from outside."""

from __future__ import annotations

import base64
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
    undecided = [check["name"] for check in outcome["checks"] if not check["passed"]]
    assert undecided == ["trusted key"]
    key = run("receipts", "key", store).stdout.strip()
    assert all(check["passed"] for check in ask(*arguments, "--key", key)["checks"])
    assert "verified  yes" in run(*arguments).stdout
    assert ask("verify", store, "-", stdin=(tmp_path / "r.json").read_text())["verified"]
    assert ask("verify", store, answer["receipt"]["sequence"])["verified"]
    wrong = ask("verify", store, "--subject", "bob-the-second", code=1)
    assert [check["name"] for check in wrong["checks"] if check["passed"] is False] == ["about"]
    changed = {**answer["receipt"], "records": 19}
    (tmp_path / "r2.json").write_text(lethevec.Receipt(changed).to_json())
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
    assert ask("verify", "--chain", "chain.jsonl", "--key", key)["verified"]
    run("verify", "--chain", "chain.jsonl", "--key", "00" * 32, code=1)
    assert "64 hexadecimal digits" in run("verify", "--chain", "chain.jsonl", "--key", "zz", code=1).stderr
    lines = (tmp_path / "chain.jsonl").read_text().splitlines()
    (tmp_path / "cut.jsonl").write_text("\n".join([lines[0], lines[2]]))
    assert not ask("verify", "--chain", "cut.jsonl", code=1)["verified"]


def test_a_receipt_by_itself(run, ask, store, tmp_path):
    run("forget", store, "1", "--receipt", "r.json")
    (tmp_path / "key.pem").write_text(run("receipts", "key", store, "--pem").stdout)
    key = run("receipts", "key", store).stdout.strip()
    assert key == ask("info", store)["public_key"] == ask("receipts", "key", store)["hex"]
    store.unlink()  # nothing but the receipt and the key
    told = run("verify", "r.json", "--key", key).stdout
    assert "verified  yes" in told
    assert "This proves that" in told
    assert "This does not prove that" in told
    assert ask("verify", "r.json", "--key", "key.pem")["verified"]
    assert ask("verify", "-", "--key", "key.pem", stdin=(tmp_path / "r.json").read_text())["verified"]
    assert "--key: expected the public key" in run("verify", "r.json", code=1).stderr
    assert not ask("verify", "r.json", "--key", "00" * 32, code=1)["verified"]
    text = (tmp_path / "r.json").read_text()
    (tmp_path / "twice.json").write_text(text.replace('"kind":', '"kind":"drop","kind":', 1))
    assert "a key twice" in run("verify", "twice.json", "--key", key, code=1).stderr
    assert "nothing there" in run("verify", "none.json", "--key", key, code=1).stderr
    run("verify", "r.json", "--key", key, "--subject", "ann", code=2)


def test_a_chain_against_its_anchor(run, ask, store, tmp_path):
    run("forget", store, "1")
    (tmp_path / "anchor.txt").write_text(run("receipts", "anchor", store).stdout)
    run("forget", store, "2")
    run("export", store, "chain.jsonl", "--receipts")
    listed = run("receipts", "list", store).stdout
    assert listed.count("erasure") == 2
    assert len(ask("receipts", "list", store)) == 3
    assert ask("verify", "--chain", "chain.jsonl", "--anchor", "anchor.txt")["verified"]
    assert ask("verify", store, "--anchor", ask("receipts", "anchor", store)["anchor"])["verified"]
    lines = (tmp_path / "chain.jsonl").read_text().splitlines()
    (tmp_path / "cut.jsonl").write_text("\n".join(lines[:1]))
    assert "cut at its end" in run("verify", "--chain", "cut.jsonl", "--anchor", "anchor.txt", code=1).stdout
    (tmp_path / "middle.jsonl").write_text("\n".join([lines[0], lines[2]]))
    assert "receipt 1 is missing" in run("verify", "--chain", "middle.jsonl", code=1).stdout
    assert "nothing but the chain itself vouches" in run("verify", "--chain", "chain.jsonl").stdout


def test_a_replaced_chain_fails(run, ask, store, template, tmp_path, vectors):
    """Another store in the place of this one, with a chain that is right in itself: the key file speaks against it."""
    keys = (tmp_path / "people.lethe-keys").read_bytes()
    store.unlink()
    (tmp_path / "people.lethe-keys").unlink()
    with lethevec.open(store, dim=6, metric="l2") as db:
        db.add(vectors, ids=range(len(vectors)))
        db.forget([1])
        theirs = db.public_key().hex()
    assert ask("verify", store)["verified"]
    (tmp_path / "people.lethe-keys").write_bytes(keys)
    wrong = ask("verify", store, code=1)
    assert "key file" in [check["name"] for check in wrong["checks"] if check["passed"] is False]
    (tmp_path / "people.lethe-keys").unlink()
    # Without the key file nothing contradicts, and nothing but the chain vouches: it says so.
    alone = ask("verify", store)
    assert [c["detail"] for c in alone["checks"] if c["name"] == "trusted key"] == [
        "none was given: nothing but the chain itself vouches for it"
    ]
    assert ask("verify", store, "--key", theirs)["verified"]
    ours = json.loads(keys)["signing"]["public"]
    assert not ask("verify", store, "--key", base64.b64decode(ours).hex(), code=1)["verified"]
