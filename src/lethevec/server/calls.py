"""One request on its way: who calls, what is asked, the body within its limits, and the answer.

An `Operation` is one line of the API: method, path, the right that it needs, and the function that does it. The routes,
the OpenAPI document and the table in the documents all come from the operations, so they cannot disagree.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import orjson
from starlette.types import Receive, Scope, Send

from lethevec.errors import ErasureIncompleteError, LethevecError

from .keys import EVERYONE, Key
from .origins import check_origin
from .problems import Problem, problem_of

if TYPE_CHECKING:
    from .core import Core

__all__ = ["JSON", "Answer", "Call", "Endpoint", "Operation"]

JSON = b"application/json"
Headers = tuple[tuple[bytes, bytes], ...]

_SECURITY: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
_HSTS = (b"strict-transport-security", b"max-age=31536000")
_PLAIN = {kind.encode(): kind for kind in ("application/json", "application/octet-stream", "")}
LATE = "the request is late"
_STEP = 1 << 20  # bytes of a body of unknown length that are reserved at a time
_SLOWEST = 64 << 10  # bytes a second of a body; one that comes more slowly is late after a while


@dataclass
class Answer:
    """What goes back. A stream is sent part by part, and the next part is made when the last one has gone."""

    content: Any = None  # becomes JSON, unless it is bytes
    status: int = 200
    kind: bytes = JSON
    headers: Headers = ()
    stream: AsyncIterator[bytes] | None = None
    receipt: int | None = None  # the number of the receipt, for a header

    def body(self) -> bytes:
        """The bytes of an answer that is no stream."""
        if isinstance(self.content, bytes):
            return self.content
        return orjson.dumps(self.content, option=orjson.OPT_SERIALIZE_NUMPY)


@dataclass(frozen=True)
class Operation:
    """One line of the API."""

    method: str
    path: str
    name: str
    right: str | None  # None: anybody who is let in; "": anybody at all
    summary: str
    handler: Callable[[Call], Awaitable[Answer]]
    writes: bool = False  # done by the process that writes
    sealed: bool = False  # its entry in the audit log is on the disk before the answer leaves
    audited: bool = True
    body: dict[str, Any] | None = None  # the JSON schema of the request
    other_bodies: tuple[str, ...] = ()  # further media types
    query: dict[str, dict[str, Any]] = field(default_factory=dict)
    answer: dict[str, Any] | None = None  # the JSON schema of the answer
    kind: str = "application/json"
    statuses: tuple[int, ...] = ()  # of errors that are its own
    shape: Callable[[Problem], dict[str, Any]] = Problem.body  # of its errors
    trace_header: bytes = b""  # a header with a random number that its clients show in errors
    unbounded: bool = False  # its body is read part by part, whatever its length
    everywhere: bool = False  # concerns all collections, so a key that is limited to some may not
    secret: bool = False  # its answer must be kept nowhere, so it is not repeated either
    at_once: Callable[[Call, bytes], Answer | None] | None = None  # the same without waiting; None: it would wait


class Call:
    """A request."""

    __slots__ = (
        "_receive",
        "collection",
        "core",
        "facts",
        "headers",
        "key",
        "operation",
        "params",
        "reserved",
        "scope",
    )

    def __init__(self, core: Core, operation: Operation, scope: Scope, receive: Receive) -> None:
        self.core = core
        self.operation = operation
        self.scope = scope  # of a call that is done at once: path_params, headers and query_string alone
        self.params: dict[str, str] = scope["path_params"]
        self.collection: str | None = self.params.get("collection")
        self.key: Key = EVERYONE
        self.facts: dict[str, Any] = {}  # for the audit log
        self.reserved = 0  # bytes of the budget for bodies
        self._receive = receive
        self.headers: dict[bytes, bytes] = dict(scope["headers"])

    def header(self, name: bytes) -> str:
        """A header, by its name in lower case; "" where there is none."""
        value = self.headers.get(name)
        return "" if value is None else value.decode("latin-1")

    @property
    def is_json(self) -> bool:
        """Whether its body should be JSON."""
        return self.content_type in ("application/json", "")

    @property
    def content_type(self) -> str:
        """Without parameters, in lower case."""
        told = self.headers.get(b"content-type", b"")
        if told in _PLAIN:  # nearly always
            return _PLAIN[told]
        return told.decode("latin-1").partition(";")[0].strip().lower()

    def query(self) -> dict[str, str]:
        """The query string; names that the operation does not have are refused."""
        raw: bytes = self.scope["query_string"]
        if not raw:
            return {}
        found = dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True))
        for name in found:
            if name not in self.operation.query:
                known = ", ".join(self.operation.query) or "none"
                raise Problem(400, "query", f"query string: expected no other parameters than {known}")
        return found

    async def body(self) -> bytes:
        """The whole body, within the limits."""
        limit = self.core.settings.max_body
        told = self.headers.get(b"content-length")
        if told is not None:
            size = int(told) if told.isdigit() else limit + 1
            if size > limit:
                raise _too_long(limit)
            await self._reserve(size)
        begin = time.monotonic()
        message = await self._next(begin)
        data: bytes = message.get("body", b"")
        if len(data) > limit:
            raise _too_long(limit)
        if not message.get("more_body", False):
            return data
        parts = [data]
        size = len(data)
        while message.get("more_body", False):
            message = await self._next(begin + size / _SLOWEST)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise _too_long(limit)
            if size > self.reserved:
                await self._reserve(_STEP)
        return b"".join(parts)

    async def parts(self) -> AsyncIterator[bytes]:
        """The body as it arrives, for what is longer than any limit; the next part is asked for when one is done."""
        await self._reserve(_STEP)
        more = True
        while more:
            message = await self._next(time.monotonic())
            more = message.get("more_body", False)
            if message.get("body"):
                yield message["body"]

    async def _reserve(self, size: int) -> None:
        if size:
            await self.core.bodies.take(size)
            self.reserved += size

    async def _next(self, since: float) -> Any:
        """The next part of the body, awaited since then at the most.

        A timer for each would cost as much as a search: `Core` looks who is late.
        """
        task = asyncio.current_task()
        assert task is not None
        reading = self.core.reading
        reading[task] = min(since, time.monotonic())
        try:
            message = await self._receive()
        except asyncio.CancelledError as error:
            if error.args != (LATE,):
                raise
            raise Problem(408, "slow_request", "expected the whole request in time, got only a part") from None
        finally:
            del reading[task]
        if message["type"] == "http.disconnect":
            raise Gone
        return message

    async def json(self) -> dict[str, Any]:
        """The body as a JSON object; fields that the operation does not have are refused."""
        return self.read_json(await self.body())

    def read_json(self, raw: bytes) -> dict[str, Any]:
        """A JSON object from bytes that were read already."""
        if not self.is_json:
            expected = ", ".join(("application/json", *self.operation.other_bodies))
            raise Problem(415, "media_type", f"Content-Type: expected {expected}")
        if not raw:
            return {}
        try:
            content = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise Problem(400, "json", "body: expected JSON") from None
        if not isinstance(content, dict):
            raise Problem(400, "json", "body: expected a JSON object")
        if self.operation.body is not None:
            known = self.operation.body["properties"]
            for name in content:
                if name not in known:
                    raise Problem(422, "field", f"body: expected no other fields than {', '.join(known)}")
        return content


class Gone(Exception):  # noqa: N818
    """The caller went away."""


def _too_long(limit: int) -> Problem:
    return Problem(413, "too_long", f"body: expected at most {limit} bytes, got more")


class Endpoint:
    """What Starlette calls for an operation; and what the protocol calls for one that is done at once."""

    def __init__(self, core: Core, operation: Operation) -> None:
        self._core = core
        self._operation = operation
        self._headers: Headers = (*_SECURITY, _HSTS) if core.settings.tls else _SECURITY
        lines = b"".join(b"%s: %s\r\n" % header for header in ((b"content-type", JSON), *self._headers))
        self._head = lines + b"content-length: "
        self.can_at_once = operation.at_once is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Do the whole of a request: let in, work, write down, answer, count."""
        core, operation = self._core, self._operation
        begin = time.perf_counter()
        call = Call(core, operation, scope, receive)
        answer: Answer
        held = False
        try:
            try:
                if operation.right != "":
                    self._let_in(call)
                if not core.requests.try_take(1):
                    await core.requests.take(1)
                held = True
                if operation.writes and core.forward is not None:
                    answer = await core.forward(call)
                else:
                    answer = await self._work(call)
            except Gone:
                return
            except Exception as error:
                answer = self._refused(error)
            try:
                await self._write_down(call, answer)
            except LethevecError as error:  # what was done is done; that it could not be written down must be known
                answer = self._refused(error)
            await self._send(call, answer, send)
        finally:
            if held:
                core.requests.give(1)
            if call.reserved:
                core.bodies.give(call.reserved)
        self._count(call, answer.status, time.perf_counter() - begin)

    def _refused(self, error: Exception) -> Answer:
        """The answer to an error. Whatever it is, the caller gets an answer and the operator a line."""
        operation = self._operation
        if isinstance(error, Problem):
            return refusal(operation, error)
        if isinstance(error, LethevecError):
            answer = refusal(operation, problem_of(error))
            if answer.status != 500:
                return answer
        else:
            answer = refusal(operation, Problem(500, "internal", "an error of the server; its log says where"))
        self._core.logs.failure(error, operation.path)
        return answer

    def _count(self, call: Call, status: int, seconds: float) -> None:
        """Metrics, spans and log lines."""
        core, operation = self._core, self._operation
        core.metrics.request(operation.path, call.collection, status, seconds)
        if core.telemetry is not None:
            collection = call.collection if status not in (401, 403, 404) else None
            core.telemetry.request(call.headers, operation.path, operation.method, status, seconds, collection)
        core.logs.request(operation.path, operation.method, status, seconds, call.key.id, call.collection)

    def at_once(self, scope: dict[str, Any], body: bytes, lines: bytes) -> bytes | None:
        """The whole answer as bytes, made without waiting, with `lines` in its head; None if that must wait.

        A search of one vector takes less time than what surrounds it: a task, messages to and fro, a second write.
        What it is asked, and what is written down, are those of `__call__`.
        """
        core, operation = self._core, self._operation
        if operation.at_once is None or not operation.audited or core.requests.full:
            return None
        begin = time.perf_counter()
        call = Call(core, operation, scope, _nothing_more)
        try:
            self._let_in(call)
            given = operation.at_once(call, body)
            if given is None:
                core.rates.give_back(call.key.id)
                return None
            answer = given
        except Exception as error:
            answer = self._refused(error)
        try:
            core.audit.note(call.key.id, operation.name, call.collection, answer.status, call.facts)
        except LethevecError as error:
            answer = self._refused(error)
        content = answer.body()
        if answer.status == 200 and not answer.headers and not operation.trace_header:
            whole = b"HTTP/1.1 200 OK\r\n%b%b%d\r\n\r\n%b" % (lines, self._head, len(content), content)
        else:
            own = (*self._headers_of(call, answer), (b"content-length", b"%d" % len(content)))
            status = HTTPStatus(answer.status)
            head = b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode()) + lines
            whole = head + b"".join(b"%s: %s\r\n" % line for line in own) + b"\r\n" + content
        self._count(call, answer.status, time.perf_counter() - begin)
        return whole

    async def _work(self, call: Call) -> Answer:
        """Do it, once if it carries a number. An erasure that is not complete is no success and no error."""
        core, operation = self._core, self._operation
        number = call.header(b"idempotency-key") if operation.writes and not operation.secret else ""
        if not number or core.repeats is None:
            try:
                return await operation.handler(call)
            except ErasureIncompleteError as error:
                return core.incomplete(call, error)
        body = await call.body()
        call._receive = _again(body)
        call.headers.pop(b"content-length", None)
        begun = core.repeats.begin(call.key.id, number, call.scope["path"], body)
        if len(begun) == 3:
            status, kept, receipt = begun
            return Answer(
                kept,
                status,
                headers=((b"lethevec-repeat", b"true"),),
                receipt=int(receipt) if receipt else None,
            )
        mark, request = begun
        try:
            try:
                answer = await operation.handler(call)
            except ErasureIncompleteError as error:
                answer = core.incomplete(call, error)
        except BaseException:
            core.repeats.drop(mark)
            raise
        kept = answer.body()
        receipt = "" if answer.receipt is None else str(answer.receipt)
        await asyncio.to_thread(core.repeats.keep, mark, request, (answer.status, kept, receipt))
        return answer

    def _let_in(self, call: Call) -> None:
        core, operation = self._core, self._operation
        if core.door.closed:
            text = call.header(b"authorization")
            shown = text[7:] if text[:7].lower() == "bearer " else call.header(b"x-chroma-token")
            if shown[:7].lower() == "bearer ":
                shown = shown[7:]
            key = core.door.check(shown) if shown else core.sessions.caller(call)
            if key is None:
                core.rates.check("unknown")
                raise Problem(
                    401,
                    "key",
                    "Authorization: expected Bearer and a key of this server, or a session that has not ended",
                    headers=((b"www-authenticate", b"Bearer"),),
                )
            call.key = key
        else:
            check_origin(call)
        core.rates.check(call.key.id)
        right = operation.right
        if right is None:
            return
        key = call.key
        if right not in key.rights:
            raise Problem(403, "role", f"expected a key with the right to {right}")
        if key.collections is not None and (
            operation.everywhere or (call.collection is not None and call.collection not in key.collections)
        ):
            raise Problem(403, "collection", "expected a key for this collection, or for all of them")

    async def _write_down(self, call: Call, answer: Answer) -> None:
        operation, audit = self._operation, self._core.audit
        if not operation.audited or (operation.writes and self._core.forward is not None):
            return
        audit.note(call.key.id, operation.name, call.collection, answer.status, call.facts)
        if operation.sealed and answer.status < 400:
            await asyncio.to_thread(audit.flush, sync=True)
            if operation.writes:
                await self._core.erased()

    def _headers_of(self, call: Call, answer: Answer) -> list[tuple[bytes, bytes]]:
        headers = [(b"content-type", answer.kind), *self._headers, *answer.headers]
        if answer.receipt is not None:
            headers.append((b"lethevec-receipt", b"%d" % answer.receipt))
        if operation_trace := self._operation.trace_header:
            headers.append((operation_trace, secrets.token_hex(16).encode()))
        if self._core.settings.cors:
            headers += cors_headers(self._core.settings.cors, call.header(b"origin"))
        return headers

    async def _send(self, call: Call, answer: Answer, send: Send) -> None:
        headers = self._headers_of(call, answer)
        if answer.stream is None:
            body = answer.body()
            headers.append((b"content-length", b"%d" % len(body)))
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        async for part in answer.stream:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def refusal(operation: Operation, problem: Problem) -> Answer:
    """A problem as the operation's callers read it."""
    return Answer(operation.shape(problem), problem.status, headers=problem.headers)


def cors_headers(origins: tuple[str, ...], origin: str) -> list[tuple[bytes, bytes]]:
    """What a browser needs to see to let a page of another origin read an answer."""
    if origin not in origins:
        return []
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"vary", b"origin"),
        (b"access-control-expose-headers", b"lethevec-receipt, lethevec-repeat, location, retry-after"),
    ]


async def _nothing_more() -> Any:
    """There is no more of the request."""
    raise Gone


def _again(body: bytes) -> Receive:
    """A body that was read, to be read once more."""
    left: Iterator[dict[str, Any]] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        return next(left)

    return receive
