"""Links, pipes and second names in the store's folder: nothing is followed, and no other file is harmed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

import pytest

import lethevec
from lethevec.errors import FileError, KeysError, LethevecError

NEEDED = b"somebody needs this file" * 1000


@pytest.fixture(params=[False, True], ids=["plain", "sealed"])
def path(request, tmp_path):
    path = tmp_path / "store" / "people.lethe"
    path.parent.mkdir()
    with lethevec.open(path, dim=2, metric="l2", encrypt=request.param) as db:
        db.add([[0, 1], [1, 0]], ids=[1, 2])
    return path


def beside(path, suffix):
    return path.with_name(path.name + suffix)


def try_everything(path):
    """Whatever one does with a store; refusals are fine."""
    with suppress(LethevecError), lethevec.open(path, read_only=True) as db:
        db.search([0, 1], k=1)
    with suppress(LethevecError), lethevec.open(path) as db:
        db.add([[2, 2]], ids=[3])
        db.forget([3])
        db.rotate_keys()


SUFFIXES = ["", "-wal", "-shm", "-journal", "-lock", "-reserve", "-new", "-keys", "-keys.new", "-keys-vault"]
SUFFIXES += ["-keys-vault.new", "-new-journal", "-copy-0123456789abcdef"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["link", "second name"])
def test_no_other_file_is_changed(path, tmp_path, suffix, kind):
    needed, place = tmp_path / "needed", beside(path, suffix)
    needed.write_bytes(NEEDED)
    place.unlink(missing_ok=True)
    if kind == "link":
        place.symlink_to(needed)
    else:
        os.link(needed, place)
    try_everything(path)
    assert needed.read_bytes() == NEEDED


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nobody_waits_at_a_pipe(path, suffix):
    place = beside(path, suffix)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    try_everything(path)


@pytest.mark.parametrize("suffix", ["", "-wal", "-lock"])
def test_a_link_is_named_in_the_error(path, tmp_path, suffix):
    place = beside(path, suffix)
    there = place.exists()
    if there:
        place.rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "elsewhere").touch()
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match=r"expected a regular file.*got a symbolic link"):
        lethevec.open(path)


def test_a_folder_that_is_a_link_is_no_matter(path, tmp_path):
    (tmp_path / "way").symlink_to(path.parent)
    with lethevec.open(tmp_path / "way" / path.name) as db:
        assert len(db) == 2


def special(place, needed, kind):
    """Something in the place of a file; `needed` is what a link leads to."""
    if kind == "link":
        place.symlink_to(needed)
    elif kind == "dangling":
        place.symlink_to(needed.with_name("nowhere"))
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()


def test_keys_behind_a_link_are_for_readers(path, tmp_path):
    """New keys would take the place of the link, and the old private key would stay where it leads to."""
    keys, apart = beside(path, "-keys"), tmp_path / "apart-keys"
    with lethevec.open(path) as db:
        receipt = db.forget([1])
        public = db.public_key()
    keys.rename(apart)
    keys.symlink_to(apart)
    before = apart.read_bytes()
    with pytest.raises(KeysError, match="symbolic link; keys= says"):
        lethevec.open(path)
    assert keys.is_symlink()
    assert apart.read_bytes() == before
    with lethevec.open(path, read_only=True) as db:
        assert db.public_key() == public
        assert db.receipts() == [receipt]


@pytest.mark.parametrize("name", ["copy.jsonl", "copy.npz", "copy.lethe"])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder"])
def test_exports_and_backups_replace_no_special_file(path, tmp_path, name, kind):
    needed, place = tmp_path / "needed", tmp_path / name
    needed.write_bytes(NEEDED)
    special(place, needed, kind)
    before = os.lstat(place)
    with lethevec.open(path, read_only=True) as db, pytest.raises(FileError):
        db.backup(place) if name.endswith(".lethe") else db.export(place)
    assert os.lstat(place).st_ino == before.st_ino
    assert os.lstat(place).st_mode == before.st_mode
    assert needed.read_bytes() == NEEDED
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([name, "needed", "store"])


@pytest.mark.parametrize("options", [[], ["--force"]], ids=["plain", "force"])
@pytest.mark.parametrize("name", ["copy.jsonl", "copy.lethe", "receipts"])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder"])
def test_so_does_the_command(path, tmp_path, name, kind, options):
    pytest.importorskip("click")
    from click.testing import CliRunner

    from lethevec.cli.app import cli

    needed, place = tmp_path / "needed", tmp_path / (name if "." in name else "chain.jsonl")
    needed.write_bytes(NEEDED)
    special(place, needed, kind)
    before = os.lstat(place)
    done = CliRunner().invoke(
        cli, ["export", str(path), str(place), *options, *(["--receipts"] if "." not in name else [])]
    )
    assert done.exit_code != 0, done.output
    assert not isinstance(done.exception, OSError | ValueError)
    assert os.lstat(place).st_ino == before.st_ino
    assert needed.read_bytes() == NEEDED
    assert not (tmp_path / "nowhere").exists()


def test_an_export_keeps_the_mode_of_what_it_replaces(path, tmp_path):
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    old.write_text("old")
    old.chmod(0o640)
    with lethevec.open(path, read_only=True) as db:
        assert db.export(old) == db.export(new) == 2
    assert old.read_bytes() == new.read_bytes()
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert stat.S_IMODE(new.stat().st_mode) == 0o600


FOLDER_SUFFIXES = ["", "-wal", "-shm", "-journal", "-lock", "-reserve", "-new", "-keys", "-keys.new"]
FOLDER_SUFFIXES += ["-copy-0123456789abcdef"]


@pytest.mark.parametrize("suffix", FOLDER_SUFFIXES)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_folder_of_collections(tmp_path, suffix, kind):
    folder, needed = tmp_path / "folder", tmp_path / "needed"
    with lethevec.connect(folder) as db:
        db.collection("one", 2).add([[0, 1], [1, 0]], ids=[1, 2], subjects="ann")
    needed.write_bytes(NEEDED)
    place = folder / f"lethevec.catalog{suffix}"
    place.unlink(missing_ok=True)
    special(place, needed, kind)
    for read_only in (True, False):
        with suppress(LethevecError), lethevec.connect(folder, read_only=read_only) as db:
            db.collections()
            db.backup(tmp_path / f"backup-{read_only}")
            db.forget(subject="ann")
            db.rotate_keys()
    assert needed.read_bytes() == NEEDED


@pytest.mark.parametrize("name", ["signing.json", "audit/writer-000001.jsonl", "keys.json", "keys.json.lock"])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe"])
def test_the_servers_own_files(tmp_path, name, kind):
    """Nothing is written through a link, and nobody waits at a pipe."""
    pytest.importorskip("orjson")
    from lethevec.server.audit import AuditLog, Signer
    from lethevec.server.keys import KeyFile

    state, needed = tmp_path / "state", tmp_path / "needed"
    needed.write_bytes(NEEDED)
    (state / "audit").mkdir(parents=True)
    special(state / name, needed, kind)
    with suppress(LethevecError):
        log = AuditLog(state, "writer", Signer.open(state))
        log.close()
    with suppress(LethevecError):
        _, key = KeyFile(state).make("one", ["reader"])
        KeyFile(state).withdraw(key.id)
    assert needed.read_bytes() == NEEDED
    assert not (tmp_path / "nowhere").exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["needed", "state"]
