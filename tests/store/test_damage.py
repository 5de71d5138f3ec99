"""Files that are foreign, newer, cut short, damaged, or where nothing can be written: refused in plain words."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest

from lethevec._store import open as open_store
from lethevec.errors import FileError, FormatError, KeysError


@pytest.fixture
def closed(make, vectors) -> Path:
    db = make()
    db.add(vectors, ids=range(40), subjects="s", payloads=[{"n": i} for i in range(40)])
    db.forget([3])
    db.close()
    return db.path


def change(path: Path, sql: str, *parameters: object) -> None:
    connection = sqlite3.connect(path)
    connection.execute(sql, parameters)
    connection.commit()
    connection.close()


class TestForeign:
    @pytest.mark.parametrize("content", [b"", b"hello", b"x" * 5000, b"SQLite format 3\0" + bytes(84)])
    def test_other_files(self, make, tmp_path, content):
        path = tmp_path / "people.lethe"
        path.write_bytes(content)
        for read_only in (False, True):
            with pytest.raises(FormatError, match="expected"):
                make(read_only=read_only)
        assert path.read_bytes() == content

    def test_the_database_of_another_program(self, make, tmp_path):
        path = tmp_path / "people.lethe"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE records (a)")
        connection.commit()
        connection.close()
        before = path.read_bytes()
        with pytest.raises(FormatError, match=r"an SQLite database of another program.*it was not touched"):
            make()
        assert path.read_bytes() == before

    def test_a_newer_version(self, make, closed):
        change(closed, "PRAGMA user_version = 2")
        before = closed.read_bytes()
        with pytest.raises(FormatError, match=r"version 1, got version 2; a newer lethevec can open it"):
            make()
        assert closed.read_bytes() == before
        change(closed, "PRAGMA user_version = 0")
        with pytest.raises(FormatError, match="version 1, got version 0"):
            make()

    def test_a_folder(self, make, tmp_path):
        (tmp_path / "people.lethe").mkdir()
        with pytest.raises(FileError):
            make()


class TestDamage:
    @pytest.mark.parametrize("keep", [4096, 3 * 4096, 5 * 4096 + 100])
    def test_cut_short(self, make, closed, keep):
        data = closed.read_bytes()
        closed.write_bytes(data[:keep])
        for read_only in (False, True):
            with pytest.raises(FormatError, match="the file was cut short"):
                make(read_only=read_only)

    @pytest.mark.parametrize(
        ("sql", "parameters", "message"),
        [
            ("DELETE FROM store", (), "expected the row of the table store"),
            ("UPDATE store SET configuration = '{}'", (), "expected the configuration of an index"),
            ("UPDATE store SET configuration = 'x'", (), "expected the configuration of an index"),
            (
                "UPDATE store SET configuration = ?",
                (json.dumps({"dim": 8, "metric": "l2", "params": []}),),
                "configuration",
            ),
            ("UPDATE store SET version = 'x'", (), "got other types"),
            ("UPDATE store SET next_slot = -1", (), "got other types"),
            ("UPDATE store SET digest = x'00'", (), "expected 2056 bytes, got 1"),
            ("UPDATE vectors SET vector = x'00' WHERE slot = 5", (), "32 bytes of vector"),
            ("UPDATE vectors SET vector = ? WHERE slot = 5", (b"\xff" * 32,), "expected finite numbers"),
            ("UPDATE vectors SET vector = ? WHERE slot = 5", ("text" * 8,), "32 bytes of vector"),
            ("UPDATE records SET number = 'x' WHERE slot = 5", (), "expected an integer and"),
            ("DELETE FROM vectors WHERE slot = 5", (), "expected 39 records, got 38"),
            ("DELETE FROM records WHERE slot = 5", (), "expected 39 records, got 38"),
            ("DROP TABLE vectors", (), "no such table"),
            ("UPDATE receipts SET receipt = 'x'", (), "expected receipts in their table"),
            ("UPDATE receipts SET receipt = 7", (), "expected receipts in their table"),
        ],
    )
    @pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
    def test_rows_that_cannot_be(self, make, closed, sql, parameters, message, read_only):
        change(closed, sql, *parameters)
        with pytest.raises(FormatError, match=message):
            make(read_only=read_only).receipts()  # which a reader reads when it is asked for them

    def test_random_damage_may_raise_and_never_crashes(self, closed, tmp_path, vectors):
        """In a process of its own, because a crash would take this one along."""
        code = """
            import random, shutil, sys
            from pathlib import Path
            import numpy as np
            from lethevec.errors import LethevecError
            from lethevec._store import open
            source, folder = Path(sys.argv[1]), Path(sys.argv[2])
            data = source.read_bytes()
            choose = random.Random(5)
            opened = refused = 0
            for turn in range(150):
                path = folder / f"{turn}.lethe"
                bad = bytearray(data)
                if turn % 3 == 0:
                    for _ in range(choose.randint(1, 20)):
                        bad[choose.randrange(len(bad))] = choose.randrange(256)
                elif turn % 3 == 1:
                    at = choose.randrange(len(bad))
                    bad[at : at + 200] = choose.randbytes(min(200, len(bad) - at))
                else:
                    page = choose.randrange(1, len(bad) // 4096) * 4096
                    bad[page : page + 12] = choose.randbytes(12)
                path.write_bytes(bad)
                shutil.copy(str(source) + "-keys", str(path) + "-keys")
                try:
                    with open(path) as db:
                        db.search(np.ones(8), k=5)
                        list(db)
                        db.receipts()
                        db.subjects()
                        db.add(np.ones(8), ids="new")
                        db.forget("new")
                        db.verify(db.receipts()[-1])
                    opened += 1
                except LethevecError:
                    refused += 1
                for file in folder.iterdir():
                    file.unlink()
            print(opened, refused)
        """
        folder = tmp_path / "damaged"
        folder.mkdir()
        command = [sys.executable, "-c", textwrap.dedent(code), str(closed), str(folder)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stderr[-2000:]
        opened, refused = map(int, result.stdout.split())
        assert opened + refused == 150
        assert refused > 20

    def test_a_damaged_log(self, make, vectors, tmp_path):
        db = make()
        db.add(vectors, ids=range(40))
        copy = tmp_path / "copy"
        copy.mkdir()
        from lethevec._store.files import FileSource

        for path in db._session.files.searchable():
            data = b"".join(block for _, block in FileSource(path).blocks(1 << 20))
            (copy / path.name).write_bytes(data)
        log = copy / "people.lethe-wal"
        assert log.stat().st_size > 10_000
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 1
        log.write_bytes(data)
        with open_store(copy / "people.lethe") as other:  # SQLite drops what its checksums do not cover
            assert len(other) == 0
        log.write_bytes(b"x" * 5000)
        with pytest.raises(FormatError, match="expected SQLite's log"):
            open_store(copy / "people.lethe")


class TestKeyFile:
    def test_missing(self, make, closed, tmp_path):
        keys = tmp_path / "people.lethe-keys"
        keys.rename(tmp_path / "away")
        with pytest.raises(
            KeysError, match=r"people.lethe-keys: expected the key file of the store, got nothing there"
        ):
            make()
        assert not keys.exists()
        reader = make(read_only=True)
        assert len(reader) == 39
        assert len(make(keys=tmp_path / "away")) == 39

    def test_of_another_store(self, make, closed, tmp_path):
        make("other.lethe").close()
        shutil.copy(tmp_path / "other.lethe-keys", tmp_path / "people.lethe-keys")
        with pytest.raises(KeysError, match="expected the keys of store"):
            make()

    def test_of_an_older_rotation(self, make, closed, tmp_path):
        old = (tmp_path / "people.lethe-keys").read_bytes()
        db = make()
        db.rotate_keys()
        db.close()
        (tmp_path / "people.lethe-keys").write_bytes(old)
        with pytest.raises(KeysError, match="expected signing key"):
            make()


def run_as_nobody(code: str, *arguments: object) -> str:
    """Run as a user whom permissions stop (root they do not); everything is imported before the change of user."""
    prologue = """
        import os, sys, numpy as np
        from lethevec._store import open
        from lethevec.errors import FileError
        from cryptography.hazmat.primitives.asymmetric import ed25519
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
    """
    script = textwrap.dedent(prologue) + textwrap.dedent(code)
    command = [sys.executable, "-c", script, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


@pytest.mark.parametrize("encrypt", [False, True])
def test_a_folder_that_cannot_be_written(encrypt: bool):
    """A reader opens a closed store there; a writer is told what it cannot have."""
    folder = Path(tempfile.mkdtemp())
    try:
        with open_store(folder / "s.lethe", 8, "l2", encrypt=encrypt) as db:
            db.add(np.eye(8), ids=range(8))
        os.chmod(folder / "s.lethe", 0o644)
        if encrypt:
            os.chmod(folder / "s.lethe-keys-vault", 0o644)
        for name in ("s.lethe-lock", "s.lethe-keys"):
            (folder / name).unlink()
        os.chmod(folder, 0o555)
        code = """
            with open(sys.argv[1], read_only=True) as db:
                print(len(db), db.search(np.eye(8)[3], k=1).ids.tolist())
            try:
                open(sys.argv[1])
            except FileError as error:
                print(error)
            try:
                open(sys.argv[1] + "-new-one", 8)
            except FileError as error:
                print(error)
        """
        before = sorted(os.listdir(folder))
        reader, writer, creator = run_as_nobody(code, folder / "s.lethe").splitlines()
        assert reader == "8 [[3]]"
        assert "Permission denied" in writer
        assert "read_only=True" in writer
        assert "Permission denied" in creator
        assert sorted(os.listdir(folder)) == before
    finally:
        os.chmod(folder, 0o755)
        shutil.rmtree(folder)
