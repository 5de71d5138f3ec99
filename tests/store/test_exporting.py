"""`export` and tables: what is asked for, read back bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

import lethevec
from lethevec import datasets
from lethevec.errors import FileError, FormatError, LethevecError, UnknownIdError

X = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
SUBJECTS = [f"s{n % 3}" for n in range(30)]
PAYLOADS = [{"n": n, "ä": [n]} for n in range(30)]


@pytest.fixture
def db(tmp_path):
    with lethevec.open(tmp_path / "a.lethe", dim=5, metric="l2") as opened:
        opened.add(X, ids=[f"id{n:02d}" for n in range(30)], subjects=SUBJECTS, payloads=PAYLOADS)
        yield opened


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet", ".arrow", ".npz"])
@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, range(30)),
        ({"subject": "s1"}, range(1, 30, 3)),
        ({"where": {"n": {"$lt": 7}}}, range(7)),
        ({"where": {"n": {"$lt": 7}}, "subject": "s2"}, (2, 5)),
    ],
)
def test_an_export_is_read_back(db, tmp_path, suffix, asked, wanted):
    path = tmp_path / f"out{suffix}"
    assert db.export(path, **asked) == len(wanted)
    read = datasets.read_records(path)
    places = [int(id[2:]) for id in read.ids]
    assert sorted(places) == list(wanted)
    assert np.array_equal(read.vectors, X[places])
    assert read.subjects == [SUBJECTS[place] for place in places]
    payloads = [json.loads(one) if isinstance(one, str | bytes) else one for one in read.payloads]
    assert payloads == [PAYLOADS[place] for place in places]


def test_a_record_without_a_vector(db, tmp_path):
    db.upsert(None, ids=["bare"], payloads=[{"n": 99}])
    assert db.export(tmp_path / "out.jsonl", where={"n": 99}) == 1
    assert json.loads((tmp_path / "out.jsonl").read_text())["vector"] is None
    table = db.to_arrow(where={"n": {"$gte": 29}})
    assert [row["vector"] is None for row in sorted(table.to_pylist(), key=lambda row: row["id"])] == [True, False]
    with pytest.raises(FormatError, match="bare"):
        db.export(tmp_path / "out.npy")
    assert not (tmp_path / "out.npy").exists()


def test_a_table(db):
    table = db.to_arrow(subject="s0")
    assert table.column_names == ["id", "subject", "payload", "expires", "vector"]
    assert table.num_rows == 10
    index = lethevec.Index(dim=5, metric="l2")
    index.add(table["vector"], ids=range(10))
    assert len(index) == 10
    assert db.to_arrow(where={"n": -1}).num_rows == 0


def test_what_is_refused(db, tmp_path):
    before = db.digest()
    with pytest.raises(FormatError, match=r"\.txt"):
        db.export(tmp_path / "a.txt")
    with pytest.raises(FormatError):
        db.export(tmp_path / "a.lethe")
    with pytest.raises(UnknownIdError, match="nobody"):
        db.export(tmp_path / "a.csv", subject="nobody")
    with pytest.raises(LethevecError):
        db.export(tmp_path / "a.csv", where={"n": {"$above": 1}})
    (tmp_path / "link.jsonl").symlink_to(db.path)
    with pytest.raises(FileError, match="itself"):
        db.export(tmp_path / "link.jsonl")
    assert db.digest() == before
    assert not (tmp_path / "a.csv").exists()
