"""The paths of `/api/v2`, and what each asks of the registry or of the records."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from ..calls import Answer, Call, Operation
from ..core import Core
from ..problems import Problem
from .records import MAX_BATCH, ChromaRecords
from .registry import DEFAULT_DATABASE, DEFAULT_TENANT, Entry, Registry

__all__ = ["chroma_operations"]

_BASE = "/api/v2"
_TENANT = _BASE + "/tenants/{tenant}"
_DATABASE = _TENANT + "/databases/{database}"
_ONE = _DATABASE + "/collections/{which}"

#: Our codes of problems by the names that Chroma's clients turn into exceptions; other codes are those names already.
_NAMES = {
    "key": "AuthError",
    "role": "AuthorizationError",
    "collection": "AuthorizationError",
    "unknown": "NotFoundError",
    "vectors": "InvalidArgumentError",
    "parameter": "InvalidArgumentError",
    "field": "InvalidArgumentError",
    "input": "InvalidArgumentError",
    "json": "InvalidArgumentError",
    "ids": "InvalidArgumentError",
    "too_many_requests": "RateLimitError",
    "too_long": "QuotaError",
    "batch": "BatchSizeExceededError",
}


def _shape(problem: Problem) -> dict[str, Any]:
    """An error as Chroma's clients read it."""
    name = _NAMES.get(problem.code, problem.code if problem.code[0].isupper() else "InternalError")
    return {"error": name, "message": problem.message}


def chroma_operations(core: Core) -> list[Operation]:
    """All operations; they share a registry."""
    return _Routes(core).operations()


