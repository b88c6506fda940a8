"""The worker thread: takes batches from the queue and hands the translations to their requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from dragoman.search.types import SearchInterruptedError
from dragoman.serve.metrics import ServerMetrics
from dragoman.serve.scheduling.budget import count_rows
from dragoman.serve.scheduling.queue import BatchSettings, QueuedRequest, RequestQueue, SentenceBatch
from dragoman.translation.result import Translation

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BATCH_SECONDS: Final = 0.25  # for new requests, which wait until the running batch ends
OVERRUN_SECONDS: Final = 1.0  # after which a batch of several sentences is interrupted, to continue in smaller ones
PAST_WEIGHT: Final = 0.7  # weight of the past in the moving average


class Throughput:
    """A moving average of work (output tokens x beam) per second, for each kind of batch."""

    def __init__(self) -> None:
        self.rates: dict[tuple[object, ...], float] = {}
        self.bulk_rates: dict[tuple[object, ...], float] = {}  # of batches that fill their slice: the others are slower

    def record(self, settings: BatchSettings, work: float, seconds: float) -> None:
        """Add a measurement; one that is much slower than expected counts alone."""
        kind, rate = self._kind(settings), work / max(seconds, 1e-6)
        past, slice_work = self.rates.get(kind, rate), self.max_work(settings)
        self.rates[kind] = rate if 4 * rate < past else PAST_WEIGHT * past + (1 - PAST_WEIGHT) * rate
        if seconds > MAX_BATCH_SECONDS / 2 if slice_work is None else work > slice_work / 2:
            past = self.bulk_rates.get(kind, rate)
            self.bulk_rates[kind] = PAST_WEIGHT * past + (1 - PAST_WEIGHT) * rate

    def record_overrun(self, settings: BatchSettings, work: float, seconds: float) -> None:
        """Add an interrupted batch, of which a quarter was done at a guess: the next one is at most half as large."""
        rate = min(work / 4 / max(seconds, 1e-6), work / 2 / MAX_BATCH_SECONDS)
        self.rates[self._kind(settings)] = min(rate, self.rates.get(self._kind(settings), rate))

    def max_work(self, settings: BatchSettings) -> int | None:
        """The work of a batch that takes `MAX_BATCH_SECONDS`; None before the first measurement."""
        rate = self.rates.get(self._kind(settings))
        return None if rate is None else max(1, int(rate * MAX_BATCH_SECONDS))

    def seconds(self, settings: BatchSettings, work: float) -> float:
        """How long so much work would take; 0 before the first measurement of a batch that takes its time."""
        rate = self.bulk_rates.get(self._kind(settings))
        return 0.0 if rate is None else work / rate

    def _kind(self, settings: BatchSettings) -> tuple[object, ...]:
        search = settings.search
        constrained, sampled = bool(settings.constraint_options), search.sampling is not None
        slow = (settings.alignment, settings.attention, sampled, constrained)
        return settings.model.name, count_rows(search), slow


class Worker:
    """Translates batches until the queue is closed and empty."""

    def __init__(
        self,
        queue: RequestQueue,
        metrics: ServerMetrics,
        throughput: Throughput,
        reproducible: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.queue, self.metrics, self.throughput = queue, metrics, throughput
        self.reproducible, self.clock, self.overrun = reproducible, clock, OVERRUN_SECONDS
        self.slice_end = self.nested_seconds = 0.0
        self.thread = threading.Thread(target=self.run, name="translating", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self.thread.is_alive()

    def run(self) -> None:
        """Translate until the queue is closed and empty."""
        while (batch := self.queue.take()) is not None:
            self.process(batch)

    def process(self, batch: SentenceBatch) -> None:
        """Translate a batch; if that fails, each request alone, so that only the failing one fails."""
        start, before = self.clock(), self.nested_seconds
        if not self.queue.running:
            self.slice_end = start + MAX_BATCH_SECONDS
            batch.stop.between_steps = self._translate_short
        self.queue.begin(batch)
        try:
            with self._watched(batch):
                translations = self._translate(batch)
        except SearchInterruptedError:
            seconds = self.clock() - start - (self.nested_seconds - before)
            self.throughput.record_overrun(batch.settings, batch.work, seconds)
            self.queue.charge(batch, seconds)
            self.queue.put_back(batch)  # those that are not dropped
            return
        except Exception as error:
            requests = batch.requests
            if len(requests) == 1:
                self._fail(requests[0], error)
                return
            self.queue.end(batch)
            for request in requests:
                self.process(SentenceBatch(batch.settings, [item for item in batch.items if item[0] is request]))
            return
        finally:
            self.queue.end(batch)
        seconds = self.clock() - start - (self.nested_seconds - before)
        characters = sum(map(len, batch.sentences))
        self.throughput.record(batch.settings, batch.work, seconds)
        self.metrics.count_batch(batch.settings.model.name, len(batch.items), characters, seconds)
        self.queue.charge(batch, seconds)
        self._hand_out(batch, translations)

    def _translate_short(self) -> None:
        """Between two steps of a search that takes longer than its slice: translate one short batch that waits."""
        start = self.clock()
        if start < self.slice_end:
            return
        batch = self.queue.take_short()
        if batch is not None:
            self.process(batch)
            self.nested_seconds += self.clock() - start
        self.slice_end = self.clock() + MAX_BATCH_SECONDS

    def _translate(self, batch: SentenceBatch) -> list[Translation]:
        settings = batch.settings
        return self._force(batch) or list(
            settings.model.translator.stream(
                batch.sentences,
                search=settings.search,
                alignment=settings.alignment,
                attention=settings.attention,
                to=settings.to,
                reproducible=self.reproducible,
                stop=batch.stop,
                **settings.constraint_options,
            )
        )

    @contextmanager
    def _watched(self, batch: SentenceBatch) -> Iterator[None]:
        """Interrupt a batch of several sentences that takes too long; a single one continues until it is dropped."""
        timer = threading.Timer(self.overrun, batch.stop.set) if len(batch.items) > 1 else None
        if timer is not None:
            timer.daemon = True
            with suppress(RuntimeError):  # the system gives no more threads
                timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def _hand_out(self, batch: SentenceBatch, translations: list[Translation]) -> None:
        for (request, index), translation in zip(batch.items, translations, strict=True):
            if request.error is None:
                try:
                    request.set_result(index, translation)
                except Exception as error:  # over its budget
                    self._fail(request, error)
        for request in batch.requests:
            if not request.n_missing and not request.dropped:
                request.on_done(request)

    def _force(self, batch: SentenceBatch) -> list[Translation] | None:
        """The attention of given translations; None where a search is needed."""
        settings, forced = batch.settings, batch.settings.model.forced
        if settings.translation is None or forced is None:
            return None
        found = [forced(sentence, settings.translation, settings.to) for sentence in batch.sentences]
        complete = [one for one in found if one is not None]
        return complete if len(complete) == len(found) else None

    def _fail(self, request: QueuedRequest, error: Exception) -> None:
        request.error = error
        self.queue.drop(request)
        request.on_done(request)
