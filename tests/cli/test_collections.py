"""Folders of collections from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import lethevec

ANN, BOB = "ann-the-first", "bob-the-second"


@pytest.fixture
def people(tmp_path, vectors):
    folder = tmp_path / "people"
    with lethevec.connect(folder) as db:
        for name in ("photos", "notes"):
            subjects = [(ANN, BOB)[i % 2] for i in range(len(vectors))]
            db.collection(name, dim=6, metric="l2").add(vectors, ids=range(len(vectors)), subjects=subjects)
    return folder


def test_collections(run, ask, tmp_path, vectors):
    assert ask("collections", "people", "--make", "photos", "--dim", 6, "--metric", "l2")["collections"] == [
        {"name": "photos", "records": 0, "dim": 6, "metric": "l2"}
    ]
    np.save(tmp_path / "v.npy", vectors)
    run("add", "people/photos", "v.npy")
    assert "60" in run("collections", "people").stdout
    assert ask("search", "people/photos", "--id", "3", "-k", "1")["query"] is not None
    answer = ask("collections", "people", "--rename", "photos", "pictures")
    assert answer["receipt"]["kind"] == "rename"
    assert ask("forget", "people/pictures", "3")["forgotten"] == 1
    answer = ask("collections", "people", "--drop", "pictures")
    assert (answer["receipt"]["kind"], answer["receipt"]["records"], answer["collections"]) == ("drop", 59, [])
    run("collections", "people", "--make", "a", "--drop", "b", code=2)
    assert "--dim" in run("collections", "people", "--make", "a", code=1).stderr
    assert "a/b" in run("collections", "people", "--make", "a/b", "--dim", "3", code=1).stderr
    assert "expected a folder of collections" in run("collections", "nowhere", code=1).stderr
    assert "expected one of the collections" in run("search", "people/none", "--id", "3", code=1).stderr


def test_forget_verify_and_receipts(run, ask, people, tmp_path):
    answer = ask("forget", people, "--subject", ANN, "--receipt", "r.json", "--block")
    assert (answer["forgotten"], answer["records"]) == (60, 60)
    assert ask("verify", people, "r.json", "--subject", ANN)["verified"]
    assert not ask("verify", people, "r.json", "--subject", BOB, code=1)["verified"]
    (tmp_path / "key.txt").write_text(run("receipts", "key", people).stdout)
    assert ask("verify", "r.json", "--key", "key.txt")["verified"]
    assert ask("verify", people, "--key", "key.txt")["verified"]
    assert "erasure" in run("receipts", "list", people).stdout
    assert run("receipts", "anchor", people).stdout.startswith("lethevec-anchor/1 ")
    assert ask("block", people, ANN)["blocked"]
    assert not ask("block", people, ANN, "--lift")["blocked"]
    assert ask("block", people, ANN, "--reason", "asked us to")["blocked"]
    run("forget", people, "3", code=2)
    run("forget", people / "photos", "--subject", BOB, "--block", code=2)
    assert "which has none" in run("forget", people, "--subject", "nobody", code=1).stderr


def test_access_and_holds(run, ask, people, tmp_path):
    assert "60" in run("access", people, ANN, "--export", "ann.json").stdout
    assert len(json.loads((tmp_path / "ann.json").read_text())["collections"]["photos"]) == 30
    assert ask("access", people, ANN)["holds"] == []
    (hold,) = ask("hold", people, ANN, "--reason", "case 1")
    assert (hold["subject"], hold["reason"]) == (ANN, "case 1")
    assert "case 1" in run("hold", people).stdout
    assert "under legal hold" in run("forget", people, "--subject", ANN, code=1).stderr
    assert "case 1" in run("access", people, ANN).stdout
    assert ask("hold", people, "--lift", hold["hold"]) == []
    run("hold", people, ANN, "--reason", "case 2")
    assert ask("hold", people, ANN, "--lift", "all") == []
    run("hold", people, "--reason", "case 3", code=1)
    run("hold", people, "--lift", "all", code=1)
    assert ask("forget", people, "--subject", ANN)["forgotten"] == 60


def test_expire(run, ask, tmp_path, vectors):
    import time
    from datetime import timedelta

    with lethevec.connect(tmp_path / "people", clock=lambda: time.time() - 2 * 86_400) as db:
        kept = db.collection("photos", dim=6, metric="l2", expires=timedelta(days=1))
        kept.add(vectors, ids=range(len(vectors)), subjects=[(ANN, BOB)[i % 2] for i in range(len(vectors))])
        kept.update(ids=[0], expires=None)
        db.hold(ANN, "case 1")
    assert ask("collections", "people")["collections"][0]["records"] == 1
    assert "under legal hold" in run("expire", "people", code=1).stderr
    assert ask("expire", "people", "--skip-held")["erased"] == 30
    run("hold", "people", ANN, "--lift", "all")
    assert "29 records" in run("expire", "people").stdout
    assert "nothing was due" in run("expire", "people/photos").stdout
    answer = ask("collections", "people", "--make", "brief", "--dim", 3, "--expires", "30")
    assert len(answer["collections"]) == 2
