"""The calls of /v1: what they do, what they refuse, and what their answers look like."""

from __future__ import annotations

import base64
import io
import threading

import numpy as np
import pytest

import lethevec
from lethevec.server.settings import Settings

BOOKS = "/v1/collections/books"
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def test_a_collection_is_made_described_listed_and_dropped(start):
    server = start()
    made = server.post("/v1/collections", {"name": "notes", "dim": 3})
    described = {"name": "notes", "dim": 3, "metric": "cosine", "records": 0}
    described |= {"encrypted": False, "expires": None, "expired": 0}
    assert (made.status_code, made.json()) == (201, described)
    assert server.call("GET", "/v1/collections/notes").json() == made.json()
    assert server.post("/v1/collections", {"name": "notes", "dim": 3}).status_code == 409
    again = server.post("/v1/collections", {"name": "notes", "dim": 3, "exist_ok": True})
    assert (again.status_code, again.json()) == (200, made.json())
    assert server.call("GET", "/v1/collections").json() == {"collections": [made.json()]}
    gone = server.call("DELETE", "/v1/collections/notes")
    assert gone.status_code == 200
    assert server.call("GET", "/v1/collections/notes").status_code == 404
    assert server.call("GET", "/v1/collections").json() == {"collections": []}


def test_search_gives_the_answers_of_the_library(server, tmp_path):
    answer = server.post(BOOKS + "/search", {"vectors": [[0, 0], [9, 0]], "k": 2}).json()
    assert answer["ids"] == [[1, 2], ["five", "four"]]
    assert answer["distances"] == [[1.0, 2.0], [4.0, 5.0]]
    assert answer["subjects"] == [["alice", "alice"], [None, "carol"]]
    assert answer["payloads"] == [[{"year": 1990}, {"year": 1991}], [None, {"year": 1993}]]


def test_a_vector_may_come_in_four_forms(server):
    queries = np.array([[0, 0.5], [3, 1]], dtype=np.float32)
    packed = base64.b64encode(queries.astype("<f4").tobytes()).decode()
    raw = {"content-type": "application/octet-stream"}
    answers = [
        server.post(BOOKS + "/search", {"vectors": queries.tolist(), "k": 3}).json(),
        server.post(BOOKS + "/search", {"vectors": packed, "k": 3}).json(),
        server.call("POST", BOOKS + "/search?k=3", content=queries.tobytes(), headers=raw).json(),
    ]
    assert answers[0] == answers[1] == answers[2]
    one = server.post(BOOKS + "/search", {"vector": [0, 0.5], "k": 3}).json()
    assert one["ids"] == answers[0]["ids"][:1]
    few = server.call(
        "POST", BOOKS + "/search?k=3&include=payloads&effort=2", content=queries.tobytes(), headers=raw
    ).json()
    assert set(few) == {"ids", "distances", "payloads"}


def test_rows_have_no_padding(server):
    answer = server.post(BOOKS + "/search", {"vector": [0, 0], "k": 50}).json()
    assert len(answer["ids"][0]) == len(answer["distances"][0]) == len(answer["payloads"][0]) == 5


def test_search_in_a_filter_a_subject_and_a_radius(server):
    def ids(**more):
        return server.post(BOOKS + "/search", {"vector": [0, 0], "k": 10, **more}).json()["ids"][0]

    assert ids(where={"year": {"$gt": 1991}}) == [3, "four"]
    assert ids(subject="alice") == [1, 2]
    assert ids(radius=2.5) == [1, 2]
    assert ids(where={"year": {"$gt": 1990}}, subject="alice") == [2]


def test_get_by_ids_by_choice_and_page_by_page(server):
    answer = server.post(BOOKS + "/get", {"ids": [3, 1], "include": ["vectors", "subjects", "payloads"]}).json()
    assert answer["ids"] == [3, 1]
    assert answer["vectors"] == [[0, 3], [0, 1]]
    assert answer["subjects"] == ["bob", "alice"]
    packed = server.post(BOOKS + "/get", {"ids": [3], "include": ["vectors"], "encoding": "base64"}).json()
    assert np.frombuffer(base64.b64decode(packed["vectors"][0]), "<f4").tolist() == [0, 3]
    seen, after = [], None
    for _ in range(10):
        page = server.post(BOOKS + "/get", {"limit": 2, **({} if after is None else {"after": after})}).json()
        seen += page["ids"]
        after = page["next"]
        if after is None:
            break
    assert seen == server.post(BOOKS + "/ids").json()["ids"]
    assert sorted(map(str, seen)) == ["1", "2", "3", "five", "four"]
    assert server.post(BOOKS + "/get", {"where": {"year": 1992}}).json()["ids"] == [3]
    assert server.post(BOOKS + "/count", {"subject": "alice"}).json() == {"records": 2}
    assert server.post(BOOKS + "/count").json() == {"records": 5}


