"""Requests that a page in somebody's browser makes: which of them are our own page's.

A server without keys lets in whoever reaches it, and a browser on the same machine does, for any page that it shows. So
it answers neither a page of another origin, unless `cors` names it, nor one whose own name was made to point here.
A session of the console is a cookie, which a browser sends by itself, so it counts only with a header that no page of
another origin can add.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from .problems import Problem
from .settings import is_loopback

if TYPE_CHECKING:
    from .calls import Call

__all__ = ["CONSOLE", "check_origin", "of_the_console"]

CONSOLE = b"lethevec-console"  # "act": somebody did something; "watch": the page asks by itself


def check_origin(call: Call) -> None:
    """Refuse a request that another page makes of a server without keys."""
    core = call.core
    if core.control is not None and core.writes:
        return  # a reader has looked already
    if _foreign(call):
        raise Problem(403, "origin", "expected a request of this server's own page, or of an origin in `cors`")
    if not _own(call.header(b"host"), core.settings.host):
        raise Problem(403, "host", "Host: expected a name of this machine while there are no keys")


@lru_cache(100)
def _own(host: str, listening: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    return not host or name == listening or is_loopback(name)


def of_the_console(call: Call) -> bool:
    """Whether our own page made it."""
    return call.header(CONSOLE) in ("act", "watch") and not _foreign(call)


def _foreign(call: Call) -> bool:
    """Whether it comes from a page of another origin. What is no browser tells nothing, and can send what it likes."""
    origin = call.header(b"origin")
    if origin and origin in call.core.settings.cors:
        return False
    site = call.header(b"sec-fetch-site")
    if site:
        return site not in ("same-origin", "none")
    return bool(origin) and urlsplit(origin).netloc != call.header(b"host")
