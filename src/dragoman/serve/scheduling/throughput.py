"""Measured throughput of each kind of batch, to size batches and to estimate how long requests take."""

from __future__ import annotations

from typing import Final

from dragoman.serve.scheduling.budget import count_rows
from dragoman.serve.scheduling.queue import BatchSettings

MAX_BATCH_SECONDS: Final = 0.25  # new requests wait until the running batch ends
PAST_WEIGHT: Final = 0.7  # weight of the past in the moving average


class Throughput:
    """A moving average of work (output tokens x beam) per second, for each kind of batch."""

    def __init__(self) -> None:
        self.rates: dict[tuple[object, ...], float] = {}
        self.bulk_rates: dict[tuple[object, ...], float] = {}  # of batches that fill their slice: others are slower

    def record(self, settings: BatchSettings, work: float, seconds: float) -> None:
        """Add a measurement; one that is much slower than the average replaces it."""
        kind, rate = self._kind(settings), work / max(seconds, 1e-6)
        past, slice_work = self.rates.get(kind, rate), self.max_work(settings)
        self.rates[kind] = rate if 4 * rate < past else PAST_WEIGHT * past + (1 - PAST_WEIGHT) * rate
        if seconds > MAX_BATCH_SECONDS / 2 if slice_work is None else work > slice_work / 2:
            past = self.bulk_rates.get(kind, rate)
            self.bulk_rates[kind] = PAST_WEIGHT * past + (1 - PAST_WEIGHT) * rate

    def record_overrun(self, settings: BatchSettings, work: float, seconds: float) -> None:
        """Add an interrupted batch, assumed to be a quarter done; the next one is at most half as large."""
        rate = min(work / 4 / max(seconds, 1e-6), work / 2 / MAX_BATCH_SECONDS)
        self.rates[self._kind(settings)] = min(rate, self.rates.get(self._kind(settings), rate))

    def max_work(self, settings: BatchSettings) -> int | None:
        """The work of a batch that takes `MAX_BATCH_SECONDS`; None before the first measurement."""
        rate = self.rates.get(self._kind(settings))
        return None if rate is None else max(1, int(rate * MAX_BATCH_SECONDS))

    def seconds(self, settings: BatchSettings, work: float) -> float:
        """Estimate the seconds that some work takes; 0 before a batch that fills its slice was measured."""
        rate = self.bulk_rates.get(self._kind(settings))
        return 0.0 if rate is None else work / rate

    def _kind(self, settings: BatchSettings) -> tuple[object, ...]:
        search = settings.search
        constrained, sampled = (
            settings.constraints is not None or settings.model.terms is not None,
            search.sampling is not None,
        )
        slow = (settings.alignment, sampled, constrained)
        return settings.model.name, count_rows(search), slow
