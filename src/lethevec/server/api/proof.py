"""Proof: receipts, verification, the public key, erasures that wait, and the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from itertools import islice
from typing import Any

import orjson

from .. import fields, schemas
from ..audit import read_log
from ..calls import Answer, Call, Operation
from ..problems import Problem
from .records import LINES

__all__ = ["OPERATIONS"]

_PART = 500  # entries of the audit log that are sent at a time


def _number(text: str | None, default: int, name: str) -> int:
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Problem(400, "query", f"{name}: expected a whole number")
    return int(text)


async def _receipts(call: Call) -> Answer:
    core = call.core
    given = call.query()
    limit = max(1, min(_number(given.get("limit"), 1000, "limit"), 1000))
    order = given.get("order", "oldest")
    if order not in ("oldest", "newest"):
        raise Problem(400, "query", "order: expected oldest or newest")
    brief = given.get("brief", "false")
    if brief not in ("true", "false"):
        raise Problem(400, "query", "brief: expected true or false")
    part = {"limit": limit + 1}
    if order == "newest":
        part["before"] = _number(given.get("after"), 1 << 62, "after")
    else:
        part["after"] = _number(given.get("after"), -1, "after")
    found = await core.read(None, lambda: core.db.chain(**part))
    page = found[:limit]
    following = page[-1].sequence if len(found) > limit else None
    shown = [receipt.fields for receipt in page]
    if brief == "true":
        shown = [_brief(receipt) for receipt in shown]
    return Answer({"receipts": shown, "next": following})


def _brief(receipt: dict[str, Any]) -> dict[str, Any]:
    """Without the tags of what was erased: one for each record, which is most of a long receipt."""
    for part in receipt.get("collections", []):
        part.pop("erased", None)
    return receipt


async def _receipt(call: Call) -> Answer:
    core = call.core
    number = _number(call.params["number"], 0, "number")
    found = await core.read(None, lambda: core.db.chain(after=number - 1, limit=1))
    if not found or found[0].sequence != number:
        raise Problem(404, "receipt", "number: expected that of a receipt")
    return Answer({"receipt": found[0].fields})


async def _verify(call: Call) -> Answer:
    core = call.core
    body = await call.json()
    given = body.get("receipt")
    if type(given) not in (str, dict):
        raise Problem(422, "field", "receipt: expected a receipt, as JSON or as text")
    receipt = core.db.receipt_of(given)
    arguments: dict[str, Any] = {}
    ids = fields.ids(body, core.settings.max_batch, needed=False)
    if ids is not None:
        arguments["ids"] = ids
    subject = fields.text(body, "subject")
    if subject is not None:
        arguments["subject"] = subject
        call.facts["subject"] = core.audit.subject(subject)
    if fields.boolean(body, "quick"):
        if ids is not None:
            raise Problem(422, "field", "quick: expected no ids beside it")
        arguments["quick"] = True
    report = await core.read(None, lambda: core.db.verify(receipt, **arguments))
    return Answer({"good": bool(report), **asdict(report)})


async def _verify_chain(call: Call) -> Answer:
    core = call.core
    body = await call.json()
    after = fields.integer(body, "after", -1, -1, 1 << 60)
    limit = fields.integer(body, "limit", 1000, 1, 10_000)
    report, following = await core.read(None, lambda: core.db.verify_chain(after=after, limit=limit))
    return Answer({"good": bool(report), **asdict(report), "next": following})


async def _key(call: Call) -> Answer:
    core = call.core
    return Answer({"public_key": core.db.public_key().hex(), "audit_key": core.signer.public.hex()})


async def _erasure(call: Call) -> Answer:
    core = call.core
    number = _number(call.params["number"], 0, "number")

    def look() -> tuple[int, list[int]]:
        pending = core.db.pending_erasures()
        return pending, [receipt.sequence for receipt in core.db.chain(after=number, limit=1000) if receipt.erases]

    pending, done = await core.read(None, look)
    if pending:
        where = f"/v1/erasures/{number}"
        content: dict[str, Any] = {"status": "waiting", "pending": pending, "ask": where}
        return Answer(content, 202, headers=((b"location", where.encode()), (b"retry-after", b"1")))
    return Answer({"status": "complete", "receipts": done})


async def _audit(call: Call) -> Answer:
    return Answer(stream=_entries(call), kind=LINES.encode())


async def _entries(call: Call) -> AsyncIterator[bytes]:
    core = call.core
    entries = read_log(core.settings.state_folder)
    while part := await core.read(None, lambda: list(islice(entries, _PART))):
        yield b"".join(orjson.dumps(entry) + b"\n" for entry in part)


_PAGE = {"after": {"type": "integer", "minimum": 0}, "limit": {"type": "integer", "minimum": 1}}
_REPORT: dict[str, schemas.Schema] = {
    "good": {"type": "boolean"},
    "checks": {
        "type": "array",
        "items": schemas.object_of(
            {
                "name": {"type": "string"},
                "passed": {"type": ["boolean", "null"]},
                "detail": {"type": "string"},
            }
        ),
    },
    "proves": {"type": "array", "items": {"type": "string"}},
    "leaves_open": {"type": "array", "items": {"type": "string"}},
}

OPERATIONS = (
    Operation(
        "GET",
        "/v1/receipts",
        "receipts",
        "proof",
        "The chain of receipts, oldest or newest first, page by page.",
        _receipts,
        everywhere=True,
        query={
            **_PAGE,
            "order": {"enum": ["oldest", "newest"]},
            "brief": {"type": "boolean", "description": "without the tags of what was erased"},
        },
        answer=schemas.object_of(
            {
                "receipts": {"type": "array", "items": schemas.RECEIPT},
                "next": {"type": ["integer", "null"], "description": "give it as `after` for the next page"},
            },
            ("receipts", "next"),
        ),
    ),
    Operation(
        "GET",
        "/v1/receipts/{number}",
        "receipt",
        "proof",
        "One receipt, by its number.",
        _receipt,
        everywhere=True,
        answer=schemas.object_of({"receipt": schemas.RECEIPT}, ("receipt",)),
        statuses=(400, 404),
    ),
    Operation(
        "POST",
        "/v1/verify",
        "verify",
        "proof",
        "Check a receipt against the collections as they are now.",
        _verify,
        everywhere=True,
        body=schemas.object_of(
            {
                "receipt": {"anyOf": [schemas.RECEIPT, {"type": "string"}]},
                "ids": schemas.IDS,
                "subject": schemas.SUBJECT,
                "quick": {"type": "boolean", "description": "signature, chain and subject alone; reads no records"},
            },
            ("receipt",),
        ),
        answer=schemas.object_of(_REPORT, ("good", "checks")),
        statuses=(422,),
    ),
    Operation(
        "POST",
        "/v1/verify/chain",
        "verify chain",
        "proof",
        "Check the chain of receipts, part by part: order, links, every signature.",
        _verify_chain,
        everywhere=True,
        body=schemas.object_of(
            {
                "after": {"type": "integer", "minimum": -1, "description": "the last one that was checked"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000},
            }
        ),
        answer=schemas.object_of(
            {
                **_REPORT,
                "next": {"type": ["integer", "null"], "description": "give it as `after` for the next part"},
            },
            ("good", "checks", "next"),
        ),
    ),
    Operation(
        "GET",
        "/v1/key",
        "key",
        "describe",
        "The public keys: of the receipts, and of the audit log.",
        _key,
        audited=False,
        answer=schemas.object_of(
            {"public_key": {"type": "string"}, "audit_key": {"type": "string"}}, ("public_key", "audit_key")
        ),
    ),
    Operation(
        "GET",
        "/v1/erasures/{number}",
        "erasure",
        "proof",
        "Whether the erasures that waited are complete: 202 while one waits, then the numbers of their receipts.",
        _erasure,
        audited=False,
        answer=schemas.object_of(
            {"status": {"const": "complete"}, "receipts": {"type": "array", "items": schemas.COUNT}},
            ("status", "receipts"),
        ),
        statuses=(202, 400),
    ),
    Operation(
        "GET",
        "/v1/audit",
        "audit",
        "audit",
        "The audit log as JSON lines.",
        _audit,
        everywhere=True,
        kind=LINES,
    ),
)
