"""Several calls as one transaction: all or nothing, in the files and in the index in memory."""

# A transaction that is to fail takes several statements inside `raises`.
# ruff: noqa: PT012

from __future__ import annotations

import threading
from contextlib import nullcontext

import numpy as np
import pytest

from lethevec import Auto, Pivots
from lethevec._store.forgetting import Forgetter
from lethevec.errors import ErasureIncompleteError, FileError, IdError, IncompleteWriteError, UnsupportedError

BOTH_LAYOUTS = True
NAMES = [f"name-of-person-{i:02d}" for i in range(40)]


@pytest.fixture
def filled(make, vectors):
    db = make()
    db.add(vectors, ids=NAMES, subjects=[f"subject-{i % 4}" for i in range(40)], payloads=[{"n": i} for i in range(40)])
    return db


def interrupt(*_):
    raise KeyboardInterrupt


def everything(db, queries):
    hits, index = db.search(queries, k=50), db._mirror.index
    # Not the digest of the index: each store has drawn a key of its own.
    held = [column.tolist() for column in index._records.columns()]
    return db.digest(), db.ids(), hits.ids.tolist(), hits.distances.tolist(), held


def change(db, vectors):
    """One of each; the receipts of the forgets."""
    db.add(-vectors[:3], ids=["new-0", "new-1", 7], payloads=[{"n": 100}] * 3)
    db.add(None, ids=["bare"])
    db.update(vectors[:2] * 2, ids=NAMES[:2])
    db.upsert([None, vectors[9] * 3], ids=[NAMES[2], NAMES[3]])
    first = db.forget(NAMES[4:6])
    db.update(ids=NAMES[6], payloads=[{"more": 1}], merge=True)
    second = db.forget(where={"n": {"$gte": 30}})
    return [first, second, db.forget(subject="subject-1")]


