"""Sessions of the console: who gets one, which requests it counts for, and when it ends."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from types import SimpleNamespace

import httpx
import pytest

from lethevec.server.keys import KeyFile

from .conftest import fill
from .load import Served

ACT = {"lethevec-console": "act"}
WATCH = {"lethevec-console": "watch"}
LIST = "/v1/collections"


@pytest.fixture
def clock(monkeypatch):
    """The time of day as sessions see it, which moves when the test says so. `clock.now` is in seconds."""
    made = SimpleNamespace(now=1_800_000_000.0)
    monkeypatch.setattr("lethevec.server.sessions.time", SimpleNamespace(time=lambda: made.now))
    return made


def sign_in(server, key, **headers):
    return server.post("/v1/session", {"key": key}, headers={**ACT, **headers})


def test_a_session_stands_for_its_key_and_no_script_can_read_it(start, make_key, tmp_path):
    key = make_key("reader")
    server = start()
    answer = sign_in(server, key)
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Secure" not in cookie  # plain HTTP on this machine
    assert key not in cookie + answer.text
    assert server.call("GET", LIST, headers=ACT).status_code == 200
    assert server.post(LIST, {"name": "x", "dim": 2}, headers=ACT).status_code == 403  # the role decides, as ever
    token = cookie.partition(";")[0].partition("=")[2]
    kept = b"".join(path.read_bytes() for path in (tmp_path / "people-server").glob("sessions.sqlite*"))
    assert token.encode() not in kept
    assert key.split("_", 2)[2].encode() not in kept


def test_behind_tls_the_cookie_is_for_this_host_and_tls_alone(start, make_key):
    key = make_key("reader")
    cookie = sign_in(start(behind_proxy=True), key).headers["set-cookie"]
    assert cookie.startswith("__Host-lethevec=")
    assert "; Secure" in cookie
    assert "Path=/;" in cookie
    assert "Domain" not in cookie


def test_a_cookie_alone_opens_nothing(start, make_key):
    """What another page can make a browser send: the cookie, and neither our header nor our origin."""
    server = start()
    key = make_key("admin")
    time.sleep(0.6)
    sign_in(server, key).raise_for_status()
    for headers in (
        {},
        {"lethevec-console": "yes"},
        {**ACT, "sec-fetch-site": "cross-site"},
        {**ACT, "sec-fetch-site": "same-site"},  # another port of this machine
        {**ACT, "origin": "http://evil.example"},
        {**ACT, "origin": "null"},
    ):
        assert server.call("GET", LIST, headers=headers).status_code == 401, headers
    for headers in ({**ACT, "sec-fetch-site": "same-origin"}, {**ACT, "origin": server.url}):
        assert server.call("GET", LIST, headers=headers).status_code == 200, headers


def test_another_page_can_neither_begin_nor_end_a_session(start, make_key):
    key = make_key("reader")
    server = start()
    assert server.post("/v1/session", {"key": key}).status_code == 403
    assert sign_in(server, key, **{"sec-fetch-site": "cross-site"}).status_code == 403
    sign_in(server, key).raise_for_status()
    assert server.call("DELETE", "/v1/session").status_code == 403
    assert server.call("GET", LIST, headers=ACT).status_code == 200


def test_a_wrong_key_begins_nothing(start, make_key):
    make_key("reader")
    answer = sign_in(start(), "lv_00000000_" + "a" * 43)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_a_session_ends_by_itself_however_much_the_page_watches(start, make_key, clock):
    key = make_key("reader")
    server = start(session_idle=900.0)
    sign_in(server, key).raise_for_status()
    for _ in range(8):
        clock.now += 100
        assert server.call("GET", LIST, headers=WATCH).status_code == 200
    assert server.call("GET", "/v1/session", headers=WATCH).json()["idle"] == 100
    clock.now += 99
    assert server.call("GET", LIST, headers=WATCH).status_code == 200
    clock.now += 1
    assert server.call("GET", LIST, headers=WATCH).status_code == 401
    assert server.call("GET", LIST, headers=ACT).status_code == 401


def test_doing_something_prolongs_a_session_up_to_its_end(start, make_key, clock):
    key = make_key("reader")
    server = start(session_idle=900.0, session_longest=2000.0)
    sign_in(server, key).raise_for_status()
    begin = clock.now
    for at in (800, 1600, 1999):  # each within the idle time of the one before
        clock.now = begin + at
        assert server.call("GET", LIST, headers=ACT).status_code == 200
    clock.now = begin + 2000
    assert server.call("GET", LIST, headers=ACT).status_code == 401


def test_a_session_ends_when_it_is_ended_and_when_its_key_is_withdrawn(start, make_key, tmp_path):
    first, second = make_key("reader"), make_key("reader")
    make_key("admin")
    server = start()
    sign_in(server, first).raise_for_status()
    cookies = dict(server.http.cookies)
    ended = server.call("DELETE", "/v1/session", headers=ACT)
    assert "Max-Age=0" in ended.headers["set-cookie"]
    server.http.cookies.update(cookies)  # somebody has kept it
    assert server.call("GET", LIST, headers=ACT).status_code == 401
    server.http.cookies.clear()
    sign_in(server, second).raise_for_status()
    KeyFile(tmp_path / "people-server").withdraw(second.split("_")[1])
    time.sleep(0.7)
    assert server.call("GET", LIST, headers=ACT).status_code == 401


def test_a_session_outlives_a_restart_of_the_server(start, make_key):
    key = make_key("reader")
    server = start()
    sign_in(server, key).raise_for_status()
    cookies = dict(server.http.cookies)
    server.stop()
    again = start()
    again.http.cookies.update(cookies)
    assert again.call("GET", LIST, headers=ACT).status_code == 200


def test_on_a_full_disk_nobody_signs_in_and_who_is_in_goes_on(start, make_key, clock):
    """A test's own full disk: the database may not grow."""
    key = make_key("reader")
    server = start(session_idle=900.0)
    sign_in(server, key).raise_for_status()
    database = server.core.sessions._db
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")
    with suppress(sqlite3.OperationalError):
        while True:
            database.execute("INSERT INTO sessions VALUES (randomblob(32), 'x', ?, ?)", (clock.now, clock.now))
    answer = sign_in(server, key)
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "storage_full")
    assert "set-cookie" not in answer.headers

    def refuse(action, *_):
        writes = (sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE)
        return sqlite3.SQLITE_DENY if action in writes else sqlite3.SQLITE_OK

    database.set_authorizer(refuse)  # whatever the database says no with
    clock.now += 300
    assert server.call("GET", LIST, headers=ACT).status_code == 500
    database.set_authorizer(None)
    assert server.call("GET", LIST, headers=ACT).status_code == 200
    database.execute("PRAGMA query_only = ON")
    clock.now += 300
    assert server.call("GET", LIST, headers=ACT).status_code == 200  # and not prolonged
    assert server.call("DELETE", "/v1/session", headers=ACT).status_code == 507  # so the page goes on trying
    database.execute("PRAGMA query_only = OFF")
    assert server.call("DELETE", "/v1/session", headers=ACT).status_code == 200
    assert server.call("GET", LIST, headers=ACT).status_code == 401


