"""The HTTP server in front of a cluster: every operation answers as it does in front of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from lethevec.server import core as server_core
from lethevec.server.app import make_app
from lethevec.server.settings import load_settings

VECTORS = [[0.5, 1.5], [2.5, 0.5], [1.5, 1.5], [3.5, 2.5], [0.5, 3.5]]
RECORDS = {
    "ids": ["a", "b", "c", 4, 5],
    "vectors": VECTORS,
    "subjects": ["ann", "bob", "ann", "cy", None],
    "payloads": [{"year": 1990}, None, {"year": 1995}, {"year": 1999}, None],
}
#: What is not the same: keys, times, bytes, and receipts, which name members.
OWN = {"receipts", "receipt", "bytes_memory", "bytes_files", "version", "asked_at", "checks", "proves", "leaves_open"}


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if name not in OWN}
    return [plain(one) for one in value] if isinstance(value, list) else value


@pytest.fixture
def clients(lab, tmp_path, monkeypatch):
    db = lab.connect(shards=3, replicas=2)
    made = []
    for name, place in (("cluster", db), ("folder", lab.one)):
        monkeypatch.setattr(server_core, "_connect", lambda settings, *, read_only, place=place: place)
        settings = load_settings(None, {"folder": Path(tmp_path / name), "state": tmp_path / f"{name}-state"}, {})
        made.append(TestClient(make_app(server_core.Core(settings)), base_url="http://127.0.0.1:8765"))
    with made[0], made[1]:
        yield made


def test_every_operation_answers_as_in_front_of_a_folder(clients):
    ours, theirs = clients

    def ask(method: str, path: str, body: Any = None, status: int = 200) -> tuple[Any, Any]:
        answers = [client.request(method, path, json=body) for client in (ours, theirs)]
        assert [answer.status_code for answer in answers] == [status] * 2, [answer.text for answer in answers]
        left, right = (answer.json() for answer in answers)
        assert plain(left) == plain(right), (method, path)
        return left, right

    one = "/v1/collections/notes"
    ask("POST", "/v1/collections", {"name": "notes", "dim": 2, "metric": "l2"}, 201)
    ask("POST", f"{one}/add", RECORDS)
    ask("POST", f"{one}/upsert", {"ids": ["b"], "vectors": [[2.5, 1.5]], "subjects": ["bob"]})
    ask("POST", f"{one}/update", {"ids": ["c"], "payloads": [{"year": 2001}]})
    for body in ({"vector": [0, 0], "k": 3}, {"vectors": [[0, 0], [3, 3]], "k": 2, "where": {"year": {"$gt": 1991}}}):
        ask("POST", f"{one}/search", body)
    ask("POST", f"{one}/search", {"vector": [0, 0], "k": 3, "subject": "ann"})
    ask("GET", "/v1/collections")
    ask("GET", one)
    overview, _ = ask("GET", "/v1/overview")
    assert [found["name"] for found in overview["collections"]] == ["notes"]
    assert overview["collections"][0]["subjects"] == 3
    ask("GET", f"{one}/survey")
    ask("GET", f"{one}/digest")
    ask("POST", f"{one}/sample", {"count": 3})
    ask("POST", f"{one}/sample", {"count": 2, "subject": "ann", "seed": 5})
    ask("POST", f"{one}/subjects", {"limit": 2})
    ask("POST", f"{one}/subjects", {"after": "ann", "prefix": "b"})
    ask("POST", f"{one}/get", {"ids": ["a", 4]})
    ask("POST", f"{one}/get", {"limit": 2, "after": "a"})
    ask("POST", f"{one}/count", {"where": {"year": {"$gt": 1991}}})
    ask("POST", "/v1/held", {"subject": "ann"})
    ask("POST", "/v1/access", {"subject": "ann"})
    ask("POST", "/v1/forget", {"subject": "ann", "dry_run": True})
    for client in (ours, theirs):
        held = client.post("/v1/hold", json={"subject": "ann", "reason": "case 42"}).json()["receipt"]
        assert client.post("/v1/forget", json={"subject": "ann"}).status_code == 423
        (hold,) = client.post("/v1/holds", json={}).json()["holds"]
        assert (hold["id"], hold["reason"], hold["subject"]) == (held["hold"], "case 42", "ann")
        client.post("/v1/lift", json={"hold": hold["id"], "reason": "closed"}).raise_for_status()
    ask("POST", "/v1/forget", {"subject": "ann", "block": True, "elsewhere": {"mail": 2}})
    ask("POST", f"{one}/upsert", {"ids": ["z"], "vectors": [[1, 1]], "subjects": ["ann"]}, 423)
    ask("POST", "/v1/unblock", {"subject": "ann", "reason": "came back"})
    ask("POST", f"{one}/forget", {"ids": [4]})
    ask("POST", "/v1/expire", {"skip_held": True})
    ask("POST", f"{one}/rename", {"name": "remarks"})
    ask("DELETE", "/v1/collections/remarks")
    for client in (ours, theirs):
        entries = client.get("/v1/receipts").json()["receipts"]
        kinds = [entry["kind"] for entry in entries]
        assert kinds[kinds.index("hold") :][:3] == ["hold", "lift", "erasure"]
        number = entries[-1]["sequence"]
        assert client.get(f"/v1/receipts/{number}").json()["receipt"] == entries[-1]
        for entry in entries:
            assert client.post("/v1/verify", json={"receipt": entry}).json()["good"], entry["kind"]
        assert client.post("/v1/verify/chain", json={}).json()["good"]
        assert client.get("/v1/metrics").json()["pending_erasures"] == 0


def test_an_operator_sees_shards_members_and_who_is_away(clients, lab):
    ours, theirs = clients
    ours.post("/v1/collections", json={"name": "notes", "dim": 2}).raise_for_status()
    ours.post("/v1/collections/notes/add", json={"ids": [1, 2, 3], "vectors": [[1, 0], [1, 1], [0, 1]]})
    assert theirs.get("/v1/cluster").json() == {"cluster": None}
    assert "lethevec_cluster" not in theirs.get("/metrics").text
    told = ours.get("/v1/cluster").json()["cluster"]
    assert [shard["live"] for shard in told["shards"]] == [2, 2, 2]
    assert sum(shard["buckets"] for shard in told["shards"]) > 0
    assert {(one["state"], one["reachable"]) for one in told["members"]} == {("live", True)}
    assert sum(one["records"] for one in told["members"]) == 6  # two copies of each
    assert told["waiting"] == []

    gone = told["members"][0]["member"]
    lab.net.stop_member(gone)
    ours.post(
        "/v1/collections/notes/upsert", json={"ids": list(range(40)), "vectors": [[1, 2]] * 40}
    ).raise_for_status()
    told = ours.get("/v1/cluster").json()["cluster"]
    found = {one["member"]: one for one in told["members"]}
    assert (found[gone]["state"], found[gone]["reachable"], found[gone]["records"]) == ("away", False, None)
    assert [one["state"] for name, one in found.items() if name != gone] == ["live"] * 5
    assert ours.post("/v1/collections/notes/forget", json={"ids": [1]}).status_code == 202
    (waiting,) = ours.get("/v1/cluster").json()["cluster"]["waiting"]
    assert waiting["members"] == [gone]
    text = ours.get("/metrics").text
    assert 'lethevec_cluster_members{state="away"} 1' in text
    assert "lethevec_cluster_erasures_waiting 1" in text
    assert ours.get("/v1/metrics").json()["processes"] == ["writer"]
