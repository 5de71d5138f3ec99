"""The key that picks pivots: drawn by each store, kept in its file, and in nothing that two stores are compared by."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from lethevec import Auto, Graph, Index, Pivots, Scan
from lethevec._index.sources import key_of, with_key
from lethevec._native import core
from lethevec._store import Store, opening
from lethevec._store import open as open_store
from lethevec.errors import FormatError, ParameterError

BOTH_LAYOUTS = True
PIVOTS = {
    "source": Auto(pivots_from=50, pivots=Pivots(cell_size=8))
}  # so that two hundred records are enough for many pivots
CHOSEN = bytes(range(16))


@pytest.fixture
def many() -> np.ndarray:
    return np.random.default_rng(7).normal(size=(200, 8)).astype(np.float32)


@pytest.fixture
def queries() -> np.ndarray:
    return np.random.default_rng(8).normal(size=(30, 8)).astype(np.float32)


def used_key(db: Store) -> bytes:
    """The key that the index in memory works with."""
    return bytes.fromhex(key_of(db._mirror.index.config.source))


def seed_key(seed: int = 0) -> bytes:
    return bytes.fromhex(key_of(Index(8, seed=seed).config.source))


def with_chosen(key: bytes | str) -> dict:
    return {"source": with_key(PIVOTS["source"], key)}


def rows(path: Path, sql: str) -> list:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def has_table(path: Path) -> bool:
    return bool(rows(path, "SELECT 1 FROM sqlite_master WHERE name = 'source_key'"))


def change(path: Path, sql: str, *parameters: object) -> None:
    connection = sqlite3.connect(path)
    connection.execute(sql, parameters)
    connection.commit()
    connection.close()


def pivots(found: Store | Index) -> list[int]:
    index = found._mirror.index if isinstance(found, Store) else found
    ids, real, *_ = core.testing.pivot_cells(index._native)
    return sorted(ids[real.astype(bool)].tolist())


def answers(found: Store | Index, queries: np.ndarray) -> tuple[list, list]:
    """At an effort so low that it shows which cells there are."""
    hits = found.search(queries, 5, effort=0.1)
    return [list(line) for line in hits.ids.tolist()], hits.distances.tolist()


class TestDrawn:
    def test_random_in_each_store_and_kept(self, make, many):
        one, two = make("one.lethe", index=PIVOTS), make("two.lethe", index=PIVOTS)
        keys = [used_key(one), used_key(two)]
        assert len({*keys, seed_key()}) == 3
        for db in (one, two):
            db.add(many, ids=range(200))
        assert pivots(one) != pivots(two)
        before = pivots(one)
        one.close()
        two.close()
        assert [rows(path, "SELECT key FROM source_key") for path in (one.path, two.path)] == [[(k,)] for k in keys]
        one, two = make("one.lethe"), make("two.lethe", read_only=True)
        assert [used_key(one), used_key(two)] == keys
        assert pivots(one) == before

    def test_so_has_a_graph(self, make, many, queries):
        """Two stores of the same records have different graphs and one digest, also when some were forgotten."""
        one, two = (make(name, index={"source": Graph(cell_size=8)}) for name in ("one.lethe", "two.lethe"))
        keys = [used_key(one), used_key(two)]
        assert len({*keys, seed_key()}) == 3
        one.add(many, ids=range(200))
        two.add(many[20:], ids=range(20, 200))
        one.forget(list(range(20)))
        assert one.digest() == two.digest()
        before = answers(one, queries)
        one.close()
        one = make("one.lethe")
        assert used_key(one) == keys[0]
        assert answers(one, queries) == before

    def test_a_reader_has_the_writers(self, make, many, queries):
        db = make(index=PIVOTS)
        reader = make(read_only=True)
        db.add(many, ids=range(200))
        assert answers(reader, queries) == answers(db, queries)
        assert used_key(reader) == used_key(db)

    def test_a_store_that_scans_needs_none(self, make):
        db = make(index={"source": "scan"})
        assert db.config.source == Scan()
        assert rows(db.path, "SELECT name FROM sqlite_master WHERE name = 'source_key'") == []

    def test_by_default(self, make):
        """Few records are scanned, and the key is there for the day on which they are many."""
        db = make()
        assert db.config.source.name == "auto"
        assert rows(db.path, "SELECT key FROM source_key") == [(used_key(db),)]

    def test_neither_in_the_configuration_nor_in_the_digest(self, make, many):
        one, two = make("one.lethe", index=PIVOTS), make("two.lethe", index=PIVOTS)
        assert one.config == two.config
        assert key_of(one.config.source) is None
        assert one._session.state.configuration == two._session.state.configuration
        assert used_key(one).hex() not in one._session.state.configuration
        for db in (one, two):
            db.add(many, ids=range(200))
        assert one.digest() == two.digest()
        same = Index(8, "l2", **PIVOTS)
        assert same.config.canonical().decode() == one._session.state.configuration
        assert one.config == same.config.with_key(None)

    @pytest.mark.parametrize("options", [{"source": "scan"}, {"source": "tables"}, {"family": "usr", "bits": 32}])
    def test_not_where_there_are_no_pivots(self, make, options):
        db = make(index=options)
        assert not has_table(db.path)
        db.close()
        make()
        assert not has_table(db.path)

    def test_answers_are_those_of_an_index_with_the_same_key(self, make, many, queries):
        db = make(index=PIVOTS)
        db.add(many[:120], ids=range(120))
        db.add(many[120:], ids=range(120, 200))
        index = Index(8, "l2", **with_chosen(used_key(db)))
        index.add(many, ids=range(200))
        assert answers(db, queries) == answers(index, queries)
        other = Index(8, "l2", **PIVOTS)
        other.add(many, ids=range(200))
        assert pivots(db) == pivots(index) != pivots(other)

    def test_a_forgotten_pivot_leaves_nothing(self, make, many, queries, tmp_path, leftovers, unaccounted):
        folder = tmp_path / "one"
        folder.mkdir()
        db = make("one/s.lethe", index=PIVOTS)
        db.add(many, ids=range(200), subjects="s")
        gone = pivots(db)[::2]
        assert len(gone) > 3
        receipt = db.forget(gone, search_all=True)
        assert db.verify(receipt, ids=gone, vectors=many[gone])
        assert not set(gone) & set(pivots(db))
        assert leftovers(folder, vectors=many[gone]) == []
        assert unaccounted(db.path) == {}
        fresh = make("fresh.lethe", index=PIVOTS)
        fresh.close()
        change(fresh.path, "UPDATE source_key SET key = ?", used_key(db))
        fresh = make("fresh.lethe")
        stay = [i for i in range(200) if i not in gone]
        fresh.add(many[stay], ids=stay, subjects="s")
        assert answers(fresh, queries) == answers(db, queries)
        assert pivots(fresh) == pivots(db)
        assert fresh._mirror.index.stats() == db._mirror.index.stats()
        assert fresh.digest() == db.digest()


class TestChosen:
    @pytest.mark.parametrize("key", [CHOSEN, CHOSEN.hex()])
    def test_a_given_key_wins(self, make, many, key, tmp_path):
        options = with_chosen(key)
        db = make(index=options)
        db.add(many, ids=range(200))
        assert used_key(db) == CHOSEN
        assert key_of(db.config.source) == CHOSEN.hex()
        assert not has_table(db.path)
        db.backup(tmp_path / "copy.lethe")
        db.close()
        again = make(index=options)
        assert used_key(again) == CHOSEN
        assert not has_table(again.path)
        again.close()
        with open_store(tmp_path / "copy.lethe", keys=tmp_path / "people.lethe-keys") as copy:
            assert used_key(copy) == CHOSEN

    def test_another_is_refused(self, make):
        make(index=with_chosen(CHOSEN)).close()
        with pytest.raises(ParameterError, match=r"expected source=.*key='000102"):
            make(index=with_chosen(CHOSEN[::-1]))


class TestBackup:
    def test_the_key_is_not_in_it(self, make, many, tmp_path):
        db = make(index=PIVOTS)
        db.add(many, ids=range(200))
        db.backup(tmp_path / "copy")
        assert not has_table(tmp_path / "copy")
        assert used_key(db) not in (tmp_path / "copy").read_bytes()
        assert used_key(db).hex().encode() not in (tmp_path / "copy").read_bytes()

    def test_a_copy_draws_its_own_when_it_is_first_written(self, make, many, queries, tmp_path):
        db = make(index=PIVOTS)
        db.add(many, ids=range(200))
        path = tmp_path / "copy.lethe"
        db.backup(path)
        keys = tmp_path / "people.lethe-keys"
        before, digest, original = path.read_bytes(), db.digest(), used_key(db)
        db.close()
        with open_store(path, keys=keys, read_only=True) as reader:
            assert used_key(reader) == seed_key()
            assert reader.digest() == digest
        assert path.read_bytes() == before
        with open_store(path, keys=keys) as copy:
            drawn = used_key(copy)
            assert drawn not in (original, seed_key())
            assert copy.digest() == digest
            index = Index(8, "l2", **with_chosen(drawn))
            index.add(many, ids=range(200))
            assert answers(copy, queries) == answers(index, queries)
            copy.backup(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == before
        with open_store(path, keys=keys) as copy:
            assert used_key(copy) == drawn


def test_two_stores_give_the_same_backup(many, tmp_path):
    """In the clear: sealed records differ from store to store."""
    for name in ("one", "two"):
        with open_store(tmp_path / f"{name}.lethe", 8, "l2", index=PIVOTS) as db:
            db.add(many, ids=range(200))
            db.backup(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


class TestWithoutTheTable:
    """A backup, for instance."""

    @pytest.fixture
    def older(self, make, many) -> Path:
        db = make(index=PIVOTS)
        db.add(many, ids=range(200))
        db.close()
        change(db.path, "DROP TABLE source_key")
        change(db.path, "UPDATE store SET unscrubbed = 1")  # the drop leaves a little in the first page
        return db.path

    def test_the_first_writer_draws(self, make, older, unaccounted):
        before = older.read_bytes()
        reader = make(read_only=True)
        assert used_key(reader) == seed_key()
        reader.close()
        assert older.read_bytes() == before
        db = make()
        drawn = used_key(db)
        assert drawn != seed_key()
        db.forget([3], search_all=True)
        assert unaccounted(older) == {}
        db.close()
        assert used_key(make()) == drawn

    def test_a_full_disk_does_not_stand_in_the_way(self, make, older, monkeypatch):
        def fail(connection: sqlite3.Connection, key: bytes) -> None:
            put_key(connection, key)
            raise sqlite3.OperationalError("database or disk is full")

        put_key = opening.put_key
        with monkeypatch.context() as patch:
            patch.setattr(opening, "put_key", fail)
            db = make()
        assert used_key(db) == seed_key()
        assert db.verify(db.forget([3]))
        assert not has_table(older)
        db.close()
        assert used_key(make()) != seed_key()

    def test_nothing_is_written_to_a_store_that_is_refused(self, make, older):
        change(older, 'UPDATE store SET configuration = replace(configuration, \'"dim":8\', \'"news":1,"dim":8\')')
        with pytest.raises(FormatError, match="configuration"):
            make()
        assert not has_table(older)


GOLDEN = sorted((Path(__file__).parent / "golden").glob("v*"))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.name)
def test_golden_stores_scan_and_get_no_table(tmp_path, golden):
    shutil.copytree(golden, tmp_path / "copy")
    for read_only in (True, False):
        with open_store(tmp_path / "copy" / "golden.lethe", read_only=read_only) as db:
            assert db.config.source == Scan()
        assert not has_table(tmp_path / "copy" / "golden.lethe")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("UPDATE source_key SET key = x'0011'", "expected a key of 16 bytes in the table source_key, got 2 bytes"),
        ("UPDATE source_key SET key = zeroblob(17)", "got 17 bytes"),
        ("UPDATE source_key SET key = 'sixteen letters.'", "got str"),
        ("DELETE FROM source_key", "expected one row in the table source_key, got 0"),
        ("ALTER TABLE source_key RENAME COLUMN key TO other", "no such column"),
    ],
)
def test_keys_that_cannot_be(make, sql, message):
    db = make(index={"source": "auto"})
    db.close()
    change(db.path, sql)
    for read_only in (False, True):
        with pytest.raises(FormatError, match=message):
            make(read_only=read_only)
