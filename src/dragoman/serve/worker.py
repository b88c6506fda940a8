"""The one thread that translates: it takes what waits, at once, and hands each request its sentences."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from dragoman.serve.metrics import Metrics
from dragoman.serve.queue import Asked, Batch, Job, Queue
from dragoman.translation.result import Translation

SLICE: Final = 0.25  # seconds that a batch should take at most, so that who comes meanwhile waits no longer for it
STEADY: Final = 0.7  # how much of the pace is what it was


class Translates(Protocol):
    """As much of a Translator as the worker needs."""

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterable[Translation]:
        """The translation of each text, in order."""


class Pace:
    """Characters a second, as seen so far, for each kind of work."""

    def __init__(self) -> None:
        self.seen: dict[tuple[object, ...], float] = {}

    def count(self, asked: Asked, characters: int, seconds: float) -> None:
        """So many characters took so long."""
        kind, now = self._kind(asked), characters / max(seconds, 1e-6)
        self.seen[kind] = STEADY * self.seen.get(kind, now) + (1 - STEADY) * now

    def room(self, asked: Asked) -> int | None:
        """The characters of a batch that takes a slice of time; None where nothing is known yet."""
        pace = self.seen.get(self._kind(asked))
        return None if pace is None else max(1, int(pace * SLICE))

    def _kind(self, asked: Asked) -> tuple[object, ...]:
        slow = asked.alignment or asked.attention or asked.search.sampling is not None or bool(asked.wishes)
        return asked.model, asked.search.beam, slow


class Worker:
    """Takes batches from the queue until it is closed and empty."""

    def __init__(
        self,
        translators: Mapping[str, Translates],
        queue: Queue,
        metrics: Metrics,
        pace: Pace,
        reproducible: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.translators, self.queue, self.metrics, self.pace = translators, queue, metrics, pace
        self.reproducible, self.clock = reproducible, clock
        self.thread = threading.Thread(target=self.run, name="translating", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self.thread.start()

    @property
    def alive(self) -> bool:
        """Whether anybody takes what waits."""
        return self.thread.is_alive()

    def run(self) -> None:
        """Work until there is none left to come."""
        while (batch := self.queue.take()) is not None:
            self.work(batch)

    def work(self, batch: Batch) -> None:
        """Translate a batch; where that fails, each job alone, so that none fails for another's sake."""
        begun = self.clock()
        try:
            self._translate(batch)
        except Exception as error:
            jobs = batch.jobs
            if len(jobs) == 1:
                self._fail(jobs[0], error)
                return
            for job in jobs:
                self.work(Batch(batch.asked, [part for part in batch.parts if part[0] is job]))
            return
        seconds, characters = self.clock() - begun, sum(map(len, batch.sentences))
        self.pace.count(batch.asked, characters, seconds)
        self.metrics.count_batch(batch.asked.model, len(batch.parts), characters, seconds)
        for job in batch.jobs:
            if not job.missing and not job.dropped:
                job.done(job)

    def _translate(self, batch: Batch) -> None:
        asked = batch.asked
        found = list(
            self.translators[asked.model].stream(
                batch.sentences,
                search=asked.search,
                alignment=asked.alignment,
                attention=asked.attention,
                to=asked.to,
                reproducible=self.reproducible,
                **asked.wishes,
            )
        )
        for (job, place), translation in zip(batch.parts, found, strict=True):
            job.keep(place, translation)

    def _fail(self, job: Job, error: Exception) -> None:
        job.error = error
        self.queue.drop(job)
        job.done(job)
