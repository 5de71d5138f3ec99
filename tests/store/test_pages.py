"""The scrubber, against SQLite's own files and an auditor that shares no code with it."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from lethevec._store.checkpoint import BusyError, Checkpointer
from lethevec._store.connection import connect, pragma, use_wal
from lethevec._store.files import FileSource, RawFile, StoreFiles
from lethevec._store.pages import read_header, scrub, unused_ranges, wal_state
from lethevec.errors import FormatError


def churn(path: Path, seed: int, steps: int = 1500) -> sqlite3.Connection:
    """A database after many inserts, updates and deletes of rows of all sizes, its log emptied."""
    choose = random.Random(seed)
    connection = connect(path, "rwc")
    pragma(connection, "page_size=4096")
    use_wal(connection, path)
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB, c BLOB)")
    connection.execute("CREATE INDEX i ON t (b)")
    live: list[int] = []
    connection.execute("BEGIN")
    for step in range(steps):
        if choose.random() < 0.05:
            connection.execute("COMMIT")
            connection.execute("BEGIN")
        row = choose.randbytes(16), choose.randbytes(choose.choice([8, 40, 300, 2000, 9000]))
        turn = choose.random()
        if turn < (0.6 if step < 0.6 * steps else 0.25) or not live:
            live.append(choose.getrandbits(60))
            connection.execute("INSERT INTO t VALUES (?, ?, ?)", (live[-1], *row))
        elif turn > 0.85:
            connection.execute("UPDATE t SET b = ?, c = ? WHERE a = ?", (*row, choose.choice(live)))
        else:
            connection.execute("DELETE FROM t WHERE a = ?", (live.pop(choose.randrange(len(live))),))
    connection.execute("COMMIT")
    assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
    return connection


@pytest.mark.parametrize("seed", range(3))
def test_scrubbing_leaves_no_unaccounted_byte_and_a_whole_database(tmp_path: Path, unaccounted, seed: int):
    path = tmp_path / "db"
    raw = RawFile(_made(path), writable=True)
    connection = churn(path, seed)
    before = connection.execute("SELECT count(*), sum(length(c)) FROM t").fetchone()
    # This is why the scrubber exists: secure_delete alone leaves copies of moved rows in the gaps.
    assert set(unaccounted(path)) == {"gap"}
    looked = scrub(raw, 4096, dry=True)
    assert looked
    assert unaccounted(path)
    assert scrub(raw, 4096) == looked
    assert unaccounted(path) == {}
    assert scrub(raw, 4096) == []
    pragma(connection, "shrink_memory")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("SELECT count(*), sum(length(c)) FROM t").fetchone() == before
    connection.close()
    raw.close()


def test_free_blocks_are_scrubbed_where_sqlite_leaves_them(tmp_path: Path, unaccounted):
    path = tmp_path / "db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA secure_delete=OFF")
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"secret-{i:03d}" * 5) for i in range(30)])
    connection.execute("DELETE FROM t WHERE a % 3 = 1")
    connection.commit()
    connection.close()
    assert "free block" in unaccounted(path)
    assert b"secret-016" in path.read_bytes()
    raw = RawFile(path, writable=True)
    scrub(raw, 4096)
    raw.close()
    assert unaccounted(path) == {}
    assert b"secret-016" not in path.read_bytes()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_checkpoint_scrubs_what_the_log_held_and_drops_the_cache(tmp_path: Path, unaccounted):
    path = tmp_path / "db"
    raw = RawFile(_made(path), writable=True)
    connection = churn(path, 9)
    scrub(raw, 4096)
    pragma(connection, "shrink_memory")
    files = StoreFiles(path)
    checkpointer = Checkpointer(connection, raw, files, 4096)
    choose = random.Random(3)
    cleaned = 0
    for _ in range(30):
        connection.execute("BEGIN")
        for (row,) in connection.execute("SELECT a FROM t ORDER BY random() LIMIT 5").fetchall():
            connection.execute("DELETE FROM t WHERE a = ?", (row,))
        connection.execute("INSERT INTO t VALUES (?, ?, ?)", (choose.getrandbits(60), b"x", choose.randbytes(3000)))
        connection.execute("COMMIT")
        checkpointer.note_commit()
        held = wal_state(files.wal).pages
        done = checkpointer.run(0.0)
        assert done.pages == held
        cleaned += done.cleaned
        assert unaccounted(path) == {}
        assert checkpointer.wal_size() == 0
    assert cleaned
    connection.close()
    raw.close()


def test_after_a_checkpoint_pages_are_read_again(tmp_path: Path):
    """A cached page has its old unused parts. What is planted in the file shows which of the two is written next."""
    path = tmp_path / "db"
    raw = RawFile(_made(path), writable=True)
    connection = connect(path, "rwc")
    pragma(connection, "page_size=4096")
    use_wal(connection, path)
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)")
    connection.execute("INSERT INTO t VALUES (1, ?)", (b"x" * 50,))
    files = StoreFiles(path)
    Checkpointer(connection, raw, files, 4096).run(0.0)
    raw.write(4096 + 200, b"planted in page 2")
    connection.execute("UPDATE t SET b = ?", (b"y" * 50,))
    assert b"planted in page 2" in files.wal.read_bytes()
    connection.close()
    raw.close()


def test_a_log_that_somebody_else_emptied_means_looking_at_every_page(tmp_path: Path):
    path = tmp_path / "db"
    raw = RawFile(_made(path), writable=True)
    connection = churn(path, 4, 100)
    checkpointer = Checkpointer(connection, raw, StoreFiles(path), 4096)
    connection.execute("DELETE FROM t")
    checkpointer.note_commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert checkpointer.run(0.0).pages is None
    assert checkpointer.run(0.0).pages == frozenset()
    connection.close()
    raw.close()


def test_so_does_one_that_was_written_to_again_since(tmp_path: Path):
    path = tmp_path / "db"
    raw = RawFile(_made(path), writable=True)
    connection = churn(path, 4, 100)
    checkpointer = Checkpointer(connection, raw, StoreFiles(path), 4096)
    connection.execute("DELETE FROM t")
    checkpointer.note_commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    for i in range(50):  # until the log is longer than it was
        connection.execute(f"CREATE TABLE again_{i} AS SELECT zeroblob(3000)")
    checkpointer.note_commit()
    assert checkpointer.run(0.0).pages is None
    assert checkpointer.run(0.0).pages == frozenset()
    connection.close()
    raw.close()


def test_a_reader_in_the_way_is_reported_and_remembered(tmp_path: Path):
    path = tmp_path / "db"
    raw = RawFile(_made(path), writable=True)
    connection = churn(path, 4, 100)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM t").fetchone()
    checkpointer = Checkpointer(connection, raw, StoreFiles(path), 4096)
    connection.execute("DELETE FROM t")
    with pytest.raises(BusyError, match="reader holds a snapshot"):
        checkpointer.run(0.0)
    assert checkpointer.wal_size()
    named = wal_state(path.with_name("db-wal")).pages
    assert named
    connection.execute("CREATE TABLE another (a)")
    reader.close()
    pages = checkpointer.run(0.0).pages
    assert pages is not None
    assert pages >= named
    assert checkpointer.run(0.0).pages == frozenset()
    connection.close()
    raw.close()


class TestStrictness:
    """A page that contradicts itself is refused rather than written to."""

    def page(self, *, kind=13, free=0, cells=1, content=4000) -> bytearray:
        page = bytearray(4096)
        page[0:8] = (
            bytes([kind]) + free.to_bytes(2, "big") + cells.to_bytes(2, "big") + content.to_bytes(2, "big") + b"\0"
        )
        return page

    def test_good(self):
        assert unused_ranges(bytes(self.page()), 2) == [(10, 4000)]
        assert unused_ranges(bytes(self.page(kind=5)), 2) == [(14, 4000)]
        assert unused_ranges(bytes(4096), 2) == []
        assert unused_ranges((77).to_bytes(4, "big") + b"\xff" * 4092, 2) == []
        page = self.page(free=4010)
        page[4010:4014] = (4050).to_bytes(2, "big") + (20).to_bytes(2, "big")
        page[4050:4054] = bytes(2) + (46).to_bytes(2, "big")
        assert unused_ranges(bytes(page), 2) == [(10, 4000), (4014, 4030), (4054, 4096)]

    @pytest.mark.parametrize("bad", [{"content": 8}, {"content": 5000}, {"cells": 3000}, {"free": 20}, {"free": 4094}])
    def test_bad_heads(self, bad: dict):
        with pytest.raises(FormatError, match="page 2: expected"):
            unused_ranges(bytes(self.page(**bad)), 2)

    @pytest.mark.parametrize(("following", "size"), [(0, 3), (0, 200), (4011, 20), (4010, 10)])
    def test_bad_free_blocks(self, following: int, size: int):
        page = self.page(free=4010)
        page[4010:4014] = following.to_bytes(2, "big") + size.to_bytes(2, "big")
        with pytest.raises(FormatError, match="page 2: expected a free block"):
            unused_ranges(bytes(page), 2)

    @pytest.mark.parametrize("head", [b"", b"SQLite format 3\0", b"x" * 200, b"SQLite format 3\0\0\3" + bytes(100)])
    def test_bad_file_headers(self, tmp_path: Path, head: bytes):
        path = tmp_path / "x"
        path.write_bytes(head)
        raw = RawFile(path)
        with pytest.raises(FormatError, match="expected"):
            read_header(raw)
        raw.close()

    def test_a_log_that_is_none(self, tmp_path: Path):
        path = tmp_path / "x-wal"
        assert wal_state(path).size == 0
        path.write_bytes(b"short")
        assert wal_state(path).pages == frozenset()
        path.write_bytes(b"x" * 100)
        with pytest.raises(FormatError, match="expected SQLite's log"):
            wal_state(path)


def test_reading_a_file_does_not_drop_sqlites_locks(tmp_path: Path):
    """POSIX locks go when any descriptor of the file is closed: ours must stay open while SQLite's are."""
    import subprocess
    import sys

    path = tmp_path / "db"
    raw = RawFile(_made(path))
    connection = connect(path, "rw")
    use_wal(connection, path)
    connection.execute("CREATE TABLE t (a)")
    connection.execute("INSERT INTO t VALUES (1)")

    def last_one_out() -> None:
        """Another process opens, reads and closes. If it sees no lock of ours it deletes the log."""
        code = f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute('SELECT * FROM t').fetchall(); c.close()"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

    list(FileSource(path).blocks(1 << 20))
    again = RawFile(path)
    again.close()
    last_one_out()
    assert StoreFiles(path).wal.exists()
    # And this is what it guards against.
    open(path, "rb").close()
    last_one_out()
    assert not StoreFiles(path).wal.exists()
    connection.close()
    raw.close()


def _made(path: Path) -> Path:
    path.touch()
    return path
