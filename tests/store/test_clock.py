"""A clock that goes backwards: receipts are in the order of their chain, whatever their times say."""

from __future__ import annotations

import datetime
import time
from datetime import timedelta

import numpy as np
import pytest

import lethevec


@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "sealed"])
def test_forgetting_does_not_depend_on_the_clock(tmp_path, monkeypatch, encrypt):
    now, real = [time.time()], time.time
    days = iter([0, -1, -400, 3, -20000, 1])

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(now[0], tz)

    monkeypatch.setattr(time, "time", lambda: now[0])
    for module in ("receipts", "records", "keys"):
        there = __import__(f"lethevec._forgetting.{module}", fromlist=["datetime"])
        if hasattr(there, "datetime"):
            monkeypatch.setattr(there, "datetime", Clock)
    path = tmp_path / "people.lethe"
    issued = []
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    for day in days:
        now[0] = real() + 86400 * day
        # `clock`: what a store knows the time by was bound when the module was imported.
        with lethevec.open(path, dim=4, metric="l2", encrypt=encrypt, clock=lambda: now[0]) as db:
            db.add(x, ids=range(60))
            db.add(x[:2], ids=["brief", "later"], expires=[timedelta(hours=1), timedelta(days=1)])
            issued.append(db.forget(range(60)))
            assert db.verify(issued[-1])
            assert db.count() == 2
            now[0] += 7200
            assert db.ids() == ["later"]
            now[0] -= 86400 * 365
            assert db.ids() == ["later"], "while a store is open its clock never goes back"
            issued += [db.expire(), db.forget(["later"])]
            assert [receipt.records for receipt in issued[-2:]] == [1, 1]
    with lethevec.open(path, read_only=True) as db:
        assert len(db) == 0
        assert db.receipts() == issued
        assert lethevec.verify_chain(db.receipts(all_kinds=True), key=db.public_key())
