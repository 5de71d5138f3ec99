"""Erasure and a person's rights: `forget` in one collection or in all, `access`, `expire`, `hold`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from .. import fields, schemas
from ..calls import Answer, Call, Operation
from ..problems import Problem

__all__ = ["OPERATIONS"]


def receipt_answer(call: Call, receipt: Any) -> Answer:
    """What an erasure answers: how many records, and the receipt, whose number is in a header as well."""
    records = receipt["records"]
    call.facts |= {"records": records, "receipt": receipt.sequence}
    return Answer({"records": records, "receipt": receipt.fields}, receipt=receipt.sequence)


async def _forget(call: Call) -> Answer:
    core = call.core
    collection = core.collection(call)
    body = await call.json()
    ids = fields.ids(body, core.settings.max_batch, needed=False)
    subject = fields.text(body, "subject")
    where = fields.mapping(body, "where")
    if sum(one is not None for one in (ids, subject, where)) != 1:
        raise Problem(422, "field", "body: expected one of ids, subject and where")
    arguments: dict[str, Any] = {}
    if subject is not None:
        arguments["subject"] = subject
        call.facts["subject"] = core.audit.subject(subject)
    if where is not None:
        arguments["where"] = where
    if ids is not None:
        arguments["ids"] = ids
        call.facts["ids"] = core.audit.ids(ids)
    if fields.boolean(body, "ignore_unknown"):
        arguments["ignore_unknown"] = True
    elsewhere = fields.mapping(body, "elsewhere")
    if fields.boolean(body, "dry_run"):
        would = await core.read(call.collection, lambda: collection.forget(**arguments, dry_run=True))
        call.facts["dry_run"] = True
        return Answer({"records": would.records, "receipt": None, "ids": would.ids, "missing": would.missing})
    timeout = core.settings.timeout
    receipt = await core.erase(
        call.collection, lambda: collection.forget(**arguments, elsewhere=elsewhere, timeout=timeout)
    )
    return receipt_answer(call, receipt)


async def _forget_everywhere(call: Call) -> Answer:
    core = call.core
    body = await call.json()
    subject = fields.needed_text(body, "subject")
    call.facts["subject"] = core.audit.subject(subject)
    arguments: dict[str, Any] = {"subject": subject}
    for name in ("block", "ignore_unknown"):
        if fields.boolean(body, name):
            arguments[name] = True
    elsewhere = fields.mapping(body, "elsewhere")
    if fields.boolean(body, "dry_run"):
        held = await core.read(None, lambda: core.db.held(subject))
        call.facts["dry_run"] = True
        return Answer(
            {
                "records": held.records,
                "receipt": None,
                "collections": held.collections,
                "holds": len(held.holds),
                "blocked_since": held.blocked_since,
            }
        )
    return receipt_answer(
        call,
        await core.erase(None, lambda: core.db.forget(**arguments, elsewhere=elsewhere, timeout=core.settings.timeout)),
    )


async def _access(call: Call) -> Answer:
    core = call.core
    subject = fields.needed_text(await call.json(), "subject")
    call.facts["subject"] = core.audit.subject(subject)
    held = await core.read(None, lambda: core.db.access(subject))
    call.facts["records"] = len(held)
    return Answer(held.to_dict())


async def _held(call: Call) -> Answer:
    core = call.core
    subject = fields.needed_text(await call.json(), "subject")
    call.facts["subject"] = core.audit.subject(subject)
    held = await core.read(None, lambda: core.db.held(subject))
    call.facts["records"] = held.records
    return Answer(
        {
            "records": held.records,
            "collections": held.collections,
            "receipts": [receipt.fields for receipt in held.receipts],
            "holds": [asdict(hold) for hold in held.holds],
            "blocked_since": held.blocked_since,
        }
    )


async def _expire(call: Call) -> Answer:
    core = call.core
    skip_held = fields.boolean(await call.json(), "skip_held")
    receipt = await core.erase(None, lambda: core.db.expire(skip_held=skip_held, timeout=core.settings.timeout))
    if receipt is None:
        return Answer({"records": 0, "receipt": None})
    return receipt_answer(call, receipt)


async def _hold(call: Call) -> Answer:
    core = call.core
    body = await call.json()
    subject = fields.needed_text(body, "subject")
    reason = fields.needed_text(body, "reason")
    call.facts["subject"] = core.audit.subject(subject)
    entry = await core.erase(None, lambda: core.db.hold(subject, reason))
    return Answer({"receipt": entry.fields}, receipt=entry.sequence)


async def _lift(call: Call) -> Answer:
    core = call.core
    body = await call.json()
    hold = fields.needed_text(body, "hold", 100)
    reason = fields.needed_text(body, "reason")
    entry = await core.erase(None, lambda: core.db.lift(hold, reason))
    return Answer({"receipt": entry.fields}, receipt=entry.sequence)


async def _holds(call: Call) -> Answer:
    core = call.core
    body = await call.json()
    subject = fields.text(body, "subject")
    names = fields.boolean(body, "names", True)
    if subject is not None:
        call.facts["subject"] = core.audit.subject(subject)
    found = await core.read(None, lambda: core.db.holds(subject, names=names))
    return Answer({"holds": [asdict(hold) for hold in found]})


def _fencing(method: str) -> Callable[[Call], Awaitable[Answer]]:
    async def fence(call: Call) -> Answer:
        core = call.core
        body = await call.json()
        subject = fields.needed_text(body, "subject")
        reason = fields.needed_text(body, "reason")
        call.facts["subject"] = core.audit.subject(subject)
        entry = await core.erase(None, lambda: getattr(core.db, method)(subject, reason))
        return Answer({"receipt": entry.fields}, receipt=entry.sequence)

    return fence


_IGNORE = {"type": "boolean", "description": "records that are not there are no error"}
_DRY = {"type": "boolean", "description": "say what would go, and erase nothing"}
_ELSEWHERE = {
    "type": "object",
    "additionalProperties": {"type": ["integer", "null"], "minimum": 0},
    "propertyNames": {"pattern": "^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"},
    "maxProperties": 100,
    "description": "what you erased outside, for the receipt to state: entries in each place, or null if none were",
}
_HELD = schemas.object_of({"receipt": schemas.RECEIPT}, ("receipt",))
_HOLD = schemas.object_of(
    {
        "id": {"type": "string"},
        "reason": {"type": "string"},
        "since": {"type": "string"},
        "subject": {"type": ["string", "null"]},
    },
    ("id", "reason", "since"),
)
_ACCESS = schemas.object_of(
    {
        "format": {"type": "string"},
        "subject": {"type": "string"},
        "asked_at": {"type": "string"},
        "collections": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "object"}}},
        "receipts": {"type": "array", "items": schemas.RECEIPT},
        "holds": {"type": "array", "items": {"type": "object"}},
        "blocked_since": {"type": ["string", "null"]},
    },
    ("subject", "collections", "receipts", "holds", "blocked_since"),
)
_REASON = {"type": "string", "minLength": 1}
_COUNTS = {"type": "object", "additionalProperties": schemas.COUNT, "description": "records in each collection"}

OPERATIONS = (
    Operation(
        "POST",
        "/v1/collections/{collection}/forget",
        "forget",
        "erase",
        "Forget records by ids, subject or filter, and give one receipt.",
        _forget,
        writes=True,
        sealed=True,
        body=schemas.object_of(
            {
                "ids": schemas.IDS,
                "subject": schemas.SUBJECT,
                "where": schemas.WHERE,
                "dry_run": _DRY,
                "ignore_unknown": _IGNORE,
                "elsewhere": _ELSEWHERE,
            }
        ),
        answer=schemas.FORGOTTEN,
        statuses=(202, 404, 413, 422, 423, 507),
    ),
    Operation(
        "POST",
        "/v1/forget",
        "forget everywhere",
        "erase",
        "Forget a person in every collection, with one receipt.",
        _forget_everywhere,
        writes=True,
        sealed=True,
        everywhere=True,
        body=schemas.object_of(
            {
                "subject": schemas.SUBJECT,
                "dry_run": _DRY,
                "ignore_unknown": _IGNORE,
                "block": {"type": "boolean", "description": "refuse later writes for this person"},
                "elsewhere": _ELSEWHERE,
            },
            ("subject",),
        ),
        answer=schemas.FORGOTTEN,
        statuses=(202, 404, 422, 423, 507),
    ),
    Operation(
        "POST",
        "/v1/access",
        "access",
        "read",
        "Everything that is held of a person, in every collection.",
        _access,
        sealed=True,
        everywhere=True,
        body=schemas.object_of({"subject": schemas.SUBJECT}, ("subject",)),
        answer=_ACCESS,
        statuses=(404, 422),
    ),
    Operation(
        "POST",
        "/v1/held",
        "held",
        "read",
        "How many records of a person each collection holds, and what `access` says beside records.",
        _held,
        sealed=True,
        everywhere=True,
        body=schemas.object_of({"subject": schemas.SUBJECT}, ("subject",)),
        answer=schemas.object_of(
            {
                "records": schemas.COUNT,
                "collections": _COUNTS,
                "receipts": {"type": "array", "items": schemas.RECEIPT},
                "holds": {"type": "array", "items": _HOLD},
                "blocked_since": {"type": ["string", "null"]},
            },
            ("records", "collections", "receipts", "holds", "blocked_since"),
        ),
        statuses=(404, 422),
    ),
    Operation(
        "POST",
        "/v1/expire",
        "expire",
        "erase",
        "Erase what is due, and give a receipt if anything was. The server does it by itself every minute.",
        _expire,
        writes=True,
        sealed=True,
        everywhere=True,
        body=schemas.object_of(
            {"skip_held": {"type": "boolean", "description": "leave out people with a legal hold, instead of refusing"}}
        ),
        answer=schemas.FORGOTTEN,
        statuses=(202, 423, 507),
    ),
    Operation(
        "POST",
        "/v1/hold",
        "hold",
        "hold",
        "Keep a person's records from being erased, until the hold is lifted.",
        _hold,
        writes=True,
        sealed=True,
        everywhere=True,
        body=schemas.object_of({"subject": schemas.SUBJECT, "reason": _REASON}, ("subject", "reason")),
        answer=_HELD,
        statuses=(404, 409, 422),
    ),
    Operation(
        "POST",
        "/v1/lift",
        "lift",
        "hold",
        "End a hold, by the id that its receipt has.",
        _lift,
        writes=True,
        sealed=True,
        everywhere=True,
        body=schemas.object_of({"hold": {"type": "string", "minLength": 1}, "reason": _REASON}, ("hold", "reason")),
        answer=_HELD,
        statuses=(404, 409, 422),
    ),
    Operation(
        "POST",
        "/v1/holds",
        "holds",
        "hold",
        "The holds in force, of one person or all.",
        _holds,
        everywhere=True,
        body=schemas.object_of(
            {
                "subject": schemas.SUBJECT,
                "names": {"type": "boolean", "default": True, "description": "say whose they are; tries every subject"},
            }
        ),
        answer=schemas.object_of({"holds": {"type": "array", "items": _HOLD}}, ("holds",)),
        statuses=(409,),
    ),
    *(
        Operation(
            "POST",
            f"/v1/{method}",
            method,
            "erase",
            summary,
            _fencing(method),
            writes=True,
            sealed=True,
            everywhere=True,
            body=schemas.object_of({"subject": schemas.SUBJECT, "reason": _REASON}, ("subject", "reason")),
            answer=_HELD,
            statuses=(404, 409, 422),
        )
        for method, summary in (
            ("block", "Refuse to write for a person, until they are unblocked."),
            ("unblock", "Allow to write for a person again."),
        )
    ),
)
