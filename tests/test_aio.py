"""The calls for asyncio: the same answers, and the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import lethevec
import lethevec.aio
from lethevec.errors import FileError, LethevecError, ParameterError

X = np.random.default_rng(0).normal(size=(700, 8)).astype(np.float32)


def run(coroutine):
    return asyncio.run(coroutine)


def test_the_same_as_without(tmp_path):
    async def work():
        async with lethevec.aio.open(tmp_path / "a.lethe", dim=8, metric="l2") as db:
            await db.add(X, ids=range(700), subjects=[f"s{n % 7}" for n in range(700)])
            found = await asyncio.gather(*(db.search(x, k=3) for x in X[:20]))
            receipt = await db.forget(subject="s3")
            assert await db.verify(receipt, subject="s3")
            ids = [record.id async for record in db]
            return [hits.ids.tolist() for hits in found], ids, await db.digest(), await db.count(), db.dim, db.metric

    found, ids, digest, count, dim, metric = run(work())
    with lethevec.open(tmp_path / "a.lethe") as db:
        assert (ids, digest, count) == (db.ids(), db.digest(), 600)
        assert (dim, metric) == (8, "l2")
    index = lethevec.Index(dim=8, metric="l2")
    index.add(X, ids=range(700))
    assert found == [index.search(x, k=3).ids.tolist() for x in X[:20]]


def test_calls_run_outside_the_loops_thread(tmp_path, monkeypatch):
    """While a call waits, the loop does other things."""
    asked, go_on = threading.Event(), threading.Event()
    counted = lethevec.Store.count

    def slow(self, *args, **kwargs):
        asked.set()
        assert go_on.wait(30)
        return counted(self, *args, **kwargs)

    monkeypatch.setattr(lethevec.Store, "count", slow)

    async def work():
        async with lethevec.aio.open(tmp_path / "a.lethe", dim=8) as db:
            waiting = asyncio.create_task(db.count())
            while not asked.is_set():
                await asyncio.sleep(0.001)
            assert not waiting.done()
            go_on.set()
            return await waiting

    assert run(work()) == 0


def test_a_transaction_runs_in_one_thread(tmp_path):
    def change(db):
        with db.transaction():
            db.upsert(X[:2], ids=["a", "b"])
            db.forget(["a"])
        return db.ids()

    async def work():
        db = await lethevec.aio.open(tmp_path / "a.lethe", dim=8)
        assert await db.run(change) == ["b"]
        with pytest.raises(AttributeError, match="run"):
            db.transaction()
        with pytest.raises(AttributeError, match="nothing"):
            _ = db.nothing
        assert "upsert" in dir(db)
        await db.close()

    run(work())


def test_errors_come_through_and_nothing_is_opened_before_it_is_awaited(tmp_path):
    async def work():
        db = lethevec.aio.open(tmp_path / "a.lethe")
        assert not (tmp_path / "a.lethe").exists()
        with pytest.raises(ParameterError, match="async with"):
            _ = db.dim
        with pytest.raises(LethevecError):
            await db
        (tmp_path / "b.lethe").write_bytes(b"something else")
        with pytest.raises(FileError):
            async with lethevec.aio.open(tmp_path / "b.lethe"):
                raise AssertionError

    run(work())


def test_a_folder(tmp_path):
    async def work():
        async with lethevec.aio.connect(tmp_path / "people") as db:
            photos = await db.collection("photos", dim=8)
            await photos.upsert(X[:2], ids=["a", "b"], subjects=["ann", "bob"])
            receipt = await db.forget(subject="ann")
            return receipt.records, await db.collections(), await photos.ids(), await db.verify(receipt)

    records, names, ids, verified = run(work())
    assert (records, names, ids, bool(verified)) == (1, ["photos"], ["b"], True)