def test_a_server_without_keys_answers_no_page_of_another_origin(server):
    """A browser on this machine reaches it; a page that it shows must not erase anything."""
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"host": "evil.example"},  # a name that was made to point to this machine
        {"host": "evil.example:80"},
    ):
        answer = server.post("/v1/forget", {"subject": "alice"}, headers=headers)
        assert answer.status_code == 403, headers
        assert answer.json()["error"]["code"] in ("origin", "host")
    for headers in ({}, {"origin": server.url}, {"sec-fetch-site": "same-origin"}, {"host": "localhost:1"}):
        assert server.post("/v1/forget", {"subject": "alice", "dry_run": True}, headers=headers).status_code == 200


def test_an_origin_in_cors_may_call_a_server_without_keys(start):
    server = start(cors=("https://app.example",))
    fill(server)
    headers = {"origin": "https://app.example", "sec-fetch-site": "cross-site"}
    assert server.post("/v1/collections/books/count", headers=headers).status_code == 200


def test_keys_are_made_listed_and_withdrawn_over_http(start, make_key, tmp_path):
    admin = make_key("admin")
    server = start()
    made = server.post("/v1/keys", {"name": "desk", "roles": ["eraser", "holder"]}, key=admin)
    assert made.status_code == 201
    text, id = made.json()["text"], made.json()["key"]["id"]
    assert server.call("GET", LIST, key=text).status_code == 200
    listed = server.call("GET", "/v1/keys", key=admin)
    assert [(one["name"], one["state"]) for one in listed.json()["keys"]] == [("test", "live"), ("desk", "live")]
    secret = text.split("_", 2)[2]
    assert secret not in listed.text
    assert KeyFile(tmp_path / "people-server").keys()[1].hash not in listed.text
    for key in (text, None):
        assert server.call("GET", "/v1/keys", key=key).status_code in (401, 403)
        assert server.post("/v1/keys", {"name": "x", "roles": ["admin"]}, key=key).status_code in (401, 403)
    assert server.post("/v1/keys/withdraw", {"key": id}, key=admin).json()["key"]["state"] == "withdrawn"
    assert server.call("GET", LIST, key=text).status_code == 401
    assert server.post("/v1/keys/withdraw", {"key": "00000000"}, key=admin).status_code == 404
    own = server.post("/v1/keys/withdraw", {"key": admin.split("_")[1]}, key=admin)
    assert own.json()["error"]["code"] == "own_key"


