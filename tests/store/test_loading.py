"""`load` from files and Arrow tables: what `export` wrote comes back as it was, digest and all.

`tests/integrations/frames` has data frames.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lethevec import datasets
from lethevec._store import Store
from lethevec.errors import FileError, FormatError, IdError, InputError, LethevecError, ParameterError

BOTH_LAYOUTS = True
WHOLE = [".jsonl", ".csv", ".parquet", ".arrow", ".npz"]
FAR = datetime(9000, 5, 17, 3, 2, 1, 987_000, tzinfo=timezone.utc)


def fill(db: Store, kind: type[int] | type[str]) -> None:
    """Records of every kind: with and without each part, numbers that text formats easily lose, odd texts."""
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(12, 8)).astype(np.float32)
    vectors[0, :3] = [-0.0, 0.0, -0.0]
    vectors[1, 0], vectors[1, 7] = np.float32(1.1754944e-38), np.float32(-1.2345678e17)
    vectors[2, :2] = [np.float32(16777217), np.float32(0.1)]
    ids: list[Any] = [kind(7 * place) if kind is int else f"id {place}" for place in range(12)]
    texts = ["ann", None, 'quote " comma , line\nbreak', "δοκιμή", None] * 3
    payloads: list[Any] = [None, {}, {"n": -0.0, "deep": {"a": [1, None, "x"]}, "t": "é\n"}, {"big": 2**60}] * 3
    db.add(vectors, ids=ids, subjects=texts[:12], payloads=payloads)
    more = [kind(1000 + place) if kind is int else f"more {place}" for place in range(4)]
    times = [None, FAR, date(2150, 1, 2), datetime(2120, 1, 1, 0, 0, 0, 123_000, tzinfo=timezone(timedelta(hours=5)))]
    db.add([None, vectors[3], None, vectors[4]], ids=more, payloads=[{"bare": True}, None, None, None], expires=times)


@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("suffix", WHOLE)
def test_files_come_back_exactly(make: Callable[..., Store], tmp_path: Path, suffix: str, kind: Any):
    if suffix in (".parquet", ".arrow"):
        pytest.importorskip("pyarrow")
    db, again = make("a.lethe"), make("b.lethe")
    fill(db, kind)
    path = tmp_path / f"all{suffix}"
    assert db.export(path) == len(db) == 16
    assert again.load(path) == 16
    assert again.digest() == db.digest()
    assert [record.expires for record in again] == [record.expires for record in db]
    assert FAR in [record.expires for record in again]
    zeros = next(iter(again)).vector
    assert zeros is not None
    assert np.signbit(zeros[:3]).tolist() == [True, False, True]


@pytest.mark.parametrize("form", ["table", "batch", "reader"])
@pytest.mark.parametrize("kind", [int, str])
def test_tables_come_back_exactly(make: Callable[..., Store], form: str, kind: Any):
    pa = pytest.importorskip("pyarrow")
    db, again = make("a.lethe"), make("b.lethe")
    fill(db, kind)
    given = db.to_arrow()
    if form == "batch":
        given = given.combine_chunks().to_batches()[0]
    elif form == "reader":
        given = pa.RecordBatchReader.from_batches(given.schema, given.to_batches())
    assert again.load(given) == 16
    assert again.digest() == db.digest()


def test_vectors_alone_get_numbers(make: Callable[..., Store], tmp_path: Path, vectors: np.ndarray):
    db = make()
    np.save(tmp_path / "some.npy", vectors)
    assert db.load(tmp_path / "some.npy") == 40
    assert db.ids() == list(range(40))
    assert np.array_equal(db.get([39])[0].vector, vectors[39])
    with pytest.raises(IdError):
        db.load(str(tmp_path / "some.npy"))
    assert len(db) == 40


def test_other_columns_are_payloads(make: Callable[..., Store], vectors: np.ndarray):
    pa = pytest.importorskip("pyarrow")
    when = datetime(2024, 2, 29, 12, tzinfo=timezone.utc)
    columns = {
        "id": ["a", "b"],
        "embedding": [vectors[0].tolist(), vectors[1].tolist()],
        "title": ["Dune", None],
        "year": [1965, 1815],
        "bought": [when, None],
        "tags": [["sand"], []],
    }
    db = make()
    assert db.load(pa.table(columns)) == 2
    assert [record.payload for record in db] == [
        {"title": "Dune", "year": 1965, "bought": when.isoformat(), "tags": ["sand"]},
        {"year": 1815, "tags": []},
    ]
    assert db.ids({"bought": {"$gte": "2024-02-29"}}) == ["a"]


def test_the_column_of_vectors_can_be_named(make: Callable[..., Store], vectors: np.ndarray):
    pa = pytest.importorskip("pyarrow")
    first, second = vectors[:2].tolist(), vectors[2:4].tolist()
    table = pa.table({"id": [1, 2], "first": first, "second": second})
    db = make()
    with pytest.raises(FormatError, match="expected one a column of lists of numbers, got 2"):
        db.load(table)
    db.load(table, key="second")
    assert np.array_equal(db.get([2])[0].vector, vectors[3])
    assert db.get([2])[0].payload == {"first": first[1]}
    with pytest.raises(ParameterError, match="key: expected only with a file"):
        db.load([], key="second")


def test_what_has_expired_is_left_out(make: Callable[..., Store], tmp_path: Path):
    now = [1_800_000_000.0]
    db = make("a.lethe", clock=lambda: now[0])
    db.add(np.eye(8)[:3], ids=[1, 2, 3], expires=[timedelta(days=1), None, timedelta(days=9)])
    db.export(tmp_path / "all.jsonl")
    now[0] += 2 * 86_400
    again = make("b.lethe", clock=lambda: now[0])
    assert again.load(tmp_path / "all.jsonl") == 2
    assert again.ids() == [2, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": 1, "vector": [1, 2, 3]}', "vectors: expected"),
        ('{"id": 1, "vector": [0, 0, 0, 0, 0, 0, 0, 1]}\n{"id": 1, "vector": null}', "expected ids that are not"),
        ('{"id": 1, "vector": null, "expires": "soon"}', "expected a time of expiry"),
        ('{"id": 1, "vector": null, "expires": "2150-01-01T00:00:00"}', "with a time zone"),
        ('{"id": 1, "vector": null, "expires": "9999-12-31T23:59:59-12:00"}', "before the year 10000"),
        ('{"id": 1, "vector": null, "payload": [1]}', "expected payloads that are JSON objects"),
        ('{"id": true, "vector": null}', "expected an id"),
        ("null", "expected a list of numbers"),
        ("", "expected at least one"),
    ],
)
def test_what_is_wrong_in_a_file_changes_nothing(make: Callable[..., Store], tmp_path: Path, text: str, message: str):
    db = make()
    db.add(np.ones((1, 8)), ids=["there"])
    before = db.digest()
    good = [json.dumps({"id": 100 + i, "vector": [1.0] * 8}) for i in range(3)]
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join([*good, text]) if text else "")
    with pytest.raises(LethevecError):
        db.load(path)
    assert db.digest() == before
    path.write_text(text)
    with pytest.raises(LethevecError):
        db.load(path)
    assert db.digest() == before


@pytest.mark.parametrize("source", [None, 3, b"x", {"vectors": 1}, np.float32(1), object()])
def test_what_is_no_source_is_refused(make: Callable[..., Store], source: Any):
    with pytest.raises((InputError, FileError, FormatError)):
        make().load(source)


def test_files_that_are_not_there_or_of_no_kind(make: Callable[..., Store], tmp_path: Path):
    db = make()
    with pytest.raises(FileError):
        db.load(tmp_path / "none.jsonl")
    with pytest.raises(FormatError, match="expected a file name that ends in"):
        db.load(tmp_path / "none.xlsx")
    assert len(db) == 0


def test_readers_of_vectors_still_refuse_rows_without(tmp_path: Path):
    path = tmp_path / "some.jsonl"
    path.write_text('{"id": 1, "vector": [1, 2]}\n{"id": 2, "vector": null}\n')
    with pytest.raises(FormatError, match="expected a vector in every row, got 1 nulls, in row 1"):
        datasets.read_records(path)
