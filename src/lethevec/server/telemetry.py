"""Spans for OpenTelemetry, with `telemetry = true` and the extra `telemetry`. Where they go is the SDK's to configure.

A span is named after the route and holds method, route, status and collection: no path, no id, no person.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from lethevec.errors import MissingDependencyError

__all__ = ["Telemetry"]


class Telemetry:
    """Writes one span for each request, when it is over."""

    def __init__(self) -> None:
        """Take the tracer that the SDK has set up."""
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            raise MissingDependencyError(
                "telemetry needs the package opentelemetry-api: pip install 'lethevec[telemetry]'"
            ) from None
        self._tracer: Any = trace.get_tracer("lethevec.server")
        self._extract: Any = propagate.extract

    def request(
        self,
        headers: Mapping[bytes, bytes],
        route: str,
        method: str,
        status: int,
        seconds: float,
        collection: str | None,
    ) -> None:
        """One span, below the caller's if its headers name one."""
        carried = {name: headers[name.encode()].decode("latin-1") for name in _CARRIED if name.encode() in headers}
        end = time.time_ns()
        span = self._tracer.start_span(
            f"{method} {route}",
            context=self._extract(carried) if carried else None,
            start_time=end - int(seconds * 1e9),
            attributes={
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": status,
                "lethevec.collection": collection or "",
            },
        )
        span.end(end)


_CARRIED = ("traceparent", "tracestate")
