"""Records in and out: `add`, `upsert`, `update`, `load`, `get`, `ids`, `count`, `export`."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import orjson

import lethevec
from lethevec.errors import MissingDependencyError

from .. import fields, schemas
from ..arrow import read_batches
from ..calls import Answer, Call, Operation
from ..problems import Problem

__all__ = ["CHOICE", "INCLUDE", "OPERATIONS", "record_lines", "records_content", "selection"]

ARROW = "application/vnd.apache.arrow.stream"
LINES = "application/x-ndjson"
_PAGE = 1000  # records that a long answer reads at a time
INCLUDE = ("vectors", "subjects", "payloads", "expires")


def _columns(call: Call, body: dict[str, Any], collection: Any) -> dict[str, Any]:
    """The arguments of `add` and `upsert`."""
    ids = fields.ids(body, call.core.settings.max_batch)
    assert ids is not None
    count = len(ids)
    arguments: dict[str, Any] = {"ids": ids}
    given = body.get("vectors")
    if given is None:
        arguments["vectors"] = None
    else:
        vectors, present = fields.optional_vectors(given, collection.dim)
        if len(present) != count:
            raise Problem(422, "field", f"vectors: expected one for each of the {count} ids")
        if present.all():
            arguments["vectors"] = vectors
        else:
            rows = iter(vectors)
            arguments["vectors"] = [next(rows) if there else None for there in present.tolist()]
    arguments["subjects"] = fields.subjects(body, count)
    arguments["payloads"] = fields.payloads(body, count)
    if "expires" in body:
        arguments["expires"] = fields.expiries(body, count)
    call.facts["records"] = count
    return arguments


def _putting(method: str) -> Callable[[Call], Any]:
    async def put(call: Call) -> Answer:
        collection = call.core.collection(call)
        body = await call.json()
        arguments = _columns(call, body, collection)
        if fields.boolean(body, "erase_old"):
            arguments |= {"erase_old": True, "timeout": call.core.settings.timeout}
        return await _changed(call, getattr(collection, method), arguments)

    return put


async def _changed(call: Call, change: Callable[..., Any], arguments: dict[str, Any]) -> Answer:
    """Write; what was replaced is erased with a receipt where that was asked for, as soon as may be otherwise."""
    try:
        do = call.core.erase if "erase_old" in arguments else call.core.write
        receipt = await do(call.collection, lambda: change(**arguments))
    finally:
        fields.wipe_vectors(arguments.get("vectors"))
    if receipt is None:
        return Answer({"records": len(arguments["ids"])})
    call.facts["receipt"] = receipt.sequence
    await call.core.erased()
    return Answer({"records": len(arguments["ids"]), "receipt": receipt.fields}, receipt=receipt.sequence)


async def _update(call: Call) -> Answer:
    collection = call.core.collection(call)
    body = await call.json()
    ids = fields.ids(body, call.core.settings.max_batch)
    assert ids is not None
    arguments: dict[str, Any] = {"ids": ids}
    if body.get("vectors") is not None:
        arguments["vectors"] = fields.vectors(body["vectors"], collection.dim)
    if "subjects" in body:
        arguments["subjects"] = fields.subjects(body, len(ids))
    if "payloads" in body:
        arguments["payloads"] = fields.payloads(body, len(ids))
    if "expires" in body:
        arguments["expires"] = fields.expiries(body, len(ids))
    if fields.boolean(body, "merge"):
        arguments["merge"] = True
    call.facts["records"] = len(ids)
    if fields.boolean(body, "erase_old"):
        arguments |= {"erase_old": True, "timeout": call.core.settings.timeout}
    return await _changed(call, collection.update, arguments)


async def _load(call: Call) -> Answer:
    """An Arrow stream, read batch by batch while it arrives: one transaction, and memory for a batch."""
    if call.content_type != ARROW:
        raise Problem(415, "media_type", f"Content-Type: expected {ARROW}")
    try:
        import pyarrow as pa
        import pyarrow.compute
    except ImportError:
        raise MissingDependencyError(
            "a bulk load needs the package pyarrow: pip install 'lethevec[datasets]'"
        ) from None
    collection = call.core.collection(call)
    pipe, limit = _Pipe(), call.core.settings.max_body
    feeding = asyncio.get_running_loop().create_task(pipe.feed(call.parts()))
    try:
        count = await call.core.write(
            call.collection, lambda: collection.load(read_batches(pa, pipe, collection.dim, limit))
        )
    finally:
        pipe.stop()
        feeding.cancel()
    if pipe.error is not None:
        raise pipe.error
    call.facts["records"] = count
    return Answer({"records": count})


class _Pipe:
    """Bytes from the event loop to a thread that reads them like a file. A few parts wait at most."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue(4)
        self._rest = b""
        self._ended = False
        self.error: BaseException | None = None

    async def feed(self, parts: AsyncIterator[bytes]) -> None:
        try:
            async for part in parts:
                await self._parts.put(part)
        except BaseException as error:
            self.error = error
        await self._parts.put(None)

    def stop(self) -> None:
        self._ended = True

    def read(self, size: int = -1) -> bytes:
        while (size < 0 or len(self._rest) < size) and not self._ended:
            part = asyncio.run_coroutine_threadsafe(self._parts.get(), self._loop).result(60)
            if part is None:
                self._ended = True
                if self.error is not None:  # half a stream must not be taken for a whole one
                    raise self.error
            else:
                self._rest += part
        size = len(self._rest) if size < 0 else size
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def selection(call: Call, body: dict[str, Any]) -> dict[str, Any]:
    """`where` and `subject`, as far as they were given."""
    chosen: dict[str, Any] = {}
    where = fields.mapping(body, "where")
    if where is not None:
        chosen["where"] = where
    subject = fields.text(body, "subject")
    if subject is not None:
        chosen["subject"] = subject
        call.facts["subject"] = call.core.audit.subject(subject)
    return chosen


