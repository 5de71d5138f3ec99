"""`export` and tables: what is asked for, read back bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

import lethevec
from lethevec import datasets
from lethevec._store.fields import Fields
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


def test_a_wide_filter_is_evaluated_once(many, tmp_path, monkeypatch):
    """However many pages it takes, as long as nothing changes."""
    db = many
    evaluated = []
    select = Fields.select
    monkeypatch.setattr(Fields, "select", lambda *given: evaluated.append(1) or select(*given))
    for where, wanted in (
        ({"n": {"$gte": 7}}, range(7, MANY)),
        ({"n": {"$lt": 9000}}, range(9000)),
        ({"even": True}, range(0, MANY, 2)),
    ):
        evaluated.clear()
        assert db.export(tmp_path / "out.jsonl", where=where) == len(wanted)
        assert len(evaluated) == 2  # once to count
        read = [json.loads(line)["id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert read == list(wanted)


def test_an_export_goes_on_with_what_there_is(many):
    """What is forgotten, added or changed between two pages is seen by the next."""
    db = many
    walk = db._walk({"n": {"$gte": 7}})
    first = [next(walk).id for _ in range(10)]
    assert first == list(range(7, 17))
    db.forget(list(range(15_000, 15_100)))
    db.update(ids=[16_000, 3], payloads=[{"n": 1}, {"n": 9}])
    db.add(None, ids=[MANY], payloads=[{"n": 10**6}])
    rest = [record.id for record in walk]
    assert rest == [n for n in range(17, MANY + 1) if not 15_000 <= n < 15_100 and n != 16_000]
    db.forget([MANY])


def test_pages_of_a_wide_filter(many):
    db = many
    for where, every in (({"even": True}, 2), ({"n": {"$gte": 0}}, 1)):
        for limit in (1, 7, 12_000):
            for after in (None, 5, MANY - 3, MANY):
                start = -1 if after is None else after
                wanted = [n for n in range(start + 1, MANY) if n % every == 0][:limit]
                assert [record.id for record in db.get(where=where, limit=limit, after=after)] == wanted


MANY = 25_000


@pytest.fixture
def many(tmp_path):
    with lethevec.open(tmp_path / "many.lethe", dim=2, metric="l2") as opened:
        vectors = np.arange(2 * MANY, dtype=np.float32).reshape(-1, 2)
        opened.add(vectors, ids=range(MANY), payloads=[{"n": n, "even": n % 2 == 0} for n in range(MANY)])
        yield opened
