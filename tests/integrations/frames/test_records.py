"""A store's records as frames."""

from __future__ import annotations

import json

import numpy as np
import pytest

import lethevec
from lethevec.errors import FormatError, ParameterError

pd = pytest.importorskip("pandas", reason="pandas is not installed: make test-frames")
pl = pytest.importorskip("polars", reason="Polars is not installed: make test-frames")

COLUMNS = ["id", "subject", "payload", "expires", "vector"]
PAYLOADS = [{"n": 1, "ä": [2]}, None, {"m": {"x": None}}]


@pytest.fixture
def db(tmp_path):
    with lethevec.open(tmp_path / "a.lethe", dim=2, metric="l2") as opened:
        opened.add([[0, 0.1], None, [2, 3]], ids=["a", "b", "c"], subjects=["ada", None, "bob"], payloads=PAYLOADS)
        yield opened


def test_pandas(db):
    frame = db.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == COLUMNS
    assert frame["id"].tolist() == ["a", "b", "c"]
    assert frame["subject"].isna().tolist() == [False, True, False]
    assert frame["subject"].tolist()[::2] == ["ada", "bob"]
    assert [json.loads(text) for text in frame["payload"].tolist()[::2]] == PAYLOADS[::2]
    assert frame["payload"].isna().tolist() == [False, True, False]
    assert frame["vector"][1] is None
    assert frame["vector"][0].dtype == np.float32
    assert np.array_equal(frame["vector"][0], np.array([0, 0.1], dtype=np.float32))


def test_polars(db):
    frame = db.to_polars()
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == COLUMNS
    assert frame.schema["vector"] == pl.Array(pl.Float32, 2)
    assert frame["id"].to_list() == ["a", "b", "c"]
    assert frame["subject"].to_list() == ["ada", None, "bob"]
    assert [None if text is None else json.loads(text) for text in frame["payload"]] == PAYLOADS
    assert frame["vector"].to_list() == [[0, float(np.float32(0.1))], None, [2, 3]]


@pytest.mark.parametrize("convert", ["to_pandas", "to_polars"])
def test_what_is_asked_for(db, convert):
    made = getattr(db, convert)
    assert list(made(subject="bob")["id"]) == ["c"]
    assert list(made(where={"n": {"$lt": 5}})["id"]) == ["a"]
    assert list(made(where={"n": {"$lt": 5}}, subject="ada")["id"]) == ["a"]
    assert made(where={"n": 99}).shape == (0, len(COLUMNS))
    with pytest.raises(ParameterError):
        made(where={"n": {"$near": 1}})


@pytest.mark.parametrize("convert", ["to_pandas", "to_polars"])
def test_numbers_as_ids_and_never_both_kinds(tmp_path, convert):
    with lethevec.open(tmp_path / "b.lethe", dim=1, metric="l2") as db:
        vectors = np.arange(4500, dtype=np.float32).reshape(-1, 1)  # more than are read at once
        db.add(vectors, ids=range(4500))
        frame = getattr(db, convert)()
        assert list(frame["id"]) == list(range(4500))
        assert np.array_equal(np.stack(frame["vector"].to_numpy()), vectors)
        db.add([[1]], ids=["text"])
        with pytest.raises(FormatError, match="one kind"):
            getattr(db, convert)()


@pytest.mark.parametrize("convert", ["to_pandas", "to_polars"])
def test_vectors_of_a_frame_are_taken_back(db, tmp_path, convert):
    frame = getattr(db, convert)(where={"$id": {"$in": ["a", "c"]}})
    with lethevec.open(tmp_path / "copy.lethe", dim=2, metric="l2") as copy:
        payloads = [json.loads(text) for text in frame["payload"]]
        copy.add(frame["vector"], ids=list(frame["id"]), subjects=list(frame["subject"]), payloads=payloads)
        db.forget(["b"])
        assert copy.digest() == db.digest()
