"""The OpenAPI document of `/v1`, made from the operations."""

from __future__ import annotations

import functools
import re
from http import HTTPStatus
from typing import Any

import lethevec

from . import schemas
from .api import OPERATIONS
from .calls import Operation

__all__ = ["document"]

_ALWAYS = (400, 413, 429, 503)
_WITH_KEY = (401, 403)
_WITH_BODY = (408, 415, 422)


@functools.lru_cache(1)
def document() -> dict[str, Any]:
    """The whole document.

    >>> sorted(document()["paths"]["/v1/collections"])
    ['get', 'post']
    """
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lethevec",
            "version": lethevec.__version__,
            "description": "Nearest-neighbour search that can forget. Ids and subjects are in bodies only.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": schemas.ERROR, "Waiting": schemas.WAITING},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.name.replace(" ", "_"),
        "summary": operation.summary,
        "responses": _responses(operation),
    }
    if operation.right == "":
        made["security"] = []
    elif operation.right is not None:
        made["description"] = f"Needs a key with the right to {operation.right}."
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in operation.query.items()
    ]
    if operation.writes:
        number = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "A number of your own. A repeat with the same number gets the first answer again.",
                "schema": number,
            }
        )
    if parameters:
        made["parameters"] = parameters
    content: dict[str, Any] = {}
    if operation.body is not None:
        content["application/json"] = {"schema": operation.body}
    for kind in operation.other_bodies:
        content[kind] = {"schema": {"type": "string", "format": "binary"}}
    if content:
        required = operation.body is None or bool(operation.body.get("required"))
        made["requestBody"] = {"required": required, "content": content}
    return made


def _responses(operation: Operation) -> dict[str, Any]:
    statuses = {*_ALWAYS, *operation.statuses}
    if operation.right != "":
        statuses |= set(_WITH_KEY)
    if operation.body is not None or operation.other_bodies:
        statuses |= set(_WITH_BODY)
    if operation.writes:
        statuses |= {409, 422}
    schema = operation.answer if operation.answer is not None else {"type": "string"}
    good = {"description": "Done.", "content": {operation.kind: {"schema": schema}}}
    responses: dict[str, Any] = {"200": good}
    for status in sorted(statuses):
        if status == 201:
            responses["201"] = {**good, "description": "Made."}
        elif status == 202:
            responses["202"] = _described("Waiting", "The erasure is not complete; ask again where `Location` says.")
        else:
            responses[str(status)] = _described("Error", HTTPStatus(status).phrase + ".")
    return responses


def _described(schema: str, text: str) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{schema}"}
    return {"description": text, "content": {"application/json": {"schema": reference}}}
