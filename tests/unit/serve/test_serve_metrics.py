"""The metrics page, read back by the parser of the Prometheus client."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dragoman.serve.metrics import ServerMetrics

Series = tuple[str, frozenset[tuple[str, str]]]


def parse(text: str) -> dict[Series, float]:
    """Every value by name and labels."""
    families = text_string_to_metric_families(text)
    samples = [sample for family in families for sample in family.samples]
    values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(values) == len(samples)
    return values


def series(name: str, **labels: str) -> Series:
    return name, frozenset(labels.items())


def test_everything_counted_is_exposed() -> None:
    metrics = ServerMetrics()
    metrics.count_request("/v1/translate", 200, 0.03)
    metrics.count_request("/v1/translate", 200, 7.0)
    metrics.count_request("/v1/translate", 429, 0.001)
    metrics.count_batch("en-de", 5, 123, 0.2)
    metrics.count_batch("en-de", 2, 7, 0.1)
    metrics.count_dropped("gone")
    metrics.add_gauge("dragoman_waiting", "Waiting requests.", lambda: 3)
    values = parse(metrics.text())
    assert values[series("dragoman_requests_total", path="/v1/translate", status="200")] == 2
    assert values[series("dragoman_requests_total", path="/v1/translate", status="429")] == 1
    assert values[series("dragoman_sentences_total", model="en-de")] == 7
    assert values[series("dragoman_characters_total", model="en-de")] == 130
    assert values[series("dragoman_dropped_total", reason="gone")] == 1
    assert values[series("dragoman_waiting")] == 3
    assert values[series("dragoman_request_seconds_count", path="/v1/translate")] == 3
    assert values[series("dragoman_request_seconds_bucket", path="/v1/translate", le="0.05")] == 2
    assert values[series("dragoman_request_seconds_bucket", path="/v1/translate", le="+Inf")] == 3
    assert values[series("dragoman_batch_sentences_bucket", le="4.0")] == 1
    assert values[series("dragoman_batch_seconds_sum")] == pytest.approx(0.3)
    assert not any(name.endswith("_created") for name, _ in values)


def test_each_server_counts_for_itself() -> None:
    one, other = ServerMetrics(), ServerMetrics()
    one.count_dropped("deadline")
    assert one.value("dragoman_dropped_total", reason="deadline") == 1
    assert other.value("dragoman_dropped_total", reason="deadline") == 0


def test_large_counts_keep_their_last_digit() -> None:
    metrics = ServerMetrics()
    metrics.count_batch("m", 1, 123_456_789_012_345, 0.1)
    assert parse(metrics.text())[series("dragoman_characters_total", model="m")] == 123_456_789_012_345


def test_a_name_with_quotation_marks_stays_one_label() -> None:
    metrics = ServerMetrics()
    metrics.count_batch('a"b\\c\nd', 1, 1, 0.1)
    assert series("dragoman_sentences_total", model='a"b\\c\nd') in parse(metrics.text())
