"""Server metrics, exposed in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the number of series


class ServerMetrics:
    """The metrics of one server, in a separate registry; thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, description: str, *labels: str) -> Counter:
            return Counter(f"dragoman_{name}", description, labels, registry=self.registry)

        def histogram(name: str, description: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"dragoman_{name}", description, labels, registry=self.registry, buckets=buckets)

        self._requests = counter("requests", "Requests answered, by path and status.", "path", "status")
        self._request_seconds = histogram("request_seconds", "Seconds from request head to response.", SECONDS, "path")
        self._sentences = counter("sentences", "Sentences translated, by model.", "model")
        self._characters = counter("characters", "Characters translated, by model.", "model")
        self._dropped = counter("dropped", "Requests dropped before they were answered, by reason.", "reason")
        self._batch_sentences = histogram("batch_sentences", "Sentences per batch.", SIZES)
        self._batch_seconds = histogram("batch_seconds", "Seconds per batch.", SECONDS)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(path, status).inc()
        self._request_seconds.labels(path).observe(seconds)

    def count_batch(self, model: str, sentences: int, characters: int, seconds: float) -> None:
        """Count a translated batch."""
        self._sentences.labels(model).inc(sentences)
        self._characters.labels(model).inc(characters)
        self._batch_sentences.observe(sentences)
        self._batch_seconds.observe(seconds)

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
