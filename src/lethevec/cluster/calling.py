"""Calls between ends: sealed on the way, with errors of ours coming back as themselves.

An `Endpoint` is called (a member, the registry), a `Caller` calls. Between them is a *transport*, which carries bytes
and knows nothing: Ray, or in tests threads of one process.

What an endpoint's operation raises never reaches Ray, which would keep its text and show it in logs and on the
dashboard: it travels sealed like any answer, and is raised where the call was made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from .. import errors
from ..errors import ErasureIncompleteError, FormatError, HoldError, LethevecError, ServerError
from .messages import Array, Message, pack, unpack
from .sealing import HEAD, Hello, SealError, Secret, Session, welcome
from .wiping import wipe, wipe_arrays

__all__ = ["Caller", "Endpoint", "Operation", "Pending", "RefusalError", "Transport", "UnreachableError"]

Operation = Callable[[dict[str, Any], list[Array]], "Message | dict[str, Any]"]

_NO_SESSION = b"\0"
_ANSWER = b"\1"
_MOST_SESSIONS = 1024


class UnreachableError(Exception):
    """Nobody answered: dead, cut off, or too slow. Whether the call was carried out is not known."""


class RefusalError(Exception):
    """An end that is in its place but must not do this now; nothing was done. `reason` says why."""

    def __init__(self, reason: str, **facts: Any) -> None:
        """Keep what the other end said."""
        super().__init__(reason)
        self.reason = reason
        self.facts = facts


class Transport(Protocol):
    """Carries bytes to an end that has a name."""

    def start(self, target: str, method: str, content: bytes) -> Any:
        """Begin a call of `hello` or `call`; what to wait for."""
        ...

    def wait(self, handles: Sequence[Any], timeout: float | None) -> list[Any]:
        """Those that have an answer, once there is one or the time is over."""
        ...

    def gather(self, handles: Sequence[Any], timeout: float) -> list[bytes] | None:
        """The answers of all these calls, once all have one; None if the time is over first, or one of them failed."""
        ...

    def result(self, handle: Any, timeout: float | None) -> bytes:
        """The answer, or `UnreachableError`."""
        ...

    def close(self) -> None:
        """End what it holds open."""
        ...


class Endpoint:
    """What is called by name: it keeps the sessions, opens what comes in, and seals what goes out."""

    def __init__(self, name: str, cluster: str, secret: Secret, operations: Mapping[str, Operation]) -> None:
        """`operations` are what may be called."""
        self._name = name
        self._cluster = cluster
        self._secret = secret
        self._operations = operations
        self._sessions: dict[bytes, Session] = {}
        self._lock = threading.Lock()

    def hello(self, content: bytes) -> bytes:
        """Begin a session; nothing for somebody who does not know the secret."""
        try:
            answer, session = welcome(self._secret, self._cluster, self._name, content)
        except SealError:
            return b""
        with self._lock:
            self._drop_old()
            self._sessions[session.name] = session
        return answer

    def call(self, sealed: bytes) -> bytes:
        """Carry out an operation."""
        with self._lock:
            session = self._sessions.get(bytes(sealed[:16]))
        if session is None:
            return _NO_SESSION
        try:
            content = session.open(sealed)
        except SealError:
            return _NO_SESSION
        arrays: list[Array] = []
        try:
            asked = unpack(content)
            arrays = asked.arrays
            answer = self._answer(asked)
        except Exception as error:
            answer = Message(_described(error), [])
        finally:
            wipe(content)
            wipe_arrays(arrays)
        made = session.seal(pack(answer.head, answer.arrays), sealed)
        wipe_arrays(answer.arrays)
        return _ANSWER + made

    def knows(self, session: bytes) -> bool:
        """Whether there is a session of this name."""
        with self._lock:
            return session in self._sessions

    def _answer(self, asked: Message) -> Message:
        operation = self._operations.get(str(asked.head.get("op")))
        if operation is None:
            raise FormatError(f"call: expected one of {', '.join(sorted(self._operations))}, got another operation")
        made = operation(asked.head, asked.arrays)
        return made if isinstance(made, Message) else Message(made, [])

    def forget_keys(self) -> None:
        """End all sessions. One whose call is being answered seals that answer, and nothing after it."""
        with self._lock:
            self._sessions.clear()

    def _drop_old(self) -> None:
        # Twice the time, so that the end that begins sessions also ends them.
        for name in [name for name, one in self._sessions.items() if one.older_than(2)]:
            del self._sessions[name]
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]


class Pending:
    """A call under way."""

    __slots__ = ("arrays", "asked", "handle", "head", "session", "target")

    def __init__(
        self, target: str, head: dict[str, Any], arrays: Sequence[Array], session: Session, asked: bytes, handle: Any
    ) -> None:
        self.target = target
        self.head = head
        self.arrays = arrays
        self.session = session
        self.asked = asked  # the head of the sealed message
        self.handle = handle


class Caller:
    """Calls endpoints by name; keeps a session with each."""

    def __init__(self, transport: Transport, cluster: str, secret: Secret, *, timeout: float = 30.0) -> None:
        """`timeout` is how many seconds an answer may take unless a call says otherwise."""
        self.transport = transport
        self._cluster = cluster
        self._secret = secret
        self._timeout = timeout
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def forget_keys(self) -> None:
        """End all sessions; the next call to each end begins a new one."""
        with self._lock:
            self._sessions.clear()

    def close(self) -> None:
        """End all sessions, and what carried them."""
        self.forget_keys()
        self.transport.close()

    def knows(self, target: str) -> bool:
        """Whether there is a session with an end."""
        with self._lock:
            return target in self._sessions

    def session(self, target: str, timeout: float | None = None) -> Session:
        """The session with an end, a new one if there is none or it is old."""
        with self._lock:
            known = self._sessions.get(target)
        if known is not None and not known.older_than(1):
            return known
        hello = Hello(self._secret, self._cluster, target)
        seconds = self._timeout if timeout is None else timeout
        answer = self.transport.result(self.transport.start(target, "hello", hello.content), seconds)
        if not answer:
            raise UnreachableError(f"{target}: it is not ready, or has another secret than this cluster's")
        try:
            made = hello.finish(answer)
        except SealError as error:
            raise ServerError(
                f"{target}: expected somebody who knows the secret of this cluster, got {error}"
            ) from None
        with self._lock:
            self._sessions[target] = made
        return made

    def start(
        self,
        target: str,
        op: str,
        head: Mapping[str, Any],
        arrays: Sequence[Array] = (),
        timeout: float | None = None,
        *,
        packed: bytes | None = None,
    ) -> Pending:
        """Begin a call. `packed` is the same message as bytes, where several ends are sent it."""
        session = self.session(target, timeout)
        full = {**head, "op": op}
        content = pack(full, arrays) if packed is None else packed
        sealed = session.seal(content)
        return Pending(target, full, arrays, session, sealed[:HEAD], self.transport.start(target, "call", sealed))

    def finish(self, pending: Pending, timeout: float | None = None, answer: bytes | None = None) -> Message:
        """The answer to a call, which may have come already; what the other end raised is raised here."""
        seconds = self._timeout if timeout is None else timeout
        known = answer
        for _ in range(3):
            answer = self.transport.result(pending.handle, seconds) if known is None else known
            known = None
            if answer[:1] != _NO_SESSION:
                break
            # It was not carried out: the other end has ended the session, or was started again. Once more.
            with self._lock:
                if self._sessions.get(pending.target) is pending.session:
                    del self._sessions[pending.target]
            pending.session = self.session(pending.target, seconds)
            sealed = pending.session.seal(pack(pending.head, pending.arrays))
            pending.asked, pending.handle = sealed[:HEAD], self.transport.start(pending.target, "call", sealed)
        else:
            raise UnreachableError(f"{pending.target}: it ends every session at once")
        try:
            content = pending.session.open(answer[1:], pending.asked)
        except SealError as error:
            raise UnreachableError(f"{pending.target}: {error}") from None
        message = unpack(content)
        wipe(content)
        _raise_described(message.head)
        return message

    def call(
        self, target: str, op: str, head: Mapping[str, Any], arrays: Sequence[Array] = (), timeout: float | None = None
    ) -> Message:
        """Call, and wait for the answer."""
        return self.finish(self.start(target, op, head, arrays, timeout), timeout)


def _described(error: Exception) -> dict[str, Any]:
    """An error as it travels."""
    if isinstance(error, RefusalError):
        return {"refused": error.reason, **error.facts}
    if isinstance(error, UnreachableError):
        return {"unreachable": str(error)}
    if isinstance(error, LethevecError):
        facts: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
        if isinstance(error, ErasureIncompleteError):
            facts["pending"] = error.pending
        if isinstance(error, HoldError):
            facts["hold"] = error.hold
        return facts
    return {"error": "ServerError", "message": f"it failed: {type(error).__name__}: {error}"}


def _raise_described(head: dict[str, Any]) -> None:
    if "refused" in head:
        raise RefusalError(str(head.pop("refused")), **head)
    if "unreachable" in head:
        raise UnreachableError(str(head["unreachable"]))
    if "error" not in head:
        return
    kind = getattr(errors, str(head["error"]), None)
    message = str(head.get("message"))
    if not (isinstance(kind, type) and issubclass(kind, LethevecError)):
        kind = ServerError
    if kind is ErasureIncompleteError:
        raise ErasureIncompleteError(message, int(head.get("pending", 1)))
    if kind is HoldError:
        raise HoldError(message, str(head.get("hold", "")))
    raise kind(message)
