"""The demo runs to its end on fewer words, and what it says is what it found."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from lethevec import demo


@pytest.fixture(scope="module")
def output() -> str:
    """What a short run prints; in a process of its own, since it tells Faiss how many threads to use."""
    command = [sys.executable, "-m", "lethevec.demo", "--words", "5000", "--queries", "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_neighbours_of_each_family(output):
    assert output.count("nearest to 'piano' by 200 bits") == 1
    for word in ("france", "guitar", "doctors"):
        assert word in output
    rows = {
        m[1]: [float(n) for n in m[2].split()] for m in re.finditer(r"^  ([a-z-]+)((?: +[\d.]+){6})$", output, re.M)
    }
    assert list(rows) == list(demo.FAMILIES)
    for family, (_, hamming, asymmetric, _, more_hamming, more_asymmetric) in rows.items():
        assert asymmetric > hamming > 0.1, family
        assert more_asymmetric > asymmetric, family
        assert more_asymmetric > more_hamming, family
    # The order of the paper, and ours above it.
    last = {family: row[-1] for family, row in rows.items()}
    assert last["progressive"] > last["usr"] > last["superbit"] > last["simhash"]
    assert rows["faiss-lsh"][1:3] == rows["superbit"][1:3]


def test_forgetting_is_seen(output):
    before, after = re.findall(r"nearest to 'paris': (.*)", output)
    assert "london" in before.split(", ")
    assert not [word for word in after.split(", ") if word.startswith("l")]
    assert [word for word in before.split(", ") if not word.startswith("l")] == after.split(", ")[: after.count(", ")]
    assert len(re.findall(r"\bequal$", output, re.MULTILINE)) == 3
    assert "DIFFERENT" not in output
    (kept, asked), (left, same) = re.findall(r"([\d,]+) of ([\d,]+)$", output, re.MULTILINE)
    assert kept == asked == same
    assert int(asked.replace(",", "")) > 100
    assert left == "0"


def test_faiss_or_how_to_get_it(output):
    pytest.importorskip("faiss")
    found = re.search(r"lethevec\.Index, as it comes +([\d.]+)", output)
    assert found is not None
    assert float(found[1]) >= 0.95
    assert re.search(r"faiss\.IndexFlatIP \(exact\) +1\.000", output)


def test_without_faiss(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "faiss", None)
    demo.beside_faiss(np.ones((4, 4), dtype=np.float32), lambda rows: rows[:, None], np.arange(2))
    assert "pip install faiss-cpu" in capsys.readouterr().out


def test_a_trace_would_be_found():
    vectors = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
    data = b"abc" + vectors[1, 4:8].tobytes() + b"x" * 100 + vectors[2].tobytes()
    assert demo.count_present(data, vectors) == 2


def test_arguments_are_checked(capsys):
    with pytest.raises(SystemExit):
        demo.main(["--words", "10"])
    assert "expected 5000 to 20000" in capsys.readouterr().err