def test_export_streams_every_record(start):
    server = start()
    server.post("/v1/collections", {"name": "many", "dim": 2, "metric": "l2"}).raise_for_status()
    vectors = np.random.default_rng(1).standard_normal((2500, 2)).astype(np.float32)
    packed = base64.b64encode(vectors.tobytes()).decode()
    server.post("/v1/collections/many/upsert", {"ids": list(range(2500)), "vectors": packed}).raise_for_status()
    answer = server.post("/v1/collections/many/export")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert "content-length" not in answer.headers
    lines = [__import__("json").loads(line) for line in answer.text.splitlines()]
    assert [line["id"] for line in lines] == list(range(2500))
    assert np.allclose([line["vector"] for line in lines], vectors)


def test_update_changes_parts(server):
    server.post(BOOKS + "/update", {"ids": [1], "payloads": [{"title": "x"}], "merge": True}).raise_for_status()
    assert server.post(BOOKS + "/get", {"ids": [1]}).json()["payloads"] == [{"year": 1990, "title": "x"}]
    server.post(BOOKS + "/update", {"ids": [1, 2], "subjects": None}).raise_for_status()
    assert server.post(BOOKS + "/count", {"subject": "alice"}).json() == {"records": 0}
    server.post(BOOKS + "/update", {"ids": [1], "vectors": [[7, 7]]}).raise_for_status()
    assert server.post(BOOKS + "/search", {"vector": [7, 7], "k": 1}).json()["ids"] == [[1]]


def test_add_refuses_what_is_there_and_upsert_replaces_it(server):
    assert server.post(BOOKS + "/add", {"ids": [1, 99], "vectors": [[1, 1], [1, 1]]}).status_code == 409
    assert server.post(BOOKS + "/count").json() == {"records": 5}
    server.post(BOOKS + "/upsert", {"ids": [1, 99], "vectors": [[1, 1], [1, 1]]}).raise_for_status()
    assert server.post(BOOKS + "/count").json() == {"records": 6}


