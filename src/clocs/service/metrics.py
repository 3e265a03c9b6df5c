"""Prometheus metrics. Labels are constants and never contain request content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from clocs.core.storage.counters import COUNTERS, counts

MEDIA_TYPE: Final = CONTENT_TYPE_LATEST
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class _ProcessCounters(Collector):
    """The counters of this process: buckets and the cache of objects."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        for name, value in counts().items():
            yield CounterMetricFamily(f"clocs_{name}", COUNTERS[name], value=value)


class Metrics:
    """Metrics of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_ProcessCounters())
        self.requests = Counter("clocs_requests", "Requests answered", ["endpoint", "status"], registry=self._registry)
        self.seconds = Histogram(
            "clocs_request_seconds",
            "From a request's head to the end of its answer",
            ["endpoint"],
            registry=self._registry,
            buckets=SECONDS,
        )
        self.parsing = Counter("clocs_parsing", "Uploads parsed", ["outcome"], registry=self._registry)
        self.confinement = Gauge(
            "clocs_parsing_confinement", "1 at the level that confines parsing", ["level"], registry=self._registry
        )
        self.active = Gauge("clocs_requests_active", "Requests worked on", registry=self._registry)
        self.waiting = Gauge(
            "clocs_requests_waiting", "Requests that send their body or wait for their turn", registry=self._registry
        )
        self.integrity_errors = Counter(
            "clocs_integrity_errors", "Requests that met a damaged file of the archive", registry=self._registry
        )
        self.searches = Counter("clocs_searches", "Searches for similar patients", registry=self._registry)

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
