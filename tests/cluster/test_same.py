"""A cluster answers what one store answers, and has its digest, whatever its shape and history."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

import lethevec
from lethevec.errors import IdError, ParameterError, UnknownIdError, UnsupportedError, VectorError
from tests.cluster.conftest import people, same_answers


@pytest.mark.parametrize(("shards", "replicas"), [(1, 1), (3, 2), (5, 1)])
def test_every_call_gives_what_one_store_gives(lab, shards, replicas):
    db = lab.connect(shards=shards, replicas=replicas)
    given = people(120)
    queries = np.random.default_rng(1).standard_normal((6, 8)).astype(np.float32)
    ours, theirs = (place.collection("people", dim=8, metric="l2") for place in (db, lab.one))
    for store in (ours, theirs):
        store.add(**given)
        store.update(ids=[2, "name-3"], payloads=[{"seen": True}, {"seen": False}], merge=True)
        store.upsert(given["vectors"][:3] * 2, ["new", 0, "name-5"], subjects=["person-4", None, None])
        store.add(None, ["note"], payloads=[{"text": "no vector"}])
        store.forget([4, "name-7"])
        store.forget(where={"year": 1991})
    same_answers(ours, theirs, queries)
    page, other = ours.get(limit=5, after=8), theirs.get(limit=5, after=8)
    assert [record.id for record in page] == [record.id for record in other]
    for mine, its in zip(ours, theirs, strict=True):
        assert (mine.id, mine.subject, mine.payload) == (its.id, its.subject, its.payload)
        assert (mine.vector is None and its.vector is None) or (mine.vector == its.vector).all()
    radius = ours.search_radius(queries, 4.0)
    assert [[hit.id for hit in row] for row in radius] == [
        [hit.id for hit in row] for row in theirs.search_radius(queries, 4.0)
    ]
    assert ours.count({"year": {"$gt": 1993}}) == theirs.count({"year": {"$gt": 1993}})
    assert ours.forget(subject="person-1", dry_run=True).ids == theirs.forget(subject="person-1", dry_run=True).ids
    held, its = db.access("person-4"), lab.one.access("person-4")
    assert [r.id for r in held.collections["people"]] == [r.id for r in its.collections["people"]]
    assert db.forget(subject="person-4").records == lab.one.forget(subject="person-4").records
    assert db.digest() == lab.one.digest()
    assert len(db.access("person-4")) == 0
    assert len(db.access("person-4").receipts) == 1


def test_vectors_kept_as_bytes_give_what_one_store_gives(lab):
    """An index that keeps int8 ranks by them, in one store and in each shard alike; vectors stay whole."""
    index = {"keep_vectors": "int8"}
    db = lab.connect(shards=3, replicas=2)
    rng = np.random.default_rng(5)
    vectors, queries = (rng.standard_normal((n, 16)).astype(np.float32) for n in (400, 8))
    ours, theirs = (place.collection("words", dim=16, metric="l2", index=index) for place in (db, lab.one))
    for store in (ours, theirs):
        store.add(vectors, list(range(400)), subjects=[f"person-{k % 10}" for k in range(400)])
        store.forget(subject="person-4")
    same_answers(ours, theirs, queries)
    assert (ours.get(3)[0].vector == vectors[3]).all()
    lab.net.kill("s0-1")
    ours.upsert(vectors[:5] * 2, list(range(5)))
    theirs.upsert(vectors[:5] * 2, list(range(5)))
    lab.restart(db, "s0-1")
    lab.wait_live(db)
    lab.net.kill("s0-2")
    same_answers(ours, theirs, queries)


def test_a_batch_is_asked_in_parts_and_members_take_the_threads_they_are_told(lab, monkeypatch):
    db = lab.connect(shards=2)
    rng = np.random.default_rng(5)
    given, ids = rng.standard_normal((60, 512)).astype(np.float32), list(range(60))
    ours, theirs = (place.collection("words", dim=512, metric="l2") for place in (db, lab.one))
    for store in (ours, theirs):
        store.add(given, ids)
    queries = rng.standard_normal((700, 512)).astype(np.float32)  # three messages
    told: list[int | None] = []
    real = lethevec.Store.search

    def search(self, *args, **options):
        told.append(options["threads"])
        return real(self, *args, **options)

    monkeypatch.setattr(lethevec.Store, "search", search)
    for threads in (1, 3, None):
        found = ours.search(queries, 5, effort=float("inf"), threads=threads)
        assert told == [threads] * 6
        told.clear()
    monkeypatch.undo()
    assert (found.ids == theirs.search(queries, 5, effort=float("inf")).ids).all()
    with pytest.raises(ParameterError, match="threads"):
        ours.search(queries[0], threads=0)
    with pytest.raises(ParameterError, match="number"):
        ours.search(queries[0], threads="all")


def test_recall_at_equal_effort_does_not_fall_with_shards(make_lab):
    rng = np.random.default_rng(3)
    vectors, queries = (rng.standard_normal((n, 24)).astype(np.float32) for n in (3000, 40))
    truth = np.argsort(-(queries @ (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).T), axis=1)[:, :10]
    recalls = []
    for shards in (1, 4):
        db = make_lab().connect(shards=shards)
        words = db.collection("words", dim=24)
        words.add(vectors, list(range(len(vectors))))
        found = words.search(queries, 10, effort=0.5).ids
        recalls.append(
            np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), truth.tolist(), strict=True)])
        )
    assert recalls[1] >= recalls[0] - 0.005


def test_records_expire_in_all_members_at_once(lab):
    db = lab.connect(shards=2, replicas=2)
    notes = db.collection("notes", dim=2, metric="l2", expires=timedelta(days=1))
    notes.add([[0, 1], [1, 0]], ["a", "b"])
    soon = datetime.now(timezone.utc) + timedelta(seconds=4)
    notes.add([[0, 2]], ["brief"], expires=soon)
    assert notes.get("a")[0].expires is not None
    assert "brief" in notes
    from tests.cluster.conftest import until

    until(lambda: "brief" not in notes)
    receipt = db.expire()
    assert (receipt.kind, receipt.records) == ("expiry", 1)
    assert notes.ids() == ["a", "b"]


def test_what_is_refused_changes_nothing(lab):
    db = lab.connect(shards=3)
    people_ = db.collection("people", dim=4, metric="l2")
    people_.add(np.eye(4), [1, 2, 3, "x"])
    before = people_.digest()
    with pytest.raises(IdError, match="there already"):
        people_.add(np.ones((3, 4)), [100, 2, 101])
    with pytest.raises(UnknownIdError):
        people_.update(ids=[1, 99], payloads=[{}, {}])
    with pytest.raises(UnknownIdError):
        people_.forget([1, 99])
    with pytest.raises(UnknownIdError):
        people_.get([1, 99])
    with pytest.raises(VectorError):
        people_.add(np.full((1, 4), np.nan), [100])
    with pytest.raises(VectorError):
        people_.search([1, 2, 3])
    with pytest.raises(ParameterError, match="dim"):
        db.collection("people", dim=5)
    with pytest.raises(ParameterError):
        db.collection("new", dim=0)
    with pytest.raises(UnsupportedError):
        people_.transaction()
    assert people_.digest() == before
    assert db.collections() == ["people"]


def test_collections_are_renamed_and_dropped_in_every_member(lab):
    db = lab.connect(shards=2, replicas=2)
    db.collection("old", dim=2).add([[1, 0]], ["a"], subjects=["ann"])
    db.rename("old", "new")
    assert db.collection("new").ids() == ["a"]
    receipt = db.drop("new")
    assert (receipt.kind, receipt.records) == ("drop", 1)
    assert db.collections() == []
    db.collection("new", dim=3).add([[1, 0, 0]], ["b"])
    assert db.collection("new").ids() == ["b"]


def test_a_cluster_is_found_again_with_everything_in_it(lab):
    db = lab.connect(shards=2, replicas=2)
    db.collection("people", dim=8, metric="l2").add(**people(40))
    digest = db.digest()
    db.close()
    for name in list(lab.net.ends):
        lab.net.kill(name)
    with pytest.raises(ParameterError, match="shards"):
        lab.connect(shards=3)
    again = lab.connect()
    assert again.digest() == digest
    lab.wait_live(again)
