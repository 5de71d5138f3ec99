"""Collections: make, list, describe, rename, drop, digest."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lethevec.errors import LethevecError

from .. import fields, schemas
from ..calls import Answer, Call, Operation
from ..problems import Problem

__all__ = ["OPERATIONS"]

_ONE = "/v1/collections/{collection}"


def describe(name: str, collection: Any) -> dict[str, Any]:
    """What a collection is."""
    retention = collection.retention
    return {
        "name": name,
        "dim": collection.dim,
        "metric": collection.metric,
        "records": len(collection),
        "encrypted": collection.encrypted,
        "expires": None if retention is None else retention.total_seconds(),
        "expired": collection.expired(),
    }


async def _list(call: Call) -> Answer:
    core = call.core

    def look() -> list[dict[str, Any]]:
        found = []
        for name in core.db.collections():
            if call.key.sees(name):
                try:
                    found.append(describe(name, core.db.collection(name)))
                except LethevecError:
                    if name in core.db.collections():  # it was not dropped meanwhile
                        raise
        return found

    return Answer({"collections": await core.read(None, look)})


async def _make(call: Call) -> Answer:
    core = call.core
    body = await call.json()
    name = fields.needed_text(body, "name", 200)
    if not call.key.sees(name):
        raise Problem(403, "collection", "expected a key for this collection, or for all of them")
    call.collection = name
    dim = fields.integer(body, "dim", 0, 1, 1 << 16)
    options: dict[str, Any] = {"dim": dim, "metric": fields.text(body, "metric") or "cosine"}
    if fields.boolean(body, "encrypt"):
        options["encrypt"] = True
    if "expires" in body:
        options["expires"] = _duration(body)
    there = name in core.db.collections()
    if there and not fields.boolean(body, "exist_ok"):
        raise Problem(409, "collection", "name: expected a new one; exist_ok opens one that is there")
    collection = await core.write(name, lambda: core.db.collection(name, **options))
    return Answer(describe(name, collection), 200 if there else 201)


def _duration(body: dict[str, Any]) -> timedelta | None:
    seconds = fields.number(body, "expires")
    try:
        return None if seconds is None else timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise Problem(422, "field", "expires: expected seconds of up to 1,000 years") from None


async def _retention(call: Call) -> Answer:
    core = call.core
    core.collection(call)
    assert call.collection is not None
    name = call.collection
    body = await call.json()
    if "expires" not in body:
        raise Problem(422, "field", "expires: expected seconds, or null for records that are kept for ever")
    duration = _duration(body)
    collection = await core.write(name, lambda: core.db.collection(name, expires=duration))
    return Answer(describe(name, collection))


async def _describe(call: Call) -> Answer:
    collection = call.core.collection(call)
    assert call.collection is not None
    name = call.collection
    return Answer(await call.core.read(name, lambda: describe(name, collection), short=True))


async def _rename(call: Call) -> Answer:
    core = call.core
    core.collection(call)
    assert call.collection is not None
    old = call.collection
    name = fields.needed_text(await call.json(), "name", 200)
    if not call.key.sees(name):
        raise Problem(403, "collection", "expected a key for this collection, or for all of them")
    await core.erase(None, lambda: core.db.rename(old, name))
    core.changed()
    return Answer(describe(name, core.db.collection(name)))


async def _drop(call: Call) -> Answer:
    core = call.core
    records = len(core.collection(call))
    assert call.collection is not None
    name = call.collection
    try:
        receipt = await core.erase(None, lambda: core.db.drop(name, timeout=core.settings.timeout))
    finally:
        core.changed()
    call.facts |= {"records": records, "receipt": receipt.sequence}
    return Answer({"records": records, "receipt": receipt.fields}, receipt=receipt.sequence)


async def _digest(call: Call) -> Answer:
    collection = call.core.collection(call)
    return Answer({"digest": await call.core.read(call.collection, collection.digest)})


OPERATIONS = (
    Operation(
        "GET",
        "/v1/collections",
        "list",
        "describe",
        "The collections that the key may see.",
        _list,
        audited=False,
        answer=schemas.object_of({"collections": {"type": "array", "items": schemas.COLLECTION}}, ("collections",)),
    ),
    Operation(
        "POST",
        "/v1/collections",
        "make",
        "write",
        "Make a collection.",
        _make,
        writes=True,
        body=schemas.object_of(
            {
                "name": schemas.NAME,
                "dim": {"type": "integer", "minimum": 1, "maximum": 65536},
                "metric": {"enum": ["cosine", "l2", "ip"], "default": "cosine"},
                "encrypt": {"type": "boolean", "description": "seal every record under a key of its own"},
                "expires": {
                    "type": ["number", "null"],
                    "description": "seconds that records are kept unless they say other",
                },
                "exist_ok": {"type": "boolean", "description": "open the collection if it is there"},
            },
            ("name", "dim"),
        ),
        answer=schemas.COLLECTION,
        statuses=(201, 409, 422),
    ),
    Operation(
        "GET",
        _ONE,
        "describe",
        "describe",
        "What a collection is, and how many records it holds.",
        _describe,
        audited=False,
        answer=schemas.COLLECTION,
        statuses=(404,),
    ),
    Operation(
        "POST",
        _ONE + "/retention",
        "retention",
        "write",
        "Say how long records of a collection are kept that are added from now on and do not say it themselves.",
        _retention,
        writes=True,
        body=schemas.object_of(
            {"expires": {"type": ["number", "null"], "description": "seconds, or null for ever"}}, ("expires",)
        ),
        answer=schemas.COLLECTION,
        statuses=(404, 422),
    ),
    Operation(
        "POST",
        _ONE + "/rename",
        "rename",
        "write",
        "Give a collection another name.",
        _rename,
        writes=True,
        sealed=True,  # so that every process knows
        body=schemas.object_of({"name": schemas.NAME}, ("name",)),
        answer=schemas.COLLECTION,
        statuses=(404, 409, 422),
    ),
    Operation(
        "DELETE",
        _ONE,
        "drop",
        "erase",
        "Erase a collection with everything in it, and give a receipt.",
        _drop,
        writes=True,
        sealed=True,
        answer=schemas.FORGOTTEN,
        statuses=(202, 404, 423),
    ),
    Operation(
        "GET",
        _ONE + "/digest",
        "digest",
        "proof",
        "The digest of configuration and records: the same for every history that ends in the same records.",
        _digest,
        answer=schemas.object_of({"digest": {"type": "string"}}, ("digest",)),
        statuses=(404,),
    ),
)
