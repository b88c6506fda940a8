"""The metrics page, read back by a parser of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serve.metrics import SIZES, Histogram, Metrics

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')


def parsed(text: str) -> dict[tuple[str, str], float]:
    """Every value by its name and its labels; each line must be what the format allows, each name declared once."""
    found, declared = {}, []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            declared.append(line.split()[2])
        elif not line.startswith("# HELP "):
            match = LINE.fullmatch(line)
            assert match, line
            assert re.sub("_(bucket|sum|count)$", "", match[1]) == declared[-1] or match[1] == declared[-1]
            found[match[1], match[2] or ""] = float(match[3])
    assert len(set(declared)) == len(declared)
    assert text.endswith("\n")
    return found


def test_what_happened_is_there() -> None:
    metrics = Metrics()
    metrics.request("/v1/translate", 200, 0.03)
    metrics.request("/v1/translate", 200, 7.0)
    metrics.request("/v1/translate", 429, 0.001)
    metrics.batch("en-de", 5, 123, 0.2)
    metrics.batch("en-de", 2, 7, 0.1)
    metrics.drop("gone")
    metrics.gauge("dragoman_waiting", "Who waits.", lambda: 3)
    found = parsed(metrics.text())
    assert found["dragoman_requests_total", 'path="/v1/translate",status="200"'] == 2
    assert found["dragoman_requests_total", 'path="/v1/translate",status="429"'] == 1
    assert found["dragoman_sentences_total", 'model="en-de"'] == 7
    assert found["dragoman_characters_total", 'model="en-de"'] == 130
    assert found["dragoman_dropped_total", 'reason="gone"'] == 1
    assert found["dragoman_waiting", ""] == 3
    assert found["dragoman_request_seconds_count", 'path="/v1/translate"'] == 3
    assert found["dragoman_request_seconds_bucket", 'path="/v1/translate",le="0.05"'] == 2
    assert found["dragoman_request_seconds_bucket", 'path="/v1/translate",le="+Inf"'] == 3
    assert found["dragoman_batch_sentences_bucket", 'le="4"'] == 1
    assert found["dragoman_batch_seconds_sum", ""] == pytest.approx(0.3)


def test_large_counts_keep_their_last_digit() -> None:
    metrics = Metrics()
    metrics.batch("m", 1, 123_456_789_012_345, 0.1)
    assert 'dragoman_characters_total{model="m"} 123456789012345\n' in metrics.text()


def test_a_name_with_quotation_marks_stays_one_label() -> None:
    metrics = Metrics()
    metrics.batch('a"b\\c\nd', 1, 1, 0.1)
    assert ("dragoman_sentences_total", r'model="a\"b\\c\nd"') in parsed(metrics.text())


@given(st.lists(st.floats(0, 1000), max_size=40))
def test_a_histogram_counts_what_is_at_most_the_edge(values: Sequence[float]) -> None:
    histogram = Histogram(SIZES)
    for value in values:
        histogram.count(value)
    lines = dict(line.rsplit(" ", 1) for line in histogram.lines("h", ()))
    for edge in SIZES:
        assert int(lines[f'h_bucket{{le="{edge}"}}']) == sum(value <= edge for value in values)
    assert int(lines['h_bucket{le="+Inf"}']) == int(lines["h_count"]) == len(values)
    assert float(lines["h_sum"]) == pytest.approx(sum(values), rel=1e-6)