def _after(body: dict[str, Any]) -> Any:
    after = body.get("after")
    if after is not None and type(after) not in (int, str):
        raise Problem(422, "field", "after: expected the `next` of the page before")
    return after


async def _get(call: Call) -> Answer:
    core = call.core
    collection = core.collection(call)
    body = await call.json()
    limits = core.settings
    ids = fields.ids(body, limits.max_batch, needed=False)
    include = fields.names(body, "include", INCLUDE, ("subjects", "payloads"))
    chosen = selection(call, body)
    base64_vectors = body.get("encoding") == "base64"
    if ids is not None:
        if chosen or "after" in body or "limit" in body:
            raise Problem(422, "field", "ids: expected them alone, or a selection by where, subject, limit and after")
        call.facts["ids"] = core.audit.ids(ids)
        found = await core.read(call.collection, lambda: collection.get(ids), short=len(ids) < 10)
        following = None
    else:
        limit = fields.integer(body, "limit", min(100, limits.max_batch), 1, limits.max_batch)
        after = _after(body)
        found = await core.read(call.collection, lambda: collection.get(limit=limit, after=after, **chosen))
        following = found[-1].id if len(found) == limit else None
    call.facts["records"] = len(found)
    return Answer({**records_content(found, include, base64_vectors), "next": following})


def records_content(found: Sequence[lethevec.Record], include: tuple[str, ...], base64_vectors: bool) -> dict[str, Any]:
    """Records as columns."""
    content: dict[str, Any] = {"ids": [record.id for record in found]}
    if "vectors" in include:
        content["vectors"] = [_vector(record.vector, base64_vectors) for record in found]
    if "subjects" in include:
        content["subjects"] = [record.subject for record in found]
    if "payloads" in include:
        content["payloads"] = [record.payload for record in found]
    if "expires" in include:
        content["expires"] = [_moment(record.expires) for record in found]
    return content


def _moment(expires: datetime | None) -> str | None:
    return None if expires is None else expires.isoformat()


def _vector(vector: Any, as_base64: bool) -> Any:
    if vector is None or not as_base64:
        return vector
    return base64.b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes()).decode()


async def _ids(call: Call) -> Answer:
    core = call.core
    collection = core.collection(call)
    body = await call.json()
    chosen = selection(call, body)
    limit = fields.integer(body, "limit", core.settings.max_batch, 1, core.settings.max_batch)
    after = _after(body)
    found = await core.read(call.collection, lambda: collection.get(limit=limit, after=after, **chosen))
    ids = [record.id for record in found]
    call.facts["records"] = len(ids)
    return Answer({"ids": ids, "next": ids[-1] if len(ids) == limit else None})


async def _count(call: Call) -> Answer:
    collection = call.core.collection(call)
    chosen = selection(call, await call.json())
    return Answer({"records": await call.core.read(call.collection, lambda: collection.count(**chosen))})


async def _export(call: Call) -> Answer:
    collection = call.core.collection(call)
    chosen = selection(call, await call.json())
    # A filter that cannot be used is refused here: once a stream has begun, nothing can be refused.
    await call.core.read(call.collection, partial(collection.get, limit=1, **chosen))
    return Answer(stream=record_lines(call, collection, chosen), kind=LINES.encode())


async def record_lines(call: Call, collection: Any, chosen: dict[str, Any]) -> AsyncIterator[bytes]:
    """Records as JSON lines, page by page: the next page is read when the last one has gone."""
    after = None
    while True:
        page = await call.core.read(call.collection, partial(collection.get, limit=_PAGE, after=after, **chosen))
        if page:
            yield b"".join(line(record) for record in page)
        if len(page) < _PAGE:
            return
        after = page[-1].id


