"""The shorter way of a search past ASGI: it answers what the usual way answers, whatever arrives in whichever parts."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from contextlib import suppress

import pytest

from lethevec.server.audit import read_log

from .conftest import fill

SEARCH = "/v1/collections/books/search"


def request(path, content, *more, method="POST"):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    head = [f"{method} {path} HTTP/1.1", "host: localhost", "content-type: application/json", *more]
    return "\r\n".join([*head, f"content-length: {len(body)}", "", ""]).encode() + body


class Caller:
    """A connection, as bytes."""

    def __init__(self, server):
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        self._got = b""

    def send(self, data):
        self._socket.sendall(data)

    def answer(self):
        """Status, headers and content of the next answer; None at the end of the connection."""
        while b"\r\n\r\n" not in self._got:
            if not self._more():
                return None
        head, _, rest = self._got.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:])
        size = int(headers["content-length"])
        while len(rest) < size:
            assert self._more()
            rest = self._got.partition(b"\r\n\r\n")[2]
        self._got = rest[size:]
        assert headers.pop("date").endswith(" gmt")
        return int(lines[0].split()[1]), headers, json.loads(rest[:size])

    def _more(self):
        data = self._socket.recv(1 << 16)
        self._got += data
        return bool(data)

    def close(self):
        self._socket.close()


@pytest.fixture
def caller(server):
    made = Caller(server)
    yield made
    made.close()


@pytest.fixture
def warm(server, caller):
    """A connection whose searches go the shorter way."""
    caller.send(request(SEARCH, {"vector": [0, 0], "k": 1}))
    assert caller.answer()[0] == 200
    caller.send(request(SEARCH, {"vector": [0, 0], "k": 1}))
    assert caller.answer()[0] == 200
    assert at_once(server) == 1
    return caller


def at_once(server):
    """How many requests the protocol has answered by itself: they make no task, so uvicorn has no cycle for them."""
    return server.core.counted


@pytest.fixture(autouse=True)
def _counting(monkeypatch):
    """Count what is done at once."""
    from lethevec.server.calls import Endpoint
    from lethevec.server.core import Core

    monkeypatch.setattr(Core, "counted", 0, raising=False)
    whole = Endpoint.at_once

    def counting(self, *given):
        answer = whole(self, *given)
        self._core.counted += answer is not None
        return answer

    monkeypatch.setattr(Endpoint, "at_once", counting)


ASKED = [
    {"vector": [0, 0], "k": 2},
    {"vectors": [[0, 0], [9, 9]], "k": 3, "include": []},
    {"vector": [0, 0], "where": {"year": {"$gt": 1990}}},
    {"vector": [0, 0], "subject": "alice"},
    {"vector": [0, 0], "radius": 1.5, "effort": 2},
    {"vectors": "AAAAAAAAAAA=", "k": 2},
    {"vector": [0], "k": 2},
    {"vector": [0, "x"], "k": 2},
    {"vector": [0, 0], "k": 0},
    {"vector": [0, 0], "what": 1},
    {"vector": [0, 0], "where": {"year": {"$what": 1}}},
    {"vectors": [[0, 0]] * 9, "k": 1},
    {},
    b"{",
    b'{"vector":[1,2]} and more',
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: str(asked)[:40])
def test_both_ways_give_the_same_answer(server, asked):
    usual, shorter = Caller(server), Caller(server)
    try:
        usual.send(request(SEARCH + "?", asked))  # another URL: never routed before
        expected = usual.answer()
        shorter.send(request(SEARCH, {"vector": [0, 0], "k": 1}) + request(SEARCH, asked))
        assert shorter.answer()[0] == 200
        shorter.send(request(SEARCH, asked))
        for _ in range(2):
            answer = shorter.answer()
            assert answer == expected
    finally:
        usual.close()
        shorter.close()


def test_other_content_goes_both_ways_too(server, warm):
    for kind in ("text/plain", "application/octet-stream"):
        head = f"content-type: {kind}"
        for path in (SEARCH + "?k=2", SEARCH + "?k=2", SEARCH + "?k=2&", SEARCH + "?k=two", SEARCH + "?k=two"):
            body = bytes(8)
            text = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{head}\r\ncontent-length: 8\r\n\r\n".encode()
            warm.send(text + body)
        answers = [warm.answer() for _ in range(5)]
        assert answers[0] == answers[1] == answers[2]
        assert answers[3] == answers[4]
        assert [answer[0] for answer in answers] == ([415] * 5 if kind == "text/plain" else [200] * 3 + [400] * 2)


def test_in_whichever_parts_it_arrives(server, warm):
    whole = request(SEARCH, {"vector": [0, 0.5], "k": 2})
    warm.send(whole)
    expected = warm.answer()
    for cut in range(1, len(whole), 3):
        warm.send(whole[:cut])
        time.sleep(0.001)
        warm.send(whole[cut:])
        assert warm.answer() == expected, cut


def test_many_at_once_are_answered_in_their_order(server, warm):
    asked = []
    for place in range(30):
        if place % 7 == 3:
            asked.append((request("/v1/collections/books/count", {}), {"records": 5}))
        else:
            asked.append((request(SEARCH, {"vector": [0, place % 4], "k": 1, "include": []}), None))
    before = at_once(server)
    warm.send(b"".join(one for one, _ in asked))
    for place, (_, expected) in enumerate(asked):
        status, _, content = warm.answer()
        assert status == 200
        assert content == expected if expected else content["ids"] == [[max(1, place % 4)]]
    assert at_once(server) > before


def test_while_a_write_goes_on_it_goes_the_usual_way(server, warm, monkeypatch):
    monkeypatch.setattr(server.core, "writing", lambda collection: True)
    before = at_once(server)
    warm.send(request(SEARCH, {"vector": [0, 0], "k": 1, "include": []}))
    assert warm.answer()[2] == {"ids": [[1]], "distances": [[1.0]]}
    assert at_once(server) == before


def test_searches_that_take_long_hold_nobody_up(server, warm, monkeypatch):
    where = []
    collection = server.core.db.collection("books")
    search = type(collection).search

    def slow(self, *given, **options):
        where.append(threading.current_thread().name.startswith("read"))
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass
        return search(self, *given, **options)

    monkeypatch.setattr(type(collection), "search", slow)
    monkeypatch.setattr("lethevec.server.core._LET_BE", 1e6)  # until the test is over, however busy the machine is
    server.core._watched.clear()  # a machine that stalled may have made one of the first two searches a long one
    for _ in range(4):
        warm.send(request(SEARCH, {"vector": [0, 0], "k": 1, "include": []}))
        assert warm.answer()[2] == {"ids": [[1]], "distances": [[1.0]]}
    # The first one was not known to take long; of the second its CPU was asked for.
    assert where == [False, False, True, True]


def test_searches_that_only_wait_for_their_turn_are_not_taken_for_long_ones(server, warm, monkeypatch):
    where = []
    collection = server.core.db.collection("books")
    search = type(collection).search

    def waiting(self, *given, **options):
        where.append(threading.current_thread().name.startswith("read"))
        time.sleep(0.02)
        return search(self, *given, **options)

    monkeypatch.setattr(type(collection), "search", waiting)
    for _ in range(4):
        warm.send(request(SEARCH, {"vector": [0, 0], "k": 1, "include": []}))
        assert warm.answer()[0] == 200
    assert where == [False] * 4


@pytest.fixture
def again(monkeypatch):
    """How many requests were answered without parsing their head."""
    from lethevec.server import protocol

    count = [0]
    whole = protocol._Protocol._answer_again

    def counting(self, head, data):
        answered = whole(self, head, data)
        count[0] += answered
        return answered

    monkeypatch.setattr(protocol._Protocol, "_answer_again", counting)
    return count


def test_a_head_that_comes_again_is_not_parsed_again(server, warm, again):
    for place in range(20):
        asked = {"vector": [0, 10 ** (place % 7)], "k": 1, "include": []}  # bodies of different lengths
        warm.send(request(SEARCH, asked))
        assert warm.answer()[2]["ids"] == [[1 if place % 7 == 0 else 3]]
    assert again == [20]
    warm.send(request("/v1/collections/books/count", {}))
    assert warm.answer()[2] == {"records": 5}
    warm.send(request(SEARCH, {"vector": [0, 0], "k": 1}))  # parsed: the one before it was another one
    assert warm.answer()[0] == 200
    assert again == [20]
    warm.send(request(SEARCH, {"vectors": [[0, 0]] * 9, "k": 1, "include": []}))  # has to wait for a thread
    assert warm.answer()[2]["ids"] == [[1]] * 9
    assert again == [20]


def test_a_head_that_comes_again_needs_a_key_that_is_good(start, make_key, again, tmp_path):
    admin, reader, eraser = make_key("admin"), make_key("reader"), make_key("eraser")
    server = start()
    fill(server, admin)
    caller = Caller(server)

    def ask(key):
        caller.send(request(SEARCH, {"vector": [0, 0], "k": 1}, f"authorization: Bearer {key}"))
        return caller.answer()[0]

    assert [ask(reader) for _ in range(3)] == [200] * 3
    assert again == [1]
    changed = reader[:-1] + ("A" if reader[-1] != "A" else "B")
    assert [ask(eraser), ask(reader), ask(changed), ask(reader)] == [403, 200, 401, 200]
    assert ask(reader) == 200
    assert again == [2]
    server.post("/v1/keys/withdraw", {"key": reader[3:11]}, key=admin).raise_for_status()
    assert ask(reader) == 401
    assert again == [3]  # the head was known, and the key was looked at
    caller.close()


PLAIN = request(SEARCH, {"vector": [0, 0], "k": 1})
SIZE = len(PLAIN.partition(b"\r\n\r\n")[2])
MIDDLE = PLAIN.replace(b"host:", b"content-length: %d\r\nhost:" % SIZE, 1).replace(
    b"\r\ncontent-length: %d\r\n\r\n" % SIZE, b"\r\n\r\n"
)
ODD = {
    "the same": [PLAIN, PLAIN],
    "a longer body": [request(SEARCH, {"vector": [0, 0.25], "k": 1})],
    "a body of many digits": [request(SEARCH, {"vector": [0, 0.25], "k": 1, "where": {"year": {"$gt": 1}}})],
    "an empty body": [request(SEARCH, b"")],
    "two at a time": [PLAIN + PLAIN, PLAIN],
    "a line end behind": [PLAIN + b"\r\n", PLAIN, PLAIN],
    "a line end before": [b"\r\n" + PLAIN, PLAIN],
    "a line end between": [b"\r\n", PLAIN, PLAIN],
    "half of the next": [PLAIN + PLAIN[:30], PLAIN[30:], PLAIN],
    "in two parts": [PLAIN[:30], PLAIN[30:], PLAIN],
    "cut in the body": [PLAIN[:-5], PLAIN[-5:] + PLAIN[:-5], PLAIN[-5:]],
    "told more than there is": [PLAIN.replace(b"length: %d" % SIZE, b"length: %d" % (SIZE + 9)), PLAIN],
    "told less than there is": [PLAIN.replace(b"length: %d" % SIZE, b"length: %d" % (SIZE - 9)), PLAIN],
    "a zero before": [PLAIN.replace(b"length: ", b"length: 0"), PLAIN],
    "a sign before": [PLAIN.replace(b"length: ", b"length: +"), PLAIN],
    "a space behind": [PLAIN.replace(b"length: %d" % SIZE, b"length: %d " % SIZE), PLAIN, PLAIN],
    "a line that goes on": [PLAIN.replace(b"length: %d" % SIZE, b"length: %d\r\n 0" % SIZE), PLAIN],
    "twice": [PLAIN.replace(b"host:", b"content-length: %d\r\nhost:" % SIZE), PLAIN],
    "in another field": [PLAIN.replace(b"host:", b"x: content-length: 7\r\nhost:")] * 3,
    "chunks too": [PLAIN.replace(b"host:", b"transfer-encoding: chunked\r\nhost:"), PLAIN],
    "short line ends": [PLAIN.replace(b"\r\n", b"\n"), PLAIN],
    "another end of the head": [
        PLAIN.replace(b"%d\r\n\r\n" % SIZE, b"%d\n\n\r\n\r\n" % (SIZE + 4)),
        PLAIN.replace(b"%d\r\n\r\n" % SIZE, b"%d\n\n\r\n\r\n" % (SIZE + 4)),
    ],
    "a line end in the body": [request(SEARCH, b"\r\n" + PLAIN[-SIZE:]), request(SEARCH, b"\r\n\r\n" + PLAIN[-SIZE:])],
    "closes": [PLAIN.replace(b"host:", b"connection: close\r\nhost:"), PLAIN],
    "expects": [PLAIN.replace(b"host:", b"expect: 100-continue\r\nhost:"), PLAIN, PLAIN],
    "another field behind the length": [MIDDLE, MIDDLE, MIDDLE.replace(b"application/json", b"text/plain;chars")],
    "another field before the length": [PLAIN.replace(b"application/json", b"text/plain;chars"), PLAIN],
    "another method": [PLAIN.replace(b"POST", b"GET"), PLAIN],
    "another version": [PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"), PLAIN],
    "an upgrade": [PLAIN.replace(b"host:", b"connection: upgrade\r\nupgrade: h2c\r\nhost:"), PLAIN],
    "no request": [b"\0\1\2\3 nothing\r\n\r\n", PLAIN],
}


def test_whatever_follows_a_head_that_is_known_is_read_as_on_any_connection(start, again, monkeypatch):
    """All of what the server says, to its end: it closes by itself what is idle or not whole."""
    from lethevec.server import protocol

    server = start(timeout=6.0)
    fill(server)
    server.core.guard.keep_alive = 6.0
    server.post(SEARCH, {"vector": [0, 0], "k": 1}).raise_for_status()  # from now on the URL is known

    def said():
        callers = {name: Caller(server) for name in ODD}
        texts = {}
        for place in range(2 + max(map(len, ODD.values()))):
            for name, caller in callers.items():
                parts = [PLAIN, PLAIN, *ODD[name]]
                with suppress(OSError):  # the server has hung up
                    caller.send(parts[place] if place < len(parts) else b"")
            time.sleep(0.1)  # so that it is read in these parts
        for name, caller in callers.items():
            with suppress(ConnectionError):
                while caller._more():
                    pass
            texts[name] = re.sub(rb"date: [^\r]*\r\n", b"", caller._got)
            caller.close()
        return texts

    known = said()
    assert again[0] >= len(ODD)  # the second request of every connection
    monkeypatch.setattr(protocol, "_head_of", lambda *given: None)
    before = again[0]
    assert said() == known
    assert again[0] == before
    assert all(text.count(b"HTTP/1.1 200") >= 2 for text in known.values())


def test_a_caller_that_closes_or_speaks_an_older_language(server, warm):
    warm.send(request(SEARCH, {"vector": [0, 0], "k": 1}, "connection: close"))
    status, headers, _ = warm.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert warm.answer() is None
    old = Caller(server)
    old.send(request(SEARCH, {"vector": [0, 0], "k": 1}).replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert old.answer()[0] == 200
    assert old.answer() is None
    old.close()


def test_what_is_not_http_is_refused(server, warm):
    warm.send(
        b"POST " + SEARCH.encode() + b" HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx"
    )
    warm.send(b"\0\1\2\3 nothing\r\n\r\n")
    data = warm._socket.recv(1000)
    assert data.startswith(b"HTTP/1.1 400")


def test_a_body_in_chunks(server, warm):
    lines = [f"POST {SEARCH} HTTP/1.1", "host: localhost", "content-type: application/json"]
    head = "\r\n".join([*lines, "transfer-encoding: chunked", "", ""])
    body = b'{"vector": [0, 0], "k": 1}'
    parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:5], body[5:9], body[9:]))
    warm.send(head.encode() + parts + b"0\r\n\r\n")
    assert warm.answer()[2]["ids"] == [[1]]


def test_a_dropped_collection_is_gone_at_once(server, warm):
    server.call("DELETE", "/v1/collections/books").raise_for_status()
    warm.send(request(SEARCH, {"vector": [0, 0], "k": 1}))
    assert warm.answer()[0] == 404


def test_idle_connections_are_closed(start):
    server = start()
    fill(server)
    server.core.guard.keep_alive = 4.0
    caller = Caller(server)
    for _ in range(5):  # each within the time, together longer
        caller.send(request(SEARCH, {"vector": [0, 0], "k": 1}))
        assert caller.answer()[0] == 200
        time.sleep(1)
    assert caller.answer() is None  # the server's doing: the caller waits for longer than that
    caller.close()


def test_keys_rates_and_the_log_count_the_same(start, make_key, tmp_path):
    reader, eraser = make_key("reader"), make_key("eraser")
    admin = make_key("admin")
    server = start(rate=0.001, burst=8)
    fill(server, admin)
    caller = Caller(server)
    ways = ((reader, 200), (reader, 200), (eraser, 403), ("lv_nothing", 401))
    for key, expected in ways:
        for _ in range(3):
            caller.send(request(SEARCH, {"vector": [0, 0], "k": 1}, f"authorization: Bearer {key}"))
            status, headers, _ = caller.answer()
            assert status == expected
            assert headers["x-content-type-options"] == "nosniff"
            assert ("www-authenticate" in headers) == (expected == 401)
    for _ in range(3):  # the burst of eight ends
        caller.send(request(SEARCH, {"vector": [0, 0], "k": 1}, f"authorization: Bearer {reader}"))
    assert [caller.answer()[0] for _ in range(3)] == [200, 200, 429]
    caller.close()
    text = server.call("GET", "/metrics", key=admin).text
    counts = {status: float(n) for status, n in re.findall(r'answers_total{.*/search",status="(\d+)"} (\S+)', text)}
    assert counts == {"200": 8, "403": 3, "401": 3, "429": 1}
    server.stop()
    searches = [entry for entry in read_log(tmp_path / "people-server") if entry.get("do") == "search"]
    assert [entry["status"] for entry in searches] == [200] * 6 + [403] * 3 + [401] * 3 + [200, 200, 429]
    assert at_once(server) == 14
