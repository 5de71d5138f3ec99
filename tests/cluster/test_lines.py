"""Lines: what travels beside the engine. The same answers, nothing in the clear, and no trust in who connects."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time

import numpy as np
import pytest

from lethevec.cluster.calling import Caller, Endpoint, UnreachableError
from lethevec.cluster.lines import LONGEST, Lined, Lines, Listener, introduced
from lethevec.cluster.sealing import Secret
from lethevec.errors import ErasureIncompleteError

from .conftest import people, same_answers, until

SECRET = Secret(bytes(range(32)))


class Engine:
    """Carries what lines do not, and counts it."""

    def __init__(self, endpoint: Endpoint, address: str) -> None:
        self.endpoint, self.address = endpoint, address
        self.calls: list[str] = []

    def start(self, target, method, content):
        self.calls.append(method)
        answer = getattr(self.endpoint, method)(content)
        return introduced(self.address, answer) if method == "hello" else answer

    def wait(self, handles, timeout):
        return list(handles)

    def gather(self, handles, timeout):
        return list(handles)

    def result(self, handle, timeout):
        return handle

    def close(self):
        pass


class Ends:
    """An end that says what it was told, somebody who calls it, and an engine between them."""

    def __init__(self, **options) -> None:
        self.endpoint = Endpoint("m", "c", SECRET, {"echo": self.echo, "slow": self.slow})
        self.listener = Listener("127.0.0.1", self.endpoint, **options)
        self.engine = Engine(self.endpoint, self.listener.address)
        self.transport = Lined(self.engine)
        self.caller = Caller(self.transport, "c", SECRET)

    def echo(self, head, arrays):
        return {"said": head["text"]}

    def slow(self, head, arrays):
        time.sleep(head["seconds"])
        return {"said": head["text"]}

    def say(self, text: str) -> str:
        return self.caller.call("m", "echo", {"text": text}).head["said"]

    def dial(self) -> socket.socket:
        host, port = self.listener.address.split()
        return socket.create_connection((host, int(port)), 10)

    def close(self) -> None:
        self.caller.close()
        self.listener.close()


@pytest.fixture
def ends():
    made = Ends()
    yield made
    made.close()


def test_a_cluster_over_lines_answers_as_one_store(make_lab):
    lab = make_lab(lines=True)
    db = lab.connect(shards=2, replicas=2)
    carried: list[str] = []
    lab.net.seen = lambda target, method, content: carried.append(method)
    for one in (db, lab.one):
        one.collection("people", dim=8, metric="l2").add(**people(300))
    ours, theirs = db.collection("people"), lab.one.collection("people")
    queries = np.random.default_rng(1).standard_normal((40, 8)).astype(np.float32)
    same_answers(ours, theirs, queries)
    for one in (db, lab.one):
        one.forget(subject="person-4")
    same_answers(ours, theirs, queries)
    lab.net.kill("s0-1")
    ours.upsert(queries[:3], ["x", "y", "z"])
    theirs.upsert(queries[:3], ["x", "y", "z"])
    with pytest.raises(ErasureIncompleteError):
        db.forget(subject="person-5", timeout=1)
    lab.one.forget(subject="person-5")
    same_answers(ours, theirs, queries)
    lab.restart(db, "s0-1")
    lab.wait_live(db)
    until(lambda: db.pending_erasures() == 0)
    same_answers(ours, theirs, queries)
    assert db.digest() == lab.one.digest()
    # What is left to the engine are first exchanges, and calls to somebody who was away.
    assert carried.count("call") < 20 < carried.count("hello")


def test_calls_go_over_lines_and_the_engine_carries_what_is_long(ends):
    assert [ends.say(str(k)) for k in range(20)] == [str(k) for k in range(20)]
    assert ends.engine.calls == ["hello"]
    for size in (50_000, LONGEST - 10_000):  # more than one read at either end
        assert ends.say("x" * size) == "x" * size
    assert ends.engine.calls == ["hello"]
    assert len(ends.say("x" * LONGEST)) == LONGEST
    assert ends.engine.calls == ["hello", "call"]


def test_several_calls_are_under_way_at_once_and_each_gets_its_answer(ends):
    texts = [str(k) for k in range(8)]
    pending = [ends.caller.start("m", "slow", {"text": text, "seconds": 0.2}) for text in texts]
    begun = time.monotonic()
    contents = ends.transport.gather([one.handle for one in pending], 10)
    assert [
        ends.caller.finish(one, answer=content).head["said"] for one, content in zip(pending, contents, strict=True)
    ] == texts
    assert time.monotonic() - begun < 1.5  # one after the other: 1.6
    one, other = (ends.caller.start("m", "slow", {"text": "", "seconds": s}) for s in (1.0, 0.01))
    assert ends.transport.wait([one.handle, other.handle], 10) == [other.handle]
    assert ends.transport.wait([one.handle], 0.01) == []
    assert ends.transport.gather([one.handle], 0.01) is None
    with pytest.raises(UnreachableError):
        ends.transport.result(one.handle, 0.01)
    through_engine = ends.engine.start("m", "call", b"")
    assert ends.transport.wait([one.handle, through_engine], 10) == [through_engine]
    assert len(ends.transport.gather([through_engine, one.handle], 10)) == 2


def test_an_answer_that_nobody_waited_for_never_comes_to_another_question(ends):
    for k in range(10):
        ends.caller.start("m", "slow", {"text": "late", "seconds": 0.05})  # and dropped
        assert ends.say(f"now {k}") == f"now {k}"
    time.sleep(0.1)
    assert ends.say("after") == "after"


def test_an_ended_session_is_begun_again(ends):
    assert ends.say("a") == "a"
    ends.endpoint.forget_keys()
    assert ends.say("x" * 300_000) == "x" * 300_000
    ends.caller.forget_keys()
    assert ends.say("b") == "b"
    assert ends.engine.calls == ["hello"] * 3


def test_whoever_is_gone_is_unreachable_and_the_engine_is_asked_where_it_is_now(ends):
    assert ends.say("a") == "a"
    pending = ends.caller.start("m", "slow", {"text": "", "seconds": 0.5})
    ends.listener.close()
    with pytest.raises(UnreachableError):
        ends.caller.finish(pending, 10)
    assert ends.say("b") == "b"
    assert ends.engine.calls == ["hello", "call"]
    ends.listener = Listener("127.0.0.1", ends.endpoint)
    ends.engine.address = ends.listener.address
    ends.caller.forget_keys()
    assert [ends.say(text) for text in "cd"] == ["c", "d"]
    assert ends.engine.calls == ["hello", "call", "hello"]


def test_a_connection_that_ended_while_nobody_used_it_is_not_used(ends):
    """A write that found it broken would be taken for one that the member did not carry out."""
    assert ends.say("a") == "a"
    for one in list(ends.listener._open):
        one.shutdown(socket.SHUT_RDWR)
    until(lambda: not ends.listener._open)
    assert ends.say("b") == "b"
    assert ends.engine.calls == ["hello"]


def test_who_gets_no_connection_goes_through_the_engine():
    ends = Ends(most=1)
    try:
        held = ends.dial()
        assert held.recv(1) == b"L"
        assert [ends.say(text) for text in "ab"] == ["a", "b"]
        assert ends.engine.calls == ["hello", "call", "call"]
        held.close()
        # An address where packets vanish is left alone from then on.
        lines = Lines()
        lines.learn("m", "192.0.2.1 9")
        assert lines.call("m", b"x" * 40) is None
        begun = time.monotonic()
        assert [lines.call("m", b"x" * 40) for _ in range(20)] == [None] * 20
        assert time.monotonic() - begun < 1.0
    finally:
        ends.close()


def test_a_stranger_gets_nothing_and_keeps_nothing(ends):
    assert ends.say("a") == "a"
    length = struct.Struct("<Q")
    with ends.dial() as stranger:
        assert stranger.recv(1) == b"L"
        for content in (bytes(16), bytes(100_000)):  # no session: told so, whatever comes after the name
            stranger.sendall(length.pack(len(content)) + content)
            assert stranger.recv(100) == length.pack(1) + b"\0"
        (session,) = ends.endpoint._sessions
        stranger.sendall(length.pack(80) + session + bytes(64))  # a name that was overheard
        assert stranger.recv(100) == length.pack(1) + b"\0"
    for wrong in (length.pack(1 << 60) + bytes(16), length.pack(3) + bytes(30), length.pack(LONGEST + 1) + bytes(16)):
        with ends.dial() as stranger:
            assert stranger.recv(1) == b"L"
            stranger.sendall(wrong)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(100) == b""
    assert ends.say("b") == "b"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_processes_never_share_a_connection(ends):
    assert ends.say("a") == "a"
    lines = ends.transport._lines
    child = os.fork()
    if child == 0:
        os._exit(0 if lines.call("m", b"x" * 40) is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert ends.say("b") == "b"
