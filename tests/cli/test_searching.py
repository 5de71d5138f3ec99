"""`search` and `tune`, from outside."""

from __future__ import annotations

import json

import numpy as np

import lethevec


def test_search_by_id_leaves_the_record_out(run, store, vectors):
    line = json.loads(run("search", store, "--id", "7", "-k", "3", "--json").stdout)
    with lethevec.open(store, read_only=True) as db:
        wanted = [hit.id for hit in db.search(vectors[7], k=4)[0]][1:]
    assert line["query"] == 7
    assert [hit["id"] for hit in line["hits"]] == wanted
    assert set(line["hits"][0]) == {"id", "distance", "subject", "payload"}


def test_search_of_a_file_has_a_line_for_each_query(run, store, vectors, tmp_path):
    np.save(tmp_path / "q.npy", vectors[:5])
    lines = [json.loads(line) for line in run("search", store, "q.npy", "-k", "2", "--json").stdout.splitlines()]
    assert [line["query"] for line in lines] == [0, 1, 2, 3, 4]
    assert [line["hits"][0]["id"] for line in lines] == [0, 1, 2, 3, 4]
    result = run("search", store, "q.npy", "-k", "2")
    assert result.stdout.count("distance") == 5
    assert "5 queries in" in result.stderr


def test_search_by_vector_with_conditions(run, store, vectors):
    vector = ",".join(map(str, vectors[4].tolist()))
    ask = ["search", store, "--vector", vector, "--json", "-k", "60"]
    hits = json.loads(run(*ask, "--subject", "bob-the-second", "--where", '{"n": {"$lt": 10}}').stdout)["hits"]
    assert {hit["id"] for hit in hits} == {1, 4, 7}
    assert {hit["subject"] for hit in hits} == {"bob-the-second"}
    assert "bob-the-second" in run("search", store, "--vector", vector, "-k", "1").stdout


def test_search_tells_the_recall(run, store, vectors, tmp_path):
    np.save(tmp_path / "q.npy", vectors[:10])
    distances = np.linalg.norm(vectors[:10, None] - vectors[None], axis=2)
    true = np.argsort(distances, axis=1)[:, :5].astype("<i4")
    np.hstack([np.full((10, 1), 5, dtype="<i4"), true]).tofile(tmp_path / "t.ivecs")
    assert (
        "recall@5: 1.0000 over 10"
        in run("search", store, "q.npy", "-k", "5", "--effort", "1e6", "--truth", "t.ivecs").stderr
    )
    np.hstack([np.full((10, 1), 5, dtype="<i4"), true[::-1]]).astype("<i4").tofile(tmp_path / "t.ivecs")
    assert "recall@5: 0." in run("search", store, "q.npy", "-k", "5", "--effort", "1e6", "--truth", "t.ivecs").stderr
    np.hstack([np.full((10, 1), 5, dtype="<i4"), true])[:3].astype("<i4").tofile(tmp_path / "t.ivecs")
    assert "expected a row for each query" in run("search", store, "q.npy", "--truth", "t.ivecs", code=1).stderr


def test_an_id_that_is_a_number_or_a_text(run, tmp_path, vectors):
    with lethevec.open(tmp_path / "a.lethe", dim=6) as db:
        db.add(vectors[:4], ids=[7, "7", "8", "007"])
    asked = [json.loads(run("search", "a.lethe", "--id", id, "--json").stdout)["query"] for id in ("7", "8", "007")]
    assert asked == [7, "8", "007"]


def test_tune_is_that_of_the_store(ask, run, store, tmp_path):
    queries = np.random.default_rng(9).normal(size=(30, 6)).astype(np.float32)
    np.save(tmp_path / "q.npy", queries)
    answer = ask("tune", store, "q.npy", "--target", "0.95", "-k", "5")
    with lethevec.open(store, read_only=True) as db:
        wanted = db.tune(queries, 0.95, 5)
    assert (answer["effort"], answer["recall"], answer["queries"]) == (wanted.effort, wanted.recall, 30)
    assert ask("tune", store, "--sample", "10")["queries"] == 10
    assert "use it" in run("tune", store, "q.npy").stdout
    lethevec.open(tmp_path / "empty.lethe", dim=2).close()
    assert "got an empty store" in run("tune", "empty.lethe", code=1).stderr