def test_a_bulk_load_is_read_while_it_arrives_and_is_all_or_nothing(server):
    pa = pytest.importorskip("pyarrow")

    def stream(ids, width=2):
        vectors = np.arange(len(ids) * width, dtype=np.float32).reshape(-1, width)
        kind = pa.list_(pa.float32(), width)
        table = pa.table(
            {
                "id": pa.array(ids),
                "vector": pa.array(vectors.tolist(), type=kind),
                "subject": pa.array(["dan"] * len(ids)),
                "payload": pa.array(['{"n": 1}'] * len(ids)),
            }
        )
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=500)
        return sink.getvalue()

    def parts(data):
        for begin in range(0, len(data), 10_000):
            yield data[begin : begin + 10_000]

    data = stream(list(range(100, 5100)))
    answer = server.call("POST", BOOKS + "/load", content=parts(data), headers=ARROW)
    assert (answer.status_code, answer.json()) == (200, {"records": 5000})
    assert server.post(BOOKS + "/count", {"subject": "dan", "where": {"n": 1}}).json() == {"records": 5000}
    before = server.call("GET", BOOKS + "/digest").json()
    for wrong in (data, stream(list(range(9000, 9100)), 3), b"no arrow", data[: len(data) // 2], b""):
        answer = server.call("POST", BOOKS + "/load", content=wrong, headers=ARROW)
        assert 400 <= answer.status_code < 500, answer.text
    assert server.call("GET", BOOKS + "/digest").json() == before
    assert server.post(BOOKS + "/load", {}).status_code == 415


@pytest.mark.parametrize("column", ["vector", "id"])
def test_a_bulk_load_follows_no_offsets_out_of_the_stream(start, column):
    """Otherwise a writer reads the memory of the server as ids of records, or ends it."""
    pytest.importorskip("pyarrow")
    from tests.datasets.damaged_arrow import OFFSETS, damaged

    server = start()
    server.post("/v1/collections", {"name": "three", "dim": 3}).raise_for_status()
    for offsets in OFFSETS:
        answer = server.call("POST", "/v1/collections/three/load", content=damaged(column, offsets), headers=ARROW)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "arrow")
    assert server.post("/v1/collections/three/count").json() == {"records": 0}


def test_a_bulk_load_of_anything_else_is_refused(server):
    pa = pytest.importorskip("pyarrow")
    from tests.datasets.damaged_arrow import stream

    pairs = pa.array([[1.0, 2.0], [3.0, 4.0]])
    decimals = pa.array([1, 2], pa.decimal128(5, 2))
    before = server.call("GET", BOOKS + "/digest").json()

    often = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), ["x" * 2_000_000])

    def load(content):
        return server.call("POST", BOOKS + "/load", content=content, headers=ARROW)

    def listed(values):
        lists = pa.ListArray.from_arrays(pa.array([0, 1, len(values)], pa.int32()), values)
        return pa.StructArray.from_arrays([lists], ["a"])

    for columns in (
        {"id": [91, 92], "vector": [[1.0], [2.0, 3.0, 4.0]]},  # as many numbers as two records need
        {"id": [91, 92], "vector": [[1.0, None], [2.0, 3.0]]},
        {"id": [91, 92], "vector": [[1.0, 2.0], None]},
        {"id": [91, 92], "vector": [1.0, 2.0]},
        {"id": [91, 92], "vector": ["a", "b"]},
        {"id": [91, 92], "vector": [["a", "b"], ["c", "d"]]},
        {"id": [91, 92], "vector": pa.array([{"a": 1.0}, {"a": 2.0}])},
        {"id": [91.5, 92.0], "vector": pairs},
        {"id": decimals, "vector": pairs},
        {"id": [None, 92], "vector": pairs},
        {"id": pa.array([2**62, 1], pa.timestamp("s")), "vector": pairs},
        {"id": pa.array([b"\xff", b"a"]), "vector": pairs},
        {"id": pa.array([b"\xff", b"a"]).cast(pa.string(), safe=False), "vector": pairs},
        {"id": [91, 92], "vector": pairs, "subject": [1, 2]},
        {"id": [91, 92], "vector": pairs, "payload": ["{", "{}"]},
        {"id": [91, 92], "vector": pairs, "payload": [1.5, 2.5]},
        {"id": [91, 92], "vector": pairs, "payload": pa.array([{"at": decimal} for decimal in decimals.to_pylist()])},
        {"id": [91, 92], "vector": pairs, "more": [1, 2]},
        {"id": [91, 92], "more": pairs},
        # What takes no bytes, or next to none, and becomes gigabytes of values.
        {"id": pa.nulls(1 << 20)},
        {"id": [91, 92], "vector": pairs, "payload": listed(pa.nulls(1 << 28))},
        {"id": [91, 92], "vector": pairs, "payload": pa.array([{"a": [True]}, {"a": [False]}])},
        {"id": [91, 92], "vector": pairs, "payload": pa.array([{"a": [{}]}, {"a": []}])},
        {"id": pa.array(["91", "92"], pa.string_view()), "vector": pairs},
        {"id": pa.RunEndEncodedArray.from_arrays([2], pa.array([91])), "vector": pairs},
        {"id": [*range(91, 1091)], "vector": [[1.0, 2.0]] * 1000, "subject": often},
    ):
        answer = load(stream(pa.table(columns) if len(columns) > 1 else pa.table({**columns, "vector": columns["id"]})))
        assert 400 <= answer.status_code < 500, (columns, answer.text)
    twice = pa.Table.from_arrays([pa.array([91, 92]), pa.array([93, 94]), pairs], names=["id", "id", "vector"])
    assert load(stream(twice)).status_code == 422
    zeros = pa.table({"id": range(1000), "vector": np.zeros((1000, 2)).tolist(), "subject": ["x" * 1000] * 1000})
    for compression in ("zstd", "lz4"):
        assert load(stream(zeros, compression=compression)).status_code == 422
        named = pa.table({"id": range(91, 93), "vector": pairs, "subject": often[:2]})
        assert load(stream(named, compression=compression)).status_code == 422
    whole = stream(pa.table({"id": ["x1", "x2"], "vector": pairs, "subject": ["ann", None]}))
    rng = np.random.default_rng(7)
    for _ in range(300):
        raw = bytearray(whole)
        for place in rng.integers(0, len(raw), rng.integers(1, 4)):
            raw[place] = rng.choice([0, 1, 127, 128, 255, raw[place] ^ 1 << rng.integers(8)])
        answer = load(bytes(raw))
        assert answer.status_code < 500, (raw.hex(), answer.text)
        if answer.status_code == 200:
            server.post(BOOKS + "/forget", {"where": {"$id": {"$nin": [1, 2, 3, "four", "five"]}}})
    for cut in range(len(whole)):
        assert load(whole[:cut]).status_code < 500
    server.post(BOOKS + "/forget", {"where": {"$id": {"$nin": [1, 2, 3, "four", "five"]}}})
    assert server.call("GET", BOOKS + "/digest").json() == before


def test_a_bulk_load_has_batches_and_dictionaries_within_the_limit(start):
    pa = pytest.importorskip("pyarrow")
    from tests.datasets.damaged_arrow import stream

    server = start(max_body=100_000)
    server.post("/v1/collections", {"name": "books", "dim": 2, "metric": "l2"}).raise_for_status()

    def load(n, **more):
        columns = {"id": pa.array(range(n)), "vector": [[0.5, 1.5]] * n, **more}
        return server.call("POST", BOOKS + "/load", content=stream(pa.table(columns)), headers=ARROW)

    subjects = pa.array(["ann", None] * 200).dictionary_encode()
    payloads = pa.array([{"n": 1, "tags": ["a", "b"], "in": {"x": None, "y": True}}] * 400)
    assert load(400, subject=subjects, payload=payloads).json() == {"records": 400}
    assert server.post(
        BOOKS + "/count", {"subject": "ann", "where": {"in.y": True, "tags": {"$contains": "b"}}}
    ).json() == {"records": 200}
    assert load(8000).status_code == 413  # 128,000 bytes of vectors alone
    assert load(2, subject=pa.array(["x" * 130_000, "y"]).dictionary_encode()).status_code == 413
    assert (
        load(50, subject=pa.array(["x" * 3000] * 50).dictionary_encode()).status_code == 422
    )  # 150,000 bytes of texts


