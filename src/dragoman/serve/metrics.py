"""Server metrics, exposed in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the number of series


class RequestMetrics:
    """The metrics of requests, in a separate registry; thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self.counter("requests", "Requests answered, by path and status.", "path", "status")
        self._request_seconds = self.histogram(
            "request_seconds", "Seconds from request head to response.", SECONDS, "path"
        )
        self._dropped = self.counter("dropped", "Requests dropped before they were answered, by reason.", "reason")

    def counter(self, name: str, description: str, *labels: str) -> Counter:
        """Add a counter."""
        return Counter(f"dragoman_{name}", description, labels, registry=self.registry)

    def histogram(self, name: str, description: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        """Add a histogram."""
        return Histogram(f"dragoman_{name}", description, labels, registry=self.registry, buckets=buckets)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(path, status).inc()
        self._request_seconds.labels(path).observe(seconds)

    def count_dropped(self, reason: str) -> None:
        """Count a dropped request: it missed its deadline, or the client disconnected."""
        self._dropped.labels(reason).inc()

    def add_gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Expose a value that is read at each scrape."""
        Gauge(name, description, registry=self.registry).set_function(value)

    def value(self, name: str, **labels: str) -> float:
        """The current value of a series; 0 if nothing was counted."""
        return self.registry.get_sample_value(name, labels) or 0.0

    def text(self) -> str:
        """All series in the Prometheus text format."""
        return generate_latest(self.registry).decode("utf-8")


class ServerMetrics(RequestMetrics):
    """The metrics of requests and of their translation."""

    def __init__(self) -> None:
        super().__init__()
        self._sentences = self.counter("sentences", "Sentences translated, by model.", "model")
        self._characters = self.counter("characters", "Characters translated, by model.", "model")
        self._batch_sentences = self.histogram("batch_sentences", "Sentences per batch.", SIZES)
        self._batch_seconds = self.histogram("batch_seconds", "Seconds per batch.", SECONDS)

    def count_batch(self, model: str, sentences: int, characters: int, seconds: float) -> None:
        """Count a translated batch."""
        self._sentences.labels(model).inc(sentences)
        self._characters.labels(model).inc(characters)
        self._batch_sentences.observe(sentences)
        self._batch_seconds.observe(seconds)
