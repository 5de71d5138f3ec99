"""The everyday calls: upsert, count, ids, pages, merged payloads, records without a vector, forgetting by a filter."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from lethevec import Preview
from lethevec.errors import IdError, InputError, LethevecError, ParameterError, UnknownIdError

BOTH_LAYOUTS = True
IDS = [*range(20), *(f"name-of-person-{i:02d}" for i in range(20))]
PAYLOADS = [{"year": 1990 + i % 10, "note": f"confidential note {i:04d}"} for i in range(40)]
SUBJECTS = [f"person-{i % 4}@example.org" for i in range(40)]


@pytest.fixture
def filled(make, vectors):
    db = make()
    db.add(vectors, ids=IDS, subjects=SUBJECTS, payloads=PAYLOADS)
    return db


class TestUpsert:
    def test_adds_and_replaces(self, filled, make, vectors, layout):
        new = np.random.default_rng(9).normal(size=(3, 8)).astype(np.float32)
        filled.upsert(new, ids=["name-of-person-03", 99, 7], subjects=[None, "x", "y"], payloads=[None, {"a": 1}, None])
        expected = make("expected.lethe")
        keep = [i for i in range(40) if IDS[i] not in ("name-of-person-03", 7)]
        expected.add(
            vectors[keep],
            ids=[IDS[i] for i in keep],
            subjects=[SUBJECTS[i] for i in keep],
            payloads=[PAYLOADS[i] for i in keep],
        )
        expected.add(new, ids=["name-of-person-03", 99, 7], subjects=[None, "x", "y"], payloads=[None, {"a": 1}, None])
        assert filled.digest() == expected.digest()
        assert filled.search(vectors, k=5).ids.tolist() == expected.search(vectors, k=5).ids.tolist()

    def test_all_or_nothing(self, filled, vectors):
        before = filled.digest()
        for bad in (
            lambda: filled.upsert(vectors[:2], ids=["new", "name-of-person-00"], payloads=[{"a": 1}, {"a": {1}}]),
            lambda: filled.upsert(vectors[:2], ids=["new", "new"]),
            lambda: filled.upsert(vectors[:1] * np.nan, ids=["new"]),
            lambda: filled.upsert(vectors[:3], ids=["new", "other"]),
            lambda: filled.upsert(vectors[:1], ids=["new"], subjects=[7]),
        ):
            with pytest.raises(InputError):
                bad()
        assert filled.digest() == before
        assert "new" not in filled

    def test_two_ids_that_share_a_number(self, make, vectors):
        from lethevec._store.ids import number_of

        db = make()
        db.add(vectors[:1], ids="name")
        with pytest.raises(IdError):
            db.upsert(vectors[1:2], ids=number_of("name"))
        assert db.ids() == ["name"]

    def test_what_was_replaced_is_gone_after_the_next_forget(self, filled, vectors, tmp_path, leftovers):
        filled.upsert(-vectors[:20] * 3, ids=IDS[:20])
        filled.forget(IDS[20])
        assert leftovers(tmp_path, vectors=vectors[:21], texts=[p["note"] for p in PAYLOADS[:21]]) == []


class TestLooking:
    def test_count_and_ids(self, filled):
        assert (filled.count(), filled.count({"year": {"$lt": 1992}}), filled.count({"year": 5})) == (40, 8, 0)
        assert filled.count(subject=SUBJECTS[1]) == 10
        assert filled.count({"year": {"$lt": 1992}}, subject=SUBJECTS[1]) == 2
        assert filled.ids() == IDS
        assert filled.ids({"year": 1995}) == [5, 15, "name-of-person-05", "name-of-person-15"]
        assert filled.ids({"year": 1995}, subject=SUBJECTS[3]) == [15, "name-of-person-15"]
        assert filled.ids({"year": 1}) == filled.ids(subject="nobody") == []

    @pytest.mark.parametrize("few", [10_000, 3], ids=["looked up", "read in order"])
    def test_pages(self, filled, few, monkeypatch):
        monkeypatch.setattr("lethevec._store.selecting._FEW", few)
        for where in (None, {"year": {"$gte": 1993}}):
            pages = []
            while page := filled.get(where=where, limit=7, after=pages[-1][-1].id if pages else None):
                pages.append(page)
            found = [record for page in pages for record in page]
            assert [record.id for record in found] == filled.ids(where)
            assert all(len(page) == 7 for page in pages[:-1])
            assert all(where is None or record.payload["year"] >= 1993 for record in found)

    def test_after_an_id_that_is_not_there(self, filled):
        assert [r.id for r in filled.get(after=17, limit=3)] == [18, 19, "name-of-person-00"]
        assert [r.id for r in filled.get(after=1000, limit=1)] == ["name-of-person-00"]
        assert [r.id for r in filled.get(after="name-of-person-18x")] == ["name-of-person-19"]
        assert filled.get(after="z") == []
        assert filled.get(limit=0) == []
        assert [r.id for r in filled.get(limit=np.int32(2), after=np.int64(3))] == [4, 5]
        filled.forget(4)
        assert [r.id for r in filled.get(after=4, limit=1)] == [5]

    def test_get_by_ids_is_in_the_order_asked_for(self, filled):
        assert [r.id for r in filled.get([3, "name-of-person-00", 1])] == [3, "name-of-person-00", 1]
        with pytest.raises(UnknownIdError):
            filled.get([3, "nobody"])

    @pytest.mark.parametrize(
        "arguments",
        [
            {"ids": [1], "limit": 3},
            {"ids": [1], "where": {"a": 1}},
            {"limit": -1},
            {"limit": 1.5},
            {"limit": True},
            {"after": 1.5},
            {"after": -1},
            {"where": {}},
            {"where": {"a": {"$near": 1}}},
            {"where": "a"},
            {"subject": 7},
            {"subject": ""},
        ],
        ids=str,
    )
    def test_bad_arguments(self, filled, arguments):
        with pytest.raises(InputError):
            filled.get(**arguments)

    def test_search_with_subject_and_radius(self, filled, vectors):
        everything = filled.search(vectors[0], k=40)[0]
        near = [hit for hit in everything if hit.distance <= 3]
        assert 1 < len(near) < 40
        assert filled.search(vectors[0], k=40, radius=3)[0] == near
        assert filled.search(vectors[0], k=2, radius=3)[0] == near[:2]
        assert filled.search_radius(vectors[0], 3)[0] == near
        own = [hit for hit in near if hit.subject == SUBJECTS[0]]
        assert filled.search(vectors[0], k=40, radius=3, subject=SUBJECTS[0])[0] == own
        assert filled.search_radius(vectors[0], 3, subject=SUBJECTS[0])[0] == own
        old = [hit for hit in own if hit.payload["year"] < 1996]
        assert filled.search_radius(vectors[0], 3, subject=SUBJECTS[0], where={"year": {"$lt": 1996}})[0] == old
        hits = filled.search(vectors[:2], k=4, radius=-1)
        assert (hits.ids == -1).all()
        assert np.isinf(hits.distances).all()
        for bad in (float("nan"), "far", True):
            with pytest.raises(ParameterError, match="radius"):
                filled.search(vectors[0], radius=bad)


class TestMerge:
    def test_fields_take_the_places_of_those_of_the_same_name(self, filled):
        filled.update(ids=[1, 2], payloads=[{"year": 2000, "new": [1]}, None], merge=True)
        first, second = filled.get([1, 2])
        assert first.payload == {"year": 2000, "note": PAYLOADS[1]["note"], "new": [1]}
        assert second.payload == PAYLOADS[2]
        assert first.subject == SUBJECTS[1]

    def test_into_nothing(self, make, vectors):
        db = make()
        db.add(vectors[:1], ids=1)
        db.update(ids=1, payloads=[{"a": {"b": 1}}], merge=True)
        db.update(ids=1, payloads=[{"a": {"c": 2}}], merge=True)
        assert db.get(1)[0].payload == {"a": {"c": 2}}

    def test_merge_is_true_or_false(self, filled):
        with pytest.raises(ParameterError, match="merge"):
            filled.update(ids=1, payloads=[{"a": 1}], merge=1)


class TestWithoutVector:
    def test_found_by_get_and_never_by_search(self, filled, make, vectors, tmp_path):
        filled.add(None, ids=["bare", 77], subjects="x", payloads=[{"year": 1990}, None])
        filled.add([None, vectors[0] * 2], ids=["bare too", "whole"])
        assert len(filled) == 44
        assert [r.vector for r in filled.get(["bare", 77, "bare too"])] == [None] * 3
        assert filled.count({"year": 1990}) == 5
        found = {hit.id for hit in filled.search(vectors[0], k=60)[0]}
        assert found == {*IDS, "whole"}
        assert {hit.id for hit in filled.search_radius(vectors[0], 1e6)[0]} == found
        assert filled.search(vectors[0], k=60, subject="x")[0] == []
        before = filled.digest()
        filled.close()
        for read_only in (True, False):
            again = make(read_only=read_only)
            assert again.digest() == before
            assert len(again.search(vectors[0], k=60)[0]) == 41
            again.close()

    def test_vectors_come_and_go(self, make, vectors):
        db, reader = make(), None
        db.add(None, ids=[1, 2, 3])
        reader = make(read_only=True)
        db.update(vectors[:2], ids=[1, 2])
        for store in (db, reader):
            assert [hit.id for hit in store.search(vectors[0], k=5)[0]] == [1, 2]
        db.update([None, vectors[5]], ids=[1, 3])
        for store in (db, reader):
            assert [hit.id for hit in store.search(vectors[5], k=5)[0]] == [3, 2]
            assert [record.vector is None for record in store.get([1, 2, 3])] == [True, False, False]
        db.upsert(None, ids=[2])
        for store in (db, reader):
            assert [hit.id for hit in store.search(vectors[5], k=5)[0]] == [3]
        other = make("other.lethe")
        other.add([None, None, vectors[5]], ids=[1, 2, 3])
        assert db.digest() == other.digest()
        assert db.verify(db.forget([1, 3]))
        assert reader.ids() == [2]
        assert reader.search(vectors[0], k=3)[0] == []

    def test_backup_and_forget_leave_nothing(self, make, vectors, tmp_path, leftovers, unaccounted, layout):
        db = make()
        db.add(None, ids=IDS, payloads=PAYLOADS)
        receipt = db.forget(where={"year": {"$lt": 1995}})
        assert receipt.records == 20
        gone = [i for i in range(40) if PAYLOADS[i]["year"] < 1995]
        assert (
            leftovers(tmp_path, ids=[IDS[i] for i in gone if i >= 20], texts=[PAYLOADS[i]["note"] for i in gone]) == []
        )
        assert unaccounted(db.path) == {}
        db.backup(tmp_path / "copy.lethe")
        if layout == "plain":
            copy = make("copy.lethe")
            assert copy.digest() == db.digest()

    def test_codes_that_are_kept(self, make, vectors):
        index = {"family": "usr", "bits": 64}
        db = make(index=index)
        db.add([None, *vectors[:5]], ids=range(6))
        db.close()
        db = make()
        assert len(db.search(vectors[0], k=9)[0]) == 5
        assert db.verify(db.forget(3))["codes"].passed
        db.update(None, ids=[1, 2])
        assert db.verify(db.forget(4))["codes"].passed
        (kept,) = db._session.connection.execute("SELECT count(*) FROM main.codes").fetchone()
        assert kept == 1

    def test_bad_lists(self, make, vectors):
        db = make()
        for bad in ([None, vectors[0]], [vectors[0], None, None], [1.0, None], [[1, 2], None]):
            with pytest.raises(InputError):
                db.add(bad, ids=["a", "b", "c", "d"])
        assert len(db) == 0


class TestForget:
    def test_by_a_filter(self, filled, vectors, tmp_path, leftovers, unaccounted):
        where = {"year": {"$in": [1990, 1995]}}
        gone = filled.ids(where)
        preview = filled.forget(where=where, dry_run=True)
        assert preview == Preview(8, gone, [])
        assert len(filled) == 40
        receipt = filled.forget(where=where)
        assert (receipt.records, receipt["asked"]["by"], receipt["asked"]["subject"]) == (8, "where", None)
        assert filled.verify(receipt, ids=gone)
        places = [IDS.index(id) for id in gone]
        texts = [PAYLOADS[i]["note"] for i in places]
        assert leftovers(tmp_path, vectors=vectors[places], ids=gone[4:], texts=texts) == []
        assert unaccounted(filled.path) == {}

    def test_of_a_subject_by_a_filter(self, filled):
        receipt = filled.forget(subject=SUBJECTS[0], where={"year": {"$lt": 1993}})
        assert receipt.records == 4
        assert receipt["asked"]["subject"] is None, "others of that subject are still there"
        assert filled.verify(receipt)
        assert filled.count(subject=SUBJECTS[0]) == 6

    def test_nothing_passes(self, filled):
        receipt = filled.forget(where={"year": 1})
        assert receipt.records == 0
        assert filled.verify(receipt)
        assert len(filled) == 40

    def test_a_dry_run_changes_nothing(self, filled, make):
        before, version = filled.digest(), filled._session.state.version
        assert filled.forget([3, 1], dry_run=True) == Preview(2, [1, 3], [])
        assert filled.forget([3, "nobody"], dry_run=True, ignore_unknown=True) == Preview(1, [3], ["nobody"])
        assert filled.forget(subject=SUBJECTS[2], dry_run=True).records == 10
        with pytest.raises(UnknownIdError):
            filled.forget([3, "nobody"], dry_run=True)
        with pytest.raises(UnknownIdError):
            filled.forget(subject="nobody", dry_run=True)
        assert (filled.digest(), filled._session.state.version, filled.receipts()) == (before, version, [])
        reader = make(read_only=True)
        assert reader.forget(where={"year": 1990}, dry_run=True).records == 4

    @pytest.mark.parametrize("timeout", [float("nan"), float("inf"), -1, "x", None.__class__, True, 1e7], ids=str)
    def test_arguments_are_checked_before_anything_changes(self, filled, timeout):
        before = filled.digest()
        for call in (
            lambda: filled.forget([1], timeout=timeout),
            lambda: filled.complete_erasures(timeout=timeout),
        ):
            with pytest.raises(ParameterError, match="timeout"):
                call()
        assert filled.digest() == before
        assert filled.receipts() == []

    @pytest.mark.parametrize(
        "arguments",
        [
            {},
            {"ids": [1], "where": {"year": 1}},
            {"ids": [1], "subject": "a"},
            {"ids": [1], "dry_run": 1},
            {"ids": [1], "ignore_unknown": None},
            {"ids": [1], "search_all": "yes"},
            {"where": {}},
            {"where": [1]},
            {"where": {"$nearly": 1}},
            {"subject": ["a"]},
            {"ids": [1.5]},
            {"ids": [True]},
            {"ids": np.timedelta64(1)},
        ],
        ids=str,
    )
    def test_bad_arguments(self, filled, arguments):
        before = filled.digest()
        with pytest.raises(LethevecError):
            filled.forget(**arguments)
        assert filled.digest() == before
        assert filled.receipts() == []


def test_a_payload_of_megabytes(make, vectors, tmp_path, leftovers, unaccounted):
    db = make()
    text = "".join(f"{i:07d} secret" for i in range(300_000))
    db.add(vectors[:2], ids=["large", "small"], payloads=[{"text": text, "n": 1}, {"n": 2}])
    assert db.get("large")[0].payload["text"] == text
    assert db.ids({"n": 1}) == ["large"]
    assert db.search(vectors[0], k=1)[0][0].payload["text"] == text
    assert db.verify(db.forget(where={"n": 1}))
    assert leftovers(tmp_path, vectors=vectors[:1], texts=[text[:40], text[2_000_000:2_000_040], text[-40:]]) == []
    assert unaccounted(db.path) == {}


class TestLoad:
    def test_batches_that_are_none(self, make, vectors):
        db = make()
        good = {"vectors": vectors[:2], "ids": [1, 2]}
        for bad in ({"vectors": vectors[:2]}, {"ids": [1]}, {**good, "subject": "x"}, [1], None):
            with pytest.raises(InputError, match="batches"):
                db.load([{"vectors": vectors[2:4], "ids": [3, 4]}, bad])
        for bad in (7, None):
            with pytest.raises(InputError, match="batches"):
                db.load(bad)
        with pytest.raises(ParameterError, match="total"):
            db.load([good], total=-1)
        assert len(db) == 0
        assert db.load([good, {"vectors": None, "ids": ["a"]}]) == 3


def test_a_dry_run_counts_what_has_expired_too(make, vectors):
    """It is in no answer any more, but its bytes are there until something erases them."""
    now = [1_000_000.0]
    db = make(clock=lambda: now[0])
    db.add(vectors[:2], ids=["brief", "long"], subjects="ann", expires=[timedelta(seconds=5), None])
    now[0] += 60
    assert db.ids() == ["long"]
    assert db.forget(subject="ann", dry_run=True) == Preview(2, ["brief", "long"], [])
    assert db.forget(subject="ann").records == 2
