"""How requests are sent: which failures are tried again, and which error each answer is.

A request that only reads, or that carries a number, may be sent again: the server does it once. What is tried again:
connections that could not be made or were lost, and answers that say "later" (429, 502, 503). The pauses double, and
`Retry-After` counts if it is longer.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import errors
from .._shown import shown
from ..errors import AccessError, LethevecError, MissingDependencyError, ParameterError, ServerError
from .requests import Request

__all__ = ["Reply", "Waiting", "http_library", "pause", "prepared", "read_reply"]

_LATER = (429, 502, 503)
_ERRORS: dict[str, type[LethevecError]] = {
    "blocked": errors.BlockedError,
    "held": errors.HoldError,
    "unknown": errors.UnknownIdError,
    "collection": errors.UnknownIdError,
    "ids": errors.IdError,
    "vectors": errors.VectorError,
    "receipt": errors.ReceiptError,
    "unsupported": errors.UnsupportedError,
    "storage_full": errors.IncompleteWriteError,
}


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Waiting(NamedTuple):
    """An erasure that is not complete: how many wait, and where to ask."""

    pending: int
    ask: str


def http_library() -> Any:
    """The package that speaks HTTP."""
    try:
        import httpx
    except ImportError:
        raise MissingDependencyError("the client needs the package httpx: pip install 'lethevec[client]'") from None
    return httpx


def settings(url: str, key: str | None, timeout: float, verify: Any) -> dict[str, Any]:
    """The arguments of a client of httpx."""
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ParameterError(f"url: expected one such as http://127.0.0.1:8765, got {shown(url, 80)}")
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    # `trust_env`: a proxy or a file of passwords that the environment names must not see a person's data unasked.
    return {"base_url": url, "headers": headers, "timeout": timeout, "verify": verify, "trust_env": False}


def prepared(request: Request[Any]) -> dict[str, Any]:
    """The arguments of httpx's `request`."""
    headers = {"content-type": request.kind} if request.body else {}
    if request.writes:
        headers["idempotency-key"] = request.number
    path = f"{request.path}?{request.query}" if request.query else request.path
    return {"method": request.method, "url": path, "content": request.body, "headers": headers}


def pause(attempt: int, retries: int, reply: Reply | None) -> float | None:
    """Seconds to wait before the next attempt; None if there is none."""
    if attempt >= retries or (reply is not None and reply.status not in _LATER):
        return None
    told = 0.0
    if reply is not None:
        text = reply.headers.get("retry-after", "")
        told = min(float(text), 30.0) if text.isdigit() else 0.0
    return max(told, 0.05 * 2.0**attempt * random.uniform(0.5, 1.0))


def read_reply(request: Request[Any], reply: Reply) -> Any:
    """The result, or the error that a reply is; `Waiting` for an erasure that is not complete."""
    if reply.status == 202:
        content = _json(reply)
        return Waiting(int(content["pending"]), str(content["ask"]))
    if reply.status < 300:
        if reply.headers.get("content-type", "").startswith("application/x-ndjson"):
            return request.read([json.loads(line) for line in reply.content.splitlines() if line])
        return request.read(_json(reply))
    raise _error(reply)


def _json(reply: Reply) -> Any:
    try:
        return json.loads(reply.content)
    except ValueError:
        raise ServerError(
            f"expected JSON from a Lethevec server, got something else (status {reply.status})", reply.status
        ) from None


def _error(reply: Reply) -> LethevecError:
    try:
        inside = json.loads(reply.content)["error"]
        code, message = str(inside["code"]), str(inside["message"])
        if inside.get("at"):
            message += f" (at {', '.join(map(str, inside['at']))})"
    except (ValueError, KeyError, TypeError):
        return ServerError(f"expected an answer of a Lethevec server, got status {reply.status}", reply.status)
    if reply.status in (401, 403):
        return AccessError(message)
    if code in _ERRORS:
        return _ERRORS[code](message)
    if reply.status in (400, 413, 415, 422):
        return ParameterError(message)
    return ServerError(message, reply.status)
