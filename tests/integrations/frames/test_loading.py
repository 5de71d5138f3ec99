"""`load` from pandas and Polars frames: those that a store gave, and frames of one's own."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

import lethevec
from lethevec.errors import FormatError, LethevecError

pd = pytest.importorskip("pandas", reason="pandas is not installed: make test-frames")
pl = pytest.importorskip("polars", reason="Polars is not installed: make test-frames")

X = np.random.default_rng(3).normal(size=(12, 8)).astype(np.float32)
FAR = datetime(9000, 5, 17, 3, 2, 1, 987_000, tzinfo=timezone.utc)


@pytest.fixture
def make(tmp_path):
    opened = []

    def make(name):
        opened.append(lethevec.open(tmp_path / f"{name}.lethe", dim=8, metric="l2"))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.mark.parametrize("library", ["pandas", "polars", "lazy"])
@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("some", [True, False])
def test_frames_come_back_exactly(make, library, kind, some):
    db, again = make("a"), make("b")
    ids = [kind(n) for n in range(12)]
    db.add(
        X,
        ids=ids,
        subjects=["ann", None, "bob", "δ"] * 3,
        payloads=[None, {}, {"n": -0.0, "a": [1, None]}, {"x": 2**60}] * 3,
    )
    if some:
        db.add([None, X[0], X[1]], ids=[kind(n) for n in (50, 51, 52)], expires=[FAR, None, timedelta(days=9)])
    frame = db.to_pandas() if library == "pandas" else db.to_polars()
    frame = frame.lazy() if library == "lazy" else frame
    assert again.load(frame) == len(db)
    assert again.digest() == db.digest()


@pytest.mark.parametrize("library", [pd, pl])
def test_other_columns_are_payloads(make, library):
    when = datetime(2024, 2, 29, 12, tzinfo=timezone.utc)
    columns = {
        "id": ["a", "b"],
        "embedding": [X[0].tolist(), X[1].tolist()],
        "title": ["Dune", None],
        "year": [1965, 1815],
        "price": [float("nan"), 2.5],
        "bought": [when, None],
        "tags": [["sand"], []],
    }
    db = make("own")
    assert db.load(library.DataFrame(columns)) == 2
    assert [record.payload for record in db] == [
        {"title": "Dune", "year": 1965, "bought": when.isoformat(), "tags": ["sand"]},
        {"year": 1815, "price": 2.5, "tags": []},
    ]
    assert db.ids({"bought": {"$gte": "2024-02-29"}}) == ["a"]


def test_the_column_of_vectors_can_be_named(make):
    frame = pd.DataFrame({"id": [1, 2], "first": list(X[:2]), "second": list(X[2:4])})
    db = make("named")
    with pytest.raises(FormatError, match="expected one a column of vectors, got 2"):
        db.load(frame)
    assert db.load(frame[["id", "second"]]) == 2
    assert np.array_equal(db.get([2])[0].vector, X[3])


def test_payloads_that_are_objects_stay_as_they_are(make):
    frame = pd.DataFrame({"id": [1, "b"], "vector": list(X[:2]), "payload": [{"a": 1}, {"b": [1, 2]}]})
    db = make("objects")
    assert db.load(frame) == 2
    assert [(record.id, record.payload) for record in db] == [(1, {"a": 1}), ("b", {"b": [1, 2]})]


@pytest.mark.parametrize(
    "columns",
    [
        {"id": [1, 2], "vector": [[1.0] * 8, [1.0] * 7]},
        {"id": [1, 2], "vector": [[1.0] * 8, ["x"] * 8]},
        {"id": [1, None], "vector": [[1.0] * 8, [1.0] * 8]},
        {"id": [1, 1], "vector": [[1.0] * 8, [1.0] * 8]},
        {"id": [1, 2], "vector": [[1.0] * 8, [float("nan")] * 8]},
        {"id": [1, 2], "vector": [[1.0] * 9, [1.0] * 9]},
        {"id": [1, 2], "vector": [1.0, 2.0]},
        {"id": [1, 2], "title": ["a", "b"]},
        {"id": [1, 2], "vector": [[1.0] * 8] * 2, "expires": [datetime(2090, 1, 1), None]},
        {"id": [1, 2], "vector": [[1.0] * 8] * 2, "what": [object(), None]},
        {"vector": []},
    ],
)
def test_what_is_wrong_in_a_frame_changes_nothing(make, columns):
    db = make("bad")
    db.add(X[:1], ids=[100])
    before = db.digest()
    with pytest.raises(LethevecError):
        db.load(pd.DataFrame(columns))
    assert db.digest() == before
