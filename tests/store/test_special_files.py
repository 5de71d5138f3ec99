"""Links, pipes and second names in the store's folder: nothing is followed, and no other file is harmed."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

import lethevec
from lethevec.errors import FileError, LethevecError

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


SUFFIXES = ["", "-wal", "-shm", "-journal", "-lock", "-reserve", "-new", "-keys-vault", "-copy-0123456789abcdef"]


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
