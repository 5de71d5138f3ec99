"""Log lines: JSON on stderr, one for each request and event, without ids, subjects, values or addresses of people.

Lines are gathered and written a few times a second: a system call for each request would cost more than the request.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from typing import Any

import orjson

from .clock import now

__all__ = ["Logs"]

_FULL = 64 << 10


class Logs:
    """Where lines go."""

    def __init__(self, wanted: str = "all", process: str = "server", descriptor: int | None = None) -> None:
        """`wanted`: all requests, those with errors, or none."""
        self._wanted = wanted
        self._process = process
        self._descriptor = sys.stderr.fileno() if descriptor is None else descriptor
        self._lines: list[bytes] = []
        self._size = 0
        self._lock = threading.Lock()

    def request(self, route: str, method: str, status: int, seconds: float, key: str, collection: str | None) -> None:
        """One request. `route` is the pattern of the path, not the path."""
        if self._wanted == "all" or (self._wanted == "errors" and status >= 400):
            self._write(
                {
                    "time": now(),
                    "event": "request",
                    "method": method,
                    "route": route,
                    "status": status,
                    "ms": round(seconds * 1000, 3),
                    "key": key,
                    "collection": collection,
                    "process": self._process,
                }
            )

    def event(self, event: str, **facts: Any) -> None:
        """Something else that an operator should know; written at once."""
        self._write({"time": now(), "event": event, **facts, "process": self._process})
        self.flush()

    def failure(self, error: BaseException, route: str) -> None:
        """An error that was not expected: its type and the lines of code, never its text, which may name a person."""
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        where = [f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
        self.event("error", route=route, error=type(error).__name__, where=where)

    def take_over(self, name: str) -> None:
        """Write what a library logs as lines of ours: it would write whole errors, which may name a person."""
        logger = logging.getLogger(name)
        logger.handlers = [_Records(self, name)]
        logger.propagate = False
        logger.setLevel(logging.ERROR)  # its warnings are about what callers send, which the metrics count

    def _write(self, line: dict[str, Any]) -> None:
        data = orjson.dumps(line) + b"\n"
        with self._lock:
            self._lines.append(data)
            self._size += len(data)
            full = self._size > _FULL
        if full:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered. A log that nobody reads must not stop the server."""
        with self._lock:
            data, self._lines, self._size = b"".join(self._lines), [], 0
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            pass


class _Records(logging.Handler):
    """Records of a library's log."""

    def __init__(self, logs: Logs, name: str) -> None:
        super().__init__()
        self._logs = logs
        self._name = name

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else record.exc_info
        if isinstance(error, BaseException):
            self._logs.failure(error, self._name)
        else:
            self._logs.event("error", route=self._name, error=str(record.msg)[-500:])
