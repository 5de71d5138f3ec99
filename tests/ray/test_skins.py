"""The command line, the HTTP server and the page, over a cluster on Ray."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from lethevec.cli.app import cli
from lethevec.cluster import ClusterReceipt, verify
from lethevec.errors import ErasureIncompleteError
from tests.ray.engine import until

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str) -> str:
    result = CliRunner().invoke(cli, list(words))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_commands(place):
    db = place.connect(shards=1, replicas=2)
    db.collection("people", dim=2, metric="l2").add([[0, 1], [0, 2]], ["a", "b"], subjects=["ann", "bob"])
    where = ["--folder", str(place.folder / "cluster"), "--name", place.name]
    status = json.loads(run("cluster", "status", *where, "--json"))
    assert [(one["member"], one["state"], one["records"]) for one in status["members"]] == [
        ("s0-1", "live", 2),
        ("s0-2", "live", 2),
    ]
    assert "s0-2" in run("cluster", "status", *where)
    place.kill("s0-1", restart=False)
    with pytest.raises(ErasureIncompleteError):
        db.forget(subject="ann", timeout=1)
    db.close()
    lost = json.loads(run("cluster", "declare-lost", "s0-1", "--yes", *where, "--json"))
    assert ClusterReceipt(lost["receipts"][0]).members == {"s0-1": "declared", "s0-2": "erased"}
    assert json.loads(run("cluster", "rebalance", "--replicas", "2", *where, "--json"))["members"] == ["s0-3"]
    (line,) = run("cluster", "receipts", *where).splitlines()
    assert verify(line, key=db.public_key())
    checked = json.loads(run("cluster", "verify", *where, "--json"))
    assert checked == {"entries": 1, "good": True, "failed": []}
    refused = CliRunner().invoke(cli, ["cluster", "declare-lost", *where])
    assert refused.exit_code == 1
    assert "name of a member" in refused.output


def test_a_registry_goes_on_from_a_copy_of_its_folder(place):
    db = place.connect(shards=1, replicas=2)
    people = db.collection("people", dim=2, metric="l2")
    people.add([[0, 1], [0, 2], [0, 3]], ["a", "b", "c"], subjects=["ann", "bob", "cat"])
    (registry,) = (place.folder / "cluster" / place.name).glob("*/registry")
    shutil.copytree(registry, place.folder / "copy")
    assert db.forget(subject="ann").number == 1
    db.close()
    place.kill("registry", restart=False)
    until(lambda: not _is_there(place, "registry"))
    shutil.rmtree(registry)
    shutil.copytree(place.folder / "copy", registry)
    where = ["--folder", str(place.folder / "cluster"), "--name", place.name]
    states = json.loads(run("cluster", "restore-registry", "--yes", *where, "--json"))
    assert states == {"s0-1": "live", "s0-2": "live"}
    db = place.connect(takeover=True)
    receipt = db.forget(subject="bob")
    assert (receipt.number, receipt.records, set(receipt.members.values())) == (2, 1, {"erased"})
    assert db.collection("people").ids() == ["c"]


def _is_there(place, name: str) -> bool:
    try:
        place.actor(name)
    except ValueError:
        return False
    return True


def test_the_server_over_a_cluster(place):
    from lethevec.server.app import make_app
    from lethevec.server.core import Core
    from lethevec.server.settings import load_settings

    place.connect(shards=2, replicas=1).close()
    flags = {"cluster": "auto", "cluster_name": place.name, "folder": place.folder / "cluster", "log": "none"}
    settings = load_settings(None, {**flags, "state": place.folder / "state"}, {})
    with TestClient(make_app(Core(settings)), base_url="http://127.0.0.1:8765") as client:

        def ask(method: str, path: str, body: object = None, status: int = 200):
            answer = client.request(method, path, json=body)
            assert answer.status_code == status, answer.text
            return answer.json()

        ask("POST", "/v1/collections", {"name": "notes", "dim": 2, "metric": "l2"}, 201)
        records = {"ids": ["a", "b"], "vectors": [[0, 1], [0, 3]], "subjects": ["ann", "bob"]}
        ask("POST", "/v1/collections/notes/upsert", records)
        found = ask("POST", "/v1/collections/notes/search", {"vector": [0, 0], "k": 2})
        assert found["ids"] == [["a", "b"]]
        assert found["subjects"] == [["ann", "bob"]]
        assert ask("GET", "/v1/collections")["collections"][0]["records"] == 2
        erased = ask("POST", "/v1/forget", {"subject": "ann"})
        receipt = ClusterReceipt(erased["receipt"])
        assert receipt.members == {"s0-1": "erased", "s1-1": "erased"}
        assert ask("POST", "/v1/verify", {"receipt": erased["receipt"], "subject": "ann"})["good"]
        assert ask("POST", "/v1/collections/notes/search", {"vector": [0, 0], "k": 2})["ids"] == [["b"]]
        assert len(ask("GET", "/v1/receipts")["receipts"]) == 1


def test_the_page_s_example_runs(place):
    page = (ROOT / "docs" / "cluster.md").read_text()
    (code,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    assert "/data/lethevec" in code
    code = code.replace('"/data/lethevec"', repr(str(place.folder / "cluster"))).replace(
        "shards=2", f"name={place.name!r}, shards=2"
    )
    names: dict[str, object] = {}
    for line in re.split(r"\n(?=\S)", code):
        shown = re.search(r"# (\[.*\]|\{.*\})$", line)
        if shown:
            assert eval(line.partition("  #")[0], names) == eval(shown[1]), line
        else:
            exec(line, names)
