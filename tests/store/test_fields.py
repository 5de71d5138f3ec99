"""The structure behind filters, in a store: made at the first filter, and equal to the records whatever happens."""

from __future__ import annotations

import threading
from datetime import timedelta

import numpy as np
import pytest

from lethevec import Auto, Pivots
from lethevec._filters import matches, parse
from lethevec._native import core
from lethevec.errors import IdError, ParameterError

BOTH_LAYOUTS = True

FILTERS = [
    {"n": {"$gte": 20, "$lt": 30}},
    {"tags": {"$contains": "even"}},
    {"tags": {"$all": ["even", "third"]}},
    {"deep.er": {"$in": [1, 2]}},
    {"title": {"$text": "7"}},
    {"title": {"$regex": "^no [12]\\d$"}},
    {"day": {"$gte": "2024-01-15", "$lt": "2024-02-01T12:00:00+02:00"}},
    {"$subject": "s1", "n": {"$ne": 4}},
    {"$id": {"$in": [1, 2, 999]}},
    {"$or": [{"n": 3}, {"long": {"$exists": True}}]},
    {"long": {"$text": "needle"}},
]


def payload(i):
    made = {"n": i, "title": f"no {i}", "deep": {"er": i % 4}, "day": f"2024-{1 + i % 3:02}-{1 + i % 28:02}"}
    made["tags"] = [word for word, every in (("even", 2), ("third", 3)) if i % every == 0]
    if i % 10 == 0:
        made["long"] = "x" * 3000 + "needle" * (i % 20 == 0)
    return made


class Records:
    """A store beside a dict of what it should hold."""

    def __init__(self, db):
        self.db = db
        self.live = {}

    def add(self, ids, **how):
        ids = list(ids)
        made = {i: (f"s{i % 3}", payload(i)) for i in ids}
        rng = np.random.default_rng(ids[0])
        self.db.add(rng.normal(size=(len(ids), 8)), ids=ids, subjects=[s for s, _ in made.values()],
                    payloads=[p for _, p in made.values()], **how)  # fmt: skip
        self.live |= made

    def check(self, *others):
        for where in FILTERS:
            node = parse(where)
            expected = {id for id, (subject, held) in self.live.items() if matches(node, id, subject, held)}
            for db in (self.db, *others):
                assert db.count(where=where) == len(expected), where
                found = db.search(np.ones(8), k=len(self.live) + 1, where=where)[0]
                assert {hit.id for hit in found} == expected, where

    def memory(self):
        return core.testing.raw_memory(self.db._mirror.index._native)


@pytest.mark.parametrize("filters", [True, False, ["n", "tags"]])
def test_follows_every_change(make, filters):
    records = Records(make(filters=filters))
    records.add(range(60))
    assert not records.db._fields.used
    records.check()
    assert records.db._fields.used
    reader = make(dim=None, metric=None, read_only=True, filters=filters)
    records.check(reader)
    records.add(range(60, 90))
    records.check(reader)
    records.db.update(ids=[5, 6], payloads=[{"n": 21}, None])
    records.live[5], records.live[6] = ("s2", {"n": 21}), ("s0", None)
    records.check(reader)
    records.db.update(ids=[7], vectors=np.ones((1, 8)), subjects=["s1"])
    records.live[7] = ("s1", payload(7))
    records.check(reader)
    records.db.forget(list(range(10, 40)))
    for id in range(10, 40):
        del records.live[id]
    records.check(reader)
    records.db.forget(subject="s2")
    records.live = {id: held for id, held in records.live.items() if held[0] != "s2"}
    records.check(reader)


def test_the_digest_does_not_know_which_fields_are_indexed(make):
    stores = [make(f"{i}.lethe", filters=filters) for i, filters in enumerate((True, False, ["n"]))]
    for db in stores:
        records = Records(db)
        records.add(range(20))
        records.check()
    assert len({db.digest() for db in stores}) == 1


