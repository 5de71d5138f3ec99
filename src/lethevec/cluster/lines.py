"""Lines: connections from one end to another, beside the engine that placed them.

A call of Ray's takes its processes several times as long as a search of a small store does, and Ray keeps what passes
through it. So an end also listens on a port of its own, and what is short and asked often goes there: the same sealed
messages, for the same sessions. The first exchange of a session goes through the engine and says where that port is.
Where no connection can be had, calls go through the engine as well.

    greeting = one byte, when there is room for one more connection
    question = length (uint64, little-endian), a sealed message
    answer   = length (uint64, little-endian), what `Endpoint.call` answers

One call at a time goes over a connection, and whoever waits for the answer reads it: no thread stands between.

Anybody can connect. Who does not name a session that is there is told so, and nothing that was sent is kept; what comes
in the name of a session has to open (see `sealing`).
"""

from __future__ import annotations

import math
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .calling import Endpoint, Transport, UnreachableError

__all__ = ["LONGEST", "Call", "Lined", "Lines", "Listener", "introduced"]

LONGEST = 1 << 20  # bytes of a question; longer ones go through the engine, which carries them while the caller goes on

_LENGTH = struct.Struct("<Q")
_SECONDS = struct.Struct("@ll")  # and microseconds, as the system's limits are given
_NAME = 16  # bytes that a sealed message begins with: its session
_READ = 1 << 16
_LONGEST_ANSWER = 1 << 32
_MOST = 256  # connections to one end
_UNUSED = 60.0  # seconds after which a caller takes a new connection; the other end waits longer
_SILENT = 300
_SLOW = 30  # seconds in which some of an answer has to pass
_CONNECTING = 0.3
_STALLED = 2.0  # seconds that a question may wait for room on its way
_SHUNNED = 600.0  # seconds in which an address that did not answer is left alone
_NO_SESSION = b"\0"
_GREETING = b"L"
_BOTH = 0.002  # seconds between two looks, where some answers come over lines and some through the engine


class Listener:
    """Where an end is called. It begins when it is made."""

    def __init__(self, host: str, endpoint: Endpoint, *, most: int = _MOST) -> None:
        """Listen on that address of this machine, on a free port, for so many connections at a time."""
        self._endpoint = endpoint
        self._most = most
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=128)
        self.address = f"{host} {self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, name="lines", daemon=True).start()

    def close(self) -> None:
        """End it, and every connection."""
        with self._lock:
            self._closed = True
            ending = [self._socket, *self._open]
        for one in ending:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                time.sleep(0.1)  # closed, or too many files are open
                continue
            with self._lock:
                room = len(self._open) < self._most and not self._closed
                if room:
                    self._open.add(connection)
            if room:
                threading.Thread(target=self._serve, args=(connection,), name="line", daemon=True).start()
            else:
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # The system's own limits: Python's ask it twice for each message.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _SECONDS.pack(_SILENT, 0))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SECONDS.pack(_SLOW, 0))
            connection.sendall(_GREETING)
            while (content := self._read(connection)) is not None:
                answer = self._endpoint.call(content) if content else _NO_SESSION
                connection.sendall(_LENGTH.pack(len(answer)) + answer)
        except OSError:  # it ended, or took too long
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _read(self, connection: socket.socket) -> bytes | None:
        """The next question; empty where there is no such session, None at the end or after what is no question."""
        content = connection.recv(_READ)
        if not content:
            return None
        while len(content) < _LENGTH.size + _NAME:
            more = connection.recv(_READ)
            if not more:
                return None
            content += more
        (size,) = _LENGTH.unpack_from(content)
        if not _NAME <= size <= LONGEST:
            return None
        left = _LENGTH.size + size - len(content)
        if left < 0:
            return None
        known = self._endpoint.knows(content[_LENGTH.size : _LENGTH.size + _NAME])
        if not left:
            return content[_LENGTH.size :] if known else b""
        parts = [content[_LENGTH.size :]]
        while left:
            part = connection.recv(min(left, _READ))
            if not part:
                return None
            left -= len(part)
            if known:
                parts.append(part)
        return b"".join(parts) if known else b""


