"""A store whose index keeps vectors in a small form: the file has what came, memory and answers have the rounded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lethevec
from lethevec import Index, Pivots
from lethevec._native import core
from lethevec._store import image
from lethevec.errors import VectorError
from lethevec.reference.kept_form import packed, rounded

BOTH_LAYOUTS = True
FORMS = ("float16", "int8")
OPTIONS = {"scan": {"source": "scan"}, "pivots": {"source": Pivots(cell_size=5)}, "usr": {"family": "usr", "bits": 16}}


def answers(one, queries):
    hits = one.search(queries, k=5)
    return np.asarray(hits.ids).tolist(), hits.distances.tobytes()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", OPTIONS)
def test_the_file_has_what_came_and_answers_are_of_the_rounded(make, layout, form, options, monkeypatch):
    monkeypatch.setattr(image, "WORTH_FROM", 1)
    x = np.random.default_rng(3).normal(size=(200, 8)).astype(np.float32)
    index = {**OPTIONS[options], "keep_vectors": form}
    db = make(index=index)
    db.add(x, ids=range(200), subjects=["ann" if i % 3 else "bob" for i in range(200)])
    receipt = db.forget(subject="bob")
    stay = [i for i in range(200) if i % 3]
    assert all(np.array_equal(record.vector, x[record.id]) for record in db.get(stay))
    mirror = Index._of(db._mirror.index.config)  # a store draws the key of its pivots
    mirror.add(x[stay], ids=stay)
    expected = answers(mirror, x[:20])
    assert answers(db, x[:20]) == expected
    assert db._mirror.index.vectors(stay).tobytes() == rounded(form, x[stay]).tobytes()
    db.close()
    again = make(dim=None, metric=None)  # from the pages of the file, or with the codes that it keeps
    assert answers(again, x[:20]) == expected
    assert again._mirror.index.config.keep_vectors == form
    if options == "usr":
        assert again._mirror._encoded == []  # kept codes are those of rounded vectors
    assert bool(again.verify(receipt, subject="bob", vectors=x[[i for i in range(200) if i % 3 == 0]]))


@pytest.mark.parametrize("form", FORMS)
def test_a_forget_leaves_nothing_in_files_and_in_the_index(make, tmp_path: Path, form):
    x = np.random.default_rng(4).normal(size=(60, 8)).astype(np.float32)
    db = make(index={"keep_vectors": form})
    db.add(x, ids=[f"n{i}" for i in range(60)])
    kept = packed(form, rounded(form, x[7:8]))
    assert kept in core.testing.raw_memory(db._mirror.index._native)
    db.forget(["n7"])
    assert kept not in core.testing.raw_memory(db._mirror.index._native)
    files = [path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    for trace in (kept, x[7].tobytes(), rounded(form, x[7:8]).tobytes()):
        assert not any(trace in content for content in files)


def test_what_float16_cannot_hold_is_refused_before_anything_changes(make):
    db = make(index={"keep_vectors": "float16"})
    db.add(np.eye(8), ids=range(8))
    before = db.digest(), db._session.state.version
    large = np.full((1, 8), 70000.0)
    for call in (
        lambda: db.add(large, ids=[9]),
        lambda: db.upsert(large, ids=[1]),
        lambda: db.update(ids=[1], vectors=large),
    ):
        with pytest.raises(VectorError, match="float16"):
            call()
    with pytest.raises(VectorError, match="float16"):
        db.load([{"vectors": large, "ids": [9]}])
    assert (db.digest(), db._session.state.version) == before


def test_a_collection_takes_the_option(tmp_path: Path):
    with lethevec.connect(tmp_path) as db:
        notes = db.collection("notes", dim=4, index={"keep_vectors": "int8"})
        notes.upsert(np.eye(4), ids=range(4), subjects=["ann", "bob"] * 2)
        assert db.forget(subject="ann").records == 2
        assert len(notes) == 2
