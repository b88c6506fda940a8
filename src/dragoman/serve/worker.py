"""The worker thread: takes batches from the queue and hands the translations to their requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, Unpack

from dragoman.serve.metrics import ServerMetrics
from dragoman.serve.queue import BatchSettings, QueuedRequest, RequestQueue, SentenceBatch
from dragoman.translation.options import TranslationOptions
from dragoman.translation.result import Translation

MAX_BATCH_SECONDS: Final = 0.25  # for new requests, which wait until the running batch ends
PAST_WEIGHT: Final = 0.7  # weight of the past in the moving average


class StreamTranslator(Protocol):
    """The part of a Translator that the worker needs."""

    def stream(self, texts: Iterable[str], **options: Unpack[TranslationOptions]) -> Iterable[Translation]:
        """The translation of each text, in order."""


# source, given translation and target language -> its attention; None where only a search has it
ForcedAttention = Callable[[str, str, str | None], Translation | None]


class Throughput:
    """A moving average of characters per second, for each kind of batch."""

    def __init__(self) -> None:
        self.rates: dict[tuple[object, ...], float] = {}

    def record(self, settings: BatchSettings, characters: int, seconds: float) -> None:
        """Add a measurement."""
        kind, rate = self._kind(settings), characters / max(seconds, 1e-6)
        self.rates[kind] = PAST_WEIGHT * self.rates.get(kind, rate) + (1 - PAST_WEIGHT) * rate

    def max_characters(self, settings: BatchSettings) -> int | None:
        """The characters of a batch that takes `MAX_BATCH_SECONDS`; None before the first measurement."""
        rate = self.rates.get(self._kind(settings))
        return None if rate is None else max(1, int(rate * MAX_BATCH_SECONDS))

    def _kind(self, settings: BatchSettings) -> tuple[object, ...]:
        sampling, constrained = settings.search.sampling is not None, bool(settings.constraint_options)
        slow = settings.alignment or settings.attention or sampling or constrained
        return settings.model, settings.search.beam, slow


class Worker:
    """Translates batches until the queue is closed and empty."""

    def __init__(
        self,
        translators: Mapping[str, StreamTranslator],
        queue: RequestQueue,
        metrics: ServerMetrics,
        throughput: Throughput,
        reproducible: bool = False,
        clock: Callable[[], float] = time.monotonic,
        forced: Mapping[str, ForcedAttention] | None = None,
    ) -> None:
        self.translators, self.queue, self.metrics, self.throughput = translators, queue, metrics, throughput
        self.reproducible, self.clock, self.forced = reproducible, clock, forced or {}
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
        start = self.clock()
        try:
            self._translate(batch)
        except Exception as error:
            requests = batch.requests
            if len(requests) == 1:
                self._fail(requests[0], error)
                return
            for request in requests:
                self.process(SentenceBatch(batch.settings, [item for item in batch.items if item[0] is request]))
            return
        seconds, characters = self.clock() - start, sum(map(len, batch.sentences))
        self.throughput.record(batch.settings, characters, seconds)
        self.metrics.count_batch(batch.settings.model, len(batch.items), characters, seconds)
        for request in batch.requests:
            if not request.n_missing and not request.dropped:
                request.on_done(request)

    def _translate(self, batch: SentenceBatch) -> None:
        settings = batch.settings
        translations = self._force(batch) or list(
            self.translators[settings.model].stream(
                batch.sentences,
                search=settings.search,
                alignment=settings.alignment,
                attention=settings.attention,
                to=settings.to,
                reproducible=self.reproducible,
                **settings.constraint_options,
            )
        )
        for (request, index), translation in zip(batch.items, translations, strict=True):
            request.set_result(index, translation)

    def _force(self, batch: SentenceBatch) -> list[Translation] | None:
        """The attention of given translations; None where a search is needed."""
        settings, forced = batch.settings, self.forced.get(batch.settings.model)
        if settings.translation is None or forced is None:
            return None
        found = [forced(sentence, settings.translation, settings.to) for sentence in batch.sentences]
        complete = [one for one in found if one is not None]
        return complete if len(complete) == len(found) else None

    def _fail(self, request: QueuedRequest, error: Exception) -> None:
        request.error = error
        self.queue.drop(request)
        request.on_done(request)
