"""Codes that are kept beside the vectors: they save encoding at open, and change nothing that can be seen."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from lethevec import Pivots, Tables
from lethevec._forgetting.residue import MemorySource, Needle, search
from lethevec._index.kept import KeptCodes
from lethevec._store import Store
from lethevec._store.codes import Codes
from lethevec.errors import ParameterError

from .conftest import account, read_through

BOTH_LAYOUTS = True
USR = {"family": "usr", "bits": 8 * 24}
SLOW = [USR, {"family": "simhash", "bits": 200}, {"family": "superbit", "bits": 190, "rotation": "svd"}]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each part of a load, how many of its records had to be encoded."""
    counts: list[int] = []
    restore = KeptCodes.restore

    def counting(self, vectors, ids, kept):
        encoded = restore(self, vectors, ids, kept)
        counts.append(int(encoded.sum()))
        return encoded

    monkeypatch.setattr(KeptCodes, "restore", counting)
    return counts


def change(path: Path, sql: str, *parameters: object) -> None:
    connection = sqlite3.connect(path)
    connection.execute(sql, parameters)
    connection.commit()
    connection.close()


def in_file(db: Store) -> list[bytes]:
    """The rows of the table as they lie in the file."""
    return [code for (code,) in db._session.connection.execute("SELECT code FROM main.codes ORDER BY slot")]


def kept(db: Store) -> dict[int, bytes]:
    """What is kept of each record, by row."""
    connection = db._session.connection
    slots = dict(connection.execute("SELECT slot, number FROM records"))
    codes = db._codes.of(list(slots))
    return {row: code for row, code in zip(slots.values(), codes, strict=True) if code is not None}


