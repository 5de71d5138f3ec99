"""Backups of a folder, and restores, that die on the way: 8 of each, or as LETHEVEC_KILLS says.

What a backup leaves has records of every collection in it, in a folder that nobody may know of. It is noted beside the
catalog, and is gone after the next open for writing, and before the next receipt is signed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lethevec
from lethevec._store.copying import building, remove_unfinished, restoring
from lethevec.errors import ErasureIncompleteError, FileError, LethevecError

from .conftest import PEOPLE, ids_of
from .test_kills import places, run

KILLS = int(os.environ.get("LETHEVEC_KILLS", "8"))
ANN, BOB, CEM = PEOPLE


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def notes(folder: Path) -> list[str]:
    """Notes of copies of the folder. One that was not complete yet may stay: it holds a path, and no copy had begun."""
    return [path.name for path in folder.glob("lethevec.catalog-copy-*") if path.suffix != ".new"]


def test_what_a_killed_backup_leaves_is_gone_before_a_receipt(filled, folder, apart, residue, tmp_path):
    """By a reader, while the folder is open for writing: the forget of one collection or of all removes it."""
    steps = run(folder, 0, "backup", str(apart / "whole"))
    assert steps is not None
    shutil.rmtree(apart / "whole")
    # Enough steps in the middle, where whole collections lie there and their own notes are gone.
    left = 0
    for number, place in enumerate(places(steps, KILLS)):
        run(folder, place, "backup", str(apart / "copy"))
        there = list(apart.iterdir())
        if (apart / "copy").exists():  # it died after it had its name
            shutil.rmtree(apart / "copy")
            there = list(apart.iterdir())
        left += bool(there) and bool(residue(0, apart))
        if number % 2:
            filled.collection("photos").forget([ids_of("photos", 40)[number]], ignore_unknown=True)
        else:
            filled.forget(subject="nobody", ignore_unknown=True)
        assert list(apart.iterdir()) == []
        assert notes(folder) == []
    assert left
    assert lethevec.verify_chain(filled.receipts(all_kinds=True))


def test_or_after_the_next_open(filled, folder, apart, residue):
    filled.close()
    steps = run(folder, 0, "backup", str(apart / "whole"))
    shutil.rmtree(apart / "whole")
    assert run(folder, steps * 2 // 3, "backup", str(apart / "copy")) is None
    assert residue(0, apart)
    with lethevec.connect(folder, read_only=True):
        assert residue(0, apart)  # a reader removes nothing
    with lethevec.connect(folder):
        assert list(apart.iterdir()) == []
        assert notes(folder) == []


def test_a_backup_that_goes_on_stays(filled, folder, apart):
    catalog = folder / "lethevec.catalog"
    with building(catalog, apart / "copy", folder=True) as place:
        place.mkdir()
        (place / "half").write_text("half")
        assert remove_unfinished(catalog, folders=True) == 0
        filled.forget(subject=ANN)
        assert (place / "half").read_text() == "half"
    assert list(apart.iterdir()) == []
    assert notes(folder) == []


def test_one_that_cannot_be_removed_holds_the_receipt_back(filled, folder, apart):
    token = secrets.token_hex(8)
    place, note = apart / f"copy.{token}.new", folder / f"lethevec.catalog-copy-{token}"
    place.write_text("no folder")  # which is not removed like one
    note.write_bytes(os.fsencode(place))
    with pytest.raises(ErasureIncompleteError, match="could not be removed"):
        filled.forget(subject=ANN)
    with pytest.raises(ErasureIncompleteError, match="could not be removed"):
        filled.collection("photos").forget(subject=BOB)
    with pytest.raises(ErasureIncompleteError, match="could not be removed"):
        filled.forget(subject="nobody", ignore_unknown=True)
    assert filled.receipts() == []
    place.unlink()
    assert sorted(receipt.records for receipt in filled.complete_erasures()) == [0, 13, 42]
    assert notes(folder) == []
    assert lethevec.verify_chain(filled.receipts(all_kinds=True))


def test_only_what_bears_the_token_is_removed_and_no_link_is_followed(filled, folder, apart, tmp_path):
    precious = tmp_path / "precious.new"
    precious.mkdir()
    (precious / "mine").write_text("mine")
    token = secrets.token_hex(8)
    (apart / f"copy.{token}.new").symlink_to(precious)
    note = folder / f"lethevec.catalog-copy-{token}"
    for place in (precious, apart / f"copy.{token}.new"):
        note.write_bytes(os.fsencode(place))
        try:
            remove_unfinished(note.parent / "lethevec.catalog", folders=True)
        except FileError:
            assert place.is_symlink()
        assert (precious / "mine").read_text() == "mine"
    note.unlink()


def test_folders_of_the_user_are_left_alone(filled, folder, apart):
    """Names that an earlier version took for its own."""
    chain = filled.receipts(all_kinds=True)
    for name in ("copy.partial", "again.restoring", "again.0123.restoring", "again.0123456789abcdef.restoring.txt"):
        (apart / name).mkdir()
        (apart / name / "mine").write_text("mine")
    filled.backup(apart / "copy")
    filled.close()
    lethevec.restore(apart / "copy", apart / "again", receipts=chain, keys=folder / "lethevec.catalog-keys")
    assert [(path.parent.name, path.read_text()) for path in sorted(apart.rglob("mine"))] == [
        ("again.0123.restoring", "mine"),
        ("again.0123456789abcdef.restoring.txt", "mine"),
        ("again.restoring", "mine"),
        ("copy.partial", "mine"),
    ]


RESTORE = """
import os, signal, sys
import lethevec
from lethevec._collections import database
from lethevec._forgetting.trusted import read_chain
database.os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
lethevec.restore(sys.argv[1], sys.argv[2], receipts=read_chain(sys.argv[3]), keys=sys.argv[4])
"""


def test_what_a_killed_restore_leaves_goes_with_the_next(filled, folder, apart, tmp_path, residue):
    filled.backup(tmp_path / "backup")
    filled.forget(subject=ANN)
    chain = tmp_path / "chain.jsonl"
    chain.write_text("".join(receipt.to_json() + "\n" for receipt in filled.receipts(all_kinds=True)))
    filled.close()
    keys = folder / "lethevec.catalog-keys"
    arguments = [str(path) for path in (tmp_path / "backup", apart / "again", chain, keys)]
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", RESTORE, *arguments], check=False, capture_output=True)
        assert done.returncode == -9, done.stderr.decode()
        (left,) = apart.iterdir()  # that of the first one is gone
    lethevec.restore(*arguments[:2], receipts=lethevec.connect(folder).receipts(all_kinds=True), keys=keys)
    assert [path.name for path in apart.iterdir()] == ["again"]
    assert not left.exists()
    assert residue(0, apart) == []


def test_a_restore_that_goes_on_stays(apart):
    with restoring(apart / "again") as place:
        (place / "half").write_text("half")
        with restoring(apart / "again") as other:
            assert other != place
        assert (place / "half").read_text() == "half"
    assert list(apart.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_backup_with_something_else_in_it_is_not_restored(filled, folder, apart, tmp_path, kind):
    filled.backup(tmp_path / "backup")
    chain = filled.receipts(all_kinds=True)
    filled.close()
    strange = tmp_path / "backup" / "c-strange"
    if kind == "link":
        strange.symlink_to(tmp_path)
    elif kind == "pipe":
        os.mkfifo(strange)
    else:
        strange.mkdir()
    with pytest.raises(LethevecError, match="regular files alone"):
        lethevec.restore(tmp_path / "backup", apart / "again", receipts=chain, keys=folder / "lethevec.catalog-keys")
    assert list(apart.iterdir()) == []


@pytest.mark.parametrize("which", ["backup", "restore"])
def test_a_link_that_leads_nowhere_is_there(filled, folder, apart, tmp_path, which):
    place = apart / "link"
    place.symlink_to(tmp_path / "nowhere")
    filled.backup(tmp_path / "backup")
    chain, keys = filled.receipts(all_kinds=True), folder / "lethevec.catalog-keys"
    calls = {
        "backup": lambda: filled.backup(place),
        "restore": lambda: lethevec.restore(tmp_path / "backup", place, receipts=chain, keys=keys),
    }
    with pytest.raises(FileError, match="already"):
        calls[which]()
    assert place.is_symlink()
    assert not (tmp_path / "nowhere").exists()
