"""A backup or an export that is killed leaves half a copy, with records in it: the next open or forget removes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lethevec._store.copying import building, remove_unfinished
from lethevec.errors import ErasureIncompleteError

BOTH_LAYOUTS = True

BACKUP = """
import os, signal, sys
from lethevec._store import backups, open
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
backups.os.replace = die  # when everything is written, and nothing has its name
with open(sys.argv[1], read_only=True) as db:
    db.backup(sys.argv[2])
"""
EXPORT = """
import os, signal, sys
from lethevec._store import exporting as writers
from lethevec.cli.app import cli
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
writers.os.replace = die
cli(["export", sys.argv[1], sys.argv[2]])
"""


def die_copying(code: str, store: Path, target: Path) -> Path:
    """Let another process copy the store and be killed at the end; what it leaves."""
    # os.replace is one function for all: what names the note goes by it as well, and must not be what kills.
    code = code.replace(
        ".os.replace = die", ".os.replace = lambda a, b, real=os.replace: real(a, b) if '-copy-' in str(b) else die()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(store), str(target)], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    (left,) = target.parent.iterdir()
    assert left.name.startswith(target.name)
    assert left.stat().st_size
    return left


@pytest.fixture
def filled(make, vectors):
    db = make()
    db.add(vectors, ids=[f"person-{i:04d}-of-many" for i in range(40)], subjects="s", payloads=[{"n": 1}] * 40)
    return db


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(("code", "name"), [(BACKUP, "copy.lethe"), (EXPORT, "copy.jsonl")], ids=["backup", "export"])
def test_a_forget_reaches_a_copy_that_died(filled, vectors, apart, tmp_path, leftovers, layout, code, name):
    if code is EXPORT:
        pytest.importorskip("click")
    die_copying(code, filled.path, apart / name)
    if layout == "plain":
        assert leftovers(apart, vectors=[] if code is EXPORT else vectors[:1], ids=["person-0000-of-many"])
    filled.forget(["person-0000-of-many"])
    assert list(apart.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if "-copy-" in path.name] == []


def test_so_does_the_next_open(filled, make, apart, tmp_path):
    die_copying(BACKUP, filled.path, apart / "copy")
    filled.close()
    make()
    assert list(apart.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if "-copy-" in path.name] == []


def test_a_copy_that_is_being_written_stays(filled, apart):
    with building(filled.path, apart / "copy") as place:
        place.write_text("half")
        assert remove_unfinished(filled.path) == 0
        filled.forget(["person-0000-of-many"])
        assert place.read_text() == "half"
        os.replace(place, apart / "copy")
    assert [path.name for path in apart.iterdir()] == ["copy"]
    assert remove_unfinished(filled.path) == 0


def test_one_that_fails_leaves_nothing(filled, apart, tmp_path):
    def copy():
        with building(filled.path, apart / "copy") as place:
            place.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        copy()
    assert list(apart.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if "-copy-" in path.name] == []


def test_only_what_bears_the_token_is_removed(filled, apart):
    precious = apart / "precious.new"
    precious.write_text("mine")
    note = filled.path.with_name(filled.path.name + "-copy-0123456789abcdef")
    note.write_bytes(os.fsencode(precious))
    assert remove_unfinished(filled.path) == 0
    assert precious.exists()
    assert not note.exists()


def test_one_that_cannot_be_removed_holds_the_receipt_back(filled, apart):
    place = apart / "copy.0123456789abcdef.new"
    place.mkdir()  # which is not removed like a file
    note = filled.path.with_name(filled.path.name + "-copy-0123456789abcdef")
    note.write_bytes(os.fsencode(place))
    with pytest.raises(ErasureIncompleteError, match="could not be removed"):
        filled.forget(["person-0000-of-many"])
    place.rmdir()
    (receipt,) = filled.complete_erasures()
    assert receipt.records == 1
    assert not note.exists()
