"""The application: a route for each operation, and answers to what has no route."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from .api import OPERATIONS
from .calls import Endpoint, Operation, cors_headers
from .core import Core
from .problems import Problem
from .protocol import Known

__all__ = ["Front", "make_app"]

_MAX_KNOWN = 1000  # URLs of searches that are kept
_MAX_URL = 300  # bytes of one that is


def make_app(core: Core) -> Front:
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

    routes = _routes(core, operations)
    if core.settings.console:
        from .console import console_routes

        routes += console_routes(tls=core.settings.tls)
    app = Starlette(routes=routes, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.router.default = _Nothing(core)
    return Front(core, app)


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
        self.at_once = endpoints["POST"] if "POST" in endpoints and endpoints["POST"].can_at_once else None

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


class Front:
    """Before the routes: what browsers ask before a call from another origin. Off unless origins were given.

    `known` are the URLs of what can be done at once, as they were routed: the protocol looks there (see `protocol`).
    """

    def __init__(self, core: Core, app: Starlette) -> None:
        self._cors = core.settings.cors
        # Without the two layers that Starlette puts around it: an endpoint answers whatever happens.
        self._router = app.router
        self.known: Known = {}
        self.guard = core.guard
        self.logs = core.logs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route a request, and remember where a search went."""
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        if self._cors and scope["method"] == "OPTIONS":
            await self._preflight(scope, send)
            return
        await self._router(scope, receive, send)
        methods = scope.get("endpoint")
        if not self._cors and isinstance(methods, _Methods) and methods.at_once is not None:
            if len(self.known) > _MAX_KNOWN:
                self.known.clear()
            query: bytes = scope["query_string"]
            url = scope["raw_path"] + (b"?" + query if query else b"")
            if len(url) <= _MAX_URL:
                self.known[url] = methods.at_once, scope["path_params"].copy(), query

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
    headers, body = problem.alone()
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
