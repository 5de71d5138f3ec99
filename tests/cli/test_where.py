"""`--where`, `get`, `count` and dry runs on the command line."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from click.testing import CliRunner

import lethevec
from lethevec.cli.app import cli


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "a.lethe"
    with lethevec.open(path, dim=2, metric="l2") as db:
        db.add(
            [[0, n] for n in range(10)],
            ids=range(10),
            subjects=["ann", "bob"] * 5,
            payloads=[{"n": n} for n in range(10)],
        )
    return str(path)


def run(*arguments: str):
    return CliRunner().invoke(cli, list(arguments))


def test_count_and_get(store):
    assert run("count", store).stdout == "10\n"
    assert json.loads(run("count", store, "--where", '{"n": {"$lt": 4}}', "--subject", "ann", "--json").stdout) == {
        "records": 2
    }
    shown = run("get", store, "--where", '{"n": {"$gte": 6}}', "--limit", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in shown] == [6, 7]
    following = run("get", store, "--where", '{"n": {"$gte": 6}}', "--after", "7", "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in following] == [8, 9]
    assert json.loads(run("get", store, "3", "--json").stdout) == {
        "id": 3,
        "subject": "bob",
        "payload": {"n": 3},
        "expires": None,
        "vector": [0, 3],
    }
    assert "bob" in run("get", store, "3").stdout
    assert run("get", store, "3", "--subject", "ann").exit_code == 2
    assert run("get", store, "99").exit_code == 1
    for wrong in ("[1]", "{", '{"n": {"$above": 1}}'):
        assert run("count", store, "--where", wrong).exit_code == 1


def test_forget_by_a_filter_after_a_dry_run(store):
    asked = ("forget", store, "--where", '{"n": {"$lt": 4}}', "--subject", "ann", "--json")
    assert json.loads(run(*asked, "--dry-run").stdout) == {"would_forget": 2}
    assert run("count", store).stdout == "10\n"
    assert json.loads(run(*asked).stdout)["forgotten"] == 2
    assert run("count", store).stdout == "8\n"
    assert run("forget", store, "1", "--where", '{"n": 1}').exit_code == 2


def test_search_and_export_by_a_filter(store, tmp_path):
    found = json.loads(
        run("search", store, "--vector", "0,0", "--where", '{"n": {"$gte": 5}}', "--radius", "6.5", "--json").stdout
    )
    assert [hit["id"] for hit in found["hits"]] == [5, 6]
    assert run("export", store, str(tmp_path / "a.jsonl"), "--where", '{"n": {"$gte": 8}}').exit_code == 0
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 2
    assert run("export", store, str(tmp_path / "b.lethe"), "--where", '{"n": 1}').exit_code == 1


def test_get_tells_when_a_record_expires(store):
    when = datetime(2150, 1, 1, tzinfo=timezone.utc)
    with lethevec.open(store) as db:
        db.add([[5, 5]], ids=[50], expires=when)
    (line,) = run("get", store, "50", "--json").stdout.splitlines()
    assert datetime.fromisoformat(json.loads(line)["expires"]) == when


def test_a_radius_alone_finds_everything_within_it(store):
    with lethevec.open(store) as db:
        db.add([[0.001 * n, 0] for n in range(30)], ids=range(100, 130))
    asked = ("search", store, "--vector", "0,0", "--radius", "1", "--json")
    everything = [hit["id"] for hit in json.loads(run(*asked).stdout)["hits"]]
    assert everything == [0, *range(100, 130), 1]
    assert [hit["id"] for hit in json.loads(run(*asked, "-k", "3").stdout)["hits"]] == everything[:3]
    among = json.loads(run(*asked, "--where", '{"n": {"$gte": 0}}').stdout)
    assert [hit["id"] for hit in among["hits"]] == [0, 1]
    others = json.loads(run("search", store, "--id", "0", "--radius", "0.0155", "--json").stdout)
    assert [hit["id"] for hit in others["hits"]] == list(range(100, 116))


def test_ids(store):
    assert run("ids", store, "--where", '{"n": {"$lt": 4}}', "--subject", "ann").stdout == "0\n2\n"
    assert [json.loads(line) for line in run("ids", store, "--json").stdout.splitlines()] == list(range(10))
    assert run("ids", store, "--where", '{"n": {"$above": 1}}').exit_code == 1


def test_update(store):
    assert run("update", store, "3", "4", "--payload", '{"seen": true}', "--merge").exit_code == 0
    done = run("update", store, "--where", '{"n": {"$gte": 8}}', "--payload", "null", "--subject", "", "--json")
    assert json.loads(done.stdout)["updated"] == 2
    assert run("update", store, "0", "--subject", "eve").exit_code == 0
    with lethevec.open(store) as db:
        assert [record.payload for record in db.get([2, 3, 4])] == [
            {"n": 2},
            {"n": 3, "seen": True},
            {"n": 4, "seen": True},
        ]
        assert [(record.payload, record.subject) for record in db.get([8, 9])] == [(None, None)] * 2
        assert db.get([0])[0].subject == "eve"
        before = db.digest()
    for wrong, code in (
        (("3", "--payload", "[1]"), 1),
        (("3", "--payload", "{"), 1),
        (("99", "--payload", "{}"), 1),
        (("3",), 2),
        (("--payload", "{}"), 2),
        (("3", "--where", "{}", "--payload", "{}"), 2),
    ):
        assert run("update", store, *wrong).exit_code == code
    with lethevec.open(store) as db:
        assert db.digest() == before


def test_upsert(store, tmp_path):
    path = tmp_path / "new.jsonl"
    path.write_text(
        '{"id": 3, "vector": [5, 5]}\n{"id": 50, "vector": null}\n'
        '{"id": 51, "vector": [1, 1], "expires": "2150-01-01"}\n'
    )
    assert json.loads(run("upsert", store, str(path), "--json").stdout)["written"] == 3
    with lethevec.open(store) as db:
        assert db.get([3])[0].payload is None
        assert db.get([50])[0].vector is None
        assert db.get([51])[0].expires.year == 2150
        before = db.digest()
    path.write_text('{"id": 4, "vector": [5, 5]}\n{"id": 5, "vector": [5, 5, 5]}\n')
    assert run("upsert", store, str(path)).exit_code == 1
    with lethevec.open(store) as db:
        assert db.digest() == before