class _Routes:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._registry = Registry(core.db)
        self._records = ChromaRecords(core, self._registry)

    def operations(self) -> list[Operation]:
        made: list[Operation] = []

        def add(method: str, path: str, name: str, right: str | None, handler: Any, **more: Any) -> None:
            made.append(
                Operation(
                    method,
                    path,
                    f"chroma {name}",
                    right,
                    "",
                    handler,
                    shape=_shape,
                    trace_header=b"chroma-trace-id",
                    **more,
                )
            )

        add("POST", _ONE + "/query", "query", "read", self._reading(self._records.query))
        add("POST", _ONE + "/get", "get", "read", self._reading(self._records.get))
        add("GET", _ONE + "/count", "count", "read", self._count)
        for kind in ("add", "update", "upsert"):
            add("POST", f"{_ONE}/{kind}", kind, "write", self._putting(kind), writes=True)
        add("POST", _ONE + "/delete", "delete", "erase", self._delete, writes=True, sealed=True)
        add("GET", _BASE + "/heartbeat", "heartbeat", "", _heartbeat, audited=False)
        add("GET", _BASE, "heartbeat", "", _heartbeat, audited=False)
        add("GET", _BASE + "/version", "version", "", _constant("1.0.0"), audited=False)
        limits = {"max_batch_size": MAX_BATCH, "supports_base64_encoding": True}
        add("GET", _BASE + "/pre-flight-checks", "limits", "", _constant(limits), audited=False)
        health = {"is_executor_ready": True, "is_log_client_ready": True}
        add("GET", _BASE + "/healthcheck", "health", "", _constant(health), audited=False)
        add("GET", _BASE + "/auth/identity", "identity", None, _identity, audited=False)
        add("POST", _BASE + "/reset", "reset", "admin", self._reset, writes=True, sealed=True)
        add("POST", _BASE + "/tenants", "make tenant", "admin", self._make_tenant, writes=True)
        add("GET", _TENANT, "tenant", "describe", self._tenant, audited=False)
        add("GET", _TENANT + "/databases", "databases", "describe", self._databases, audited=False)
        add("POST", _TENANT + "/databases", "make database", "admin", self._make_database, writes=True)
        add("GET", _DATABASE, "database", "describe", self._database, audited=False)
        add("DELETE", _DATABASE, "drop database", "admin", self._drop_database, writes=True, sealed=True)
        add("GET", _DATABASE + "/collections", "list", "describe", self._list, audited=False)
        add("POST", _DATABASE + "/collections", "make", "write", self._make, writes=True)
        add("GET", _DATABASE + "/collections_count", "count collections", "describe", self._count_all, audited=False)
        add("GET", _DATABASE + "/collections/by-id/{which}", "by id", "describe", self._by_id, audited=False)
        add("GET", _ONE, "describe", "describe", self._by_name, audited=False)
        add("DELETE", _ONE, "drop", "erase", self._drop, writes=True, sealed=True)
        add("PUT", _ONE, "change", "write", self._change, writes=True)
        add("GET", _ONE + "/indexing_status", "indexing status", "describe", self._status, audited=False)
        add("GET", _ONE + "/fork_count", "fork count", "describe", _missing, audited=False)
        for path in ("fork", "search", "functions/attach"):
            add("POST", f"{_ONE}/{path}", path, "describe", _missing, audited=False)
        return made

    def _seen(self, call: Call, entry: Entry) -> Entry:
        """Note whose records these are, and whether the key may."""
        if not call.key.sees(entry.store):
            raise Problem(403, "AuthorizationError", "expected a key for this collection, or for all of them")
        call.collection = entry.store
        return entry

    def _reading(self, method: Callable[[str, dict[str, Any]], dict[str, Any]]) -> Callable[[Call], Awaitable[Answer]]:
        async def handler(call: Call) -> Answer:
            which = call.params["which"]
            self._seen(call, self._registry.by_id(which))
            body = await call.json()
            few = len(body.get("query_embeddings") or ()) == 1
            return Answer(await call.core.read(call.collection, lambda: method(which, body), short=few))

        return handler

    def _putting(self, kind: str) -> Callable[[Call], Awaitable[Answer]]:
        async def handler(call: Call) -> Answer:
            which = call.params["which"]
            self._seen(call, self._registry.by_id(which))
            body = await call.json()
            call.facts["records"] = await call.core.write(call.collection, lambda: self._records.put(which, body, kind))
            return Answer({}, 201 if kind == "add" else 200)

        return handler

    async def _count(self, call: Call) -> Answer:
        which = call.params["which"]
        self._seen(call, self._registry.by_id(which))
        return Answer(await call.core.read(call.collection, lambda: self._records.count(which)))

    async def _delete(self, call: Call) -> Answer:
        which = call.params["which"]
        self._seen(call, self._registry.by_id(which))
        body = await call.json()
        count, receipt = await call.core.erase(call.collection, lambda: self._records.delete(which, body))
        call.facts["records"] = count
        if receipt is None:
            return Answer({"deleted": count})
        call.facts["receipt"] = receipt.sequence
        return Answer({"deleted": count}, receipt=receipt.sequence)

    async def _reset(self, call: Call) -> Answer:
        if not call.core.settings.allow_reset:
            raise Problem(403, "AuthorizationError", "Reset is disabled by config")
        await call.core.erase(None, self._registry.reset)
        call.core.changed()
        return Answer(True)

    async def _make_tenant(self, call: Call) -> Answer:
        name = _name(await call.json())
        await call.core.write(None, lambda: self._registry.make_tenant(name))
        return Answer({})

    async def _tenant(self, call: Call) -> Answer:
        name = call.params["tenant"]
        if name not in self._registry.tenants():
            raise Problem(404, "NotFoundError", f"Tenant [{name}] not found")
        return Answer({"name": name, "resource_name": None})

    async def _databases(self, call: Call) -> Answer:
        return Answer(_page(call, self._registry.databases(call.params["tenant"])))

    async def _make_database(self, call: Call) -> Answer:
        name = _name(await call.json())
        await call.core.write(None, lambda: self._registry.make_database(call.params["tenant"], name))
        return Answer({})

    async def _database(self, call: Call) -> Answer:
        return Answer(self._registry.database(call.params["tenant"], call.params["database"]))

    async def _drop_database(self, call: Call) -> Answer:
        where = call.params["tenant"], call.params["database"]
        receipt = await call.core.erase(None, lambda: self._registry.drop_database(*where))
        call.core.changed()
        return Answer({}, receipt=None if receipt is None else receipt.sequence)

    def _entries(self, call: Call) -> list[Entry]:
        found = self._registry.entries(call.params["tenant"], call.params["database"])
        return [entry for entry in found if call.key.sees(entry.store)]

    async def _list(self, call: Call) -> Answer:
        return Answer([entry.model() for entry in _page(call, self._entries(call))])

    async def _count_all(self, call: Call) -> Answer:
        return Answer(len(self._entries(call)))

    async def _make(self, call: Call) -> Answer:
        body = await call.json()
        name = _name(body)
        for field in ("metadata", "configuration"):
            if body.get(field) is not None and type(body[field]) is not dict:
                raise Problem(400, "InvalidArgumentError", f"{field}: expected a JSON object")
        if call.key.collections is not None and name not in call.key.collections:
            raise Problem(403, "AuthorizationError", "expected a key for this collection, or for all of them")
        entry = await call.core.write(
            None,
            lambda: self._registry.make(
                call.params["tenant"],
                call.params["database"],
                name,
                body.get("metadata"),
                body.get("configuration"),
                body.get("schema"),
                body.get("get_or_create") is True,
            ),
        )
        return Answer(self._seen(call, entry).model())

    async def _by_id(self, call: Call) -> Answer:
        return Answer(self._seen(call, self._registry.by_id(call.params["which"])).model())

    async def _by_name(self, call: Call) -> Answer:
        where = call.params["tenant"], call.params["database"]
        return Answer(self._seen(call, self._registry.by_name(*where, call.params["which"])).model())

    async def _drop(self, call: Call) -> Answer:
        where = call.params["tenant"], call.params["database"]
        entry = self._seen(call, self._registry.by_name(*where, call.params["which"]))
        receipt = await call.core.erase(None, lambda: self._registry.drop(entry))
        call.core.changed()
        return Answer({}, receipt=None if receipt is None else receipt.sequence)

    async def _change(self, call: Call) -> Answer:
        which = call.params["which"]
        self._seen(call, self._registry.by_id(which))
        body = await call.json()
        new = body.get("new_name"), body.get("new_metadata"), body.get("new_configuration")
        await call.core.write(None, lambda: self._registry.change(which, *new))
        return Answer({})

    async def _status(self, call: Call) -> Answer:
        which = call.params["which"]
        self._seen(call, self._registry.by_id(which))
        count = await call.core.read(call.collection, lambda: self._records.count(which))
        return Answer(
            {"num_indexed_ops": count, "num_unindexed_ops": 0, "total_ops": count, "op_indexing_progress": 1.0}
        )