def test_nothing_of_a_record_is_left_in_memory(make):
    records = Records(make())
    records.add(range(30))
    records.check()
    assert b"no 13" in records.memory()
    assert b"\x00s1" in records.memory() or b"s1" in records.memory()
    records.db.update(ids=[14], payloads=[{"title": "other"}])
    assert b"no 14" not in records.memory()
    records.db.forget([13])
    assert b"no 13" not in records.memory()
    reader = make(dim=None, metric=None, read_only=True)
    assert reader.count(where={"title": "no 15"}) == 1
    records.db.forget([15])
    assert len(reader) == 29 - 1
    assert b"no 15" not in core.testing.raw_memory(reader._mirror.index._native)
    records.db.forget(list(range(13)), ignore_unknown=True)
    records.db.forget(list(range(14, 30)), ignore_unknown=True)
    assert len(records.db) == 0
    memory = records.memory()
    assert not any(word in memory for word in (b"no 1", b"even", b"third", b"title", b"2024"))


def test_a_change_that_is_taken_back(make):
    records = Records(make())
    records.add(range(20))
    records.check()
    batches = [
        {"ids": [100, 101], "vectors": np.ones((2, 8)), "payloads": [{"title": "never was"}, {"n": 25}]},
        {"ids": [3], "vectors": np.ones((1, 8))},
    ]
    with pytest.raises(IdError):
        records.db.load(batches)
    records.check()
    assert b"never was" not in records.memory()


def test_when_the_index_changes_its_source(make):
    """With many records it is made again, in both directions, and its rows lie differently."""
    records = Records(make(index={"source": Auto(pivots_from=50, pivots=Pivots(cell_size=8))}))
    records.add(range(40, 0, -1))
    records.check()
    records.add(range(90, 41, -1))
    records.check()
    records.db.forget(list(range(1, 61)), ignore_unknown=True)
    records.live = {id: held for id, held in records.live.items() if id > 60}
    records.check()


def test_searches_while_records_come_and_go(make):
    """Rows move under a search that has a filter; what it finds passes the filter all the same."""
    db = make()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 8)).astype(np.float32)
    kinds = [{"kind": i % 3} for i in range(600)]
    db.add(x[:300], ids=range(300), payloads=kinds[:300])
    wrong, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            for kind in range(3):
                hits = db.search(x[kind], k=20, where={"kind": kind})[0]
                wrong.extend(hit.id for hit in hits if hit.id % 3 != kind)
                if len(hits) != 20:
                    wrong.append(len(hits))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for start in range(300, 360, 20):
        db.add(x[start : start + 20], ids=range(start, start + 20), payloads=kinds[start : start + 20])
        db.forget(list(range(start - 300, start - 280)))
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def deep(levels):
    made = {"a": 1}
    for _ in range(levels):
        made = {"$not": made}
    return made


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (deep(1000), "levels"),
        ({"a": {"$near": 1}}, "\\$near"),
        ({"$nor": [{"a": 1}]}, "\\$nor"),
        ({"a": {"$regex": "(a{1000}){1000}"}}, "regex|pattern|where"),
        ({"a": {"$regex": "("}}, "regex|pattern|where"),
        ({"a": {"$in": "text"}}, "list"),
        ({"a": {"$gt": None}}, "number or a string"),
        ({"a": [1]}, "expected"),
        ([], "mapping"),
    ],
)
def test_what_cannot_be_read_changes_nothing(make, where, words):
    db = make()
    db.add(np.ones((1, 8)), ids=[1], payloads=[{"a": "a" * 40 + "b"}])
    before = db.digest()
    for call in (lambda: db.count(where=where), lambda: db.search(np.ones(8), where=where)):
        with pytest.raises(ParameterError, match=words):
            call()
    assert db.digest() == before
    assert db.count(where={"a": {"$regex": "^(a+)+$"}}) == 0  # this one blows up where patterns are tried one by one


