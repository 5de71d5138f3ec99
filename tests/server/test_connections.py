"""Callers that mean harm, as bytes on a connection: none takes more than its share, and none is read in two ways."""

from __future__ import annotations

import json
import re
import select
import socket
import threading
import time

import pytest

from lethevec.server.connections import MAX_FIELDS, MAX_HEAD

from .conftest import fill
from .test_protocol import SEARCH, Caller, request

COUNT = "/v1/collections/books/count"
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


def everything(server, *parts, half_close=False):
    """All that comes back until the server hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has hung up already
        got = b""
        try:
            while data := connection.recv(1 << 16):
                got += data
        except ConnectionResetError:
            pass
        return got


def statuses(got):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)]


def cut_off(server):
    return dict(server.core.guard.refused)


@pytest.mark.parametrize(
    "begun",
    [b"POST " + SEARCH.encode() + b" HTTP/1.1\r\nhost: loc", b"G", b"GET /healthz HTTP/1.1\r\nx: " + b"y" * 1000],
    ids=["a field", "a letter", "a long field"],
)
def test_a_head_that_never_ends_is_not_waited_for(start, begun):
    server = start(timeout=0.4)
    got = everything(server, begun)
    assert statuses(got) == [408]
    assert json.loads(got.partition(b"\r\n\r\n")[2])["error"]["code"] == "slow_request"
    assert cut_off(server) == {"slow": 1}


def test_a_head_that_comes_letter_by_letter_is_not_waited_for(start):
    server = start(timeout=0.4)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        ended = False
        for letter in HEALTH * 20:
            try:
                connection.sendall(bytes([letter]))
            except OSError:
                ended = True
                break
            if select.select([connection], [], [], 0.05)[0]:
                assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")
                ended = True
                break
        assert ended


def test_a_connection_on_which_nothing_is_sent_is_closed(start):
    server = start(timeout=0.4)
    assert everything(server) == b""
    assert cut_off(server) == {}


@pytest.mark.parametrize(
    "parts",
    [
        [b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ", *[b"y" * 8192] * 40],
        [b"GET /", *[b"y" * 8192] * 40],
        [b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * MAX_HEAD + b"\r\n\r\n"],
        [b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + b"x: y\r\n" * (MAX_FIELDS + 1) + b"\r\n"],
        [b"GET /" + b"y" * (MAX_HEAD + 1) + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"],
    ],
    ids=["an endless field", "an endless URL", "a long field", "many fields", "a long URL"],
)
def test_a_head_has_a_limit(server, parts):
    got = everything(server, *parts)
    assert statuses(got) in ([431], [])  # nothing, if the system threw the answer away with what was not read
    assert cut_off(server) == {"head": 1}


def test_a_head_just_within_the_limit_is_read(server):
    fields = b"".join(b"x%d: y\r\n" % number for number in range(MAX_FIELDS - 2))
    long = b"x: " + b"y" * (MAX_HEAD - 2000) + b"\r\n"
    got = everything(server, b"GET /healthz HTTP/1.1\r\nconnection: close\r\n" + fields + long + b"\r\n")
    assert statuses(got) == [200]


def chunked(path, *lines, trailer=b""):
    body = b'{"vector": [0, 0], "k": 1, "include": []}'
    head = [f"POST {path} HTTP/1.1", "host: localhost", "transfer-encoding: chunked", *lines, "", ""]
    return "\r\n".join(head).encode() + b"%x\r\n%b\r\n0\r\n" % (len(body), body) + trailer + b"\r\n"


def test_fields_behind_a_body_are_not_those_of_the_request(start, make_key):
    key = make_key("admin")
    server = start()
    fill(server, key)
    caller = Caller(server)
    own = f"authorization: Bearer {key}"
    for _ in range(2):  # the second goes the shorter way
        caller.send(chunked(SEARCH, own))
        assert caller.answer()[0] == 200
        caller.send(chunked(SEARCH, trailer=own.encode() + b"\r\n"))
        assert caller.answer()[0] == 401
        caller.send(chunked(SEARCH, own, trailer=b"authorization: Bearer lv_nothing\r\ncontent-type: text/x\r\n"))
        assert caller.answer()[0] == 200
    caller.close()


def test_fields_behind_a_body_have_an_end(server):
    got = everything(server, chunked(COUNT)[:-2], b"x: ", *[b"y" * 8192] * 40)
    assert 431 in statuses(got) or not statuses(got)
    assert cut_off(server) == {"head": 1}


def test_an_endless_extension_of_a_chunk_is_refused(server):
    head = f"POST {COUNT} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n2;"
    everything(server, head.encode(), *[b"y" * 8192] * 40)
    assert cut_off(server) == {"head": 1}


SMUGGLED = b"GET /v1/collections HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "fields",
    [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 6",
        "content-length: -5",
        "content-length: +5",
        "content-length: 0x5",
        "content-length: 5 5",
        "content-length: 99999999999999999999999",
        "content-length:",
        "transfer-encoding: xchunked",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: identity",
        "transfer-encoding : chunked",
        "content-length : 5",
        "x: y\r\n content-length: 5",
        "x: y\ncontent-length: 5",
        "x: y\rcontent-length: 5",
        "x\0: y",
        "x: y\0z",
        "x y: z",
        ": y",
    ],
)
@pytest.mark.parametrize("path", [SEARCH, COUNT])
def test_a_request_that_could_be_read_in_two_ways_is_not_read(server, fields, path):
    """Whatever is in front of the server and takes the body for longer or shorter: no second request comes out."""
    server.post(SEARCH, {"vector": [0, 0], "k": 1}).raise_for_status()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{fields}\r\n\r\n"
    got = everything(server, head.encode("latin-1") + b"0\r\n\r\n" + SMUGGLED, half_close=True)
    assert statuses(got) in ([400], [])
    assert b"books" not in got


@pytest.mark.parametrize("size", ["5\r\n", "5;x=y\r\n", "05\r\n"])
def test_chunks_end_where_they_say(server, size):
    head = f"POST {COUNT} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    assert statuses(everything(server, head.encode() + size.encode() + b"{   }\r\n0\r\n\r\n")) == [200]


@pytest.mark.parametrize(
    "chunk", [b"-5\r\n{   }", b"0x5\r\n{   }", b"5\n{   }", b"5\r\n{   }X", b"g\r\n", b"5 5\r\n{   }"]
)
def test_what_is_no_chunk_is_refused(server, chunk):
    head = f"POST {COUNT} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    got = everything(server, head.encode() + chunk + b"\r\n0\r\n\r\n" + SMUGGLED, half_close=True)
    assert 200 not in statuses(got)
    assert b"books" not in got


@pytest.mark.parametrize(
    "line",
    [
        b"GET http://elsewhere.example/healthz HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"CONNECT elsewhere.example:443 HTTP/1.1",
        b"GET /v1/collections/../../healthz HTTP/1.1",
        b"GET /v1/collections/%2e%2e%2f%2e%2e%2fetc%2fpasswd HTTP/1.1",
        b"GET /console/%2e%2e/%2e%2e/app.py HTTP/1.1",
        b"GET /console/../app.py HTTP/1.1",
        b"GET /v1/collections/%00 HTTP/1.1",
        b"GET /v1/collections/\xff HTTP/1.1",
        b"GET /v1/collections/%ff HTTP/1.1",
        b"GET /v1/collections/books%2fcount HTTP/1.1",
        b"GET /healthz HTTP/9.9",
        b"GET  /healthz HTTP/1.1",
        b"BREW /healthz HTTP/1.1",
        b"get /healthz HTTP/1.1",
        b"GET /healthz",
        b"PRI * HTTP/2.0",
    ],
)
def test_odd_first_lines_get_nothing_but_an_answer(server, line):
    got = everything(server, line + b"\r\nhost: localhost\r\nconnection: close\r\n\r\n", half_close=True)
    found = statuses(got)
    assert len(found) <= 1
    assert not found or found[0] in (200, 400, 404, 405, 422)
    assert found != [200] or b"/healthz" in line.split(b"/v1")[0]
    assert b"Traceback" not in got
    assert b"root:" not in got
    assert server.call("GET", "/healthz").status_code == 200


def test_no_websocket_and_no_other_protocol(server):
    for protocol in ("websocket", "h2c"):
        caller = Caller(server)
        caller.send(request(COUNT, {}, "connection: Upgrade", f"upgrade: {protocol}", "sec-websocket-key: x"))
        assert caller.answer()[0] == 200
        caller.close()


def test_a_caller_that_hangs_up_in_the_middle_leaves_nothing(server):
    for part in (b"POST", request(COUNT, {})[:-1], request(SEARCH, {"vector": [0, 0]})[:-3]):
        for half_close in (False, True):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
                connection.sendall(part)
                if half_close:
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(1000)
    end = time.monotonic() + 10
    while (server.core.guard.open or server.core.requests.used or server.core.reading) and time.monotonic() < end:
        server.http.close()
        time.sleep(0.02)
    assert (len(server.core.guard.open), server.core.requests.used, server.core.bodies.used) == (0, 0, 0)
    assert not server.core.reading


def test_what_follows_a_refused_request_does_not_overtake_its_answer(server, monkeypatch):
    let_go = threading.Event()
    whole = server.core.read

    async def slow(collection, function, *, short=False):
        return await whole(collection, lambda: (let_go.wait(10), function())[1])

    monkeypatch.setattr(server.core, "read", slow)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(request(COUNT, {}) + b"\0\1\2 nothing\r\n\r\n")
        assert connection.recv(1000) == b""  # hung up, without an answer that belongs to another request
    let_go.set()
    assert cut_off(server) == {"http": 1}


def test_requests_that_were_sent_ahead_wait_in_the_socket(server):
    """One connection may not fill the memory with requests that wait for the one before them."""
    longest = 0
    one = b"GET /healthz HTTP/1.1\r\nhost: l\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        count = 20_000

        def send():
            try:
                for _ in range(count // 1000):
                    connection.sendall(one * 1000)
            except OSError:
                pass

        sender = threading.Thread(target=send)
        sender.start()
        answers, rest = 0, b""
        try:
            while answers < count:
                data = connection.recv(1 << 16)
                assert data
                answers += (rest + data).count(b"HTTP/1.1 200")
                rest = data[-11:]  # too short to be counted twice
                waiting = [len(protocol.pipeline) for protocol in list(server.core.guard.open)]
                longest = max(longest, *waiting, 0)
        finally:
            connection.close()
            sender.join(20)
    assert 0 < longest <= (256 << 10) // len(one) + 1  # what is read at a time


def test_a_caller_that_takes_no_answer_is_cut_off(start):
    server = start(timeout=0.5, max_in_flight=1, max_wait=10)
    document = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
    greedy = socket.socket()
    greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    greedy.settimeout(20)
    with greedy:
        greedy.connect(("127.0.0.1", server.port))
        greedy.sendall(document * 400)
        end = time.monotonic() + 20
        while cut_off(server) != {"stuck": 1}:
            assert time.monotonic() < end
            time.sleep(0.02)
    assert server.call("GET", "/openapi.json").status_code == 200  # the one place is free again


def test_there_are_so_many_connections(start):
    server = start(max_connections=5)
    held = [Caller(server) for _ in range(5)]
    for one in held:
        one.send(HEALTH)
        assert one.answer()[0] == 200
    got = everything(server)
    assert statuses(got) == [503]
    assert b"retry-after: 1" in got
    held.pop().close()
    end = time.monotonic() + 10
    while len(server.core.guard.open) >= 5 and time.monotonic() < end:
        time.sleep(0.02)
    text = server.call("GET", "/metrics").text
    assert re.search(r'connections_cut_off\{process="writer",reason="many"\} 1', text)
    for one in held:
        one.close()


def test_a_body_that_trickles_is_not_waited_for(start):
    server = start(timeout=0.5)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"POST /v1/collections HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n\r\n{")
        got = b""
        for _ in range(200):  # a letter long before each timeout
            connection.sendall(b" ")
            if select.select([connection], [], [], 0.05)[0]:
                got = connection.recv(1000)
                break
        assert got.startswith(b"HTTP/1.1 408 ")
    assert server.core.requests.used == 0


def test_what_is_remembered_of_requests_is_bounded(server):
    from lethevec.server.api import searching

    before = len(searching._known)
    for number in range(5):
        zeros = "0" * (100_000 + number)
        raw = f'{{"vector": [0, 0], "k": 1, "effort": 1.{zeros}}}'.encode()
        answer = server.http.post(SEARCH, content=raw, headers={"content-type": "application/json"})
        assert answer.status_code == 200
        server.http.post(
            f"{SEARCH}?effort=1.{zeros[:9000]}{number}",
            content=bytes(8),
            headers={"content-type": "application/octet-stream"},
        ).raise_for_status()
    assert len(searching._known) == before
    assert all(len(text) <= 200 for text in searching._known)
    assert all(len(url) <= 300 for url in server.known)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"where":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"vector":[0,0],"where":' + b'{"$not":' * 300 + b"{}" + b"}" * 301,
        b'{"vector":[0,0],"where":' + b'{"$and":[' * 5000 + b"{}" + b"]}" * 5000 + b"}",
        b'{"vector":[NaN,0]}',
        b'{"vector":[Infinity,0]}',
        b'{"vector":[1e999,0]}',
        b'{"vector":[0,0],"radius":1e999}',
        b'{"vector":[0,0],"effort":-1}',
        b'{"vector":[0,0],"effort":1e309}',
        b'{"vector":[0,0],"k":1e3}',
        b'{"vector":[0,0],"k":true}',
        b'{"vector":[0,0],"k":' + b"9" * 100_000 + b"}",
        b'{"vector":[0,0],"where":{"$regex":"(a+)+$"}}',
        b'{"vector":[0,0],"where":{"year":{"$in":' + json.dumps(list(range(100_000))).encode() + b"}}}",
        b'\xff\xfe{"vector":[0,0]}',
        b'{"vector":[0,0]}\0',
        b'{"vector":[0,0],"subject":"\\ud800"}',
        b'{"vector":[0,0],"__proto__":1}',
        b"null",
        b'"vector"',
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
def test_hostile_bodies_get_a_4xx_or_an_answer(server, body, capfd):
    answer = server.http.post(SEARCH, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 413, 422), answer.text
    if answer.status_code == 200:
        assert b'"where"' in body or b'"effort"' in body or b'"radius"' in body
    assert '"event":"error"' not in capfd.readouterr().err
    assert server.call("GET", "/healthz").status_code == 200


@pytest.mark.parametrize(
    "name", ["..", ".", "../books", "a/b", "/etc", "a\\b", "books\0", "~", "-rf", " ", "", "a" * 1000, "CON", "bo\noks"]
)
def test_names_of_collections_lead_nowhere_else(server, name, tmp_path):
    before = sorted(str(path) for path in tmp_path.parent.glob("*"))
    answer = server.post("/v1/collections", {"name": name, "dim": 2, "metric": "l2"})
    assert answer.status_code in (201, 200, 422)
    assert answer.status_code == 422 or name == "CON"
    assert sorted(str(path) for path in tmp_path.parent.glob("*")) == before
    assert not (tmp_path / "books").exists()


def test_an_error_in_the_midst_of_an_answer_names_nobody_in_the_log(start, monkeypatch, capfd):
    from lethevec.server.calls import Endpoint

    server = start(log="errors")

    async def breaks(self, call, answer, send):
        raise RuntimeError("about alice")

    monkeypatch.setattr(Endpoint, "_send", breaks)
    assert server.call("GET", "/healthz").status_code == 500
    server.core.logs.flush()
    said = capfd.readouterr().err
    assert "alice" not in said
    assert [json.loads(line)["error"] for line in said.splitlines() if '"error"' in line] == ["RuntimeError"]
