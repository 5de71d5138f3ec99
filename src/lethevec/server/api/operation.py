"""What operators need: health, readiness, metrics, and the description of the API."""

from __future__ import annotations

from typing import Any

from lethevec.errors import LethevecError

from .. import schemas
from ..calls import Answer, Call, Operation
from ..metrics import CONTENT_TYPE, summary
from ..problems import Problem
from ..processes import merged_metrics

__all__ = ["OPERATIONS"]

_TOTALS = ("pending_erasures", "in_flight", "request_bytes", "erased_records", "expired_records")
_LIST_OF_NAMES = {"type": "array", "items": {"type": "string"}}
_CLUSTER = schemas.object_of(
    {
        "name": {"type": "string"},
        "epoch": {**schemas.COUNT, "description": "the version of what everybody agrees on"},
        "term": {**schemas.COUNT, "description": "how often somebody has become the writer"},
        "shards": {
            "type": "array",
            "items": schemas.object_of(
                {"shard": schemas.COUNT, "buckets": schemas.COUNT, "live": {**schemas.COUNT, "description": "copies"}},
                ("shard", "buckets", "live"),
            ),
        },
        "members": {
            "type": "array",
            "items": schemas.object_of(
                {
                    "member": {"type": "string"},
                    "shard": schemas.COUNT,
                    "disk": {"type": "string"},
                    "state": {"enum": ["live", "away", "joining", "lost"]},
                    "lease": {"type": "number", "description": "seconds for which it may answer"},
                    "reachable": {"type": "boolean"},
                    "records": {"type": ["integer", "null"], "description": "held, if it could be asked"},
                },
                ("member", "shard", "disk", "state", "lease", "reachable", "records"),
            ),
        },
        "waiting": {
            "type": "array",
            "description": "erasures that are not complete, and on whom they wait",
            "items": schemas.object_of({"erasure": schemas.COUNT, "members": _LIST_OF_NAMES}, ("erasure", "members")),
        },
        "erasures": {**schemas.COUNT, "description": "since the cluster was made"},
        "counts": {
            "type": "object",
            "additionalProperties": schemas.COUNT,
            "description": "questions, writes and members set away, since this server started",
        },
    },
    ("name", "epoch", "term", "shards", "members", "waiting", "erasures", "counts"),
)
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
    return Answer(await _gathered(call), kind=CONTENT_TYPE.encode())


async def _live(call: Call) -> Answer:
    return Answer(summary(await _gathered(call)))


async def _cluster(call: Call) -> Answer:
    core = call.core
    if core.cluster is None:
        return Answer({"cluster": None})
    return Answer({"cluster": _told(await core.read(None, core.cluster.status))})


def _told(status: dict[str, Any]) -> dict[str, Any]:
    """The cluster's status in JSON's terms: lists with names in place of keys that are numbers."""
    members = [
        {
            **{name: one[name] for name in ("member", "shard", "disk", "state", "lease")},
            "reachable": one.get("reachable", False),
            "records": one.get("records"),
        }
        for one in status["members"]
    ]
    return {
        **{name: status[name] for name in ("epoch", "term", "erasures", "counts")},
        "name": status["cluster"],
        "shards": [{"shard": int(shard), **told} for shard, told in status["shards"].items()],
        "members": members,
        "waiting": [{"erasure": number, "members": names} for number, names in sorted(status["waiting"].items())],
    }


async def _gathered(call: Call) -> bytes:
    """The metrics of all processes."""
    core = call.core
    texts = [await core.read(None, core.own_metrics)]
    if core.control is not None:
        texts += await core.control.others_metrics()
    return merged_metrics(texts)


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
        "/v1/metrics",
        "live",
        "describe",
        "The numbers of `/metrics` as JSON, of all processes together, with latencies by route.",
        _live,
        audited=False,
        everywhere=True,
        answer=schemas.object_of(
            {
                "routes": {
                    "type": "array",
                    "items": schemas.object_of(
                        {
                            "route": {"type": "string"},
                            "requests": schemas.COUNT,
                            "errors": {**schemas.COUNT, "description": "answers with a status from 400 on"},
                            "seconds": {"type": "number", "description": "of all its requests together"},
                            **{name: {"type": ["number", "null"]} for name in ("p50_ms", "p90_ms", "p99_ms")},
                        },
                        ("route", "requests", "errors", "seconds", "p50_ms", "p90_ms", "p99_ms"),
                    ),
                },
                "processes": {"type": "array", "items": {"type": "string"}},
                "records": {"type": "object", "additionalProperties": schemas.COUNT},
                **dict.fromkeys(
                    ("pending_erasures", "in_flight", "request_bytes", "erased_records", "expired_records"),
                    schemas.COUNT,
                ),
            },
            ("routes", "processes", "records", "pending_erasures", "in_flight"),
        ),
    ),
    Operation(
        "GET",
        "/v1/cluster",
        "cluster",
        "describe",
        "The cluster behind the server: shards, members and their states, erasures that wait. Null for a folder.",
        _cluster,
        audited=False,
        everywhere=True,
        answer=schemas.object_of({"cluster": {"anyOf": [{"type": "null"}, _CLUSTER]}}, ("cluster",)),
    ),
    Operation(
        "GET",
        "/openapi.json",
        "openapi",
        "",
        "All calls with their schemas, for programs.",
        _openapi,
        audited=False,
        answer={"type": "object"},
    ),
)
