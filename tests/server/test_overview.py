"""What a person sees first: who one is, what there is, a sample, subjects, receipts, and live figures."""

from __future__ import annotations

from .conftest import fill

BOOKS = "/v1/collections/books"


def test_who_one_is_without_keys(start):
    me = start().call("GET", "/v1/me").json()
    assert (me["key"], me["roles"], me["collections"]) == (None, ["admin"], None)
    assert "erase" in me["rights"]


def test_who_one_is_with_a_key(start, make_key):
    key = make_key("reader", "eraser", collections=["notes", "books"])
    auditor = make_key("auditor")
    server = start()
    assert server.call("GET", "/v1/me").status_code == 401
    me = server.call("GET", "/v1/me", key=key).json()
    assert me["key"] == key[3:11]
    assert (me["roles"], me["collections"]) == (["reader", "eraser"], ["books", "notes"])
    assert me["rights"] == ["describe", "erase", "proof", "read"]
    assert key not in str(me)
    assert key[12:] not in str(me)
    assert server.call("GET", "/v1/me", key=auditor).json()["collections"] is None


def test_an_overview_counts_what_a_key_may_see(start, make_key):
    admin, limited = make_key("admin"), make_key("reader", collections=["notes"])
    server = start()
    fill(server, admin)
    server.post("/v1/collections", {"name": "notes", "dim": 2}, key=admin).raise_for_status()
    server.post(
        "/v1/collections/notes/upsert",
        {
            "ids": [1, 2, 3],
            "vectors": [[1, 0], [0, 1], None],
            "subjects": ["a", None, "a"],
            "expires": [90, None, 7300],
        },
        key=admin,
    ).raise_for_status()
    server.post(BOOKS + "/forget", {"subject": "alice"}, key=admin).raise_for_status()
    overview = server.call("GET", "/v1/overview", key=admin).json()
    assert [one["name"] for one in overview["collections"]] == ["books", "notes"]
    assert overview["receipts"] >= 1
    assert overview["pending_erasures"] == 0
    books, notes = overview["collections"]
    assert (books["records"], books["subjects"], books["without_subject"], books["due"]) == (3, 2, 1, [])
    assert (notes["records"], notes["subjects"], notes["without_vector"], notes["without_expiry"]) == (3, 1, 1, 1)
    assert [part["records"] for part in notes["due"]] == [1, 1]
    assert notes["bytes_files"] > 0
    seen = server.call("GET", "/v1/overview", key=limited).json()["collections"]
    assert seen == [server.call("GET", "/v1/collections/notes/survey", key=limited).json()]
    assert server.call("GET", BOOKS + "/survey", key=limited).status_code == 403
    assert "alice" not in str(overview)


def test_a_sample_does_not_depend_on_history(server):
    server.post("/v1/collections", {"name": "twin", "dim": 2, "metric": "l2"}).raise_for_status()
    vectors = [[float(n), 1.0] for n in range(300)]
    server.post("/v1/collections/twin/upsert", {"ids": list(range(300)), "vectors": vectors}).raise_for_status()
    sample = server.post("/v1/collections/twin/sample", {"count": 20}).json()
    assert len(sample["ids"]) == 20
    assert sample["ids"] == sorted(sample["ids"])
    assert sample["vectors"] == [[float(id), 1.0] for id in sample["ids"]]
    more = [{"ids": list(range(300, 700)), "vectors": [[float(n), 1.0] for n in range(300, 700)]}]
    server.post("/v1/collections/twin/upsert", more[0]).raise_for_status()
    assert server.post("/v1/collections/twin/sample", {"count": 20}).json() != sample
    server.post("/v1/collections/twin/forget", {"ids": list(range(300, 700))}).raise_for_status()
    assert server.post("/v1/collections/twin/sample", {"count": 20}).json() == sample
    assert set(sample["ids"]) < set(server.post("/v1/collections/twin/sample", {"count": 40}).json()["ids"])
    other = server.post("/v1/collections/twin/sample", {"count": 20, "seed": 5}).json()["ids"]
    assert other != sample["ids"]
    few = server.post(BOOKS + "/sample", {"subject": "alice", "include": ["payloads"]}).json()
    assert few == {"ids": [1, 2], "payloads": [{"year": 1990}, {"year": 1991}], "next": None}
    assert server.post(BOOKS + "/sample", {"count": 0}).status_code == 422


def test_subjects_page_by_page(server):
    assert server.post(BOOKS + "/subjects").json() == {
        "subjects": ["alice", "bob", "carol"],
        "records": [2, 1, 1],
        "next": None,
    }
    page = server.post(BOOKS + "/subjects", {"limit": 2}).json()
    assert page["next"] == "bob"
    assert server.post(BOOKS + "/subjects", {"limit": 2, "after": page["next"]}).json()["subjects"] == ["carol"]
    assert server.post(BOOKS + "/subjects", {"prefix": "ca"}).json()["subjects"] == ["carol"]
    assert server.post(BOOKS + "/subjects", {"prefix": "%"}).json()["subjects"] == []


def test_receipts_one_by_one_and_newest_first(server):
    for id in (1, 2, 3):
        server.post(BOOKS + "/forget", {"ids": [id]}).raise_for_status()
    oldest = [one["sequence"] for one in server.call("GET", "/v1/receipts").json()["receipts"]]
    page = server.call("GET", "/v1/receipts?order=newest&limit=2").json()
    assert [one["sequence"] for one in page["receipts"]] == oldest[:-3:-1]
    rest = server.call("GET", f"/v1/receipts?order=newest&after={page['next']}").json()
    assert [one["sequence"] for one in rest["receipts"]] == oldest[-3::-1]
    assert rest["next"] is None
    one = server.call("GET", f"/v1/receipts/{oldest[-1]}").json()
    assert one == {"receipt": page["receipts"][0]}
    assert server.call("GET", "/v1/receipts/999999").status_code == 404
    assert server.call("GET", "/v1/receipts?order=up").status_code == 400


def test_live_figures_as_json(server):
    for _ in range(20):
        server.post(BOOKS + "/search", {"vector": [0, 0], "k": 1}).raise_for_status()
    assert server.post(BOOKS + "/search", {"vector": [0], "k": 1}).status_code == 422
    server.post(BOOKS + "/forget", {"subject": "alice"}).raise_for_status()
    live = server.call("GET", "/v1/metrics").json()
    search = next(one for one in live["routes"] if one["route"].endswith("/search"))
    assert (search["requests"], search["errors"]) == (21, 1)
    assert 0 < search["p50_ms"] <= search["p90_ms"] <= search["p99_ms"]
    assert live["records"] == {"books": 3}
    assert live["erased_records"] == 2
    assert live["processes"] == ["writer"]
