"""`/console`: the page for people who answer for erasures. Files of the package, and nothing from elsewhere.

The page uses the HTTP API alone; here are only its files and the rules that a browser is to hold it to. The rules
forbid scripts, styles and connections from elsewhere, scripts and styles in the page itself, frames around it, forms
that leave it, and (by Trusted Types) every way to make markup from a text: the page builds what it shows node by node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib import resources
from typing import Any

from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

__all__ = ["console_routes"]

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def console_routes(*, tls: bool) -> list[BaseRoute]:
    """The page and its files, read once."""
    files = dict(_files(resources.files(__package__) / "static", ""))
    headers = _HEADERS | ({"strict-transport-security": "max-age=31536000"} if tls else {})

    async def page(request: Any) -> Response:
        return _answer(request, files["index.html"], {**headers, "cache-control": "no-store"})

    async def file(request: Any) -> Response:
        name = request.path_params["file"]
        if not name:
            return RedirectResponse("/console", 308, headers)
        if name not in files or name == "index.html":
            return Response("", 404, headers)
        return _answer(request, files[name], {**headers, "cache-control": "no-cache"})

    return [Route("/console", page), Route("/console/{file:path}", file)]


def _answer(request: Any, found: tuple[bytes, str, str], headers: dict[str, str]) -> Response:
    content, kind, tag = found
    headers = {**headers, "content-type": kind, "etag": tag}
    if request.headers.get("if-none-match") == tag and headers["cache-control"] == "no-cache":
        return Response(b"", 304, headers)
    return Response(content, 200, headers)


def _files(folder: Any, prefix: str) -> Iterator[tuple[str, tuple[bytes, str, str]]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _files(one, f"{prefix}{one.name}/")
            continue
        kind = _KINDS.get("." + one.name.rpartition(".")[2])
        if kind is not None:
            content = one.read_bytes()
            yield prefix + one.name, (content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