def test_forget_gives_a_receipt_and_nothing_is_found_any_more(server):
    dry = server.post(BOOKS + "/forget", {"subject": "alice", "dry_run": True}).json()
    assert dry == {"records": 2, "receipt": None, "ids": [1, 2], "missing": []}
    assert server.post(BOOKS + "/count").json() == {"records": 5}
    answer = server.post(BOOKS + "/forget", {"subject": "alice"})
    assert answer.json()["records"] == 2
    assert answer.headers["lethevec-receipt"] == str(answer.json()["receipt"]["sequence"])
    receipt = lethevec.Receipt(answer.json()["receipt"])
    assert server.post(BOOKS + "/ids").json()["ids"] == [3, "five", "four"]
    checked = server.post("/v1/verify", {"receipt": receipt.fields, "subject": "alice"}).json()
    assert checked["good"], checked
    assert not server.post("/v1/verify", {"receipt": {**receipt.fields, "issued_at": "2020-01-01T00:00:00Z"}}).json()[
        "good"
    ]
    by_ids = server.post(BOOKS + "/forget", {"ids": [3, 77], "ignore_unknown": True}).json()
    assert by_ids["records"] == 1
    by_filter = server.post(BOOKS + "/forget", {"where": {"year": 1993}}).json()
    assert by_filter["records"] == 1
    assert server.post(BOOKS + "/ids").json()["ids"] == ["five"]
    chain = server.call("GET", "/v1/receipts").json()
    assert [one["sequence"] for one in chain["receipts"]] == sorted(one["sequence"] for one in chain["receipts"])
    key = bytes.fromhex(server.call("GET", "/v1/key").json()["public_key"])
    assert lethevec.verify_chain([lethevec.Receipt(one) for one in chain["receipts"]], key=key)
    first = server.call("GET", "/v1/receipts?limit=1").json()
    rest = server.call("GET", f"/v1/receipts?after={first['next']}").json()
    assert first["receipts"] + rest["receipts"] == chain["receipts"]


def test_a_person_is_forgotten_everywhere_with_one_receipt(server):
    server.post("/v1/collections", {"name": "notes", "dim": 3}).raise_for_status()
    content = {"ids": ["n1"], "vectors": [[1, 0, 0]], "subjects": ["alice"]}
    server.post("/v1/collections/notes/upsert", content).raise_for_status()
    held = server.post("/v1/access", {"subject": "alice"})
    assert {name: len(kept) for name, kept in held.json()["collections"].items()} == {"books": 2, "notes": 1}
    answer = server.post("/v1/forget", {"subject": "alice"}).json()
    assert answer["records"] == 3
    assert server.post("/v1/collections/notes/count").json() == {"records": 0}
    assert server.post(BOOKS + "/count", {"subject": "alice"}).json() == {"records": 0}
    assert server.post("/v1/access", {"subject": "alice"}).json()["collections"] == {}


def test_a_hold_stops_an_erasure_until_it_is_lifted(server):
    held = server.post("/v1/hold", {"subject": "bob", "reason": "case 7"}).json()["receipt"]
    (hold,) = server.post("/v1/holds", {"subject": "bob"}).json()["holds"]
    assert hold["reason"] == "case 7"
    assert server.post(BOOKS + "/forget", {"subject": "bob"}).status_code == 423
    assert server.post("/v1/forget", {"subject": "bob"}).status_code == 423
    server.post("/v1/lift", {"hold": held["hold"], "reason": "case closed"}).raise_for_status()
    assert server.post("/v1/forget", {"subject": "bob"}).json()["records"] == 1


def test_the_server_erases_what_is_due_by_itself(start):
    server = start(expire_every=0.2)
    server.post("/v1/collections", {"name": "books", "dim": 2, "metric": "l2"}).raise_for_status()
    body = {"ids": [1, 2], "vectors": [[1, 0], [0, 1]], "expires": [0.3, None]}
    server.post(BOOKS + "/upsert", body).raise_for_status()
    assert server.post(BOOKS + "/get", {"include": ["expires"]}).json()["expires"][1] is None
    for _ in range(100):
        if 'lethevec_expired_records_total{process="writer"} 1.0' in server.call("GET", "/metrics").text:
            break
        threading.Event().wait(0.05)
    else:
        pytest.fail("nothing was erased")
    assert [one["records"] for one in server.call("GET", "/v1/receipts").json()["receipts"] if "records" in one] == [1]
    for wrong in ("tomorrow", [1], {}, True, 1e300):
        assert server.post(BOOKS + "/upsert", {**body, "expires": wrong}).status_code == 422


def test_a_blocked_person_cannot_come_back_until_unblocked(server):
    server.post("/v1/forget", {"subject": "bob", "block": True}).raise_for_status()
    again = {"ids": [3], "vectors": [[0, 3]], "subjects": ["bob"]}
    assert server.post(BOOKS + "/upsert", again).status_code == 423
    server.post("/v1/unblock", {"subject": "bob", "reason": "a mistake"}).raise_for_status()
    server.post(BOOKS + "/upsert", again).raise_for_status()


