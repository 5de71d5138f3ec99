"""What `/metrics` shows to Prometheus: latencies by route and collection, records, pending erasures, expiries.

Labels are patterns of paths and names of collections. Every sample has a `process` label; with several processes the
one that is asked shows the samples of all.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_MAX_LABELS = 2000  # pairs of route and collection; beyond, the collection is left out


class Metrics:
    """The counters of one process."""

    def __init__(self, process: str) -> None:
        """All at zero."""
        disable_created_metrics()  # a third of the text, for nothing
        self._registry = CollectorRegistry()
        self._process = process
        self._seconds = Histogram(
            "lethevec_request_seconds",
            "Seconds from the request's head to the answer's last byte.",
            ["process", "route", "collection"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._answers = Counter(
            "lethevec_answers", "Answers by route and status.", ["process", "route", "status"], registry=self._registry
        )
        self._records = Gauge("lethevec_records", "Records held.", ["process", "collection"], registry=self._registry)
        self.pending = self._gauge("lethevec_pending_erasures", "Erasures that wait to complete.")
        self.in_flight = self._gauge("lethevec_requests_in_flight", "Requests being worked on.")
        self.body_bytes = self._gauge("lethevec_request_bytes_in_flight", "Bytes of those.")
        self.erased = self._counter("lethevec_erased_records", "Records forgotten.")
        self.expired = self._counter("lethevec_expired_records", "Records erased because they were due.")
        self._bound: dict[tuple[str, str | None], Any] = {}
        self._counts: dict[tuple[str, int], Any] = {}

    def _gauge(self, name: str, text: str) -> Any:
        return Gauge(name, text, ["process"], registry=self._registry).labels(self._process)

    def _counter(self, name: str, text: str) -> Any:
        return Counter(name, text, ["process"], registry=self._registry).labels(self._process)

    def request(self, route: str, collection: str | None, status: int, seconds: float) -> None:
        """Count one request."""
        if status in (401, 403, 404):
            collection = None  # it may be any text
        bound = self._bound.get((route, collection))
        if bound is None:
            shown = collection if len(self._bound) < _MAX_LABELS else None
            bound = self._bound[route, shown] = self._seconds.labels(self._process, route, shown or "")
        bound.observe(seconds)
        count = self._counts.get((route, status))
        if count is None:
            count = self._counts[route, status] = self._answers.labels(self._process, route, str(status))
        count.inc()

    def text(self, records: dict[str, int]) -> bytes:
        """What a scrape gets, with the number of records in each collection."""
        self._records.clear()
        for name, count in records.items():
            self._records.labels(self._process, name).set(count)
        shown: bytes = generate_latest(self._registry)
        return shown
