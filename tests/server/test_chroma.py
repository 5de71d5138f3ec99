"""Chroma's API as its clients call it. Their own suite is run by `make test-chroma-suite`."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from lethevec.server.chroma.filters import escape, metadata_of, payload_of, to_where, unescape
from lethevec.server.problems import Problem

BASE = "/api/v2/tenants/default_tenant/databases/default_database"


class Chroma:
    """One collection, as a client sees it."""

    def __init__(self, server, name="docs", **more):
        self.server = server
        made = server.post(f"{BASE}/collections", {"name": name, **more})
        assert made.status_code == 200, made.text
        self.model = made.json()
        self.path = f"{BASE}/collections/{self.model['id']}"

    def post(self, action, **body):
        return self.server.post(f"{self.path}/{action}", body)


@pytest.fixture
def chroma(start):
    return Chroma(start())


def test_what_a_client_asks_first(start):
    server = start()
    assert server.call("GET", "/api/v2/heartbeat").json()["nanosecond heartbeat"] > 0
    assert server.call("GET", "/api/v2/version").json() == "1.0.0"
    checks = server.call("GET", "/api/v2/pre-flight-checks").json()
    assert checks == {"max_batch_size": 5461, "supports_base64_encoding": True}
    assert server.call("GET", "/api/v2/auth/identity").json()["tenant"] == "default_tenant"
    assert server.call("GET", BASE).json()["name"] == "default_database"
    assert server.call("GET", "/api/v2/tenants/nobody").json()["error"] == "NotFoundError"


def test_records_in_and_out(chroma):
    packed = base64.b64encode(np.array([3, 4], dtype="<f4").tobytes()).decode()
    added = chroma.post(
        "add", ids=["b", "a"], embeddings=[[1, 2], packed], metadatas=[{"n": 1}, None], documents=[None, "text"]
    )
    assert (added.status_code, added.json()) == (201, {})
    got = chroma.post("get", include=["embeddings", "metadatas", "documents", "uris"]).json()
    assert got["ids"] == ["a", "b"]  # by id: the order of insertion is history
    assert got["embeddings"] == [[3, 4], [1, 2]]
    assert got["metadatas"] == [None, {"n": 1}]
    assert got["documents"] == ["text", None]
    assert got["uris"] == [None, None]
    assert chroma.server.call("GET", f"{chroma.path}/count").json() == 2
    assert chroma.post("get", ids=["a", "nobody"], include=[]).json()["ids"] == ["a"]
    assert chroma.post("get", limit=1, offset=1, include=[]).json()["ids"] == ["b"]


@pytest.mark.parametrize(
    ("space", "distances"), [("l2", [0.0, 8.0]), ("ip", [1 - 11.0, 1 - 5.0]), ("cosine", [0.0, 0.01613])]
)
def test_distances_are_those_of_chroma(start, space, distances):
    chroma = Chroma(start(), configuration={"hnsw": {"space": space}})
    chroma.post("add", ids=["a", "b"], embeddings=[[1, 2], [3, 4]])
    found = chroma.post("query", query_embeddings=[[1, 2]], n_results=5, include=["distances", "embeddings"]).json()
    assert np.allclose(found["distances"][0], distances, atol=1e-4)
    assert found["ids"] == ([["a", "b"]] if space != "ip" else [["b", "a"]])
    assert found["embeddings"][0][0] == ([1, 2] if space != "ip" else [3, 4])
    assert found["documents"] is None


def test_add_keeps_update_changes_upsert_does_either(chroma):
    chroma.post("add", ids=["a"], embeddings=[[1, 1]], metadatas=[{"x": 1, "y": 2}], documents=["one"])
    chroma.post("add", ids=["a", "b"], embeddings=[[9, 9], [2, 2]])
    chroma.post("update", ids=["a", "nobody"], metadatas=[{"x": 5, "y": None}, None])
    chroma.post("upsert", ids=["b", "c"], embeddings=[[3, 3], [4, 4]], documents=["two", "three"])
    got = chroma.post("get", include=["embeddings", "metadatas", "documents"]).json()
    assert got["ids"] == ["a", "b", "c"]
    assert got["embeddings"] == [[1, 1], [3, 3], [4, 4]]
    assert got["metadatas"] == [{"x": 5}, None, None]
    assert got["documents"] == ["one", "two", "three"]


def test_filters(chroma):
    chroma.post(
        "add",
        ids=list("abcd"),
        embeddings=[[n, 0] for n in range(4)],
        metadatas=[{"n": n, "a.b": n, "$": "x", "tags": ["red"] if n else ["blue"]} for n in range(4)],
        documents=["red apple", "green apple", "pear", None],
    )

    def ids(**body):
        return chroma.post("get", include=[], **body).json()["ids"]

    assert ids(where={"n": 2}) == ["c"]
    assert ids(where={"a.b": {"$gte": 2}}) == ["c", "d"]
    assert ids(where={"$and": [{"n": {"$gt": 0}}, {"$or": [{"n": 1}, {"n": 3}]}]}) == ["b", "d"]
    assert ids(where={"tags": {"$contains": "blue"}}) == ["a"]
    assert ids(where={"tags": {"$not_contains": "blue"}}) == ["b", "c", "d"]
    assert ids(where_document={"$contains": "apple"}) == ["a", "b"]
    assert ids(where_document={"$not_contains": "apple"}) == ["c", "d"]
    assert ids(where_document={"$regex": "^(red|pear)"}) == ["a", "c"]
    assert ids(where={"n": {"$in": [0, 3]}}, where_document={"$contains": "red"}) == ["a"]
    found = chroma.post("query", query_embeddings=[[0, 0]], n_results=2, where={"n": {"$gt": 1}}).json()
    assert found["ids"] == [["c", "d"]]
    for wrong in ({"n": {"$foo": 1}}, {"n": 1, "m": 2}, {"$and": []}, {"n": {"$gt": 1, "$lt": 2}}, "x"):
        answer = chroma.post("get", where=wrong)
        assert (answer.status_code, answer.json()["error"]) == (400, "InvalidArgumentError")


def test_delete_forgets_and_says_its_receipt(chroma):
    chroma.post("add", ids=list("abcd"), embeddings=[[n, 1] for n in range(4)], metadatas=[{"n": n} for n in range(4)])
    gone = chroma.post("delete", ids=["a", "nobody"])
    assert gone.json() == {"deleted": 1}
    receipt = int(gone.headers["lethevec-receipt"])
    chain = chroma.server.call("GET", "/v1/receipts").json()["receipts"]
    found = next(one for one in chain if one["sequence"] == receipt)
    assert chroma.server.post("/v1/verify", {"receipt": found, "ids": ["a"]}).json()["good"]
    assert chroma.post("delete", where={"n": {"$gte": 1}}, limit=1).json() == {"deleted": 1}
    assert chroma.post("delete", where={"n": {"$gte": 1}}).json() == {"deleted": 2}
    assert chroma.post("delete", ids=["x"]).json() == {"deleted": 0}
    assert chroma.post("get", include=[]).json()["ids"] == []


def test_a_collection_of_chroma_is_one_of_ours(chroma):
    server = chroma.server
    chroma.post("add", ids=["a"], embeddings=[[1, 2]], metadatas=[{"n": 1}], documents=["text"])
    listed = {one["name"]: one for one in server.call("GET", "/v1/collections").json()["collections"]}
    assert listed["docs"].items() >= {"dim": 2, "metric": "l2", "records": 1}.items()
    got = server.post("/v1/collections/docs/get", {"ids": ["a"]}).json()
    assert got["payloads"] == [{"n": 1, "chroma:document": "text"}]
    assert server.post("/v1/collections/docs/forget", {"ids": ["a"]}).json()["records"] == 1
    assert chroma.post("get").json()["ids"] == []


def test_records_belong_to_people_where_a_field_says_so(start):
    chroma = Chroma(start(), metadata={"lethevec:subject": "user"})
    chroma.post("add", ids=["a", "b"], embeddings=[[1, 2], [3, 4]], metadatas=[{"user": "alice"}, {"user": "bob"}])
    assert chroma.server.post("/v1/forget", {"subject": "alice"}).json()["records"] == 1
    assert chroma.post("get").json()["ids"] == ["b"]
    chroma.post("update", ids=["b"], metadatas=[{"user": "carol"}])
    assert chroma.server.post("/v1/forget", {"subject": "carol"}).json()["records"] == 1


def test_collections_are_made_listed_changed_and_dropped(start):
    server = start()
    chroma = Chroma(server, metadata={"a": 1}, configuration={"embedding_function": {"name": "x"}})
    assert chroma.model["configuration_json"]["embedding_function"] == {"name": "x"}
    assert chroma.model["dimension"] is None
    again = server.post(f"{BASE}/collections", {"name": "docs"})
    assert again.status_code == 409
    opened = server.post(f"{BASE}/collections", {"name": "docs", "get_or_create": True}).json()
    assert opened["id"] == chroma.model["id"]
    Chroma(server, "other")
    names = [one["name"] for one in server.call("GET", f"{BASE}/collections").json()]
    assert names == ["docs", "other"]
    assert [one["name"] for one in server.call("GET", f"{BASE}/collections?limit=1&offset=1").json()] == ["other"]
    assert server.call("GET", f"{BASE}/collections_count").json() == 2
    chroma.post("add", ids=["a"], embeddings=[[1, 2]])
    assert server.call("GET", f"{BASE}/collections/docs").json()["dimension"] == 2
    server.call("PUT", chroma.path, {"new_name": "tomes", "new_metadata": {"b": 2}}).raise_for_status()
    renamed = server.call("GET", f"{BASE}/collections/tomes").json()
    assert (renamed["id"], renamed["metadata"]) == (chroma.model["id"], {"b": 2})
    assert server.call("GET", f"{BASE}/collections/docs").status_code == 404
    assert server.call("DELETE", f"{BASE}/collections/tomes").status_code == 200
    assert server.call("DELETE", f"{BASE}/collections/tomes").status_code == 404
    assert chroma.post("get").status_code == 404
    assert server.call("GET", f"{BASE}/collections/not-a-uuid/count").json()["error"] == "InvalidArgumentError"
    for wrong in ("a", "a/b", "", "-ab", "x" * 600):
        assert server.post(f"{BASE}/collections", {"name": wrong}).status_code == 400
    assert (
        server.post(f"{BASE}/collections", {"name": "docs", "configuration": {"hnsw": {"space": "x"}}}).status_code
        == 400
    )


def test_tenants_and_databases(start):
    server = start()
    assert server.post("/api/v2/tenants", {"name": "acme"}).status_code == 200
    assert server.post("/api/v2/tenants", {"name": "acme"}).status_code == 409
    assert server.post("/api/v2/tenants/acme/databases", {"name": "db1"}).status_code == 200
    assert server.call("GET", "/api/v2/tenants/acme/databases").json()[0]["name"] == "db1"
    path = "/api/v2/tenants/acme/databases/db1/collections"
    made = server.post(path, {"name": "docs"}).json()
    assert (made["tenant"], made["database"]) == ("acme", "db1")
    server.post(f"{path}/{made['id']}/add", {"ids": ["a"], "embeddings": [[1, 2]]}).raise_for_status()
    assert server.call("GET", f"{BASE}/collections").json() == []
    assert server.call("DELETE", "/api/v2/tenants/acme/databases/db1").status_code == 200
    assert server.call("GET", "/api/v2/tenants/acme/databases/db1").status_code == 404
    assert server.call("GET", path).status_code == 404
    assert [one["name"] for one in server.call("GET", "/v1/collections").json()["collections"]] == ["chroma"]


def test_reset_only_where_it_is_allowed(start, tmp_path):
    server = start()
    Chroma(server).post("add", ids=["a"], embeddings=[[1, 2]])
    assert server.post("/api/v2/reset").status_code == 403
    open_server = start(folder=tmp_path / "tests", allow_reset=True)
    Chroma(open_server).post("add", ids=["a"], embeddings=[[1, 2]])
    assert open_server.post("/api/v2/reset").json() is True
    assert open_server.call("GET", f"{BASE}/collections").json() == []


def test_what_cannot_be_done_is_refused(chroma):
    chroma.post("add", ids=["a"], embeddings=[[1, 2]])
    for body in (
        {"ids": ["b"], "embeddings": [[1, 2, 3]]},
        {"ids": ["b"]},
        {"ids": "b", "embeddings": [[1, 2]]},
        {"ids": ["b"], "embeddings": [[1, "x"]]},
        {"ids": ["b"], "embeddings": ["!"]},
        {"ids": ["b"], "embeddings": [[1, 2]], "metadatas": ["x"]},
        {"ids": ["b"], "embeddings": [[1, 2]], "documents": [5]},
        {"ids": ["b", "c"], "embeddings": [[1, 2]]},
    ):
        answer = chroma.post("add", **body)
        assert answer.status_code in (400, 422), body
        assert answer.json()["error"] == "InvalidArgumentError"
        assert answer.headers["chroma-trace-id"]
    assert chroma.post("query", query_embeddings=[[1, 2, 3]]).status_code == 400
    assert chroma.post("query", query_embeddings=[[1, 2]], n_results=0).status_code == 400
    assert chroma.post("query", query_embeddings=[[1, 2]], ids=["nobody"]).status_code == 400
    assert chroma.post("fork", new_name="x").status_code == 501
    assert chroma.post("get", include=[]).json()["ids"] == ["a"]


def test_a_vector_of_zeros_under_cosine_is_kept_and_not_found(start):
    chroma = Chroma(start(), configuration={"hnsw": {"space": "cosine"}})
    assert chroma.post("add", ids=["a", "zero"], embeddings=[[1, 2], [0, 0]]).status_code == 201
    got = chroma.post("get", include=["embeddings"]).json()
    assert got["embeddings"] == [[1, 2], [0, 0]]
    assert chroma.post("query", query_embeddings=[[1, 2]], n_results=5, include=[]).json()["ids"] == [["a"]]


@pytest.mark.parametrize("name", ["", "a", "a.b", "$x", "50%", "%2E", "%00", "ä.$%"])
def test_names_of_fields_survive(name):
    assert unescape(escape(name)) == name
    assert "." not in escape(name)
    assert not escape(name).startswith("$")
    assert metadata_of(payload_of({name: 1}, "text", "uri")) == {name: 1}


def test_a_filter_that_goes_too_deep_is_refused():
    where = {"a": 1}
    for _ in range(50):
        where = {"$and": [where]}
    with pytest.raises(Problem):
        to_where(where, None)
