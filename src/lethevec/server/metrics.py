"""What `/metrics` shows to Prometheus: latencies by route and collection, records, pending erasures, expiries.

Labels are patterns of paths and names of collections. Every sample has a `process` label, but for those of a cluster
behind the server; with several processes the one that is asked shows the samples of all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

__all__ = ["CONTENT_TYPE", "Metrics", "summary"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_MAX_LABELS = 2000  # pairs of route and collection; beyond, the collection is left out


class _Latencies:
    """Histograms of seconds by route and collection, and answers by route and status.

    The library's own histogram takes several microseconds for an observation, with a lock for each number; here the
    event loop alone counts, and what a scrape sees is made when it comes.
    """

    def __init__(self, process: str) -> None:
        self._process = process
        self._rows: dict[tuple[str, str | None], tuple[list[int], list[float]]] = {}
        self._answers: Tally[tuple[str, int]] = Tally()

    def observe(self, route: str, collection: str | None, status: int, seconds: float) -> None:
        row = self._rows.get((route, collection))
        if row is None:
            if len(self._rows) >= _MAX_LABELS:
                collection = None
            row = self._rows.setdefault((route, collection), ([0] * (len(_BUCKETS) + 1), [0.0]))
        row[0][bisect_left(_BUCKETS, seconds)] += 1
        row[1][0] += seconds
        self._answers[route, status] += 1

    def collect(self) -> Iterator[Any]:
        """What the registry asks for."""
        text = "Seconds from the request's head to the answer's last byte."
        seconds = HistogramMetricFamily("lethevec_request_seconds", text, labels=["process", "route", "collection"])
        bounds = [*map(floatToGoString, _BUCKETS), "+Inf"]
        for (route, collection), (counts, (total,)) in list(self._rows.items()):
            running = list(accumulate(counts))
            buckets = list(zip(bounds, running, strict=True))
            seconds.add_metric([self._process, route, collection or ""], buckets, sum_value=total)
        yield seconds
        text = "Answers by route and status."
        answers = CounterMetricFamily("lethevec_answers", text, labels=["process", "route", "status"])
        for (route, status), count in list(self._answers.items()):
            answers.add_metric([self._process, route, str(status)], count)
        yield answers


class Metrics:
    """The counters of one process."""

    def __init__(self, process: str) -> None:
        """All at zero."""
        disable_created_metrics()  # a third of the text, for nothing
        self._registry = CollectorRegistry()
        self._process = process
        self._latencies = _Latencies(process)
        self._registry.register(self._latencies)
        self._records = Gauge("lethevec_records", "Records held.", ["process", "collection"], registry=self._registry)
        self.pending = self._gauge("lethevec_pending_erasures", "Erasures that wait to complete.")
        self.in_flight = self._gauge("lethevec_requests_in_flight", "Requests being worked on.")
        self.body_bytes = self._gauge("lethevec_request_bytes_in_flight", "Bytes of those.")
        self._cut_off = Gauge(
            "lethevec_connections_cut_off",
            "Connections ended by the server, by reason.",
            ["process", "reason"],
            registry=self._registry,
        )
        self.erased = self._counter("lethevec_erased_records", "Records forgotten.")
        self.expired = self._counter("lethevec_expired_records", "Records erased because they were due.")

    def _gauge(self, name: str, text: str) -> Any:
        return Gauge(name, text, ["process"], registry=self._registry).labels(self._process)

    def _counter(self, name: str, text: str) -> Any:
        return Counter(name, text, ["process"], registry=self._registry).labels(self._process)

    def request(self, route: str, collection: str | None, status: int, seconds: float) -> None:
        """Count one request."""
        if status in (401, 403, 404):
            collection = None  # it may be any text
        self._latencies.observe(route, collection, status, seconds)

    def text(self, records: dict[str, int], cut_off: Mapping[str, int]) -> bytes:
        """What a scrape gets, with the records of each collection and the connections that were cut off."""
        for reason, count in cut_off.items():
            self._cut_off.labels(self._process, reason).set(count)
        self._records.clear()
        for name, count in records.items():
            self._records.labels(self._process, name).set(count)
        shown: bytes = generate_latest(self._registry)
        return shown


def summary(text: bytes) -> dict[str, Any]:
    """A scrape as JSON: the processes together. Quantiles are those of the histograms, between two of their bounds."""
    buckets: dict[str, Tally[float]] = {}
    totals: Tally[str] = Tally()
    seconds: dict[str, float] = {}
    errors: Tally[str] = Tally()
    records: dict[str, int] = {}
    processes: set[str] = set()
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels, value = sample.labels, sample.value
            if "process" not in labels:
                continue  # of the cluster behind the server, which no process has to itself
            processes.add(labels["process"])
            route = labels.get("route", "")
            if sample.name == "lethevec_request_seconds_bucket":
                buckets.setdefault(route, Tally())[float(labels["le"])] += value
            elif sample.name == "lethevec_request_seconds_sum":
                seconds[route] = seconds.get(route, 0.0) + value
            elif sample.name == "lethevec_answers_total":
                errors[route] += int(value) if labels["status"] >= "400" else 0
            elif sample.name == "lethevec_records":
                records[labels["collection"]] = int(value)
            else:
                totals[sample.name] += int(value)
    return {
        "routes": [
            {
                "route": route,
                "requests": int(counts[float("inf")]),
                "errors": errors[route],
                "seconds": round(seconds[route], 6),
                **{f"p{share}_ms": _quantile(counts, share / 100) for share in (50, 90, 99)},
            }
            for route, counts in sorted(buckets.items())
        ],
        "processes": sorted(processes),
        "records": records,
        "pending_erasures": totals["lethevec_pending_erasures"],
        "in_flight": totals["lethevec_requests_in_flight"],
        "request_bytes": totals["lethevec_request_bytes_in_flight"],
        "erased_records": totals["lethevec_erased_records_total"],
        "expired_records": totals["lethevec_expired_records_total"],
    }


def _quantile(counts: Tally[float], share: float) -> float | None:
    """Milliseconds that a share of requests stays within, on a line between bounds.

    >>> _quantile(Tally({0.001: 50, 0.002: 100, float("inf"): 100}), 0.75)
    1.5
    """
    wanted = counts[float("inf")] * share
    if not wanted:
        return None
    low, before = 0.0, 0.0
    for bound in sorted(counts):
        if counts[bound] >= wanted:
            high = low if bound == float("inf") else bound
            part = (wanted - before) / max(counts[bound] - before, 1e-9)
            return round((low + (high - low) * part) * 1000, 3)
        low, before = bound, counts[bound]
    return None
