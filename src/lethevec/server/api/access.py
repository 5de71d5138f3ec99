"""Who may call: sessions of the console, and the keys of the server."""

from __future__ import annotations

import asyncio
from typing import Any

from .. import fields, schemas
from ..calls import Answer, Call, Operation
from ..keys import ROLES, Key, KeyFile
from ..origins import of_the_console
from ..problems import Problem

__all__ = ["OPERATIONS"]


def _left(call: Call) -> dict[str, Any]:
    settings = call.core.settings
    session = call.core.sessions.of(call)
    return {
        "idle": None if session is None else session.idle_left,
        "left": None if session is None else session.left,
        "session_idle": settings.session_idle,
    }


async def _session(call: Call) -> Answer:
    return Answer(_left(call))


async def _begin(call: Call) -> Answer:
    core = call.core
    if not of_the_console(call):
        raise Problem(403, "origin", "expected a request of the console; programs send their key with every request")
    core.rates.check("unknown")
    text = fields.needed_text(await call.json(), "key", 200)
    key = core.door.check(text.strip())
    if key is None:
        raise Problem(401, "key", "key: expected a key of this server that is neither withdrawn nor expired")
    call.key = key
    settings = core.settings
    fresh = {
        "idle": min(settings.session_idle, settings.session_longest),
        "left": settings.session_longest,
        "session_idle": settings.session_idle,
    }
    return Answer(fresh, headers=core.sessions.begin(key))


async def _end(call: Call) -> Answer:
    if not of_the_console(call):
        raise Problem(403, "origin", "expected a request of the console")
    return Answer({"status": "ok"}, headers=call.core.sessions.end(call))


def _shown(key: Key) -> dict[str, Any]:
    state = "live" if key.live else "withdrawn" if key.withdrawn_at is not None else "expired"
    return {
        "id": key.id,
        "name": key.name,
        "roles": list(key.roles),
        "collections": None if key.collections is None else list(key.collections),
        "made_at": key.made_at,
        "expires_at": key.expires_at,
        "withdrawn_at": key.withdrawn_at,
        "state": state,
    }


def _file(call: Call) -> KeyFile:
    return KeyFile(call.core.settings.state_folder)


async def _keys(call: Call) -> Answer:
    found = await asyncio.to_thread(_file(call).keys)
    return Answer({"keys": [_shown(key) for key in found]})


async def _make(call: Call) -> Answer:
    core = call.core
    body = await call.json()
    name = fields.needed_text(body, "name", 200)
    roles = fields.names(body, "roles", tuple(ROLES), ())
    collections = body.get("collections")
    if collections is not None and (
        type(collections) is not list or not collections or not all(type(one) is str for one in collections)
    ):
        raise Problem(422, "field", "collections: expected names of collections, or null for all")
    expires = fields.text(body, "expires")
    if not core.door.closed and ("admin" not in roles or collections is not None):
        raise Problem(
            422, "first_key", "roles: expected admin, for all collections, in the first key: it closes the door"
        )
    text, key = await asyncio.to_thread(
        lambda: _file(call).make(name, roles, collections=collections, expires_at=expires)
    )
    core.door.look_again()
    call.facts["made"] = key.id
    return Answer({"text": text, "key": _shown(key)}, 201)


async def _withdraw(call: Call) -> Answer:
    core = call.core
    id = fields.needed_text(await call.json(), "key", 8)
    if id == call.key.id:
        raise Problem(409, "own_key", "key: expected another one than that of the request")
    known = {key.id for key in await asyncio.to_thread(_file(call).keys)}
    if id not in known:
        raise Problem(404, "key", "key: expected the id of a key")
    gone = await asyncio.to_thread(_file(call).withdraw, id)
    core.door.look_again()
    call.facts["withdrawn"] = gone.id
    return Answer({"key": _shown(gone)})


_TEXTS = {"type": "array", "items": {"type": "string"}}
_SOME = {"anyOf": [_TEXTS, {"type": "null"}], "description": "names of collections; null: all"}
_SESSION = schemas.object_of(
    {
        "idle": {"type": ["number", "null"], "description": "seconds left if nothing is done; null: no session"},
        "left": {"type": ["number", "null"], "description": "seconds left in any case"},
        "session_idle": {
            "type": "number",
            "description": "seconds after which a session ends in which nothing is done",
        },
    },
    ("idle", "left", "session_idle"),
)
_TIME = {"type": ["string", "null"]}
_KEY = schemas.object_of(
    {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "roles": _TEXTS,
        "collections": _SOME,
        "made_at": {"type": "string"},
        "expires_at": _TIME,
        "withdrawn_at": _TIME,
        "state": {"enum": ["live", "expired", "withdrawn"]},
    },
    ("id", "name", "roles", "collections", "made_at", "state"),
)

OPERATIONS = (
    Operation(
        "GET",
        "/v1/session",
        "session",
        None,
        "How long the caller's session of the console lasts.",
        _session,
        audited=False,
        answer=_SESSION,
    ),
    Operation(
        "POST",
        "/v1/session",
        "sign in",
        "",
        "Begin a session of the console: the answer sets a cookie that stands for the key.",
        _begin,
        secret=True,
        body=schemas.object_of({"key": {"type": "string", "minLength": 1, "maxLength": 200}}, ("key",)),
        answer=_SESSION,
        statuses=(401, 403, 507),
    ),
    Operation(
        "DELETE",
        "/v1/session",
        "sign out",
        "",
        "End a session of the console.",
        _end,
        audited=False,
        answer=schemas.object_of({"status": {"const": "ok"}}, ("status",)),
        statuses=(403, 507),
    ),
    Operation(
        "GET",
        "/v1/keys",
        "keys",
        "admin",
        "The keys of this server, without their secrets.",
        _keys,
        everywhere=True,
        answer=schemas.object_of({"keys": {"type": "array", "items": _KEY}}, ("keys",)),
    ),
    Operation(
        "POST",
        "/v1/keys",
        "make key",
        "admin",
        "Make a key. Its text is in this answer alone.",
        _make,
        writes=True,
        sealed=True,
        everywhere=True,
        secret=True,
        body=schemas.object_of(
            {
                "name": schemas.NAME,
                "roles": {"type": "array", "items": {"enum": list(ROLES)}, "minItems": 1},
                "collections": _SOME,
                "expires": {"type": "string", "description": "a date, after which it opens nothing"},
            },
            ("name", "roles"),
        ),
        answer=schemas.object_of({"text": {"type": "string"}, "key": _KEY}, ("text", "key")),
        statuses=(201, 422),
    ),
    Operation(
        "POST",
        "/v1/keys/withdraw",
        "withdraw key",
        "admin",
        "Make a key useless for good.",
        _withdraw,
        writes=True,
        sealed=True,
        everywhere=True,
        body=schemas.object_of({"key": {"type": "string", "minLength": 8, "maxLength": 8}}, ("key",)),
        answer=schemas.object_of({"key": _KEY}, ("key",)),
        statuses=(404, 409, 422),
    ),
)
