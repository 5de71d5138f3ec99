"""What goes wrong, as answers. No answer and no log line names an id, a subject or a value of a record.

Errors of the library say "expected this, got that", and what came may be an id. Only the first half is passed on,
without what it quotes.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from lethevec import errors

__all__ = ["Problem", "problem_of"]

_QUOTED = re.compile(r"""'[^']*(?:'|$)|"[^"]*(?:"|$)""")  # names of fields are the caller's too


class Problem(Exception):  # noqa: N818 (it becomes an answer; nothing failed)
    """An answer other than success. `code` is for programs, `message` for people."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        at: list[int] | None = None,
        retry_after: int | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        """`at` are positions in the request that the problem is about."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.at = at
        self.headers = headers if retry_after is None else (*headers, (b"retry-after", b"%d" % retry_after))

    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        inside: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.at is not None:
            inside["at"] = self.at
        return {"error": inside}

    def alone(self) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Headers and body for a request that reached no operation."""
        body = orjson.dumps(self.body())
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
            *self.headers,
        ]
        return headers, body


#: The first that fits counts, so the narrower ones come first.
_STATUS: tuple[tuple[str, int, str], ...] = (
    ("HoldError", 423, "held"),
    ("BlockedError", 423, "blocked"),
    ("UnknownIdError", 404, "unknown"),
    ("IdError", 409, "ids"),
    ("VectorError", 422, "vectors"),
    ("ParameterError", 422, "parameter"),
    ("ReceiptError", 422, "receipt"),
    ("InputError", 422, "input"),
    ("UnsupportedError", 422, "unsupported"),
    ("MissingDependencyError", 501, "not_installed"),
    ("StoreLockedError", 503, "locked"),
    ("IncompleteWriteError", 507, "storage_full"),
    ("FileError", 500, "storage"),
)


def problem_of(error: errors.LethevecError) -> Problem:
    """The answer to an error of the library.

    >>> problem_of(errors.UnknownIdError("ids: expected ids that are in the store, got 'alice'")).message
    'ids: expected ids that are in the store'
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    for name, status, code in _STATUS:
        if name in names:
            message = (
                "the storage could not do this; the server's log says when"
                if status in (500, 503, 507)
                else _QUOTED.sub("...", str(error).partition(", got ")[0])
            )
            return Problem(status, code, message, retry_after=1 if status == 503 else None)
    return Problem(500, "internal", "an error of the server; its log says where")