def test_an_erasure_that_is_not_complete_answers_202_and_says_where_to_ask(start):
    server = start(timeout=3)
    from .conftest import fill

    fill(server)
    # Somebody else reads the file, and holds an old state of it.
    path = server.core.db.collection("books").path
    import sqlite3

    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
    try:
        answer = server.post(BOOKS + "/forget", {"subject": "alice"})
        assert answer.status_code == 202
        assert answer.json()["status"] == "waiting"
        where = answer.headers["location"]
        assert where == answer.json()["ask"]
        assert "lethevec-receipt" not in answer.headers
        assert server.post(BOOKS + "/ids").json()["ids"] == [3, "five", "four"]
        assert server.call("GET", where).status_code == 202
        assert 'lethevec_erased_records_total{process="writer"} 0.0' in server.call("GET", "/metrics").text
    finally:
        reader.rollback()
        reader.close()
    for _ in range(600):
        asked = server.call("GET", where)
        if asked.status_code == 200:
            break
        threading.Event().wait(0.05)
    assert asked.json()["status"] == "complete"
    (number,) = asked.json()["receipts"]
    chain = server.call("GET", "/v1/receipts").json()["receipts"]
    assert next(one for one in chain if one["sequence"] == number)["records"] == 2
    for _ in range(2):  # it counts, although nobody was told of it, and it counts once
        assert 'lethevec_erased_records_total{process="writer"} 2.0' in server.call("GET", "/metrics").text


REFUSED = [
    ("/search", {}, 422),
    ("/search", {"vector": [1]}, 422),
    ("/search", {"vector": [1, "secretive"]}, 422),
    ("/search", {"vectors": "secretive!"}, 422),
    ("/search", {"vector": [0, 1], "k": 0}, 422),
    ("/search", {"vector": [0, 1], "k": 10**9}, 422),
    ("/search", {"vector": [0, 1], "k": "secretive"}, 422),
    ("/search", {"vector": [0, 1], "secretive": 1}, 422),
    ("/search", {"vector": [0, 1], "where": "secretive"}, 422),
    ("/search", {"vector": [0, 1], "where": {"a": {"$secretive": "secretive"}}}, 422),
    ("/search", {"vector": [0, 1], "where": {"a": {"$regex": "secretive("}}}, 422),
    ("/search", {"vector": [0, 1], "include": ["secretive"]}, 422),
    ("/search", {"vector": [None, 1]}, 422),
    ("/get", {"ids": ["secretive"]}, 404),
    ("/get", {"ids": [1.5]}, 422),
    ("/get", {"ids": [2**70]}, 422),
    ("/get", {"ids": "secretive"}, 422),
    ("/get", {"after": ["secretive"]}, 422),
    ("/upsert", {"ids": ["secretive"], "vectors": [[1]]}, 422),
    ("/upsert", {"ids": ["secretive", "secretive"], "vectors": [[1, 1], [1, 1]]}, 409),
    ("/upsert", {"ids": ["secretive"], "vectors": [[1, 1]], "subjects": [5]}, 422),
    ("/upsert", {"ids": ["secretive"], "vectors": [[1, 1]], "payloads": ["secretive"]}, 422),
    ("/upsert", {"ids": ["secretive"], "vectors": [[1, 1], [2, 2]]}, 422),
    ("/upsert", {"vectors": [[1, 1]]}, 422),
    ("/add", {"ids": [1, "secretive"], "vectors": [[1, 1], [1, 1]]}, 409),
    ("/update", {"ids": ["secretive"], "payloads": [None]}, 404),
    ("/forget", {"ids": ["secretive"]}, 404),
    ("/forget", {"subject": "secretive"}, 404),
    ("/forget", {"subject": "secretive", "ids": [1]}, 422),
    ("/forget", {}, 422),
    ("/forget", {"where": {"secretive": {"$eq": {}}}}, 422),
    ("/count", {"where": {"$secretive": 1}}, 422),
    ("/count", {"subject": ""}, 422),
]


@pytest.mark.parametrize(("path", "body", "status"), REFUSED)
def test_what_cannot_be_done_is_refused_with_a_reason_that_names_nobody(server, path, body, status):
    before = server.call("GET", BOOKS + "/digest").json()
    answer = server.post(BOOKS + path, body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) <= {"code", "message", "at"}
    assert "expected" in error["message"]
    assert "secretive" not in answer.text
    assert "secretive" not in str(answer.headers)
    assert server.call("GET", BOOKS + "/digest").json() == before


def test_what_is_no_json_is_refused(server):
    json = {"content-type": "application/json"}
    assert server.call("POST", BOOKS + "/search", content=b"{", headers=json).status_code == 400
    assert server.call("POST", BOOKS + "/search", content=b"[1]", headers=json).status_code == 400
    assert server.call("POST", BOOKS + "/search", content=b"\xff", headers=json).status_code == 400
    deep = b'{"where":' + b'{"$not":' * 5000 + b"1" + b"}" * 5001
    assert server.call("POST", BOOKS + "/search", content=deep, headers=json).status_code in (400, 422)
    assert server.call("POST", BOOKS + "/search", content=b"x", headers={"content-type": "text/xml"}).status_code == 415
    raw = {"content-type": "application/octet-stream"}
    assert server.call("POST", BOOKS + "/search", content=b"123", headers=raw).status_code == 422
    assert server.call("POST", BOOKS + "/search?k=x", content=bytes(8), headers=raw).status_code == 400
    assert server.call("POST", BOOKS + "/search?id=7", content=bytes(8), headers=raw).status_code == 400
    assert server.call("POST", "/v1/collections/absent/search", {"vector": [1]}).status_code == 404
    assert server.call("GET", "/nothing").status_code == 404
    wrong = server.call("PUT", "/v1/collections")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, POST")