class Call:
    """A question on its way over a connection that is its own until the answer is there."""

    __slots__ = ("_content", "_length", "_lines", "_socket", "_target", "answer", "over")

    def __init__(self, lines: Lines, target: str, connection: socket.socket) -> None:
        self._lines = lines
        self._target = target
        self._socket: socket.socket | None = connection
        self._content = bytearray()
        self._length = -1
        self.answer: bytes | None = None
        self.over = False  # there is an answer, or there will be none

    def fileno(self) -> int:
        """What to wait for."""
        return -1 if self._socket is None else self._socket.fileno()

    def read(self) -> bool:
        """Read what is there, without waiting; whether it is over."""
        while not self.over:
            assert self._socket is not None
            try:
                part = self._socket.recv(_READ)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError:
                part = b""
            if part:
                self._take(part)
            else:
                self._fail()
        return True

    def _take(self, part: bytes) -> None:
        self._content += part
        if self._length < 0 and len(self._content) >= _LENGTH.size:
            (self._length,) = _LENGTH.unpack_from(self._content)
        if self._length > _LONGEST_ANSWER:
            self._fail()
        elif 0 <= self._length <= len(self._content) - _LENGTH.size:
            self.answer = bytes(memoryview(self._content)[_LENGTH.size : _LENGTH.size + self._length])
            self._content = bytearray()
            connection, self._socket, self.over = self._socket, None, True
            assert connection is not None
            self._lines.give_back(self._target, connection)

    def _fail(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self.over = None, True
        self._lines.drop(self._target)

    def wait(self, deadline: float) -> bool:
        """Wait for the answer; whether it is over."""
        while not self.read():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            poll = select.poll()
            poll.register(self.fileno(), select.POLLIN)
            poll.poll(_milliseconds(left))
        return True

    def __del__(self) -> None:
        """An answer that nobody waits for must not come to the next question on the same connection."""
        if self._socket is not None:
            self._socket.close()


class Lines:
    """The connections of a caller, to ends by name. Threads may share it."""

    def __init__(self) -> None:
        """It knows nobody yet."""
        self._process = os.getpid()
        self._addresses: dict[str, str] = {}
        self._shunned: dict[str, float] = {}
        self._unused: dict[str, list[tuple[socket.socket, float]]] = {}
        self._lock = threading.Lock()

    def learn(self, target: str, address: str) -> None:
        """Where an end listens."""
        with self._lock:
            moved = self._addresses.get(target) != address
            self._addresses[target] = address
        if moved:
            self._close_unused(target)

    def call(self, target: str, content: bytes) -> Call | None:
        """Begin a call; None where it cannot be made, and then nothing of it has arrived as a whole."""
        # After a fork two processes would read from one connection.
        if len(content) > LONGEST or os.getpid() != self._process:
            return None
        connection = self._take(target)
        if connection is None or not _send(connection, _LENGTH.pack(len(content)) + content):
            return None
        return Call(self, target, connection)

    def give_back(self, target: str, connection: socket.socket) -> None:
        """Keep a connection for the next call."""
        with self._lock:
            self._unused.setdefault(target, []).append((connection, time.monotonic()))

    def drop(self, target: str) -> None:
        """Somebody has hung up: where it listens has to be learned again."""
        with self._lock:
            self._addresses.pop(target, None)
        self._close_unused(target)

    def close(self) -> None:
        """End all connections."""
        for target in list(self._unused):
            self.drop(target)

    def _close_unused(self, target: str) -> None:
        with self._lock:
            unused = self._unused.pop(target, [])
        for connection, _ in unused:
            connection.close()

    def _take(self, target: str) -> socket.socket | None:
        while True:
            with self._lock:
                unused = self._unused.get(target)
                connection, since = unused.pop() if unused else (None, 0.0)
                address = self._addresses.get(target)
            if connection is None:
                return None if address is None else self._connect(target, address)
            if time.monotonic() - since < _UNUSED and not _ended(connection):
                return connection
            connection.close()

    def _connect(self, target: str, address: str) -> socket.socket | None:
        if time.monotonic() < self._shunned.get(address, 0.0):
            return None
        host, _, port = address.partition(" ")
        try:
            connection = socket.create_connection((host, int(port)), _CONNECTING)
        except TimeoutError:  # somebody between the two lets nothing through
            self._shunned[address] = time.monotonic() + _SHUNNED
            return None
        except (OSError, ValueError):
            self.drop(target)
            return None
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if connection.recv(1) == _GREETING:
                connection.setblocking(False)
                return connection
        except OSError:
            pass
        connection.close()  # it has no room for one more, or hangs
        return None


def _first_answers(calls: Sequence[Call], timeout: float | None) -> list[Call]:
    """Those of the calls that are over, once one is or the time is."""
    done = [call for call in calls if call.over]
    if done or not calls:
        return done
    poll = select.poll()
    waiting = {call.fileno(): call for call in calls}
    for number in waiting:
        poll.register(number, select.POLLIN)
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        left = deadline - time.monotonic()
        ready = poll.poll(_milliseconds(left))
        done = [waiting[number] for number, _ in ready if waiting[number].read()]
        if done or (not ready and left <= 0):
            return done


def _milliseconds(seconds: float) -> int:
    """A time to wait as `poll` takes it: it must not end too early, or somebody would ask again and again."""
    return math.ceil(1e3 * min(max(seconds, 0.0), 1e4))


def _send(connection: socket.socket, content: bytes) -> bool:
    """Send all of it; if not, the connection is closed."""
    left = memoryview(content)
    try:
        while left:
            try:
                left = left[connection.send(left) :]
            except (BlockingIOError, InterruptedError):
                poll = select.poll()
                poll.register(connection.fileno(), select.POLLOUT)
                if not poll.poll(_milliseconds(_STALLED)):
                    raise TimeoutError from None
    except OSError:
        connection.close()
        return False
    return True


def _ended(connection: socket.socket) -> bool:
    """Whether the other end has hung up, or says something that nobody asked for."""
    try:
        connection.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True
    return True


def introduced(address: str, answer: bytes) -> bytes:
    """An answer to `hello`, with where the end listens."""
    place = address.encode()
    return bytes([len(place)]) + place + answer if answer else answer


class _Hello:
    """The first exchange of a session, through the engine."""

    __slots__ = ("handle", "target")

    def __init__(self, target: str, handle: Any) -> None:
        self.target = target
        self.handle = handle


class Lined:
    """A transport: over lines where there are any, and through the engine otherwise.

    Its ends answer `hello` with `introduced`.
    """

    def __init__(self, engine: Transport) -> None:
        """`engine` carries what lines do not."""
        self._engine = engine
        self._lines = Lines()

    def start(self, target: str, method: str, content: bytes) -> Any:
        """Begin a call."""
        if method == "hello":
            return _Hello(target, self._engine.start(target, method, content))
        call = self._lines.call(target, content)
        return self._engine.start(target, method, content) if call is None else call

    def wait(self, handles: Sequence[Any], timeout: float | None) -> list[Any]:
        """Those that have an answer."""
        calls = [one for one in handles if isinstance(one, Call)]
        others = [one for one in handles if not isinstance(one, Call)]
        if not calls:
            return self._engine.wait(others, timeout)
        if not others:
            return list[Any](_first_answers(calls, timeout))
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            ready = [*_first_answers(calls, 0.0), *self._engine.wait(others, _BOTH)]
            if ready or time.monotonic() >= deadline:
                return ready

    def gather(self, handles: Sequence[Any], timeout: float) -> list[bytes] | None:
        """The answers of all."""
        deadline = time.monotonic() + timeout
        calls = [one for one in handles if isinstance(one, Call)]
        others = [one for one in handles if not isinstance(one, Call)]
        if not all(call.wait(deadline) and call.answer is not None for call in calls):
            return None
        known: list[bytes] | None = []
        if others:
            known = self._engine.gather(others, max(0.0, deadline - time.monotonic()))
        if known is None:
            return None
        through_engine = iter(known)
        return [(one.answer or b"") if isinstance(one, Call) else next(through_engine) for one in handles]

    def result(self, handle: Any, timeout: float | None) -> bytes:
        """The answer."""
        if isinstance(handle, _Hello):
            answer = self._engine.result(handle.handle, timeout)
            if not answer:
                return answer
            place, answer = answer[1 : 1 + answer[0]], answer[1 + answer[0] :]
            if place:
                self._lines.learn(handle.target, place.decode("ascii", "replace"))
            return answer
        if not isinstance(handle, Call):
            return self._engine.result(handle, timeout)
        if not handle.wait(math.inf if timeout is None else time.monotonic() + timeout):
            raise UnreachableError("no answer in time")
        if handle.answer is None:
            raise UnreachableError("the connection broke")
        return handle.answer

    def close(self) -> None:
        """End all lines; the engine is left as it is."""
        self._lines.close()
