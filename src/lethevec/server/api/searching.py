"""`search`: the nearest records to vectors, as JSON, base64 or raw float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import lethevec

from .. import fields, schemas
from ..calls import Answer, Call, Operation
from ..problems import Problem

__all__ = ["OPERATIONS"]

RAW = "application/octet-stream"
_SHORT = 4  # queries that are answered at once, without a thread
_INCLUDE = ("subjects", "payloads")


def _options(call: Call) -> dict[str, Any]:
    """With a raw body, the options are in the query string, which names no person. They are often the same."""
    raw: bytes = call.scope["query_string"]
    known = _KNOWN.get(raw)
    if known is not None:
        return known
    given = call.query()
    try:
        options: dict[str, Any] = {"k": int(given.get("k", "10"))}
        for name in ("effort", "radius"):
            if name in given:
                options[name] = float(given[name])
    except ValueError:
        raise Problem(400, "query", "query string: expected numbers for k, effort and radius") from None
    options["include"] = [part for part in given.get("include", ",".join(_INCLUDE)).split(",") if part]
    if len(_KNOWN) > 1000:
        _KNOWN.clear()
    _KNOWN[raw] = options
    return options


_KNOWN: dict[bytes, dict[str, Any]] = {}


async def _search(call: Call) -> Answer:
    core = call.core
    collection = core.collection(call)
    limits = core.settings
    dim = collection.dim
    raw = await call.body()
    where = subject = None
    if call.content_type == RAW:
        body = _options(call)
        queries = fields.floats(raw, dim)
    else:
        body = call.read_json(raw)
        given = body.get("vectors", body.get("vector"))
        queries = fields.vectors(given, dim)
        where = fields.mapping(body, "where")
        subject = fields.text(body, "subject")
    k = fields.integer(body, "k", min(10, limits.max_k), 1, limits.max_k)
    effort = fields.number(body, "effort")
    radius = fields.number(body, "radius")
    include = fields.names(body, "include", _INCLUDE, _INCLUDE)
    if len(queries) > limits.max_queries:
        raise Problem(413, "batch", f"vectors: expected at most {limits.max_queries} in one search")
    options: dict[str, Any] = {}
    if where is not None:
        options["where"] = where
    if subject is not None:
        options["subject"] = subject
        call.facts["subject"] = core.audit.subject(subject)
    if radius is not None:
        options["radius"] = radius
    if effort is not None:
        options["effort"] = effort
    hits = await core.read(
        call.collection, lambda: collection.search(queries, k, **options), short=len(queries) <= _SHORT
    )
    call.facts["queries"] = len(queries)
    return Answer(hits_content(hits, include))


def hits_content(hits: lethevec.Hits, include: tuple[str, ...]) -> dict[str, Any]:
    """Answers as columns, one row for each query, without padding."""
    rows = hits.distances
    last = rows[:, -1].tolist() if rows.size else [math.inf]
    full = max(last) < math.inf  # the usual case: no row has padding
    counts = None if full else np.isfinite(rows).sum(axis=1).tolist()
    content: dict[str, Any] = {"ids": _trimmed(hits.ids.tolist(), counts), "distances": _trimmed(rows, counts)}
    for name in include:
        column = getattr(hits, name)
        if column is not None:
            content[name] = _trimmed(column.tolist(), counts)
    return content


def _trimmed(rows: Any, counts: list[int] | None) -> Any:
    return rows if counts is None else [row[:count] for row, count in zip(rows, counts, strict=True)]


OPERATIONS = (
    Operation(
        "POST",
        "/v1/collections/{collection}/search",
        "search",
        "read",
        "The k nearest records to each vector, nearest first.",
        _search,
        body=schemas.object_of(
            {
                "vectors": schemas.VECTORS,
                "vector": schemas.NUMBERS,
                "k": {"type": "integer", "minimum": 1, "default": 10},
                "where": schemas.WHERE,
                "subject": schemas.SUBJECT,
                "radius": {"type": "number", "description": "only records within this distance"},
                "effort": {"type": "number", "default": 1.0, "description": "more finds more and takes longer"},
                "include": {"type": "array", "items": {"enum": list(_INCLUDE)}},
            }
        ),
        other_bodies=(RAW,),
        query={
            "k": {"type": "integer", "minimum": 1},
            "effort": {"type": "number"},
            "radius": {"type": "number"},
            "include": {"type": "string"},
        },
        answer=schemas.HITS,
        statuses=(404, 413, 422),
    ),
)