def test_the_text_of_a_new_key_is_kept_nowhere(start, make_key, tmp_path):
    admin = make_key("admin")
    server = start()
    headers = {"idempotency-key": "1"}
    made = server.post("/v1/keys", {"name": "desk", "roles": ["reader"]}, key=admin, headers=headers).json()
    again = server.post("/v1/keys", {"name": "desk", "roles": ["reader"]}, key=admin, headers=headers).json()
    assert made["text"] != again["text"]
    server.stop()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert made["text"].split("_", 2)[2].encode() not in path.read_bytes(), path


def test_the_first_key_of_all_closes_the_door_behind_an_admin(server):
    body = {"name": "ops", "roles": ["reader"]}
    assert server.post("/v1/keys", body).json()["error"]["code"] == "first_key"
    assert server.post("/v1/keys", {**body, "roles": ["admin"], "collections": ["x"]}).status_code == 422
    text = server.post("/v1/keys", {**body, "roles": ["admin"]}).json()["text"]
    assert server.call("GET", LIST).status_code == 401
    assert server.call("GET", LIST, key=text).status_code == 200


def test_bad_keys_are_refused_and_nothing_is_made(start, make_key):
    admin = make_key("admin")
    server = start()
    for body in (
        {"roles": ["reader"]},
        {"name": "x"},
        {"name": "x", "roles": ["king"]},
        {"name": "x", "roles": ["reader"], "collections": []},
        {"name": "x", "roles": ["reader"], "collections": "books"},
        {"name": "x", "roles": ["reader"], "expires": "soon"},
    ):
        assert server.post("/v1/keys", body, key=admin).status_code == 422, body
    assert len(server.call("GET", "/v1/keys", key=admin).json()["keys"]) == 1


def test_with_workers_a_session_counts_in_every_process(tmp_path, make_key):
    """Writes go from a reader to the writer: the session goes with them."""
    key = make_key("admin")
    server = Served(tmp_path / "people", 2)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as http:
            http.post("/v1/session", json={"key": key}, headers=ACT).raise_for_status()
            for n in range(6):
                made = http.post("/v1/collections", json={"name": f"c{n}", "dim": 2}, headers=ACT)
                assert made.status_code == 201, made.text
                assert http.get(LIST, headers={**ACT, "connection": "close"}).status_code == 200
    finally:
        server.stop()