class TestCommit:
    def test_all_of_it(self, filled, make, vectors, tmp_path, leftovers, unaccounted):
        alone = make("alone.lethe")
        alone.add(
            vectors, ids=NAMES, subjects=[f"subject-{i % 4}" for i in range(40)], payloads=[{"n": i} for i in range(40)]
        )
        with filled.transaction():
            receipts = change(filled, vectors)
            assert len(filled) == len(filled.ids())
        one_by_one = change(alone, vectors)
        assert everything(filled, vectors) == everything(alone, vectors)
        assert [r.records for r in receipts] == [r.records for r in one_by_one] == [2, 13, 7]
        assert filled.receipts() == receipts
        assert [r.sequence for r in receipts] == [1, 2, 3]
        for receipt in receipts:
            assert filled.verify(receipt), str(filled.verify(receipt))
        alone.close()
        for path in tmp_path.glob("alone*"):
            path.unlink()
        assert leftovers(tmp_path, vectors=[*vectors[4:6], *vectors[30:]], ids=[*NAMES[4:6], *NAMES[30:]]) == []
        assert unaccounted(filled.path) == {}

    def test_calls_inside_see_it_and_others_do_not_yet(self, filled, make, vectors):
        reader = make(read_only=True)
        with filled.transaction():
            filled.add(vectors[:1] * 9, ids=["new"])
            filled.forget(NAMES[0])
            assert filled.search(vectors[0] * 9, k=1).ids.tolist() == [["new"]]
            assert NAMES[0] not in filled
            assert filled.count() == 40
            assert "new" not in reader
            assert reader.search(vectors[0], k=1).ids.tolist() == [[NAMES[0]]]
        assert "new" in reader
        assert NAMES[0] not in reader

    def test_what_enters_and_leaves_inside_is_nowhere(self, filled, tmp_path, leftovers, unaccounted, vectors):
        """Also not in the log, where a large transaction goes before it is committed."""
        filled._session.connection.execute("PRAGMA cache_size=5")
        rng = np.random.default_rng(8)
        passing = rng.normal(size=(300, 8)).astype(np.float32)
        with filled.transaction():
            filled.add(
                passing, ids=range(300), payloads=[{"text": f"a passing thought {i:05d}" * 10} for i in range(300)]
            )
            receipt = filled.forget(range(300))
        assert receipt.records == 300
        assert leftovers(tmp_path, vectors=passing, texts=[f"a passing thought {i:05d}" for i in range(300)]) == []
        assert unaccounted(filled.path) == {}

    @pytest.mark.parametrize("id", [10**12 + 7, 10**15 + 49, "a name of some length"])
    def test_a_forgotten_id_may_come_back_at_once(self, filled, vectors, tmp_path, leftovers, id):
        """Its bytes are those of the new record then, and no residue; those of the old one are."""
        old, new = vectors[:1] * 3, vectors[1:2] * 5
        filled.add(old, ids=id, payloads=[{"note": "what was said before"}])
        with filled.transaction():
            receipt = filled.forget(id)
            filled.add(new, ids=id)
        assert receipt.records == 1
        assert leftovers(tmp_path, vectors=old, texts=["what was said before"]) == []
        receipt = filled.forget(id)
        assert filled.verify(receipt, ids=id, vectors=new)
        assert leftovers(tmp_path, vectors=new, ids=[id]) == []

    def test_an_empty_one(self, filled, vectors):
        before = everything(filled, vectors)
        with filled.transaction():
            pass
        assert everything(filled, vectors) == before

    def test_the_receipt_comes_with_the_commit(self, filled):
        with filled.transaction():
            receipt = filled.forget(NAMES[3])
            assert repr(receipt) == "<Receipt that is not signed yet>"
            for question in (receipt.to_json, lambda: receipt.records, lambda: receipt["erased"], receipt.hash):
                with pytest.raises(ErasureIncompleteError, match="signed when the transaction has been committed"):
                    question()
            with pytest.raises(AttributeError):
                receipt.nothing  # noqa: B018
        assert receipt.records == 1
        assert receipt == filled.receipts()[0]
        assert filled.verify(receipt, ids=NAMES[3])

    def test_an_erasure_that_cannot_be_completed(self, filled, make, vectors):
        import sqlite3

        reader = sqlite3.connect(filled.path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM store").fetchall()
        with pytest.raises(ErasureIncompleteError), filled.transaction():
            filled.upsert(vectors[:1], ids=["new"])
            receipt = filled.forget(NAMES[3], timeout=0.05)
        assert "new" in filled, "it is committed"
        assert NAMES[3] not in filled
        assert filled.pending_erasures() == 1
        with pytest.raises(ErasureIncompleteError):
            receipt.to_json()
        reader.close()
        assert [r.records for r in filled.complete_erasures()] == [1]

    def test_an_interrupt_just_after_the_commit(self, filled, vectors, monkeypatch):
        """The changes are there, and so are the receipts: in the chain, at the next call."""
        keep = Forgetter.keep
        with monkeypatch.context() as patch:
            patch.setattr(Forgetter, "keep", interrupt)
            with pytest.raises(KeyboardInterrupt), filled.transaction():
                filled.forget(NAMES[:3])
        assert keep is Forgetter.keep
        assert NAMES[0] not in filled
        filled.search(vectors[0])
        assert [receipt.records for receipt in filled.receipts()] == [3]
        with filled.transaction():
            receipt = filled.forget(NAMES[5:7])
        assert receipt.records == 2
        assert filled.verify(receipt)


class TestRollback:
    def test_nothing_of_it(self, filled, make, vectors, tmp_path, leftovers, unaccounted):
        before = everything(filled, vectors)
        with pytest.raises(ZeroDivisionError), filled.transaction():
            receipts = change(filled, vectors)
            raise ZeroDivisionError
        assert everything(filled, vectors) == before
        assert filled.receipts() == []
        assert filled.pending_erasures() == 0
        for receipt in receipts:
            with pytest.raises(ErasureIncompleteError):
                receipt.to_json()
        filled.forget(NAMES[39])
        assert leftovers(tmp_path, ids=["new-0", "new-1"], vectors=[*vectors[:2] * 2, vectors[9] * 3]) == []
        assert unaccounted(filled.path) == {}
        filled.close()
        again = make()
        assert len(again) == 39

    @pytest.mark.parametrize(
        "index",
        [
            {"source": Auto(pivots_from=38, pivots=Pivots(cell_size=4, refine=True))},
            {"source": "tables"},
            {"family": "usr", "bits": 64},
            {"keep_vectors": False},
        ],
        ids=["auto", "tables", "codes", "no vectors in memory"],
    )
    def test_every_kind_of_index_is_put_back(self, make, vectors, index):
        db = make(index=index)
        scales = 2.0 ** np.arange(40)[:, None] % 7 + 0.5
        db.add(vectors * scales, ids=NAMES, subjects=["subject-1"] * 40, payloads=[{"n": i} for i in range(40)])
        before = everything(db, vectors)
        with pytest.raises(ZeroDivisionError), db.transaction():
            change(db, vectors)
            raise ZeroDivisionError
        assert everything(db, vectors) == before
        receipt = db.forget(NAMES[7])
        assert db.verify(receipt)

    def test_an_interrupt(self, filled, vectors):
        before = everything(filled, vectors)
        with pytest.raises(KeyboardInterrupt), filled.transaction():
            change(filled, vectors)
            raise KeyboardInterrupt
        assert everything(filled, vectors) == before

    def test_a_call_that_fails_inside_is_undone_alone(self, filled, make, vectors):
        with filled.transaction():
            filled.add(vectors[:1] * 5, ids=["kept"])
            with pytest.raises(IdError):
                filled.load(
                    [{"vectors": vectors[:2] * 6, "ids": ["a", "b"]}, {"vectors": vectors[:1], "ids": [NAMES[0]]}]
                )
            assert "a" not in filled
            assert filled.search(vectors[0] * 6, k=1).ids.tolist() == [["kept"]]
            filled.forget(NAMES[1])
        other = make("other.lethe")
        keep = [0, *range(2, 40)]
        other.add(
            vectors[keep],
            ids=[NAMES[i] for i in keep],
            subjects=[f"subject-{i % 4}" for i in keep],
            payloads=[{"n": i} for i in keep],
        )
        other.add(vectors[:1] * 5, ids=["kept"])
        assert everything(filled, vectors) == everything(other, vectors)

    def test_a_full_disk_inside(self, filled, vectors, monkeypatch):
        """SQLite may roll the whole transaction back by itself: then no call may go on as if nothing had happened."""
        import sqlite3

        before = everything(filled, vectors)
        tables = filled._session.tables
        insert = type(tables).insert

        def fail(self, records):
            insert(self, records)
            self.connection.execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")

        with (
            pytest.raises(IncompleteWriteError, match="rolled back when one of its calls failed"),
            filled.transaction(),
        ):
            filled.add(vectors[:1] * 5, ids=["first"])
            with monkeypatch.context() as patch, pytest.raises(IncompleteWriteError, match="disk is full"):
                patch.setattr(type(tables), "insert", fail)
                filled.add(vectors[:1] * 6, ids=["second"])
            with pytest.raises(IncompleteWriteError, match="rolled back when one of its calls failed"):
                filled.add(vectors[:1] * 7, ids=["third"])
        assert everything(filled, vectors) == before
        filled.add(vectors[:1] * 7, ids=["fourth"])

    def test_the_index_is_mended_later_if_the_tables_cannot_be_read_at_once(self, filled, vectors, monkeypatch):
        before = everything(filled, vectors)
        tables = filled._session.tables

        def fail(self, slots):
            raise FileError("cannot be read now")

        with monkeypatch.context() as patch:
            with pytest.raises(ZeroDivisionError), filled.transaction():
                filled.forget(NAMES[:5])
                patch.setattr(type(tables), "read_slots", fail)
                raise ZeroDivisionError
            with pytest.raises(FileError, match="cannot be read now"):
                filled.search(vectors[0])
        assert everything(filled, vectors) == before


class TestRefused:
    @pytest.mark.parametrize("call", ["transaction", "verify", "backup", "rotate_keys", "complete_erasures", "close"])
    def test_what_cannot_be_a_part_of_it(self, filled, vectors, tmp_path, call):
        receipt = filled.forget(NAMES[0])
        before = everything(filled, vectors)
        arguments = {"verify": [receipt], "backup": [tmp_path / "copy"]}.get(call, [])
        with filled.transaction():
            filled.add(vectors[:1], ids=["new"])
            with pytest.raises(UnsupportedError, match=f"{call}: expected no transaction under way"):
                if call == "transaction":
                    with filled.transaction():
                        pass
                else:
                    getattr(filled, call)(*arguments)
            filled.forget("new")
        assert everything(filled, vectors) == before

    def test_readers_have_none(self, filled, make):
        reader = make(read_only=True)
        with pytest.raises(UnsupportedError, match="read_only"), reader.transaction():
            pass

    def test_a_closed_store(self, filled):
        filled.close()
        with pytest.raises(FileError, match="closed"), filled.transaction():
            pass


@pytest.mark.parametrize("commit", [False, True], ids=["rolled back", "committed"])
def test_other_threads_see_all_or_nothing(filled, vectors, commit):
    """Without a pause between transactions: a search that ran into one is done again, and comes to an end."""
    stop = threading.Event()
    wrong: list = []
    seen = [0]

    def look() -> None:
        while not stop.is_set():
            try:
                ids = {hit.id for hit in filled.search(vectors[0], k=60)[0]}
            except Exception as error:  # so that the test says so
                wrong.append(error)
                return
            seen[0] += 1
            # Every transaction takes one record for each that it puts in.
            if len(ids) != 40 or (not commit and ids != set(NAMES)):
                wrong.append(ids)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(40):
            with nullcontext() if commit else pytest.raises(ZeroDivisionError), filled.transaction():
                filled.add(vectors[:1] * (2 + turn), ids=[f"new-{turn}"])
                filled.update([None], ids=[NAMES[39 - turn]])
                if not commit:
                    raise ZeroDivisionError
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert seen[0] > 0


def test_other_threads_see_a_load_as_a_whole(make):
    rng = np.random.default_rng(4)
    db = make(dim=16)
    stop = threading.Event()
    counts: set[int] = set()

    def look() -> None:
        while not stop.is_set():
            counts.add(len(db.search(np.ones(16), k=4000)[0]))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for turn in range(3):
            first = turn * 1000
            db.load(
                {"vectors": rng.normal(size=(50, 16)), "ids": range(i, i + 50)} for i in range(first, first + 1000, 50)
            )
    finally:
        stop.set()
        thread.join()
    assert counts <= {0, 1000, 2000, 3000}