@pytest.mark.parametrize("filters", [None, "n", [1], ["$x"], 3])
def test_fields_that_cannot_be(make, filters):
    with pytest.raises(ParameterError):
        make(filters=filters)


def test_a_payload_of_megabytes(make):
    db = make()
    text = "".join(map(chr, np.random.default_rng(0).integers(97, 123, size=2_000_000)))
    db.add(np.ones((2, 8)), ids=[1, 2], payloads=[{"text": text, "n": 1}, {"n": 2, "many": list(range(50_000))}])
    assert db.count(where={"text": {"$text": text[1_000_000:1_000_050]}}) == 1
    assert db.count(where={"many": {"$contains": 49_999}, "n": {"$gt": 1}}) == 1
    db.forget([1, 2])
    assert text[:40].encode() not in core.testing.raw_memory(db._mirror.index._native)


def test_records_without_a_vector(make):
    """They are counted and found by filters, never by a search, also when a vector comes or goes."""
    records = Records(make())
    records.add(range(20))
    records.db.add(None, ids=[100, 101, "text"], payloads=[{"n": 22}, {"n": 23}, {"n": 5}], subjects="s1")
    where = {"n": {"$gte": 20, "$lt": 30}}
    assert records.db.ids(where) == [100, 101]
    reader = make(dim=None, metric=None, read_only=True)
    assert reader.ids(where) == [100, 101]
    assert reader.ids({"$id": {"$in": ["text", 3, 100]}}) == [3, 100, "text"]
    assert records.db.search(np.ones(8), where=where)[0] == []
    records.db.upsert(np.ones((1, 8)), ids=[100], payloads=[{"n": 24}])
    for db in (records.db, reader):
        assert db.count(where) == 2
        assert [hit.id for hit in db.search(np.ones(8), where=where)[0]] == [100]
    records.db.update(None, ids=[100])
    for db in (records.db, reader):
        assert db.ids(where) == [100, 101]
        assert db.search(np.ones(8), where=where)[0] == []

    def fail():
        with records.db.transaction():
            records.db.forget([101])
            assert records.db.ids(where) == [100]
            records.db.update(ids=[100], payloads=[{"n": 1}])
            assert records.db.ids(where) == []
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        fail()
    for db in (records.db, reader):
        assert db.ids(where) == [100, 101]
    assert records.db.forget(where=where).records == 2
    for db in (records.db, reader):
        assert db.count(where) == 0
    assert b"text" not in records.db._fields._bare._rows.raw_memory()


def test_what_has_expired_passes_no_filter(make):
    now = 1e9
    db = make(clock=lambda: now)
    day = timedelta(days=1)
    db.add(np.ones((2, 8)), ids=[1, 2], payloads=[{"n": 1}, {"n": 1}], expires=[day, None])
    db.add(None, ids=[3, 4], payloads=[{"n": 1}, {"n": 1}], expires=[day, None])
    assert db.ids({"n": 1}) == [1, 2, 3, 4]
    now += 2 * 86_400
    assert db.ids({"n": 1}) == [2, 4]
    assert db.count({"n": 1}) == 2
    assert [hit.id for hit in db.search(np.ones(8), where={"n": 1})[0]] == [2]
    assert db.forget(where={"n": 1}).records == 4


def test_a_filter_that_fails_on_another_thread(make, monkeypatch):
    """It gives up the structure, in the middle of a page or of a long walk: that is evaluated again."""
    from lethevec._store import selecting

    monkeypatch.setattr(selecting, "_FEW", 10)
    db = make()
    records = Records(db)
    records.add(range(200))
    fields, in_order, calls = db._selector._fields, selecting.in_order, []

    def given_up(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            fields._give_up()
        return in_order(*arguments)

    monkeypatch.setattr(selecting, "in_order", given_up)
    assert db.ids(where={"n": {"$gte": 20}}) == list(range(20, 200))
    assert len(calls) > 1
