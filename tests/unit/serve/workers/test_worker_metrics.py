"""Metrics of several workers in one reply, read back with Prometheus's own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from dragoman.serve.metrics import RequestMetrics, ServerMetrics
from dragoman.serve.workers.combined_metrics import combine_metrics


def test_each_series_of_a_worker_has_its_number_and_each_metric_is_described_once() -> None:
    own, workers = RequestMetrics(), {number: ServerMetrics() for number in (1, 2)}
    own.count_request("/v1/translate", 200, 0.2)
    own.count_dropped("gone")
    for number, metrics in workers.items():
        metrics.count_batch("en-de", 3 * number, 50, 0.1)
        metrics.count_dropped("gone")
        metrics.add_gauge("dragoman_queue_requests", "Requests.", lambda number=number: 10.0 * number)  # type: ignore[misc]
    text = combine_metrics(own.registry, {number: metrics.text() for number, metrics in workers.items()})
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["dragoman_requests_total", ("path", "/v1/translate"), ("status", "200")] == 1
    assert found["dragoman_dropped_total", ("reason", "gone")] == 1
    for number in ("1", "2"):
        worker = ("worker", number)
        assert found["dragoman_sentences_total", ("model", "en-de"), worker] == 3 * int(number)
        assert found["dragoman_dropped_total", ("reason", "gone"), worker] == 1
        assert found["dragoman_batch_sentences_count", worker] == 1
        assert found["dragoman_queue_requests", worker] == 10 * int(number)
    described = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(described) == len(set(described))
    assert ("dragoman_batch_sentences_count",) not in found  # the main process translates nothing
