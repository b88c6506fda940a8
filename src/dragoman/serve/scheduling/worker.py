"""The worker thread: translate batches from the queue and return the results to their requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.search.types import SearchInterruptedError
from dragoman.serve.metrics import ServerMetrics
from dragoman.serve.scheduling.queue import QueuedRequest, RequestQueue, SentenceBatch
from dragoman.serve.scheduling.throughput import MAX_BATCH_SECONDS, Throughput
from dragoman.translation.result import Translation

if TYPE_CHECKING:
    from collections.abc import Iterator

OVERRUN_SECONDS: Final = 1.0  # until a batch of several sentences is interrupted, to continue in smaller ones


class Worker:
    """Translate batches until the queue is closed and empty."""

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
        self.slice_seconds = MAX_BATCH_SECONDS
        self.slice_end = self.nested_seconds = 0.0
        self.short_batches = threading.Lock()  # held while a short batch runs during a long search
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
        nested = bool(self.queue.running)
        if not nested:
            self.slice_end = start + self.slice_seconds
            batch.stop.between_steps = self._translate_between_steps
        self.queue.begin(batch)
        try:
            with self._watched(batch, nested):
                translations = self._translate(batch)
        except SearchInterruptedError:
            seconds = self.clock() - start - (self.nested_seconds - before)
            self.throughput.record_overrun(batch.settings, batch.work, seconds)
            self.queue.charge(batch, seconds)
            self.queue.put_back(batch)  # except dropped requests
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

    def _translate_between_steps(self) -> None:
        """Translate one short batch between two steps of a search that takes longer than its slice."""
        start = self.clock()
        if start < self.slice_end or not self.short_batches.acquire(blocking=False):
            return
        try:
            batch = self.queue.take_short()
            if batch is not None:
                self.process(batch)
                self.nested_seconds += self.clock() - start
            self.slice_end = self.clock() + self.slice_seconds
        finally:
            self.short_batches.release()

    def _translate_concurrently(self, ended: Callable[[], bool]) -> None:
        """Translate short batches until a search in another thread has ended."""
        with self.short_batches:
            while (batch := self.queue.wait_for_concurrent(ended)) is not None:
                self.process(batch)

    def _translate(self, batch: SentenceBatch) -> list[Translation]:
        settings = batch.settings
        return self._force(batch) or list(
            settings.model.translator.stream(
                batch.sentences,
                search=settings.search,
                alignment=settings.alignment,
                to=settings.to,
                reproducible=self.reproducible,
                stop=batch.stop,
                **settings.constraint_options,
            )
        )

    @contextmanager
    def _watched(self, batch: SentenceBatch, nested: bool) -> Iterator[None]:
        """Keep a long batch from blocking short ones.

        A batch of several sentences is interrupted and continues in smaller ones. A single sentence runs to its end:
        short batches are translated between its steps by engines in Python, and concurrently by engines in C.
        """
        if len(batch.items) > 1:
            with started_timer(self.overrun, batch.stop.set):
                yield
            return
        if nested or self.queue.is_short(*batch.items[0]) or not batch.settings.is_concurrent:
            yield
            return
        ended = threading.Event()
        timer: threading.Timer | None = None
        try:
            with started_timer(self.slice_seconds, self._translate_concurrently, ended.is_set) as timer:
                yield
        finally:
            ended.set()
            self.queue.wake()
            if timer is not None:
                timer.join()  # results are handed out by one thread at a time

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
        """The attention of given translations; None if a search is needed."""
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


@contextmanager
def started_timer(seconds: float, call: Callable[..., None], *arguments: Any) -> Iterator[threading.Timer | None]:
    """A timer that is canceled at the end; None if the system allows no more threads."""
    timer = threading.Timer(seconds, call, arguments)
    timer.daemon = True
    started = False
    with suppress(RuntimeError):
        timer.start()
        started = True
    try:
        yield timer if started else None
    finally:
        timer.cancel()
