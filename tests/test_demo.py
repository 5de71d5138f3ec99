"""The demo runs to its end on fewer words, and what it says is what it found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lethevec
from lethevec import datasets, demo

pytest.importorskip("cryptography")
COMMAND = [sys.executable, "-m", "lethevec.demo", "--words", "5000", "--queries", "60"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where the demo runs; a file of somebody else's lies in the way."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "lethevec-demo").mkdir()
    (folder / "lethevec-demo" / "words.lethe").write_text("left by an earlier run")
    (folder / "lethevec-demo" / "mine.txt").write_text("not the demo's")
    return folder


@pytest.fixture(scope="module")
def output(folder) -> str:
    """What a short run prints; in a process of its own, since it tells Faiss how many threads to use."""
    done = subprocess.run(COMMAND, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_forgetting_is_seen(output):
    before, after = (line.split(", ") for line in re.findall(r"nearest to 'paris': (.*)", output))
    assert "london" in before
    assert not [word for word in after if word.startswith("l")]
    assert [word for word in before if not word.startswith("l")] == after[: len(before) - 1]
    assert len(re.findall(r"\bequal$", output, re.MULTILINE)) == 3
    assert "DIFFERENT" not in output


def test_the_bytes_are_there_before_and_not_after(output):
    records = datasets.word_records(5000)
    hers = sum(subject == demo.OWNER for subject in records.subjects or [])
    assert f"all {hers:,} words" in output
    assert re.search(rf"^  {hers:,} of her vectors\.$", output, re.MULTILINE)
    found = re.findall(rf"^  (words\.lethe\S*) +[\d,]+ +([\d,]+) of {hers:,}$", output, re.MULTILINE)
    assert "words.lethe" in dict(found)
    assert {count for _, count in found} == {"0"}


def test_the_receipt_is_valid_and_every_check_was_made(output):
    assert "The receipt is valid" in output
    assert "FAILED" not in output
    for check in ("signature", "chain", "digest", "absent", "digest after", "unused bytes", "about", "residue"):
        assert re.search(rf"^  {check} +passed ", output, re.MULTILINE), check


def test_what_is_left_can_be_used(output, folder):
    place = folder / "lethevec-demo"
    assert (place / "mine.txt").read_text() == "not the demo's"
    assert not list(place.glob("never*"))
    with lethevec.open(place / "words.lethe") as db:
        assert demo.OWNER not in db.subjects()
        assert db.verify((place / "receipt.json").read_text())


def test_the_commands_that_it_gives_work(output, folder):
    pytest.importorskip("click")
    lines = re.findall(r"^  \S*lethevec ((?:info|search|forget|verify|--help).*)$", output, re.MULTILINE)
    assert len(lines) == 5
    for line in lines:
        command = [sys.executable, "-m", "lethevec.cli", *line.split()]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=dict(os.environ))
        assert done.returncode == 0, f"{line}: {done.stderr}"


def test_recall_of_each_family(output):
    rows = {
        m[1]: [float(n) for n in m[2].split()] for m in re.finditer(r"^  ([a-z-]+)((?: +[\d.]+){3})$", output, re.M)
    }
    assert list(rows) == list(demo.FAMILIES)
    for family, (_, hamming, asymmetric) in rows.items():
        assert asymmetric > hamming > 0.1, family
    # The order of the paper, and ours above it.
    last = {family: row[-1] for family, row in rows.items()}
    assert last["progressive"] > last["usr"] > last["superbit"] > last["simhash"]


def test_faiss_or_how_to_get_it(output):
    pytest.importorskip("faiss")
    found = re.search(r"lethevec\.Index, defaults +([\d.]+)", output)
    assert found is not None
    assert float(found[1]) >= 0.95
    assert re.search(r"faiss\.IndexFlatIP \(exact\) +1\.000", output)


def test_without_faiss(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "faiss", None)
    demo.beside_faiss(np.ones((4, 4), dtype=np.float32), np.zeros((2, 10), dtype=np.int64), np.arange(2))
    assert "pip install faiss-cpu" in capsys.readouterr().out


def test_a_trace_would_be_found(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
    path = tmp_path / "some.file"
    path.write_bytes(b"abc" + vectors[1, 4:8].tobytes() + b"x" * 100 + vectors[2].tobytes())
    assert demo.count_present(path, vectors) == 2


@pytest.mark.parametrize("arguments", [["--words", "100"], ["--words", "20001"], ["--queries", "0"]])
def test_arguments_out_of_range(arguments, capsys):
    with pytest.raises(SystemExit):
        demo.main(arguments)
    assert "expected --words from 5000 to 20000" in capsys.readouterr().err
