"""`search`: the nearest records to vectors, as JSON, base64 or raw float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import lethevec

from .. import fields, schemas
from ..bodies import take_vectors
from ..calls import Answer, Call, Operation
from ..fields import F32, wipe_vectors
from ..problems import Problem

__all__ = ["OPERATIONS"]

RAW = "application/octet-stream"
_SHORT = 4  # queries that are answered at once, without a thread
_INCLUDE = ("subjects", "payloads")
_MAX_AT_ONCE = 256 << 10  # bytes; more are many vectors, or very long ones
_MANY = 1000  # sets of options that are remembered
_LONGEST = 200  # bytes of one that is


class _Asked(NamedTuple):
    """What a search is to do, apart from its vectors."""

    k: int
    include: tuple[str, ...]
    options: dict[str, Any]  # of `Collection.search`


#: Options as they were read before, by the text that they came in. It names no person: texts with a filter or a subject
#: are not remembered.
_known: dict[bytes, _Asked] = {}


def _remember(text: bytes, asked: _Asked) -> None:
    if len(text) > _LONGEST:
        return
    if len(_known) > _MANY:
        _known.clear()
    _known[text] = asked


def _read(call: Call, raw: bytes, dim: int) -> tuple[F32, _Asked]:
    """Vectors and options. With a raw body the options are in the query string."""
    if call.content_type == RAW:
        query: bytes = call.scope["query_string"]
        return fields.floats(raw, dim), _known.get(query) or _from_query(call, query)
    taken = take_vectors(raw, ("vector", "vectors"), dim) if call.is_json else None
    if taken is None:
        body = call.read_json(raw)
        return fields.vectors(body.get("vectors", body.get("vector")), dim), _options(call, body)
    vectors, rest = taken
    asked = _known.get(rest)
    if asked is None:
        body = call.read_json(rest)
        if "vectors" in body and "vector" in body:  # which of them was it?
            body = call.read_json(raw)
            return fields.vectors(body["vectors"], dim), _options(call, body)
        asked = _options(call, body)
        if "where" not in asked.options and "subject" not in asked.options:
            _remember(rest, asked)
    return vectors, asked


def _from_query(call: Call, query: bytes) -> _Asked:
    given = call.query()
    body: dict[str, Any] = {}
    try:
        if "k" in given:
            body["k"] = int(given["k"])
        for name in ("effort", "radius"):
            if name in given:
                body[name] = float(given[name])
    except ValueError:
        raise Problem(400, "query", "query string: expected numbers for k, effort and radius") from None
    if "include" in given:
        body["include"] = [part for part in given["include"].split(",") if part]
    asked = _options(call, body)
    _remember(query, asked)
    return asked


def _options(call: Call, body: dict[str, Any]) -> _Asked:
    limits = call.core.settings
    given = {
        "where": fields.mapping(body, "where"),
        "subject": fields.text(body, "subject"),
        "radius": fields.number(body, "radius"),
        "effort": fields.number(body, "effort"),
    }
    options = {name: value for name, value in given.items() if value is not None}
    k = fields.integer(body, "k", min(10, limits.max_k), 1, limits.max_k)
    return _Asked(k, fields.names(body, "include", _INCLUDE, _INCLUDE), options)


def _prepared(call: Call, raw: bytes) -> tuple[F32, _Asked, Callable[[], lethevec.Hits]]:
    """Everything is checked, and the search is ready to run."""
    core = call.core
    collection = core.collection(call)
    queries, asked = _read(call, raw, collection.dim)
    if len(queries) > core.settings.max_queries:
        raise Problem(413, "batch", f"vectors: expected at most {core.settings.max_queries} in one search")
    if "subject" in asked.options:
        call.facts["subject"] = core.audit.subject(asked.options["subject"])
    call.facts["queries"] = len(queries)
    return queries, asked, lambda: collection.search(queries, asked.k, **asked.options)


async def _search(call: Call) -> Answer:
    queries, asked, run = _prepared(call, await call.body())
    hits = await call.core.read(call.collection, run, short=len(queries) <= _SHORT)
    wipe_vectors(queries)
    return Answer(hits_content(hits, asked.include))


def _search_at_once(call: Call, raw: bytes) -> Answer | None:
    if len(raw) > _MAX_AT_ONCE or not call.core.can_at_once(call.collection):
        return None
    queries, asked, run = _prepared(call, raw)
    if len(queries) > _SHORT:
        return None
    hits = call.core.at_once(call.collection, run)
    wipe_vectors(queries)
    return Answer(hits_content(hits, asked.include))


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
        at_once=_search_at_once,
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
