"""Counters in the text format of Prometheus, written by hand: it is a small format.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
Labels = tuple[tuple[str, str], ...]


class Histogram:
    """How many values were at most so large."""

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = edges
        self.counts = [0] * (len(edges) + 1)
        self.total = 0.0

    def count(self, value: float) -> None:
        """One value more."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        """The buckets, each with all that is below it, the sum and the number."""
        below = 0
        for edge, count in zip((*self.edges, float("inf")), self.counts, strict=True):
            below += count
            yield line(f"{name}_bucket", (*labels, ("le", "+Inf" if edge == float("inf") else f"{edge:g}")), below)
        yield line(f"{name}_sum", labels, self.total)
        yield line(f"{name}_count", labels, below)


class Metrics:
    """What the server has done; safe to count in from any thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds: dict[str, Histogram] = {}
        self.sentences: Counter[str] = Counter()
        self.characters: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.batches = Histogram(SIZES)
        self.working = Histogram(SECONDS)
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def request(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        with self.lock:
            self.requests[path, status] += 1
            self.seconds.setdefault(path, Histogram(SECONDS)).count(seconds)

    def batch(self, model: str, sentences: int, characters: int, seconds: float) -> None:
        """A batch was translated."""
        with self.lock:
            self.sentences[model] += sentences
            self.characters[model] += characters
            self.batches.count(sentences)
            self.working.count(seconds)

    def drop(self, why: str) -> None:
        """A request was given up: its deadline had passed, or nobody waited any more."""
        with self.lock:
            self.dropped[why] += 1

    def gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Show a value as it is when somebody looks."""
        self.gauges[name] = about, value

    def text(self) -> str:
        """The page that Prometheus reads."""
        now = {name: (about, value()) for name, (about, value) in self.gauges.items()}  # they have locks of their own
        with self.lock:
            return "\n".join(self._lines(now)) + "\n"

    def _lines(self, gauges: Mapping[str, tuple[str, float]]) -> Iterator[str]:
        yield from head("dragoman_requests_total", "counter", "Requests answered, by path and status.")
        for (path, status), count in sorted(self.requests.items()):
            yield line("dragoman_requests_total", (("path", path), ("status", str(status))), count)
        yield from head("dragoman_request_seconds", "histogram", "Seconds from a request's head to its answer.")
        for path, histogram in sorted(self.seconds.items()):
            yield from histogram.lines("dragoman_request_seconds", (("path", path),))
        for name, about, counts, label in (
            ("dragoman_sentences_total", "Sentences translated, by model.", self.sentences, "model"),
            ("dragoman_characters_total", "Characters translated, by model.", self.characters, "model"),
            ("dragoman_dropped_total", "Requests given up, by reason.", self.dropped, "reason"),
        ):
            yield from head(name, "counter", about)
            for value, count in sorted(counts.items()):
                yield line(name, ((label, value),), count)
        yield from head("dragoman_batch_sentences", "histogram", "Sentences translated together.")
        yield from self.batches.lines("dragoman_batch_sentences", ())
        yield from head("dragoman_batch_seconds", "histogram", "Seconds that a batch took.")
        yield from self.working.lines("dragoman_batch_seconds", ())
        for name, (about, number) in gauges.items():
            yield from head(name, "gauge", about)
            yield line(name, (), number)


def head(name: str, kind: str, about: str) -> Iterator[str]:
    """What Prometheus is told of a metric before its values."""
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def line(name: str, labels: Labels, value: float) -> str:
    """One value."""
    inside = ",".join(f'{label}="{escaped(words)}"' for label, words in labels)
    number = str(value) if isinstance(value, int) else f"{value:.9g}"
    return f"{name}{{{inside}}} {number}" if inside else f"{name} {number}"


def escaped(words: str) -> str:
    """A label's value as it may stand between quotation marks."""
    return words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
