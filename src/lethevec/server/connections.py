"""uvicorn's HTTP, for callers that mean harm: a connection takes no more than its share, whatever is sent on it.

* The head of a request is there in time and of a limited length, in bytes and in fields.
* Fields behind a body in chunks are left out: they are not what anybody in front of this server has looked at.
* Requests that were sent before the one in front was answered wait in the socket, not in our memory.
* A caller that takes no part of an answer is cut off: the answer has a place among those that are worked on.
* There are so many connections at a time, and idle ones are closed.

Nothing here costs a request a timer or a task: once in a while all connections are looked at.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .problems import Problem

if TYPE_CHECKING:
    from collections import deque

__all__ = ["Guard", "GuardedProtocol"]

MAX_HEAD = 64 << 10  # bytes of a head, or of anything else between two parts of a body
MAX_FIELDS = 100
_TAKEN = 16 << 10  # bytes of an answer that a slow caller takes at least in the time for a request
_KEEP_ALIVE = 30.0  # seconds that a connection may wait for its next request


class Guard:
    """What the connections of one process share. `refused` counts those that were cut off, by reason."""

    def __init__(self, timeout: float, most: int) -> None:
        """`timeout` is the time for a head, and for a part of an answer; `most` is the number of connections."""
        self.timeout = timeout
        self.keep_alive = _KEEP_ALIVE
        self.most = most
        self.refused: Counter[str] = Counter()
        self.open: set[GuardedProtocol] = set()
        self._timer: TimerHandle | None = None

    def begin(self, protocol: GuardedProtocol, loop: AbstractEventLoop) -> None:
        """A connection is there."""
        self.open.add(protocol)
        if self._timer is None:
            self._timer = loop.call_later(self._pause(), self._look, loop)

    def _pause(self) -> float:
        return min(1.0, self.timeout / 4, self.keep_alive / 4)

    def _look(self, loop: AbstractEventLoop) -> None:
        """Once in a while, as long as there is a connection."""
        now = loop.time()
        for protocol in list(self.open):
            protocol.look(now)
        self._timer = loop.call_later(self._pause(), self._look, loop) if self.open else None


class _Flow(FlowControl):  # type: ignore[misc]
    """Reads no further while requests wait for the one before them."""

    def __init__(self, transport: Any, waiting: deque[Any]) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class _TooLong(Exception):  # noqa: N818 (it goes through the parser, which makes an error of its own of it)
    """A head that goes beyond a limit."""


class GuardedProtocol(HttpToolsProtocol):  # type: ignore[misc]
    """One connection. `guard` is set by the class that `protocol_of` makes."""

    guard: Guard
    _moved = True  # whether what was just read ended a head or held a part of a body
    _unseen = 0  # bytes since that was so
    _since = 0.0  # when the connection began to wait for a request
    _since_head = 0.0  # when the first byte came of a head that is not whole
    _used = False  # whether it has had an answer
    _taken: tuple[float, int] | None = None  # since when an answer waits for its caller, and how much of it
    _size = 0  # of the head that arrives
    _in_head = True
    _long = False

    def connection_made(self, transport: Any) -> None:
        """Somebody calls."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        self._since = self.loop.time()
        if len(self.guard.open) >= self.guard.most:
            problem = Problem(503, "connections", "expected fewer connections at a time", retry_after=1)
            self.cut_off("many", problem)
            return
        self.guard.begin(self, self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of the connection."""
        self.guard.open.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        if self.transport.is_closing():
            return
        if not self._unseen and self._is_waiting():
            self._since_head = self.loop.time()
        self._moved = False
        super().data_received(data)
        if self._moved:
            self._unseen = 0
        else:
            self._unseen += len(data)
            if self._unseen > MAX_HEAD and not self.transport.is_closing():
                self._refuse_head()

    def on_message_begin(self) -> None:
        """A request."""
        self._size, self._in_head, self._long = 0, True, False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the URL."""
        self._size += len(url)
        if self._size > MAX_HEAD:
            self._long = True
            raise _TooLong
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head; one behind the body is no part of what was asked."""
        if not self._in_head:
            return
        headers = self.headers
        self._size += len(name) + len(value)
        if self._size > MAX_HEAD or len(headers) >= MAX_FIELDS:
            self._long = True
            raise _TooLong
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._moved, self._in_head = True, False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a request."""
        self._moved = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is out."""
        self.answered()
        super().on_response_complete()

    def answered(self) -> None:
        """The connection waits for the next request from now on."""
        self._used = True
        self._since = self.loop.time()

    def pause_writing(self) -> None:
        """The caller takes answers more slowly than they are made."""
        super().pause_writing()
        self._taken = self.loop.time(), self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        """It has caught up."""
        super().resume_writing()
        self._taken = None

    def send_400_response(self, msg: str) -> None:
        """What came is not HTTP, or too long for a head."""
        if self._long:
            self._refuse_head()
        else:
            self.cut_off("http", Problem(400, "http", "expected a request of HTTP/1.1"))

    def _refuse_head(self) -> None:
        text = f"expected a head of at most {MAX_HEAD} bytes and {MAX_FIELDS} fields"
        self.cut_off("head", Problem(431, "head", text))

    def _is_waiting(self) -> bool:
        """Whether no request is being read or answered, apart from a head that arrives."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def cut_off(self, reason: str, problem: Problem) -> None:
        """Say why, where no other answer is on its way, and hang up."""
        self.guard.refused[reason] += 1
        if self._is_waiting():
            status = HTTPStatus(problem.status)
            headers, body = problem.alone()
            lines = [*self.server_state.default_headers, *headers, (b"connection", b"close")]
            first = b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode())
            self.transport.write(first + b"".join(b"%s: %s\r\n" % line for line in lines) + b"\r\n" + body)
        self.transport.close()

    def look(self, now: float) -> None:
        """Close a connection on which nothing happens, or too little."""
        guard = self.guard
        if self._taken is None and self.transport.is_closing():  # as soon as its last answer is taken
            self._taken = now, self.transport.get_write_buffer_size()
        if self._taken is not None:
            if self._is_stuck(now):
                guard.refused["stuck"] += 1
                self.transport.abort()
        elif self._is_waiting():
            if self._unseen:
                if now - self._since_head > guard.timeout:
                    problem = Problem(408, "slow_request", "expected the whole request in time, got only a part")
                    self.cut_off("slow", problem)
            elif now - self._since > (guard.keep_alive if self._used else guard.timeout):
                self.transport.close()

    def _is_stuck(self, now: float) -> bool:
        """Whether the caller took next to nothing of an answer for a whole timeout."""
        assert self._taken is not None
        since, size = self._taken
        if now - since <= self.guard.timeout:
            return False
        left = self.transport.get_write_buffer_size()
        self._taken = now, left
        return bool(left > size - _TAKEN)
