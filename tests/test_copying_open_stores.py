"""An open store has one connection and one lock: copies and pickles of it are refused, with what to do instead."""

from __future__ import annotations

import asyncio
import copy
import pickle

import numpy as np
import pytest

import lethevec
import lethevec.aio
from lethevec.errors import UnsupportedError

pytest.importorskip("cryptography")

WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy}
WAYS |= {f"pickle {n}": lambda it, n=n: pickle.dumps(it, n) for n in range(pickle.HIGHEST_PROTOCOL + 1)}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store(tmp_path, way, read_only):
    path = tmp_path / "a.lethe"
    lethevec.open(path, dim=3, metric="l2").close()
    with lethevec.open(path, read_only=read_only) as db:
        before = db.digest()
        for it in (db, [db], {"db": db}):
            if way is copy.copy and it is not db:
                continue  # a shallow copy of a list has the store itself in it
            with pytest.raises(UnsupportedError, match=r"backup\(path\).*lethevec\.open\(path, read_only=True\)"):
                way(it)
        assert db.digest() == before
        if not read_only:
            db.add(np.eye(3), ids=range(3))
            assert db.forget([1]).records == 1
    with pytest.raises(UnsupportedError):
        way(db)  # closed


def test_a_folder_and_its_collections(tmp_path, way):
    with lethevec.connect(tmp_path / "folder") as db:
        notes = db.collection("notes", dim=3, metric="l2")
        for it in (db, notes):
            with pytest.raises(UnsupportedError, match=r"backup\(path\).*lethevec\.connect\(folder, read_only=True\)"):
                way(it)
        notes.add(np.eye(3), ids=range(3), subjects="a")
        assert db.forget(subject="a").records == 3


def test_what_the_refusal_says_works(tmp_path):
    """A copy by `backup`, and the same store and collection opened a second time."""
    with lethevec.open(tmp_path / "a.lethe", dim=3, metric="l2") as db:
        db.add(np.eye(3), ids=range(3))
        db.backup(tmp_path / "copy.lethe")
        with lethevec.open(tmp_path / "a.lethe", read_only=True) as again:
            assert again.digest() == db.digest()
        with lethevec.open(tmp_path / "copy.lethe", read_only=True) as copied:
            assert copied.digest() == db.digest()
    with lethevec.connect(tmp_path / "folder") as folder:
        notes = folder.collection("notes", dim=3, metric="l2")
        notes.add(np.eye(3), ids=range(3))
        folder.backup(tmp_path / "backup")
        with lethevec.connect(tmp_path / "folder", read_only=True) as again:
            assert again.collection("notes").digest() == notes.digest()


def test_asyncio(tmp_path, way):
    async def work():
        async with lethevec.aio.open(tmp_path / "a.lethe", dim=3) as db:
            with pytest.raises(UnsupportedError, match=r"backup\(path\)"):
                way(db)
            return await db.count()

    assert asyncio.run(work()) == 0