def line(record: lethevec.Record) -> bytes:
    """One record as a line of JSON."""
    content: dict[str, Any] = {
        "id": record.id,
        "vector": record.vector,
        "subject": record.subject,
        "payload": record.payload,
    }
    if record.expires is not None:
        content["expires"] = record.expires.isoformat()
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"


_ERASE_OLD = {"type": "boolean", "description": "erase what is replaced like a forget, with a receipt"}
_PUT = schemas.object_of(
    {
        "ids": schemas.IDS,
        "vectors": schemas.VECTORS,
        "subjects": schemas.SUBJECTS,
        "payloads": schemas.PAYLOADS,
        "expires": schemas.EXPIRES,
    },
    ("ids",),
)
CHOICE = {"where": schemas.WHERE, "subject": schemas.SUBJECT}
_DONE = schemas.object_of({"records": schemas.COUNT}, ("records",))
_CHANGED = schemas.object_of({"records": schemas.COUNT, "receipt": schemas.RECEIPT}, ("records",))
_AFTER = {"after": schemas.ID, "limit": {"type": "integer", "minimum": 1}}
_ONE = "/v1/collections/{collection}"

OPERATIONS = (
    Operation(
        "POST",
        _ONE + "/upsert",
        "upsert",
        "write",
        "Add records, or replace those that are there.",
        _putting("upsert"),
        writes=True,
        body={**_PUT, "properties": {**_PUT["properties"], "erase_old": _ERASE_OLD}},
        answer=_CHANGED,
        statuses=(202, 404, 413, 422, 423, 507),
    ),
    Operation(
        "POST",
        _ONE + "/add",
        "add",
        "write",
        "Add records; ids that are there already are refused, and then nothing is added.",
        _putting("add"),
        writes=True,
        body=_PUT,
        answer=_DONE,
        statuses=(404, 409, 413, 422, 423, 507),
    ),
    Operation(
        "POST",
        _ONE + "/update",
        "update",
        "write",
        "Replace parts of records. What is not given stays; null takes a subject or payload away.",
        _update,
        writes=True,
        body=schemas.object_of(
            {
                "ids": schemas.IDS,
                "vectors": schemas.VECTORS,
                "subjects": {"anyOf": [schemas.SUBJECTS, {"type": "null"}]},
                "payloads": {"anyOf": [schemas.PAYLOADS, {"type": "null"}]},
                "expires": schemas.EXPIRES,
                "erase_old": _ERASE_OLD,
                "merge": {"type": "boolean", "description": "put new fields into payloads and keep the others"},
            },
            ("ids",),
        ),
        answer=_CHANGED,
        statuses=(202, 404, 413, 422, 423, 507),
    ),
    Operation(
        "POST",
        _ONE + "/load",
        "load",
        "write",
        "Add many records from an Arrow stream, all or none, with the columns id, vector, subject and payload.",
        _load,
        writes=True,
        unbounded=True,
        other_bodies=(ARROW,),
        answer=_DONE,
        statuses=(404, 409, 415, 422, 501, 507),
    ),
    Operation(
        "POST",
        _ONE + "/get",
        "get",
        "read",
        "Records by their ids, or those that a filter and a subject choose, by ascending id, page by page.",
        _get,
        body=schemas.object_of(
            {
                "ids": schemas.IDS,
                **CHOICE,
                **_AFTER,
                "include": {"type": "array", "items": {"enum": list(INCLUDE)}},
                "encoding": schemas.ENCODING,
            }
        ),
        answer=schemas.RECORDS,
        statuses=(404, 413, 422),
    ),
    Operation(
        "POST",
        _ONE + "/ids",
        "ids",
        "read",
        "Ids alone, as `get` would give them.",
        _ids,
        body=schemas.object_of({**CHOICE, **_AFTER}),
        answer=schemas.object_of(
            {"ids": schemas.IDS, "next": {"anyOf": [schemas.ID, {"type": "null"}]}}, ("ids", "next")
        ),
        statuses=(404, 422),
    ),
    Operation(
        "POST",
        _ONE + "/count",
        "count",
        "read",
        "How many records there are, or how many a filter and a subject choose.",
        _count,
        body=schemas.object_of(CHOICE),
        answer=_DONE,
        statuses=(404, 422),
    ),
    Operation(
        "POST",
        _ONE + "/export",
        "export",
        "read",
        "Whole records as JSON lines, streamed.",
        _export,
        sealed=True,
        body=schemas.object_of(CHOICE),
        kind=LINES,
        statuses=(404, 422),
    ),
)
