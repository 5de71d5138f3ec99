"""What operators need: health, readiness, metrics, and the description of the API."""

from __future__ import annotations

from lethevec.errors import LethevecError

from .. import schemas
from ..calls import Answer, Call, Operation
from ..metrics import CONTENT_TYPE
from ..problems import Problem
from ..processes import merged_metrics

__all__ = ["OPERATIONS"]

_OK = schemas.object_of({"status": {"const": "ok"}}, ("status",))


async def _health(call: Call) -> Answer:
    return Answer({"status": "ok"})


async def _ready(call: Call) -> Answer:
    core = call.core
    if core.stopping:
        raise Problem(503, "stopping", "the server is about to stop")
    try:
        await core.read(None, core.db.collections)
    except LethevecError:
        raise Problem(503, "not_ready", "the collections cannot be read") from None
    return Answer({"status": "ok"})


async def _metrics(call: Call) -> Answer:
    core = call.core
    texts = [await core.read(None, core.own_metrics)]
    if core.control is not None:
        texts += await core.control.others_metrics()
    return Answer(merged_metrics(texts), kind=CONTENT_TYPE.encode())


async def _openapi(call: Call) -> Answer:
    from ..openapi import document

    return Answer(document())


OPERATIONS = (
    Operation("GET", "/healthz", "health", "", "Whether the process answers.", _health, audited=False, answer=_OK),
    Operation(
        "GET",
        "/readyz",
        "ready",
        "",
        "Whether requests can be served.",
        _ready,
        audited=False,
        answer=_OK,
        statuses=(503,),
    ),
    Operation(
        "GET",
        "/metrics",
        "metrics",
        "describe",
        "Counters and latencies, for Prometheus.",
        _metrics,
        audited=False,
        everywhere=True,
        kind="text/plain",
    ),
    Operation(
        "GET",
        "/openapi.json",
        "openapi",
        "",
        "This document.",
        _openapi,
        audited=False,
        answer={"type": "object"},
    ),
)
