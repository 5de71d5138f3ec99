"""`--where`, `get`, `count` and dry runs on the command line."""

from __future__ import annotations

import json

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
