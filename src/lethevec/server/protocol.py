"""uvicorn's HTTP with a shorter way for short reads.

A request whose URL was routed before to an operation that can be done at once is answered as soon as its last byte is
there: without a task, without messages to and fro, with one write. It is read by the same parser as all others, and
whatever is unusual about it (it arrives in parts, another one is still being answered, the caller reads slowly, asks to
close or to upgrade) goes the usual way.

What was read is overwritten here when it has been passed on: nobody else has these bytes, and Python would free them as
they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .bodies import wipe_bytes
from .connections import Guard, GuardedProtocol

if TYPE_CHECKING:
    from .calls import Endpoint

__all__ = ["Known", "protocol_of"]

_IN_ROW = 16  # requests that one connection may have answered at once before others have their turn

#: URLs that were routed, with the endpoint, the parameters of the path, and the query string.
Known = dict[bytes, tuple["Endpoint", dict[str, str], bytes]]


def protocol_of(known: Known, guard: Guard) -> type[GuardedProtocol]:
    """The protocol of a server whose router fills `known`."""
    return type("Protocol", (_Protocol,), {"_known": known, "guard": guard})


class _Protocol(GuardedProtocol):
    """One connection."""

    _known: ClassVar[Known] = {}
    _defaults: ClassVar[tuple[Any, bytes]] = (None, b"")
    _found: tuple[Endpoint, dict[str, str], bytes] | None = None  # of the request that is arriving
    _body = b""
    _in_row = 0  # requests of what was just read that were answered at once

    def data_received(self, data: bytes) -> None:
        """Bytes of requests. One that is not whole now is handed over: the rest may be long in coming."""
        self._in_row = 0
        super().data_received(data)
        if self._found is not None:
            if self.transport.is_closing():  # what followed was not HTTP
                wipe_bytes(self._body)
                self._body, self._found = b"", None
            else:
                self._hand_over(whole=False)
        wipe_bytes(data)

    def on_message_begin(self) -> None:
        """A request. What ASGI wants to know of it is gathered if it is asked for."""
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
        found = self._found
        if found is None:
            super().on_message_complete()
            return
        endpoint, params, query = found
        answer = endpoint.at_once(params, self.headers, query, self._body, self._default_lines())
        if answer is None:
            self._hand_over(whole=True)
            return
        wipe_bytes(self._body)
        self._body, self._found = b"", None
        self.transport.write(answer)
        self.server_state.total_requests += 1
        self._in_row += 1
        self.answered()

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
        self._body, self._found = b"", None
        super().connection_lost(exc)
