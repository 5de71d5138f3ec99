"""The application: a route for each operation, and answers to what has no route."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .api import OPERATIONS
from .calls import Answer, Endpoint, Operation, cors_headers
from .core import Core
from .problems import Problem

__all__ = ["make_app"]


def make_app(core: Core) -> Any:
    """The ASGI application of one process."""
    operations: list[Operation] = list(OPERATIONS)
    if core.settings.chroma:
        from .chroma import chroma_operations

        operations += chroma_operations(core)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await core.start()
        try:
            yield
        finally:
            await core.stop()

    app = Starlette(routes=_routes(core, operations), lifespan=lifespan)
    app.router.redirect_slashes = False
    app.router.default = _Nothing(core)
    return _Front(core, app)


def _routes(core: Core, operations: Sequence[Operation]) -> list[BaseRoute]:
    """One route for each path: it tells methods apart, and says which there are."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = Endpoint(core, operation)
    return [Route(path, _Methods(core, endpoints)) for path, endpoints in by_path.items()]


class _Methods:
    """The operations of one path."""

    def __init__(self, core: Core, endpoints: dict[str, Endpoint]) -> None:
        self._core = core
        self._endpoints = endpoints
        self._allow = ", ".join(sorted(endpoints)).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is not None:
            await endpoint(scope, receive, send)
            return
        problem = Problem(405, "method", "expected another method", headers=((b"allow", self._allow),))
        await refuse(problem, send)


class _Nothing:
    """A path that is not there."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        await refuse(Problem(404, "path", "expected a path of /openapi.json"), send)


class _Front:
    """Before the routes: what browsers ask before a call from another origin. Off unless origins were given."""

    def __init__(self, core: Core, app: Starlette) -> None:
        self._cors = core.settings.cors
        # Without the two layers that Starlette puts around it: an endpoint answers whatever happens.
        self._router = app.router
        self._known: dict[str, tuple[ASGIApp, dict[str, str]]] = {}  # paths that were searched in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._cors and scope["type"] == "http" and scope["method"] == "OPTIONS":
            await self._preflight(scope, send)
            return
        known = self._known.get(scope["path"]) if scope["type"] == "http" else None
        if known is not None:
            scope["path_params"] = known[1].copy()
            await known[0](scope, receive, send)
            return
        await self._router(scope, receive, send)
        if scope["type"] == "http" and scope["path"].endswith("/search") and "endpoint" in scope:
            if len(self._known) > 1000:
                self._known.clear()
            self._known[scope["path"]] = scope["endpoint"], scope["path_params"].copy()

    async def _preflight(self, scope: Scope, send: Send) -> None:
        origin = dict(scope["headers"]).get(b"origin", b"").decode("latin-1")
        headers = cors_headers(self._cors, origin)
        if headers:
            headers += [
                (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
                (b"access-control-allow-headers", b"authorization, content-type, idempotency-key, x-chroma-token"),
                (b"access-control-max-age", b"600"),
            ]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


async def refuse(problem: Problem, send: Send) -> None:
    """Answer a request that reached no operation."""
    body = Answer(problem.body()).body()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        *problem.headers,
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