def test_limits_are_refused_with_clear_answers(start):
    server = start(max_body=2000, max_batch=3, max_queries=2, max_k=4)
    server.post("/v1/collections", {"name": "books", "dim": 2, "metric": "l2"}).raise_for_status()
    long = server.post(BOOKS + "/upsert", {"ids": ["x" * 3000], "vectors": [[1, 1]]})
    assert (long.status_code, long.json()["error"]["code"]) == (413, "too_long")
    chunked = server.call("POST", BOOKS + "/search", content=iter([b" " * 1500] * 3))
    assert chunked.status_code == 413
    many = server.post(BOOKS + "/upsert", {"ids": [1, 2, 3, 4], "vectors": [[1, 1]] * 4})
    assert (many.status_code, many.json()["error"]["code"]) == (413, "batch")
    assert server.post(BOOKS + "/search", {"vectors": [[1, 1]] * 3}).status_code == 413
    assert server.post(BOOKS + "/search", {"vector": [1, 1], "k": 5}).status_code == 422
    assert server.post(BOOKS + "/search", {"vector": [1, 1], "k": 4}).status_code == 200


def test_a_rate_is_kept_to(start, make_key):
    key, other = make_key("reader"), make_key("reader")
    server = start(rate=1.0, burst=5)
    got = [server.call("GET", "/v1/collections", key=key) for _ in range(8)]
    assert [one.status_code for one in got[:5]] == [200] * 5
    assert got[-1].status_code == 429
    assert int(got[-1].headers["retry-after"]) >= 1
    assert server.call("GET", "/v1/collections", key=other).status_code == 200


def test_a_busy_server_refuses_instead_of_gathering(start):
    server = start(max_in_flight=1, max_wait=0.1)
    from .conftest import fill

    fill(server)
    let_go = threading.Event()
    collection = server.core.db.collection("books")
    held = threading.Thread(target=lambda: server.core._writers.submit(let_go.wait, 10))
    held.start()
    server.core.requests.used += 1  # as if one were being worked on
    try:
        busy = server.call("POST", BOOKS + "/count", {})
        assert (busy.status_code, busy.json()["error"]["code"]) == (503, "busy")
        assert busy.headers["retry-after"] == "1"
    finally:
        server.core.requests.give(1)
        let_go.set()
        held.join()
    assert server.call("POST", BOOKS + "/count", {}).status_code == 200
    assert len(collection) == 5


