"""JSON schemas of requests and answers, for the OpenAPI document and for checking which fields a request may have."""

from __future__ import annotations

from typing import Any

__all__ = ["object_of"]

Schema = dict[str, Any]

ID: Schema = {"anyOf": [{"type": "integer", "format": "int64"}, {"type": "string"}], "description": "a record's id"}
IDS: Schema = {"type": "array", "items": ID}
NUMBERS: Schema = {"type": "array", "items": {"type": "number"}}
VECTORS: Schema = {
    "anyOf": [
        {"type": "array", "items": {"anyOf": [NUMBERS, {"type": "null"}]}},
        {"type": "string", "contentEncoding": "base64", "description": "little-endian float32, row by row"},
    ]
}
SUBJECTS: Schema = {"type": "array", "items": {"type": ["string", "null"]}}
PAYLOADS: Schema = {"type": "array", "items": {"type": ["object", "null"]}}
WHERE: Schema = {"type": "object", "description": "a filter, as in `search(where=...)`"}
SUBJECT: Schema = {"type": "string", "minLength": 1}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
RECEIPT: Schema = {"type": "object", "description": "a signed receipt", "required": ["kind", "sequence", "signature"]}
_EXPIRES: Schema = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]}
EXPIRES: Schema = {
    "anyOf": [*_EXPIRES["anyOf"], {"type": "array", "items": _EXPIRES}],
    "description": "when records are due: seconds from now, a date, or null for never; for all or one by one",
}
ENCODING: Schema = {"enum": ["json", "base64"], "description": "of vectors in the answer"}
COUNT: Schema = {"type": "integer", "minimum": 0}


def object_of(properties: dict[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """An object with these fields and no others.

    >>> object_of({"k": {"type": "integer"}}, ("k",))["required"]
    ['k']
    """
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return schema


ERROR = object_of(
    {
        "error": object_of(
            {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "at": {"type": "array", "items": COUNT, "description": "positions in the request"},
            },
            ("code", "message"),
        )
    },
    ("error",),
)
WAITING = object_of(
    {"status": {"const": "waiting"}, "pending": COUNT, "ask": {"type": "string"}}, ("status", "pending", "ask")
)
COLLECTION = object_of(
    {
        "name": {"type": "string"},
        "dim": {"type": "integer", "minimum": 1},
        "metric": {"enum": ["cosine", "l2", "ip"]},
        "records": COUNT,
        "encrypted": {"type": "boolean", "description": "every record is sealed under a key of its own"},
        "expires": {"type": ["number", "null"], "description": "seconds that records are kept unless they say other"},
        "expired": {**COUNT, "description": "due, in no answer, and not yet erased"},
    },
    ("name", "dim", "metric", "records", "encrypted", "expires", "expired"),
)
RECORDS = object_of(
    {
        "ids": IDS,
        "vectors": {"type": "array", "items": {"anyOf": [NUMBERS, {"type": "string"}, {"type": "null"}]}},
        "subjects": SUBJECTS,
        "payloads": PAYLOADS,
        "expires": {"type": "array", "items": {"type": ["string", "null"]}},
        "next": {"anyOf": [ID, {"type": "null"}], "description": "give it as `after` for the next page"},
    },
    ("ids", "next"),
)
HITS = object_of(
    {
        "ids": {"type": "array", "items": IDS},
        "distances": {"type": "array", "items": NUMBERS},
        "subjects": {"type": "array", "items": SUBJECTS},
        "payloads": {"type": "array", "items": PAYLOADS},
    },
    ("ids", "distances"),
)
FORGOTTEN = object_of(
    {
        "records": COUNT,
        "receipt": {"anyOf": [RECEIPT, {"type": "null"}]},
        "ids": {**IDS, "description": "of a dry run: what would go"},
        "missing": {**IDS, "description": "of a dry run: what is not there"},
        "collections": {
            "type": "object",
            "additionalProperties": COUNT,
            "description": "of a dry run everywhere: records in each collection",
        },
        "holds": {**COUNT, "description": "of a dry run everywhere: legal holds in the way"},
        "blocked_since": {"type": ["string", "null"], "description": "of a dry run everywhere"},
    },
    ("records", "receipt"),
)
