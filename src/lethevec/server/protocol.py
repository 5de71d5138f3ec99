"""uvicorn's HTTP with a shorter way for short reads.

A request whose URL was routed before to an operation that can be done at once is answered as soon as its last byte is
there: without a task, without messages to and fro, with one write. It is read by the same parser as all others, and
whatever is unusual about it (it arrives in parts, another one is still being answered, the caller reads slowly, asks to
close or to upgrade) goes the usual way.

A caller that asks again on the same connection nearly always sends the same head, but for the length of the body. A
head whose request came alone and was answered here is remembered, and its bytes are not parsed again: between two
requests the parser makes the same of the same bytes. What is asked of a request (key, limits, body) is asked of each.

What was read is overwritten here when it has been passed on: nobody else has these bytes, and Python would free them as
they are.
"""

from __future__ import annotations

import re
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from .bodies import wipe_bytes
from .connections import Guard, GuardedProtocol

if TYPE_CHECKING:
    from .calls import Endpoint

__all__ = ["Known", "protocol_of"]

_IN_ROW = 16  # requests that one connection may have answered at once before others have their turn

_LONGEST_HEAD = 4096  # bytes of a head that is remembered
_DIGITS = 8  # at most, of the length of a body behind it
#: That length, on a line of its own that the next one does not go on with.
_LENGTH = re.compile(rb"\r\ncontent-length: ?([1-9][0-9]{0,%d})(?=\r\n[^ \t])" % (_DIGITS - 1), re.IGNORECASE)

#: URLs that were routed, with the endpoint, the parameters of the path, and the query string.
Known = dict[bytes, tuple["Endpoint", dict[str, str], bytes]]


def protocol_of(known: Known, guard: Guard) -> type[GuardedProtocol]:
    """The protocol of a server whose router fills `known`."""
    return type("Protocol", (_Protocol,), {"_known": known, "guard": guard})


class _Head(NamedTuple):
    """A head that was parsed before: its bytes around the length of the body, and what it asks for."""

    before: bytes
    after: bytes
    endpoint: Endpoint
    scope: dict[str, Any]


class _Protocol(GuardedProtocol):
    """One connection."""

    _known: ClassVar[Known] = {}
    _defaults: ClassVar[tuple[Any, bytes]] = (None, b"")
    _found: tuple[Endpoint, dict[str, str], bytes] | None = None  # of the request that is arriving
    _body = b""
    _in_row = 0  # requests of what was just read that were answered at once
    _between = True  # whether the parser has seen the end of a request, and no byte of the next one
    _last: tuple[Endpoint, dict[str, Any]] | None = None  # what was just read, if it was answered at once
    _head: _Head | None = None  # of the request before this one

    def data_received(self, data: bytes) -> None:
        """Bytes of requests. One that is not whole now is handed over: the rest may be long in coming."""
        if self._head is not None and self._answer_again(self._head, data):
            wipe_bytes(data)
            return
        alone = self._between and not self._unseen
        self._in_row = 0
        self._head = self._last = None
        super().data_received(data)
        if self._found is not None:
            if self.transport.is_closing():  # what followed was not HTTP
                wipe_bytes(self._body)
                self._body, self._found = b"", None
            else:
                self._hand_over(whole=False)
        elif self._last is not None and alone and self._in_row == 1:
            self._head = _head_of(data, *self._last)
        wipe_bytes(data)

    def _answer_again(self, head: _Head, data: bytes) -> bool:
        """Answer a request whose head is that of the last one; False if it is another one, or has to wait.

        A head holds a key, so it is compared in a time that does not tell how much of it was right.
        """
        begin = len(head.before)
        end = data.find(b"\r", begin, begin + _DIGITS + 1)
        size = data[begin:end]
        body_at = end + len(head.after)
        if (
            end < 0
            or not size.isdigit()
            or int(size) != len(data) - body_at
            or not compare_digest(data[:begin], head.before)
            or not compare_digest(data[end:body_at], head.after)
            or self.flow.write_paused
            or self.transport.is_closing()
        ):
            return False
        body = data[body_at:]
        answer = head.endpoint.at_once(head.scope, body, self._default_lines())
        wipe_bytes(body)
        if answer is None:
            return False
        self._send(answer)
        return True

    def _send(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.server_state.total_requests += 1
        self.answered()

    def on_message_begin(self) -> None:
        """A request. What ASGI wants to know of it is gathered if it is asked for."""
        self._between, self._last = False, None
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.expect_100_continue = False
        self._size, self._in_head, self._long = 0, True, False

    def on_headers_complete(self) -> None:
        """The head of a request is there: choose its way."""
        found = self._known.get(self.url)
        if found is not None and self._is_plain():
            self._found = found
            self._moved, self._in_head = True, False
            return
        self._begin()

    def _is_plain(self) -> bool:
        cycle, parser = self.cycle, self.parser
        return (
            (cycle is None or cycle.response_complete)
            and self._in_row < _IN_ROW
            and parser.get_method() == b"POST"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
            and parser.get_http_version() == "1.1"
            and not self.expect_100_continue
            and not self.flow.write_paused
        )

    def _begin(self) -> None:
        """The usual way: a task, with what uvicorn notes of a request."""
        url, headers, expect = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url = url
        self.headers.extend(headers)
        self.expect_100_continue = expect
        super().on_headers_complete()

    def _hand_over(self, *, whole: bool) -> None:
        """The usual way after all, with what is there of the body."""
        body, self._body, self._found = self._body, b"", None
        self._begin()
        if body:
            super().on_body(body)
            wipe_bytes(body)
        if whole:
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        if self._found is None:
            super().on_body(body)  # which makes a copy
            wipe_bytes(body)
        elif self._body:
            joined = self._body + body
            wipe_bytes(self._body)
            wipe_bytes(body)
            self._body = joined
        else:
            self._body = body

    def on_message_complete(self) -> None:
        """The end of a request: answer it."""
        self._between = True
        found = self._found
        if found is None:
            super().on_message_complete()
            return
        endpoint, params, query = found
        scope = {"path_params": params, "headers": self.headers, "query_string": query}
        answer = endpoint.at_once(scope, self._body, self._default_lines())
        if answer is None:
            self._hand_over(whole=True)
            return
        wipe_bytes(self._body)
        self._body, self._found = b"", None
        self._send(answer)
        self._in_row += 1
        self._last = endpoint, scope

    def _default_lines(self) -> bytes:
        """The lines that uvicorn puts into every answer: the date, which it makes again each second."""
        headers = self.server_state.default_headers
        cls = type(self)
        if cls._defaults[0] is not headers:
            cls._defaults = headers, b"".join(b"%s: %s\r\n" % header for header in headers)
        return cls._defaults[1]

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of the connection."""
        wipe_bytes(self._body)
        self._body, self._found, self._head = b"", None, None
        super().connection_lost(exc)


def _head_of(data: bytes, endpoint: Endpoint, scope: dict[str, Any]) -> _Head | None:
    """The head of a request that came alone; None where somebody might see its end, or its length, in another place."""
    head = data[: data.find(b"\r\n\r\n", 0, _LONGEST_HEAD) + 4]
    found = _LENGTH.search(head)
    if found is None or int(found[1]) != len(data) - len(head) or head.count(b"\n") != head.count(b"\r\n"):
        return None
    headers = [header for header in scope["headers"] if header[0] != b"content-length"]
    if len(headers) != len(scope["headers"]) - 1:
        return None
    return _Head(head[: found.start(1)], head[found.end(1) :], endpoint, {**scope, "headers": headers})