def test_a_body_that_never_comes_is_not_waited_for(start):
    import socket

    server = start(timeout=0.3)
    with socket.create_connection(("127.0.0.1", server.port)) as caller:
        caller.sendall(b"POST /v1/collections HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
        caller.settimeout(10)
        assert caller.recv(1000).startswith(b"HTTP/1.1 408 ")
    assert server.core.requests.used == 0
    assert server.core.bodies.used == 0


def test_answers_have_headers_that_keep_browsers_and_caches_out(server):
    for path in ("/healthz", "/v1/collections", "/nothing"):
        headers = server.call("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers
    assert server.call("GET", "/healthz").headers["content-security-policy"].startswith("default-src 'none'")


def test_other_origins_may_call_only_where_they_are_named(start, server):
    asked = {"origin": "https://a.example", "access-control-request-method": "POST"}
    assert server.call("OPTIONS", BOOKS + "/search", headers=asked).status_code == 405
    open_server = start(folder=server.settings.folder.with_name("other"), cors=("https://a.example",))
    allowed = open_server.call("OPTIONS", BOOKS + "/search", headers=asked)
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (204, "https://a.example")
    seen = open_server.call("GET", "/healthz", headers={"origin": "https://a.example"})
    assert seen.headers["access-control-allow-origin"] == "https://a.example"
    refused = open_server.call("OPTIONS", BOOKS + "/search", headers={**asked, "origin": "https://b.example"})
    assert "access-control-allow-origin" not in refused.headers


def test_a_repeat_with_the_same_number_is_done_once(server):
    number = {"idempotency-key": "n-1"}
    first = server.post(BOOKS + "/forget", {"subject": "alice"}, headers=number)
    again = server.post(BOOKS + "/forget", {"subject": "alice"}, headers=number)
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    assert again.headers["lethevec-repeat"] == "true"
    assert first.headers["lethevec-receipt"] == again.headers["lethevec-receipt"]
    other = server.post(BOOKS + "/forget", {"subject": "bob"}, headers=number)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "request_number")
    # What was refused may be tried again.
    number = {"idempotency-key": "n-2"}
    assert server.post(BOOKS + "/forget", {"ids": [77]}, headers=number).status_code == 404
    server.post(BOOKS + "/upsert", {"ids": [77], "vectors": [[1, 1]]}).raise_for_status()
    assert server.post(BOOKS + "/forget", {"ids": [77]}, headers=number).status_code == 200
    assert server.post(BOOKS + "/forget", {"ids": [3]}, headers={"idempotency-key": "x" * 300}).status_code == 400


def test_request_numbers_outlive_a_restart_and_keep_no_personal_data(start, tmp_path):
    from .conftest import fill

    server = start()
    fill(server)
    first = server.post(BOOKS + "/forget", {"subject": "alice"}, headers={"idempotency-key": "alice-please"})
    server.stop()
    state = tmp_path / "people-server"
    raw = b"".join(path.read_bytes() for path in state.glob("requests.sqlite*"))
    assert b"alice" not in raw
    again = start().post(BOOKS + "/forget", {"subject": "alice"}, headers={"idempotency-key": "alice-please"})
    assert again.json() == first.json()


def test_metrics_count_requests_and_records(server):
    server.post(BOOKS + "/search", {"vector": [0, 0]})
    server.post(BOOKS + "/forget", {"subject": "alice"})
    text = server.call("GET", "/metrics").text
    assert 'lethevec_records{collection="books",process="writer"} 3.0' in text
    assert 'lethevec_erased_records_total{process="writer"} 2.0' in text
    assert 'lethevec_pending_erasures{process="writer"} 0.0' in text
    route = 'route="/v1/collections/{collection}/search"'
    assert f'lethevec_request_seconds_count{{collection="books",process="writer",{route}}} 1.0' in text
    assert "alice" not in text


def test_logs_are_json_and_name_nobody(start, capfd):
    import json

    from .conftest import fill

    server = start(log="all")
    fill(server)
    for path, body, _ in REFUSED:
        server.post(BOOKS + path, body)
    server.post(BOOKS + "/forget", {"subject": "alice"})
    server.call("GET", "/v1/secretive?secretive=1")
    server.stop()
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    events = [json.loads(line) for line in lines]
    assert len(events) > len(REFUSED)
    assert not any(word in line for line in lines for word in ("alice", "secretive", "carol", "four"))
    assert {event["route"] for event in events} >= {"/v1/collections/{collection}/forget"}


def test_spans_name_the_route_and_nobody(server, monkeypatch):
    pytest.importorskip("opentelemetry")
    from lethevec.server.telemetry import Telemetry

    seen = []

    class Span:
        def end(self, at):
            seen.append(at)

    class Tracer:
        def start_span(self, name, **more):
            seen.append((name, more["attributes"], more["context"]))
            return Span()

    telemetry = Telemetry()
    telemetry._tracer = Tracer()
    server.core.telemetry = telemetry
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    server.post(BOOKS + "/forget", {"subject": "alice"}, headers=trace)
    for _ in range(100):
        if len(seen) == 2:
            break
        threading.Event().wait(0.02)
    (name, attributes, context), _ = seen
    assert name == "POST /v1/collections/{collection}/forget"
    assert attributes["http.response.status_code"] == 200
    assert attributes["lethevec.collection"] == "books"
    assert context is not None
    assert "alice" not in str(seen)


def test_an_unexpected_error_is_a_500_that_says_nothing(server, monkeypatch, capfd):
    def broken(*args, **more):
        raise RuntimeError("alice was here")

    monkeypatch.setattr(type(server.core.db), "collection", broken)
    server.core.changed()
    answer = server.post(BOOKS + "/search", {"vector": [0, 1]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert "alice" not in answer.text
    server.core.logs.flush()
    assert "alice" not in capfd.readouterr().err


def test_a_stop_lets_requests_finish(start):
    from .conftest import fill

    server = start()
    fill(server)
    answers = []
    guard = threading.Event()
    threads = server.core._writers._max_workers
    blocked = [server.core._writers.submit(guard.wait, 30) for _ in range(threads)]
    caller = threading.Thread(
        target=lambda: answers.append(server.post(BOOKS + "/forget", {"subject": "alice"}).status_code)
    )
    caller.start()
    for _ in range(3000):
        if server.core.requests.used:
            break
        threading.Event().wait(0.01)
    assert server.core.requests.used == 1
    server._server.should_exit = True
    threading.Event().wait(0.2)
    assert answers == []
    guard.set()
    caller.join(20)
    assert answers == [200]
    assert all(one.result() for one in blocked)


def test_settings_come_from_file_environment_and_flags(tmp_path):
    from lethevec.errors import ParameterError
    from lethevec.server.settings import load_settings

    file = tmp_path / "server.toml"
    file.write_text('port = 1\nmax_k = 5\nhost = "127.0.0.1"\ncors = ["https://a.example"]\n')
    environment = {"LETHEVEC_SERVER_PORT": "2", "LETHEVEC_SERVER_BEHIND_PROXY": "yes", "OTHER": "x"}
    settings = load_settings(file, {"folder": "d", "max_batch": 7, "rate": None}, environment)
    assert (settings.port, settings.max_k, settings.max_batch) == (2, 5, 7)
    assert settings.behind_proxy
    assert settings.cors == ("https://a.example",)
    assert load_settings(file, {"folder": "d", "port": 3}, environment).port == 3
    for wrong in ({"port": "x"}, {"port": 70000}, {"nonsense": 1}, {"log": "loud"}, {"cors": "x"}, {"tls_cert": "a"}):
        with pytest.raises(ParameterError, match="expected"):
            load_settings(None, {"folder": "d", **wrong}, {})
    with pytest.raises(ParameterError, match="folder"):
        load_settings(None, {}, {})


def test_it_refuses_to_listen_beyond_loopback_in_the_open(tmp_path):
    from lethevec.errors import ParameterError

    far = Settings(folder=tmp_path, host="0.0.0.0")
    with pytest.raises(ParameterError, match="no keys"):
        far.check_reach(has_keys=False)
    with pytest.raises(ParameterError, match="without TLS"):
        far.check_reach(has_keys=True)
    Settings(folder=tmp_path, host="0.0.0.0", behind_proxy=True).check_reach(has_keys=True)
    certified = Settings(folder=tmp_path, host="0.0.0.0", tls_cert=tmp_path / "c", tls_key=tmp_path / "k")
    certified.check_reach(has_keys=True)
    with pytest.raises(ParameterError, match="no keys"):
        certified.check_reach(has_keys=False)
    for near in ("127.0.0.1", "::1", "localhost"):
        Settings(folder=tmp_path, host=near).check_reach(has_keys=False)


def test_what_is_held_of_a_person_without_their_records(server):
    answer = server.post("/v1/held", {"subject": "alice"}).json()
    assert (answer["records"], answer["collections"], answer["holds"]) == (2, {"books": 2}, [])
    assert "1990" not in str(answer)
    server.post("/v1/hold", {"subject": "alice", "reason": "case 7"}).raise_for_status()
    would = server.post("/v1/forget", {"subject": "alice", "dry_run": True}).json()
    assert (would["records"], would["collections"], would["holds"]) == (2, {"books": 2}, 1)
    assert "case 7" not in str(would)  # an eraser learns that there is a hold, and no more
    held = server.post("/v1/holds", {"names": False}).json()["holds"]
    assert [(one["subject"], one["reason"]) for one in held] == [(None, "case 7")]


def test_the_chain_is_verified_part_by_part(server):
    for subject in ("alice", "bob"):
        server.post("/v1/forget", {"subject": subject}).raise_for_status()
    after, checked = -1, 0
    while after is not None:
        part = server.post("/v1/verify/chain", {"after": after, "limit": 1}).json()
        assert part["good"], part
        after, checked = part["next"], checked + 1
    assert checked >= 3
    receipt = server.call("GET", "/v1/receipts").json()["receipts"][-1]
    assert server.post("/v1/verify", {"receipt": receipt, "quick": True, "subject": "bob"}).json()["good"]
    edited = {**receipt, "issued_at": "1999-01-01T00:00:00Z"}
    assert not server.post("/v1/verify", {"receipt": edited, "quick": True}).json()["good"]
    assert server.post("/v1/verify", {"receipt": receipt, "quick": True, "ids": [1]}).status_code == 422


def test_how_long_a_collection_keeps_records(server):
    assert server.call("GET", "/v1/collections/books").json()["expires"] is None
    assert server.post("/v1/collections/books/retention", {"expires": 3600}).json()["expires"] == 3600
    assert server.call("GET", "/v1/collections").json()["collections"][0]["expires"] == 3600
    server.post("/v1/collections/books/upsert", {"ids": [9], "vectors": [[9, 9]]}).raise_for_status()
    (expires,) = server.post("/v1/collections/books/get", {"ids": [9], "include": ["expires"]}).json()["expires"]
    assert expires is not None
    for wrong in ({}, {"expires": "long"}, {"expires": 1e300}, {"expires": -1}):
        assert server.post("/v1/collections/books/retention", wrong).status_code == 422, wrong
    assert server.post("/v1/collections/books/retention", {"expires": None}).json()["expires"] is None


def test_a_process_that_cannot_take_up_a_collection_does_not_say_that_it_has(start, monkeypatch, tmp_path):
    """Who asked ends it, because it may hold what was forgotten. A collection that was dropped is no reason."""
    import asyncio

    from lethevec.errors import FormatError
    from lethevec.server.processes import Control

    from .conftest import fill

    server = start()
    fill(server)
    core = server.core
    core._refresh()
    kind = type(core.db.collection("books"))
    said = []

    def broken(self):
        raise FormatError("a damaged page")

    async def asked() -> bytes:
        control = Control(tmp_path, "reader-1")
        await control.start(core)
        try:
            reader, writer = await asyncio.open_unix_connection(tmp_path / "reader-1.control")
            writer.write(b"r")
            got = await asyncio.wait_for(reader.read(1), 30)
            writer.close()
            return got
        finally:
            await control.stop()

    assert asyncio.run(asked()) == b"k"
    monkeypatch.setattr(core.logs, "failure", lambda error, route: said.append((type(error), route)))
    with monkeypatch.context() as here:
        here.setattr(kind, "__len__", broken)
        with pytest.raises(FormatError):
            core._refresh()
        assert asyncio.run(asked()) == b""
        assert said == [(FormatError, "between processes")]
        listed = core.db.collections()
        here.setattr(type(core.db), "collections", lambda self: [listed.pop()] if listed else [])
        core._refresh()  # it was dropped meanwhile
    assert asyncio.run(asked()) == b"k"
