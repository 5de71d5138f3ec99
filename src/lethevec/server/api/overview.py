"""What a person who looks at a server wants to see first: who one is here, what there is, and a sample of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any

import lethevec
from lethevec.errors import LethevecError

from .. import fields, schemas
from ..calls import Answer, Call, Operation
from .collections import describe
from .records import CHOICE, INCLUDE, records_content, selection

__all__ = ["OPERATIONS"]


async def _me(call: Call) -> Answer:
    core, key = call.core, call.key
    return Answer(
        {
            "key": None if not core.door.closed else key.id,
            "name": key.name,
            "roles": list(key.roles),
            "rights": sorted(key.rights),
            "collections": None if key.collections is None else sorted(key.collections),
            "expires_at": key.expires_at,
            "version": lethevec.__version__,
        }
    )


async def _overview(call: Call) -> Answer:
    core = call.core

    def look() -> dict[str, Any]:
        found = []
        for name in core.db.collections():
            if call.key.sees(name):
                with suppress(LethevecError):  # it may be dropped meanwhile
                    found.append(_surveyed(name, core.db.collection(name)))
        last = core.last_receipt()
        return {
            "collections": found,
            "receipts": last + 1,
            "last_receipt": last,
            "pending_erasures": core.db.pending_erasures(),
        }

    return Answer(await core.read(None, look))


def _surveyed(name: str, collection: Any) -> dict[str, Any]:
    counts = asdict(collection.survey())
    due = [{**part, "begin": part["begin"].isoformat(), "end": part["end"].isoformat()} for part in counts.pop("due")]
    stats = collection.stats()
    return {
        **describe(name, collection),
        **counts,
        "due": due,
        "bytes_memory": stats["bytes_total"],
        "bytes_files": stats["bytes_files"],
    }


async def _survey(call: Call) -> Answer:
    collection = call.core.collection(call)
    name = call.collection
    assert name is not None
    return Answer(await call.core.read(name, lambda: _surveyed(name, collection)))


async def _sample(call: Call) -> Answer:
    core = call.core
    collection = core.collection(call)
    body = await call.json()
    limit = core.settings.max_batch
    count = fields.integer(body, "count", min(1000, limit), 1, limit)
    seed = fields.integer(body, "seed", 0, 0, (1 << 63) - 1)
    include = fields.names(body, "include", INCLUDE, INCLUDE)
    chosen = selection(call, body)
    found = await core.read(call.collection, lambda: collection.sample(count, seed=seed, **chosen))
    call.facts["records"] = len(found)
    content = records_content(found, include, body.get("encoding") == "base64")
    return Answer({**content, "next": None})


async def _subjects(call: Call) -> Answer:
    core = call.core
    collection = core.collection(call)
    body = await call.json()
    limit = fields.integer(body, "limit", min(100, core.settings.max_batch), 1, core.settings.max_batch)
    options = {name: text for name in ("prefix", "after") if (text := fields.text(body, name)) is not None}
    found = await core.read(call.collection, lambda: collection.subjects(limit=limit, **options))
    names = list(found)
    call.facts["subjects"] = len(names)
    following = names[-1] if len(names) == limit else None
    return Answer({"subjects": names, "records": list(found.values()), "next": following})


_TEXTS = {"type": "array", "items": {"type": "string"}}
_SURVEY = schemas.object_of(
    {
        **schemas.COLLECTION["properties"],
        "subjects": schemas.COUNT,
        "without_subject": schemas.COUNT,
        "without_vector": schemas.COUNT,
        "without_expiry": schemas.COUNT,
        "due": {
            "type": "array",
            "items": schemas.object_of(
                {"begin": {"type": "string"}, "end": {"type": "string"}, "records": schemas.COUNT},
                ("begin", "end", "records"),
            ),
            "description": "when records become due, by hours, days or longer parts, without empty ones",
        },
        "bytes_memory": schemas.COUNT,
        "bytes_files": schemas.COUNT,
    },
    (*schemas.COLLECTION["required"], "subjects", "due"),
)
_ONE = "/v1/collections/{collection}"

OPERATIONS = (
    Operation(
        "GET",
        "/v1/me",
        "me",
        None,
        "What the key may do, and in which collections (null: in all of them).",
        _me,
        audited=False,
        answer=schemas.object_of(
            {
                "key": {"type": ["string", "null"], "description": "its id; null where the server has no keys"},
                "name": {"type": "string"},
                "roles": _TEXTS,
                "rights": _TEXTS,
                "collections": {"anyOf": [_TEXTS, {"type": "null"}]},
                "expires_at": {"type": ["string", "null"]},
                "version": {"type": "string", "description": "of the server"},
            },
            ("key", "name", "roles", "rights", "collections", "expires_at", "version"),
        ),
    ),
    Operation(
        "GET",
        "/v1/overview",
        "overview",
        "describe",
        "Counts of every collection that the key may see, of receipts, and of erasures that wait.",
        _overview,
        audited=False,
        answer=schemas.object_of(
            {
                "collections": {"type": "array", "items": _SURVEY},
                "receipts": schemas.COUNT,
                "last_receipt": {"type": ["integer", "null"]},
                "pending_erasures": schemas.COUNT,
            },
            ("collections", "receipts", "last_receipt", "pending_erasures"),
        ),
    ),
    Operation(
        "GET",
        _ONE + "/survey",
        "survey",
        "describe",
        "Counts of one collection: subjects, what has no vector, and when records become due.",
        _survey,
        audited=False,
        answer=_SURVEY,
        statuses=(404,),
    ),
    Operation(
        "POST",
        _ONE + "/sample",
        "sample",
        "read",
        "Records picked by a hash of their ids: the same sample for the same records and seed.",
        _sample,
        body=schemas.object_of(
            {
                **CHOICE,
                "count": {"type": "integer", "minimum": 1, "default": 1000},
                "seed": {"type": "integer", "minimum": 0, "default": 0},
                "include": {"type": "array", "items": {"enum": list(INCLUDE)}},
                "encoding": schemas.ENCODING,
            }
        ),
        answer=schemas.RECORDS,
        statuses=(404, 422),
    ),
    Operation(
        "POST",
        _ONE + "/subjects",
        "subjects",
        "read",
        "Subjects by code point with the number of their records, page by page, or those that begin with a text.",
        _subjects,
        body=schemas.object_of(
            {
                "prefix": schemas.SUBJECT,
                "after": schemas.SUBJECT,
                "limit": {"type": "integer", "minimum": 1, "default": 100},
            }
        ),
        answer=schemas.object_of(
            {
                "subjects": _TEXTS,
                "records": {"type": "array", "items": schemas.COUNT},
                "next": {"type": ["string", "null"], "description": "give it as `after` for the next page"},
            },
            ("subjects", "records", "next"),
        ),
        statuses=(404, 422),
    ),
)