def _name(body: dict[str, Any]) -> str:
    name = body.get("name")
    if type(name) is not str or not name:
        raise Problem(400, "InvalidArgumentError", "name: expected a text")
    return name


def _page(call: Call, found: list[Any]) -> list[Any]:
    query = dict(parse_qsl(call.scope["query_string"].decode("latin-1")))
    try:
        offset = int(query.get("offset", "0"))
        limit = int(query["limit"]) if "limit" in query else None
    except ValueError:
        raise Problem(400, "InvalidArgumentError", "limit, offset: expected whole numbers") from None
    if offset < 0 or (limit is not None and limit < 0):
        raise Problem(400, "InvalidArgumentError", "limit, offset: expected numbers that are not negative")
    return found[offset:] if limit is None else found[offset : offset + limit]


def _constant(content: Any) -> Callable[[Call], Awaitable[Answer]]:
    async def handler(call: Call) -> Answer:
        return Answer(content)

    return handler


async def _heartbeat(call: Call) -> Answer:
    return Answer({"nanosecond heartbeat": time.time_ns()})


async def _identity(call: Call) -> Answer:
    return Answer({"user_id": call.key.id, "tenant": DEFAULT_TENANT, "databases": [DEFAULT_DATABASE]})


async def _missing(call: Call) -> Answer:
    raise Problem(501, "ChromaError", "this server has no such operation")
