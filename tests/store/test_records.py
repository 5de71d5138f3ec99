"""Records in, records out: add, update, get, search, iteration, and everything that is refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from lethevec import KEEP, Index, Tables
from lethevec._index.config import Config
from lethevec._store.ids import number_of
from lethevec.errors import (
    FileError,
    IdError,
    InputError,
    LethevecError,
    ParameterError,
    UnknownIdError,
    UnsupportedError,
    VectorError,
)

BOTH_LAYOUTS = True


class TestAddAndGet:
    def test_all_parts_come_back(self, make, vectors):
        db = make()
        db.add(vectors[:3], ids=[3, "b", 1], subjects=["s", None, "t"], payloads=[{"a": [1, None, "é"]}, None, {}])
        for store in (db, make(read_only=True)):
            records = store.get(["b", 3, 1])
            assert [r.id for r in records] == ["b", 3, 1]
            assert [r.subject for r in records] == [None, "s", "t"]
            assert [r.payload for r in records] == [None, {"a": [1, None, "é"]}, {}]
            assert np.array_equal(np.stack([r.vector for r in records]), vectors[[1, 0, 2]])
            assert len(store) == 3
            assert 3 in store
            assert "b" in store
            assert "3" not in store
            assert 4 not in store
            assert None not in store
            assert store.subjects() == {"s": 1, "t": 1}

    def test_they_survive_closing(self, make, vectors):
        db = make()
        db.add(vectors, ids=range(40), subjects="all")
        digest, answers = db.digest(), db.search(vectors[:5], k=7)
        db.close()
        again = make(dim=None, metric=None)
        assert again.digest() == digest
        assert again.dim == 8
        assert again.metric == "l2"
        assert np.array_equal(again.search(vectors[:5], k=7).ids, answers.ids)

    def test_numpy_ids_and_one_record(self, make, vectors):
        db = make()
        db.add(vectors[0], ids=5)
        db.add(vectors[1], ids="x", subjects="s")
        db.add(vectors[2:4], ids=np.array([7, 9], dtype=np.uint8))
        db.add(vectors[4:6], ids=np.array(["p", "q"]))
        assert sorted((r.id for r in db), key=str) == [5, 7, 9, "p", "q", "x"]
        assert all(type(r.id) in (int, str) for r in db)

    def test_iteration_is_in_the_order_of_ids_and_in_parts(self, make, vectors, monkeypatch):
        monkeypatch.setattr("lethevec._store.reading._PART", 7)
        db = make()
        numbers, names = [2**62 + 1, 2**63 - 1, *range(18)], [f"name-{i}" for i in range(20)]
        db.add(vectors, ids=names + numbers)
        assert [r.id for r in db] == db.ids() == sorted(numbers) + sorted(names)

    def test_a_load_holds_one_batch_at_a_time(self, make):
        """What Python holds at most does not grow with the number of batches, but for eight bytes a record."""
        rng = np.random.default_rng(1)
        peaks = []
        for count in (5, 40):
            db = make(f"{count}.lethe", dim=200)
            tracemalloc.start()
            db.load(
                {"vectors": rng.normal(size=(200, 200)), "ids": range(200 * i, 200 * i + 200)} for i in range(count)
            )
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert len(db) == 200 * count
        assert peaks[0] > 200 * 200 * 4
        assert peaks[1] < 1.5 * peaks[0]

    def test_load_in_batches_is_one_transaction(self, make, vectors):
        db = make()
        batches = [{"vectors": vectors[i : i + 10], "ids": range(i, i + 10), "subjects": "s"} for i in range(0, 40, 10)]
        assert db.load(batches, total=40) == 40
        one = make("one")
        one.add(vectors, ids=range(40), subjects="s")
        assert db.digest() == one.digest()
        bad = [{"vectors": vectors[:2], "ids": [100, 101]}, {"vectors": vectors[:1], "ids": [3]}]
        with pytest.raises(IdError, match="got 3, which is there already"):
            db.load(bad)
        assert 100 not in db
        assert db.digest() == one.digest()
        assert (db.search(vectors[0], k=40).ids != 100).all()


class TestRefused:
    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ({"ids": [1, 1]}, IdError),
            ({"ids": [1, 7]}, IdError),
            ({"ids": ["a", "a"]}, IdError),
            ({"ids": [1]}, InputError),
            ({"ids": [1, 2, 3]}, InputError),
            ({"ids": [1, 2.5]}, IdError),
            ({"ids": [True, 2]}, IdError),
            ({"ids": [1, None]}, IdError),
            ({"ids": [1, -1]}, IdError),
            ({"ids": [1, 2**63]}, IdError),
            ({"ids": [1, ""]}, IdError),
            ({"ids": [1, "a\0b"]}, IdError),
            ({"ids": [1, "\ud800"]}, IdError),
            ({"ids": [1, "x" * 5000]}, IdError),
            ({"ids": [[1, 2]]}, IdError),
            ({"ids": np.ones((2, 1), dtype=int)}, IdError),
            ({"ids": None}, IdError),
            ({"subjects": ["a"]}, InputError),
            ({"subjects": [1, 2]}, InputError),
            ({"subjects": ["", "b"]}, InputError),
            ({"payloads": [{}]}, InputError),
            ({"payloads": {"a": 1}}, InputError),
            ({"payloads": "ab"}, InputError),
            ({"payloads": [{}, 3]}, InputError),
            ({"payloads": [{}, {"x": float("nan")}]}, InputError),
            ({"payloads": [{}, {1: 2}]}, InputError),
            ({"payloads": [{}, {"x": (1, 2)}]}, InputError),
            ({"payloads": [{}, {"x": {1, 2}}]}, InputError),
            ({"payloads": [{}, {"x": "\ud800"}]}, InputError),
            ({"vectors": np.ones((2, 7))}, VectorError),
            ({"vectors": np.full((2, 8), np.nan)}, VectorError),
            ({"vectors": np.full((2, 8), 1e30)}, VectorError),  # refused by the index: nothing may be committed
            ({"vectors": [["a"] * 8] * 2}, VectorError),
        ],
    )
    def test_add_leaves_everything_as_it_was(self, make, vectors, change, error):
        db = make()
        db.add(vectors[:2], ids=[7, "seven"])
        before = db.digest(), db.search(vectors[:3], k=5).ids.tolist()
        with pytest.raises(error) as caught:
            db.add(**{"vectors": vectors[2:4], "ids": [1, 2], **change})
        assert "expected" in str(caught.value)
        assert (db.digest(), db.search(vectors[:3], k=5).ids.tolist()) == before
        db.close()
        again = make()
        assert (again.digest(), again.search(vectors[:3], k=5).ids.tolist()) == before
        again.add(vectors[2:4], ids=[1, 2])

    def test_zero_under_cosine(self, make):
        with pytest.raises(VectorError, match="nonzero"):
            make(metric="cosine").add(np.zeros((1, 8)), ids=[1])

    def test_two_ids_with_one_row(self, make, vectors):
        db = make()
        twin = number_of("name")
        db.add(vectors[0], ids="name")
        assert twin not in db
        with pytest.raises(IdError, match="there already"):
            db.add(vectors[1], ids=twin)
        with pytest.raises(UnknownIdError):
            db.forget(twin)
        with pytest.raises(IdError, match="share one"):
            db.add(vectors[1:3], ids=["other", number_of("other")])

    def test_no_ids_are_no_error(self, make, vectors):
        db = make()
        db.add(vectors, ids=range(40))
        before = db.digest()
        assert db.get([]) == []
        db.update(ids=[], subjects="s")
        receipt = db.forget([])
        assert receipt.records == 0
        assert db.verify(receipt)
        assert db.digest() == before
        with pytest.raises(IdError, match="expected the ids of the records to update, got none"):
            db.update(vectors)

    def test_unknown_ids(self, make, vectors):
        db = make()
        db.add(vectors[:2], ids=[1, 2])
        for call in (db.get, db.forget, lambda ids: db.update(ids=ids, subjects="s")):
            with pytest.raises(UnknownIdError, match=r"got 'nobody', which is not \(1 are not\)"):
                call([1, "nobody"])
        assert len(db) == 2

    def test_open(self, make, tmp_path):
        with pytest.raises(ParameterError, match="dim: expected"):
            make(dim=None)
        assert [path.name for path in tmp_path.iterdir()] == ["people.lethe-lock"]
        for bad in ({"dim": 0}, {"dim": "8"}, {"metric": "manhattan"}, {"index": {"seed": "x"}}, {"timeout": -1}):
            with pytest.raises((ParameterError, InputError), match="expected"):
                make(**bad)
        with pytest.raises((ParameterError, TypeError)):
            make(index={"no_such_option": 1})
        with pytest.raises(InputError, match="index: expected a dict"):
            make(index=[1])
        make().close()
        for bad in ({"dim": 9}, {"metric": "ip"}, {"index": {"seed": 3}}):
            with pytest.raises(ParameterError, match="as the store was created"):
                make(**bad)
        with pytest.raises(FileError, match="expected a store to read, got nothing there"):
            make("other", read_only=True)
        with pytest.raises(FileError, match="expected a folder"):
            make("no/where")

    def test_closed_and_read_only(self, make, vectors):
        db = make()
        db.add(vectors[:1], ids=[1])
        reader = make(read_only=True)
        for call in (
            lambda: reader.add(vectors[1:2], ids=[2]),
            lambda: reader.update(ids=[1], subjects="s"),
            lambda: reader.forget([1]),
            lambda: reader.complete_erasures(),
            lambda: reader.rotate_keys(),
        ):
            with pytest.raises(UnsupportedError, match="read_only=True"):
                call()
        db.close()
        db.close()
        assert "closed" in repr(db)
        for call in (
            lambda: len(db),
            lambda: 1 in db,
            lambda: db.search(vectors[0]),
            lambda: db.get([1]),
            lambda: db.add(vectors[1:2], ids=[2]),
            lambda: db.forget([1]),
            lambda: list(db),
            lambda: db.receipts(),
            lambda: db.backup("x"),
        ):
            with pytest.raises(FileError, match="got a closed one"):
                call()


class Interrupted:
    """A connection that is interrupted as soon as a commit is done, as by Ctrl-C during a long one."""

    def __init__(self, connection):
        self._connection = connection

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, sql, *parameters):
        result = self._connection.execute(sql, *parameters)
        if sql == "COMMIT":
            raise KeyboardInterrupt
        return result


class TestInterrupts:
    @pytest.mark.parametrize("operation", ["add", "update", "forget"])
    def test_just_after_a_commit(self, make, vectors, operation):
        """It is done, then, and the index in memory must say so too."""
        db = make()
        db.add(vectors[:10], ids=range(10))
        session = db._session
        connection = session.connection
        session.connection = Interrupted(connection)
        with pytest.raises(KeyboardInterrupt):
            {
                "add": lambda: db.add(vectors[10:12], ids=[10, 11]),
                "update": lambda: db.update(ids=[3], vectors=vectors[20]),
                "forget": lambda: db.forget([3]),
            }[operation]()
        session.connection = connection
        expected = {i: vectors[i] for i in range(10)}
        if operation == "add":
            expected |= {10: vectors[10], 11: vectors[11]}
        elif operation == "update":
            expected[3] = vectors[20]
        else:
            del expected[3]
        assert {record.id: record.vector.tolist() for record in db} == {i: v.tolist() for i, v in expected.items()}
        for id, vector in expected.items():
            hit = db.search(vector, k=1)[0][0]
            assert (hit.id, hit.distance) == (id, 0)
        assert len(db) == len(expected)
        db.add(vectors[30], ids=[30])
        db.close()
        again = make()
        assert len(again) == len(expected) + 1
        assert again.pending_erasures() == 0
        assert len(again.receipts()) == (operation == "forget")


class TestUpdate:
    def test_what_is_not_given_stays(self, make, vectors):
        db = make()
        db.add(vectors[:2], ids=[1, "b"], subjects=["s", "t"], payloads=[{"n": 1}, {"n": 2}])
        db.update(ids=[1], vectors=vectors[5])
        db.update(ids=["b", 1], payloads=[{"n": 3}, None])
        db.update(ids=["b"], subjects=None)
        one, b = db.get([1, "b"])
        assert (one.subject, one.payload) == ("s", None)
        assert (b.subject, b.payload) == (None, {"n": 3})
        assert np.array_equal(one.vector, vectors[5])
        assert db.search(vectors[5], k=1).ids == [[1]]
        fresh = make("fresh")
        fresh.add(vectors[[1, 5]], ids=["b", 1], subjects=[None, "s"], payloads=[{"n": 3}, None])
        assert fresh.digest() == db.digest()
        assert repr(KEEP) == "KEEP"

    def test_a_refused_update_changes_nothing(self, make, vectors):
        db = make()
        db.add(vectors[:2], ids=[1, 2])
        before = db.digest()
        with pytest.raises(VectorError):
            db.update(ids=[1], vectors=np.full((1, 8), 1e30))
        with pytest.raises(UnknownIdError):
            db.update(ids=[1, 3], vectors=vectors[:2])
        assert db.digest() == before
        assert np.array_equal(db.get([1])[0].vector, vectors[0])


def without_key(config: Config) -> Config:
    """All but the key of pivots, which a store draws."""
    return config.with_key(None)


class TestSearch:
    @pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
    def test_answers_are_those_of_an_index_in_memory(self, make, metric):
        rng = np.random.default_rng(2)
        data = rng.normal(size=(500, 16)).astype(np.float32)
        queries = rng.normal(size=(20, 16)).astype(np.float32)
        db = make(dim=16, metric=metric)
        db.add(data[:400], ids=range(400))
        db.add(data[400:], ids=range(400, 500))
        db.forget(range(0, 500, 5))
        index = Index(dim=16, metric=metric)
        stay = [i for i in range(500) if i % 5]
        index.add(data[stay], ids=stay)
        for k, effort in ((1, 1.0), (10, 0.5), (600, 1.0)):
            mine, theirs = db.search(queries, k, effort=effort), index.search(queries, k, effort=effort)
            assert np.array_equal(mine.distances, theirs.distances)
            assert np.array_equal(np.where(mine.ids == None, -1, mine.ids).astype(int), theirs.ids)  # noqa: E711

    @pytest.mark.parametrize(
        "options",
        [
            {"seed": 7, "source": "auto"},
            {"seed": 7, "source": "scan"},
            {"family": "usr", "bits": 32},
            {"family": "usr", "bits": 32, "steps": 5, "ranking": "hamming"},
            {"keep_vectors": False},
            {"source": Tables(tables=3, key_bits=6)},
        ],
    )
    def test_every_option_of_the_index_is_kept(self, make, options):
        data = np.random.default_rng(2).normal(size=(300, 16)).astype(np.float32)
        index = Index(dim=16, metric="l2", **options) if options.get("keep_vectors", True) else None
        db = make(dim=16, index=options)
        db.add(data, ids=range(300))
        before = db.search(data[:20], k=5)
        if index is not None:
            index.add(data, ids=range(300))
            assert np.array_equal(before.distances, index.search(data[:20], k=5).distances)
        db.close()
        again = make(dim=16, index=options)
        kept = Index(16, "l2", **options).config
        assert again._session.state.configuration == kept.canonical().decode()
        assert without_key(again._mirror.index.config) == without_key(kept)
        assert again.search(data[:20], k=5).ids.tolist() == before.ids.tolist()
        again.update(ids=[3], vectors=data[4] * 2)
        again.forget([1, 2])
        assert len(again) == 298

    def test_ties_are_by_row(self, make):
        db = make(dim=2)
        names = [f"n{i}" for i in range(30)]
        ids = [*names, 9, 3, 40]
        db.add(np.ones((33, 2)), ids=ids)
        expected = sorted(ids, key=number_of)
        assert expected[:3] == [3, 9, 40]
        assert expected[3:] != names  # not the order of insertion, and not that of the alphabet
        assert expected[3:] != sorted(names)
        for k in (1, 5, 33):
            assert db.search([1, 0], k).ids[0].tolist() == expected[:k]

    def test_the_order_of_string_ids_never_changes(self):
        assert [number_of(name) for name in ("alice", "bob", "é", "x" * 100)] == ROWS

    def test_shapes_and_fillers(self, make, vectors):
        db = make()
        hits = db.search(vectors[:2], k=3)
        assert hits.ids.shape == hits.distances.shape == hits.payloads.shape == hits.subjects.shape == (2, 3)
        assert list(hits) == [[], []]
        db.add(vectors[:1], ids=["a"], subjects="s", payloads=[{"n": 1}])
        hits = db.search(vectors[0], k=3)
        assert hits.ids.tolist() == [["a", -1, -1]]
        assert hits.distances.tolist() == [[0.0, np.inf, np.inf]]
        assert hits.payloads[0, 0] == {"n": 1}
        (hit,) = hits[0]
        assert (hit.id, hit.distance, hit.subject, hit.payload) == ("a", 0.0, "s", {"n": 1})
        assert len(hits) == 1

    def test_bad_queries(self, make, vectors):
        db = make()
        db.add(vectors[:1], ids=["a"])
        for arguments in ({"queries": np.ones(7)}, {"queries": vectors, "k": 0}, {"queries": vectors, "effort": -1}):
            with pytest.raises(InputError):
                db.search(**arguments)


ROWS: list[int] = [5097467133668330404, 7946499840895509455, 6218148130439274870, 7663067586859225958]


@pytest.mark.parametrize("name", ["subjects", "payloads", "expires"])
def test_an_array_without_dimensions_is_no_list(make, vectors, name):
    db = make()
    with pytest.raises(LethevecError, match=name):
        db.add(vectors[:1], ids=[1], **{name: np.array(5)})
    with pytest.raises(LethevecError, match="batches"):
        db.load(np.array(5))
    assert len(db) == 0
