"""What update and upsert replace: erased with a receipt when asked, and otherwise within a stated time."""

from __future__ import annotations

import sqlite3
import time

import numpy as np
import pytest

from lethevec._store import soon
from lethevec.errors import ErasureIncompleteError, ParameterError

BOTH_LAYOUTS = True


@pytest.fixture
def filled(make, vectors):
    db = make()
    db.add(
        vectors,
        ids=[f"an-id-{i:04d}" for i in range(40)],
        subjects=["somebody-or-other"] * 40,
        payloads=[{"note": f"the old text {i:04d} of a record"} for i in range(40)],
    )
    return db


def test_erase_old(filled, vectors, leftovers, tmp_path, unaccounted):
    texts = [f"the old text {i:04d} of a record" for i in (3, 7)]
    receipt = filled.update(
        vectors[[3, 7]] + 1, ids=["an-id-0003", "an-id-0007"], payloads=[{"n": 1}, {"n": 2}], erase_old=True
    )
    assert (receipt.kind, receipt.records, receipt["asked"]["by"]) == ("rectification", 2, "update")
    assert leftovers(tmp_path, vectors=vectors[[3, 7]], texts=texts) == []
    assert unaccounted(filled.path) == {}
    assert filled.get("an-id-0003")[0].payload == {"n": 1}
    assert filled.get("an-id-0003")[0].subject == "somebody-or-other"
    assert filled.search(vectors[7] + 1, k=1)[0][0].id == "an-id-0007"
    assert filled.verify(receipt)["signature"].passed
    assert filled.verify(receipt)  # that the ids are in use is no contradiction
    assert filled.verify(receipt)["absent"].passed is None
    receipt = filled.upsert(vectors[:2] + 2, ids=["an-id-0001", "brand-new"], erase_old=True)
    assert receipt.records == 1
    assert leftovers(tmp_path, vectors=vectors[1:2], texts=["the old text 0001 of a record"]) == []
    assert len(filled) == 41


def test_after_reopening_and_forgetting(filled, make, vectors, leftovers, tmp_path):
    filled.update(vectors[3:4] + 1, ids=["an-id-0003"], erase_old=True)
    filled.close()
    db = make()
    assert np.allclose(db.get("an-id-0003")[0].vector, vectors[3] + 1)
    assert db.forget("an-id-0003").records == 1
    assert leftovers(tmp_path, vectors=[vectors[3], vectors[3] + 1], ids=["an-id-0003"]) == []


def test_incomplete(filled, vectors, make):
    reader = sqlite3.connect(filled.path)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM store").fetchall()
    with pytest.raises(ErasureIncompleteError):
        filled.update(vectors[3:4] + 1, ids=["an-id-0003"], erase_old=True, timeout=0)
    assert np.allclose(filled.get("an-id-0003")[0].vector, vectors[3] + 1), "the change is made"
    reader.close()
    assert [receipt.kind for receipt in filled.complete_erasures()] == ["rectification"]


def test_in_a_transaction(filled, vectors, leftovers, tmp_path):
    with filled.transaction():
        receipt = filled.update(vectors[3:4] + 1, ids=["an-id-0003"], erase_old=True)
    assert receipt.records == 1
    assert leftovers(tmp_path, vectors=vectors[3:4]) == []


def test_otherwise_within_a_stated_time(filled, vectors, leftovers, tmp_path, monkeypatch):
    monkeypatch.setattr(soon, "WITHIN", 0.2)
    filled.forget("an-id-0000")  # the log is empty
    assert filled.update(payloads=[{"n": 1}], ids=["an-id-0003"]) is None
    for _ in range(100):
        time.sleep(0.05)
        if leftovers(tmp_path, texts=["the old text 0003 of a record"]) == []:
            break
    assert leftovers(tmp_path, texts=["the old text 0003 of a record"]) == []


def test_at_close(filled, vectors, leftovers, tmp_path):
    filled.update(payloads=[{"n": 1}], ids=["an-id-0003"])
    filled.close()
    assert leftovers(tmp_path, texts=["the old text 0003 of a record"]) == []


@pytest.mark.parametrize("options", [{"erase_old": 1}, {"erase_old": True, "timeout": float("nan")}])
def test_refused(filled, vectors, options):
    before = filled.digest()
    with pytest.raises(ParameterError):
        filled.update(vectors[:1], ids=["an-id-0003"], **options)
    with pytest.raises(ParameterError):
        filled.upsert(vectors[:1], ids=["an-id-0003"], **options)
    assert filled.digest() == before
