"""Records that expire: in no answer from their time on, and gone from the files when `expire` has run."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest

from lethevec import KEEP
from lethevec.errors import IdError, ParameterError, UnknownIdError

BOTH_LAYOUTS = True
START = datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp()


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = START

    def __call__(self) -> float:
        return self.seconds

    def go(self, **duration: float) -> None:
        self.seconds += timedelta(**duration).total_seconds()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def filled(make, vectors, clock):
    """Forty records; number i expires after i + 1 days, every fourth never."""
    db = make(clock=clock)
    db.add(
        vectors,
        ids=[f"id-number-{i}" for i in range(40)],
        subjects=[f"person-number-{i % 5}" for i in range(40)],
        payloads=[{"note": f"something about number {i}"} for i in range(40)],
        expires=[None if i % 4 == 0 else timedelta(days=i + 1) for i in range(40)],
    )
    return db


def names(numbers) -> list[str]:
    return sorted(f"id-number-{i}" for i in numbers)


def test_in_no_answer_from_that_moment(filled, clock, vectors, make):
    reader = make(read_only=True, clock=clock)
    clock.go(days=9, hours=23, minutes=59, seconds=59)
    assert "id-number-9" in filled
    clock.go(seconds=1)
    gone = [i for i in range(10) if i % 4]
    left = [i for i in range(40) if i not in gone]
    for db in (filled, reader):
        assert len(db) == db.count() == len(left)
        assert db.ids() == names(left)
        assert sorted(record.id for record in db) == names(left)
        assert "id-number-9" not in db
        with pytest.raises(UnknownIdError):
            db.get(["id-number-9"])
        assert sum(db.subjects().values()) == len(left)
        assert db.count(subject="person-number-4") == sum(i % 5 == 4 for i in left)
        assert db.count({"note": "something about number 9"}) == 0
        assert [record.id for record in db.get(subject="person-number-4")] == names(i for i in left if i % 5 == 4)
        found = {hit.id for hits in db.search(vectors, k=40) for hit in hits}
        assert sorted(found) == names(left)
        assert db.search(vectors[9], k=1)[0][0].id != "id-number-9"
        assert sorted(hit.id for hit in db.search_radius(vectors[9], 1e9)[0]) == names(left)
        assert db.expired() == len(gone)
    with pytest.raises(UnknownIdError):
        filled.update(payloads=[None], ids=["id-number-9"])


def test_answers_are_as_if_they_had_never_been_there(filled, clock, vectors, make, tmp_path):
    clock.go(days=20)
    left = [i for i in range(40) if i % 4 == 0 or i >= 20]
    other = make("other.lethe", clock=clock)
    other.add(vectors[left], ids=names(left) and [f"id-number-{i}" for i in left])
    ours, theirs = filled.search(vectors, k=7), other.search(vectors, k=7)
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.array_equal(ours.distances, theirs.distances)


def test_expire_erases_with_a_receipt(filled, clock, vectors, leftovers, tmp_path, unaccounted):
    assert filled.expire() is None
    clock.go(days=10)
    gone = [i for i in range(10) if i % 4]
    receipt = filled.expire()
    assert receipt is not None
    assert (receipt.kind, receipt["asked"]["by"], receipt.records) == ("expiry", "expiry", len(gone))
    assert filled.verify(receipt, ids=[f"id-number-{i}" for i in gone], vectors=vectors[gone])
    assert leftovers(tmp_path, vectors=vectors[gone]) == []
    assert unaccounted(filled.path) == {}
    assert filled.expired() == 0
    assert filled.expire() is None
    assert filled.receipts() == [receipt]


def test_the_digest_is_of_what_is_there(filled, clock, vectors, make):
    before = filled.digest()
    clock.go(days=100)
    assert filled.digest() == before
    filled.expire()
    other = make("other.lethe", clock=clock)
    rest = [i for i in range(40) if i % 4 == 0]
    other.add(
        vectors[rest],
        ids=[f"id-number-{i}" for i in rest],
        subjects=[f"person-number-{i % 5}" for i in rest],
        payloads=[{"note": f"something about number {i}"} for i in rest],
    )
    assert filled.digest() == other.digest() != before


def test_the_time_is_part_of_the_record(make, vectors, clock):
    one, two = make("one", clock=clock), make("two", clock=clock)
    one.add(vectors[:1], ids=["a"], expires=timedelta(days=1))
    two.add(vectors[:1], ids=["a"])
    assert one.digest() != two.digest()
    two.update(ids=["a"], expires=datetime(2026, 1, 2, tzinfo=timezone.utc))
    assert one.digest() == two.digest()
    assert one.get("a")[0].expires == datetime(2026, 1, 2, tzinfo=timezone.utc)
    two.update(ids=["a"], expires=None)
    assert two.get("a")[0].expires is None


def test_forget_reaches_what_has_expired(filled, clock, vectors, leftovers, tmp_path):
    clock.go(days=10)
    assert filled.forget(["id-number-9"]).records == 1
    receipt = filled.forget(subject="person-number-1")
    assert receipt.records == 8, "1 and 6 had expired, and were still there"
    mine = [i for i in range(40) if i % 5 == 1]
    assert leftovers(tmp_path, vectors=vectors[mine], texts=["person-number-1"]) == []


def test_the_id_of_an_expired_record_is_free(filled, clock, vectors):
    clock.go(days=10)
    filled.add(vectors[1:2] + 1, ids=["id-number-1"])
    filled.upsert(vectors[2:3] + 1, ids=["id-number-2"])
    assert filled.get("id-number-1")[0].expires is None
    assert np.allclose(filled.get("id-number-2")[0].vector, vectors[2] + 1)
    assert filled.search(vectors[1] + 1, k=1)[0][0].id == "id-number-1"
    with pytest.raises(IdError, match="there already"):
        filled.add(vectors[:1], ids=["id-number-0"])


def test_reopened_later(filled, clock, vectors, make):
    clock.go(days=10)
    filled.close()
    db = make(clock=clock)
    assert len(db) == 40 - 7
    assert {hit.id for hit in db.search(vectors[9], k=40)[0]} == set(db.ids())
    assert db.expired() == 7
    clock.seconds = START
    assert len(db) == 33, "the clock never goes back"


def test_a_failed_transaction_brings_nothing_back(filled, clock, vectors):
    clock.go(days=10)
    assert len(filled) == 33

    def fail() -> None:
        with filled.transaction():
            filled.forget(subject="person-number-1")
            clock.go(days=5)
            filled.add(vectors[:1], ids=["new"])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert "id-number-9" not in filled
    assert "id-number-13" not in filled
    assert "id-number-9" not in {hit.id for hit in filled.search(vectors[9], k=40)[0]}
    assert len(filled) == 40 - sum(i % 4 != 0 for i in range(15))


def test_default_of_a_store(make, vectors, clock):
    db = make(clock=clock)
    db.retention = timedelta(days=1)
    db.add(vectors[:1], ids=["a"])
    db.add(vectors[:1], ids=["b"], expires=None)
    db.load([{"vectors": vectors[:2], "ids": ["c", "d"], "expires": [None, timedelta(days=2)]}])
    clock.go(days=1)
    assert db.ids() == ["b", "c", "d"]


@pytest.mark.parametrize(
    "expires",
    [
        timedelta(0),
        timedelta(seconds=-1),
        datetime(2025, 12, 31, tzinfo=timezone.utc),
        date(2026, 1, 1),
        datetime(2030, 1, 1),
        timedelta.max,
        datetime.max.replace(tzinfo=timezone.utc),
        30,
        "tomorrow",
        b"x",
        {"days": 1},
        [timedelta(days=1)] * 2,
        [None, "x"],
        object(),
    ],
)
def test_what_is_refused(make, vectors, clock, expires):
    db = make(clock=clock)
    db.add(vectors[:1], ids=["there"])
    before = db.digest()
    for call in (
        lambda: db.add(vectors[:1], ids=["a"], expires=expires),
        lambda: db.upsert(vectors[:1], ids=["there"], expires=expires),
        lambda: db.update(ids=["there"], expires=expires),
    ):
        with pytest.raises(ParameterError, match=r"^expires: expected"):
            call()
    assert db.digest() == before


def test_keep_is_the_default(make, vectors, clock):
    db = make(clock=clock)
    db.add(vectors[:1], ids=["a"], expires=date(2026, 1, 3))
    db.update(ids=["a"], payloads=[{"x": 1}], expires=KEEP)
    assert db.get("a")[0].expires == datetime(2026, 1, 3, tzinfo=timezone.utc)


@pytest.mark.parametrize("clock", [7, None, lambda: "x", lambda: -1.0, lambda: float("nan")])
def test_a_clock_that_is_none(make, clock):
    with pytest.raises(ParameterError, match="clock: expected"):
        make(clock=clock)