def memory(db: Store) -> list:
    """Ids, codes, norms and factors as the index has them."""
    index = db._mirror.index
    ids = index.ids()
    n = len(ids)
    codes = np.empty((n, -(-index.config.bits // 8)), dtype=np.uint8)
    norms, factors = np.empty(n, dtype=np.float32), np.empty(n, dtype=np.float32)
    assert index._native.export_codes(ids, codes, norms, factors) is None
    return [ids.tolist(), codes.tolist(), norms.tolist(), factors.tolist(), index.stats()["mean_norm"]]


def found_in(folder: Path, patterns: list[bytes]) -> list[str]:
    files = sorted(path for path in folder.iterdir() if path.name.startswith("people") and path.is_file())
    sources = [MemorySource(path.name, read_through(path)) for path in files]
    return [f"{f.source} at {f.offset}" for f in search(sources, [Needle("code", p) for p in patterns]).findings]


class TestOpening:
    @pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
    @pytest.mark.parametrize(
        "index",
        [
            *SLOW,
            {**USR, "ranking": "hamming"},
            {**USR, "source": "tables"},
            {"rotation": "svd", "source": "scan"},
            {"rotation": "gram-schmidt", "keep_vectors": False},
        ],
        ids=str,
    )
    def test_codes_are_taken_from_the_file(self, make, vectors, taken, metric, index):
        db = make(metric=metric, index=index)
        db.add(vectors[:25], ids=range(25))
        db.add(3 * vectors[25:], ids=range(25, 40))
        db.update(ids=[3, 30], vectors=-vectors[:2])
        db.update(ids=[4], payloads=[{"n": 4}])
        db.forget([0, 39])
        before, answers = memory(db), db.search(vectors, k=5)
        assert len(kept(db)) == 38
        db.close()
        for read_only in (True, False):
            again = make(metric=metric, read_only=read_only)
            assert taken.pop() == 0
            assert memory(again) == before
            hits = again.search(vectors, k=5)
            assert hits.ids.tolist() == answers.ids.tolist()
            assert hits.distances.tolist() == answers.distances.tolist()
            again.close()

    @pytest.mark.parametrize("index", [None, {"family": "superbit"}, {"source": "pivots", "rotation": "svd"}], ids=str)
    def test_not_kept_where_they_are_quickly_made(self, make, vectors, tmp_path, index, layout):
        db = make(index=index)
        db.add(vectors, ids=range(40))
        assert not db._codes.present
        db.close()

    def test_a_reader_takes_up_codes_with_the_records(self, make, vectors, taken):
        db = make(index=USR)
        reader = make(read_only=True)
        db.add(vectors, ids=range(40))
        assert len(reader) == 40
        assert taken == [0]
        assert memory(reader) == memory(db)
        db.forget(range(0, 40, 3))
        db.update(ids=[1], vectors=100 * vectors[1])  # the gain moves
        assert len(reader) == 26
        assert memory(reader) == memory(db)


class TestNothingIsTrusted:
    def damage(self, path: Path, what: str) -> None:
        connection = sqlite3.connect(path)
        (slot, code), (_, other) = connection.execute("SELECT slot, code FROM codes ORDER BY slot LIMIT 2").fetchall()
        bad = {
            "a bit": code[:-1] + bytes([code[-1] ^ 1]),
            "the check": bytes([code[0] ^ 1]) + code[1:],
            "the gain": code[:8] + b"\xff\xff\xff\x7f" + code[12:],
            "another's": other,
            "short": code[:-1],
            "empty": b"",
            "text": "code",
            "nothing": None,
        }[what]
        if bad is None:
            connection.execute("DELETE FROM codes WHERE slot = ?", (slot,))
        else:
            connection.execute("UPDATE codes SET code = ? WHERE slot = ?", (bad, slot))
        connection.commit()
        connection.close()

    @pytest.mark.parametrize(
        "what", ["a bit", "the check", "the gain", "another's", "short", "empty", "text", "nothing"]
    )
    def test_a_wrong_code_is_made_again(self, make, vectors, taken, tmp_path, what):
        db = make(index=USR)
        db.add(vectors, ids=range(40))
        before, rows = memory(db), kept(db)
        db.close()
        self.damage(tmp_path / "people.lethe", what)
        for read_only in (True, False):
            again = make(read_only=read_only)
            assert taken.pop() == 1
            assert memory(again) == before
            again.close()
        assert kept(make(read_only=True)) == rows
        assert taken.pop() == 0

    def test_the_code_of_another_vector(self, make, vectors, tmp_path, layout):
        if layout == "sealed":
            pytest.skip("nobody without the keys can change a vector")
        db = make(index=USR)
        db.add(vectors, ids=range(40))
        db.close()
        fresh = make("fresh.lethe", index=USR)
        fresh.add(np.concatenate([-vectors[:1], vectors[1:]]), ids=range(40))
        change(tmp_path / "people.lethe", "UPDATE vectors SET vector = ? WHERE slot = 1", (-vectors[0]).tobytes())
        assert memory(make()) == memory(fresh)

    def test_a_forged_code_is_found_by_verify(self, make, vectors, tmp_path, layout):
        db = make(index=USR)
        db.add(vectors, ids=range(40))
        receipt = db.forget([0])
        report = db.verify(receipt)
        assert report["codes"].passed
        assert "39 codes" in report["codes"].detail
        keeper, codes = db._codes.keeper, db._codes
        packed = np.frombuffer(codes.read([5])[0], dtype=np.uint8)[None, :].copy()
        packed[0, -1] ^= 0xFF
        packed[:, :8] = keeper._checks(vectors[4:5], packed)  # by somebody who can write to the file, and knows how
        with db._session.transaction():
            [row] = db._session.tables.wrap([5], [packed.tobytes()])
            db._session.connection.execute("REPLACE INTO main.codes VALUES (5, ?)", (row,))
        db.close()
        report = make().verify(receipt)
        assert not report
        assert report["codes"].passed is False
        assert "1 of 39" in report["codes"].detail
        assert report["digest"].passed

    def test_another_encoder(self, make, vectors, taken, monkeypatch):
        """Dense matrices that differ in a last bit, as on another machine: all codes are made again, and kept."""
        db = make(index=SLOW[1])
        db.add(vectors, ids=range(40))
        rows = kept(db)
        db.close()
        from lethevec._index import kept as module

        original = module._tables
        monkeypatch.setattr(module, "_tables", lambda hasher: [*original(hasher), b"another"])
        again = make()
        assert taken.pop() == 40
        others = kept(again)
        assert others.keys() == rows.keys()
        assert all(others[row][:8] != rows[row][:8] and others[row][8:] == rows[row][8:] for row in rows)
        again.close()
        make(read_only=True)
        assert taken.pop() == 0

    def test_another_program_that_holds_the_database_does_not_stand_in_the_way(self, make, vectors, tmp_path, taken):
        db = make(index=USR)
        db.add(vectors, ids=range(40))
        db.close()
        self.damage(tmp_path / "people.lethe", "a bit")
        make().close()  # empties the log
        self.damage(tmp_path / "people.lethe", "a bit")
        other = sqlite3.connect(tmp_path / "people.lethe", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            db = make(timeout=0.1)
            assert taken.pop() == 1
            assert len(db.search(vectors, k=1).ids) == 40
            db.close()
        finally:
            other.close()
        make().close()
        assert taken.pop() == 1
        make(read_only=True)
        assert taken.pop() == 0

    def test_a_store_without_its_table_gets_it(self, make, vectors, taken, tmp_path, layout):
        db = make(index=USR)
        db.add(vectors, ids=range(40))
        before = kept(db)
        db.close()
        change(tmp_path / "people.lethe", "DROP TABLE codes")
        assert kept(make()) == before


class TestForgetting:
    def test_a_forgotten_code_is_in_no_file(self, make, vectors, tmp_path):
        db = make(index=USR)
        db.add(vectors, ids=range(40))
        gone = [code for row, code in kept(db).items() if row % 4 == 0]
        raw = in_file(db)[::4]
        assert found_in(tmp_path, raw), "it would be found"
        receipt = db.forget(range(0, 40, 4))
        assert found_in(tmp_path, [*gone, *raw, *(code[16:] for code in gone)]) == []
        assert account(tmp_path / "people.lethe") == {}
        assert len(kept(db)) == 30
        assert db.verify(receipt, ids=[0], vectors=vectors[0])

    def test_in_the_clear_only_where_records_are(self, make, vectors, tmp_path, layout):
        db = make(index=USR)
        db.add(vectors, ids=range(40))
        found = found_in(tmp_path, [code[16:] for code in kept(db).values()])
        assert bool(found) == (layout == "plain")

    def test_what_was_planted_is_found(self, make, vectors, tmp_path):
        """The searches of `forget` and `verify` know codes too."""
        db = make(index=USR, metric="cosine")
        db.add(vectors, ids=range(40))
        receipt = db.forget([7])
        [code] = db._codes.keeper.codes(vectors[7:8])
        (tmp_path / "people.lethe-new").write_bytes(b"before" + code + b"after")
        report = db.verify(receipt, vectors=vectors[7])
        assert report["residue"].passed is False
        assert "code in people.lethe-new" in report["residue"].detail

    @pytest.mark.parametrize("metric", ["l2", "ip"])
    def test_no_code_remembers_a_gain_that_knew_the_forgotten(self, make, vectors, tmp_path, metric, monkeypatch):
        db, fresh = make(index=USR, metric=metric), make("fresh.lethe", index=USR, metric=metric)
        db.add(np.concatenate([vectors[:39], 500 * vectors[39:]]), ids=range(40))
        fresh.add(vectors[:39], ids=range(39))
        old = kept(db)
        raw = in_file(db)
        monkeypatch.setattr(Codes, "fill", lambda self: None)  # as if it were killed there
        db.forget([39])
        assert kept(db) == {}
        assert found_in(tmp_path, [*raw, *old.values()]) == []
        db.close()
        monkeypatch.undo()
        again = make(metric=metric)
        assert kept(again) == kept(fresh) != {row: code for row, code in old.items() if row < 39}
        assert memory(again) == memory(fresh)

    def test_histories_leave_the_same_codes(self, make, vectors):
        rng = np.random.default_rng(3)
        db, fresh = make(index=USR), make("fresh.lethe", index=USR)
        live: dict[int, np.ndarray] = {}
        for step in range(60):
            id, scale = int(rng.integers(12)), 2.0 ** rng.integers(-4, 5)
            vector = (scale * rng.normal(size=8)).astype(np.float32)
            if id not in live:
                db.add(vector, ids=id)
                live[id] = vector
            elif step % 3:
                db.update(ids=id, vectors=vector)
                live[id] = vector
            else:
                db.forget([id])
                del live[id]
            assert set(kept(db)) == set(live)
        fresh.add(list(live.values()), ids=list(live))
        assert kept(db) == kept(fresh)
        assert memory(db) == memory(fresh)

    def test_a_failed_change_leaves_the_codes_alone(self, make, vectors):
        db = make(index=USR)
        db.add(vectors[:20], ids=range(20))
        before, index = kept(db), memory(db)
        with pytest.raises(ValueError, match="stop"):
            db.load(batches_that_fail(vectors))
        assert kept(db) == before
        assert memory(db) == index
        db.add(1000 * vectors[20:], ids=range(20, 40))
        fresh = make("fresh.lethe", index=USR)
        fresh.add(np.concatenate([vectors[:20], 1000 * vectors[20:]]), ids=range(40))
        assert kept(db) == kept(fresh)


def batches_that_fail(vectors: np.ndarray):
    yield {"vectors": 1000 * vectors[20:], "ids": range(20, 40)}
    raise ValueError("stop")


class TestTheTable:
    def test_a_backup_gets_the_table(self, make, vectors, taken, tmp_path, layout):
        """A backup has no codes."""
        db = make(index=USR)
        db.add(vectors, ids=range(40))
        before, rows = memory(db), kept(db)
        db.backup(tmp_path / "old.lethe")
        db.close()
        if layout == "sealed":
            shutil.copy(tmp_path / "people.lethe-keys-vault", tmp_path / "old.lethe-keys-vault")
        reader = make("old.lethe", read_only=True)
        assert reader._codes.keeper is None
        assert memory(reader) == before
        reader.close()
        again = make("old.lethe")
        assert taken.pop() == 40
        assert kept(again) == rows
        again.close()
        make("old.lethe", read_only=True)
        assert taken.pop() == 0

    def test_a_reader_that_was_there_before_the_table(self, make, vectors, tmp_path, layout):
        db = make(index=USR)
        db.add(vectors, ids=range(40))
        db.backup(tmp_path / "old.lethe")
        db.close()
        if layout == "sealed":
            shutil.copy(tmp_path / "people.lethe-keys-vault", tmp_path / "old.lethe-keys-vault")
        reader = make("old.lethe", read_only=True)
        writer = make("old.lethe")
        writer.forget([1])
        writer.add(vectors[1], ids=100)
        assert len(reader) == 40
        assert memory(reader) == memory(writer)

    def test_backups_are_the_same_whatever_was_kept(self, make, vectors, tmp_path, layout):
        db = make(index=USR)
        db.add(vectors, ids=range(40))
        db.backup(tmp_path / "one")
        with db._session.transaction():
            db._codes.clear()
        db.backup(tmp_path / "two")
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()

    def test_without_space_for_codes_a_store_works(self, make, vectors, tmp_path, layout):
        """Codes are a help and no more: what they lack in space must not stand in the way of anything."""
        db = make(index=USR)
        db.add(vectors, ids=range(40))
        db.backup(tmp_path / "old.lethe")
        db.close()
        if layout == "sealed":
            shutil.copy(tmp_path / "people.lethe-keys-vault", tmp_path / "old.lethe-keys-vault")
        make("old.lethe").close()  # its keys
        code = """
            import resource, signal, sys
            from lethevec._store import open as open_store
            from lethevec._store import codes
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            codes._PART = 4
            limit = int(sys.argv[2])
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            with open_store(sys.argv[1]) as db:
                assert len(db) == 40
                print(db.search([1] * 8, k=1).ids.tolist()[0][0])
        """
        change(tmp_path / "old.lethe", "DELETE FROM codes")
        path = tmp_path / "old.lethe"
        limit = path.stat().st_size + 8192
        command = [sys.executable, "-c", textwrap.dedent(code), str(path), str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert len(kept(make("old.lethe"))) == 40


class TestReopening:
    @pytest.mark.parametrize(
        "index",
        [
            {"source": "auto", "family": "usr"},
            {"source": "auto", "ranking": "hamming"},
            {"family": "usr", "mean_norm": 2.0, "bits": 64},
            {"source": Pivots(key=bytes(16))},
            {"source": Tables(expected=1000)},
            {"family": "faiss-lsh", "bits": 4},
            {"bits": np.int64(24), "seed": np.int64(7)},
        ],
        ids=str,
    )
    def test_the_call_that_made_a_store_opens_it(self, make, vectors, index):
        db = make(index=index)
        db.add(vectors, ids=range(40))
        db.close()
        again = make(index=index)
        assert len(again) == 40
        again.close()
        make(dim=None, metric=None, index=index)

    @pytest.mark.parametrize(
        ("index", "name"),
        [
            ({"source": "auto", "family": "progressive"}, "source"),
            ({"family": "superbit"}, "family"),
            ({"bits": 16}, "bits"),
            ({"nonsense": 3}, "nonsense"),
            ({"mean_norm": 2.0}, "mean_norm"),
            ({"source": Tables()}, "source"),
        ],
        ids=str,
    )
    def test_another_is_refused(self, make, index, name):
        make(index={"source": "auto", "family": "usr"}).close()
        with pytest.raises(ParameterError, match=f"expected {name}=.*as the store was created"):
            make(index=index)
