"""Proof: receipts, verification, the public key, erasures that wait, and the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from itertools import islice
from typing import Any

import orjson

import lethevec

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
    after = _number(given.get("after"), -1, "after")
    limit = min(_number(given.get("limit"), 1000, "limit"), 1000)
    chain = await core.read(None, lambda: core.db.receipts(all_kinds=True))
    page = [receipt for receipt in chain if receipt.sequence > after][: max(1, limit)]
    more = bool(page) and page[-1].sequence < chain[-1].sequence
    return Answer({"receipts": [receipt.fields for receipt in page], "next": page[-1].sequence if more else None})


async def _verify(call: Call) -> Answer:
    core = call.core
    body = await call.json()
    given = body.get("receipt")
    if type(given) is str:
        receipt = lethevec.Receipt.from_json(given)
    elif type(given) is dict:
        receipt = lethevec.Receipt(given)
    else:
        raise Problem(422, "field", "receipt: expected a receipt, as JSON or as text")
    arguments: dict[str, Any] = {}
    ids = fields.ids(body, core.settings.max_batch, needed=False)
    if ids is not None:
        arguments["ids"] = ids
    subject = fields.text(body, "subject")
    if subject is not None:
        arguments["subject"] = subject
        call.facts["subject"] = core.audit.subject(subject)
    report = await core.read(None, lambda: core.db.verify(receipt, **arguments))
    return Answer({"good": bool(report), **asdict(report)})


async def _key(call: Call) -> Answer:
    core = call.core
    return Answer({"public_key": core.db.public_key().hex(), "audit_key": core.signer.public.hex()})


async def _erasure(call: Call) -> Answer:
    core = call.core
    number = _number(call.params["number"], 0, "number")

    def look() -> tuple[int, list[int]]:
        pending = core.db.pending_erasures()
        return pending, [receipt.sequence for receipt in core.db.receipts() if receipt.sequence > number]

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

OPERATIONS = (
    Operation(
        "GET",
        "/v1/receipts",
        "receipts",
        "proof",
        "The chain of receipts, oldest first.",
        _receipts,
        everywhere=True,
        query=_PAGE,
        answer=schemas.object_of(
            {
                "receipts": {"type": "array", "items": schemas.RECEIPT},
                "next": {"type": ["integer", "null"], "description": "give it as `after` for the next page"},
            },
            ("receipts", "next"),
        ),
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
            },
            ("receipt",),
        ),
        answer=schemas.object_of(
            {
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
            },
            ("good", "checks"),
        ),
        statuses=(422,),
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
