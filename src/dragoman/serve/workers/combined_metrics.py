"""The metrics of all workers together, each series labeled with its worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

LABEL = "worker"


class CombinedMetrics(Collector):
    """The series of a registry, and those of workers with the label `worker`."""

    def __init__(self, own: CollectorRegistry, workers: Mapping[int, str]) -> None:
        self.own, self.workers = own, workers

    def collect(self) -> Iterator[Metric]:
        """Each metric once, with all its series."""
        found = {metric.name: metric for metric in self.own.collect()}
        for number, text in self.workers.items():
            for metric in text_string_to_metric_families(text):
                combined = found.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                combined.samples += [
                    Sample(sample.name, {**sample.labels, LABEL: str(number)}, sample.value)
                    for sample in metric.samples
                ]
        yield from found.values()


def combine_metrics(own: CollectorRegistry, workers: Mapping[int, str]) -> str:
    """The series of a registry, and those of workers given as text, in the Prometheus text format."""
    registry = CollectorRegistry()
    registry.register(CombinedMetrics(own, workers))
    return generate_latest(registry).decode("utf-8")
