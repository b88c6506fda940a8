"""A fair queue of requests: clients take turns, and sentences of several requests share a batch."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dragoman.engines.base import EngineRequest
from dragoman.errors import DragomanError
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.types import Search, StopFlag
from dragoman.serve.models.resources import with_request_terms
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.scheduling.budget import Meter, estimate_work
from dragoman.translation.result import Translation

MUCH_SHORTER: Final = 10  # times shorter than the running batch counts as short, however slow the machine is
INITIAL_WORK: Final = 1_000  # of a batch, output tokens x beam, before its throughput is known


class QueueClosedError(DragomanError):
    """A request that arrives while the server is shutting down."""

    default_code = "shutting_down"


@dataclass(frozen=True)
class BatchSettings:
    """The settings that all sentences of a batch share."""

    model: ServedModel
    search: Search = field(default_factory=Search)
    alignment: bool = False
    to: str | None = None  # target language, for a model with several
    constraints: Constraints | None = None
    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()
    translation: str | None = None  # a given translation: its attention needs no search

    @property
    def constraint_options(self) -> dict[str, Any]:
        """The lexical constraints as options of a translator, with the terms of the model."""
        served = None if self.search.sampling is not None else self.model.terms
        terms = self.terms if served is None else with_request_terms(served, dict(self.terms))
        if self.constraints is None:
            return {} if served is None else {"terms": terms}
        return {"require": self.constraints.require, "avoid": self.constraints.avoid, "terms": terms}

    @property
    def is_concurrent(self) -> bool:
        """Whether other batches can be translated while these sentences are searched."""
        constrained = self.constraints is not None or (self.model.terms is not None and self.search.sampling is None)
        return self.model.is_concurrent(EngineRequest(self.search, constraints=constrained))

    @property
    def is_search_only(self) -> bool:
        """Whether nothing is computed after the search."""
        return not self.alignment


class QueuedRequest:
    """The sentences of one request, in order; the worker calls `on_done` after the last.

    `settings` has one entry per sentence. The requests of a `client` share its turns.
    """

    def __init__(
        self,
        settings: Sequence[BatchSettings],
        sentences: Sequence[str],
        on_done: Callable[[QueuedRequest], None],
        client: str = "",
        meter: Meter | None = None,
    ) -> None:
        self.settings, self.sentences, self.on_done = settings, sentences, on_done
        self.client, self.meter = client, meter
        self.results: list[Translation | None] = [None] * len(sentences)
        self.n_taken = 0  # sentences that have gone into batches
        self.n_missing = len(sentences)  # sentences without a result
        self.error: BaseException | None = None
        self.dropped = False

    @property
    def n_waiting(self) -> int:
        """The number of sentences that are not in a batch yet."""
        return len(self.sentences) - self.n_taken

    def set_result(self, index: int, translation: Translation) -> None:
        """Store the translation of one sentence; raise if the request is over its budget."""
        if self.results[index] is not None:  # translated before, in a batch that failed for another request
            return
        self.results[index] = translation
        self.n_missing -= 1
        if self.meter is not None:
            self.meter.add(translation, self.settings[index].search)  # computes alignments, not left to the event loop

    def work(self, index: int) -> int:
        """The estimated work of one sentence."""
        return estimate_work(self.sentences[index], self.settings[index].search)

    @property
    def translations(self) -> list[Translation]:
        """All translations, once they are complete."""
        complete = [result for result in self.results if result is not None]
        if len(complete) != len(self.sentences):
            raise AssertionError(f"{len(self.sentences) - len(complete)} sentences of a finished request are missing")
        return complete


@dataclass(frozen=True)
class SentenceBatch:
    """Sentences to translate together, each as a request and an index into its sentences."""

    settings: BatchSettings
    items: list[tuple[QueuedRequest, int]]
    stop: StopFlag = field(default_factory=StopFlag)

    @property
    def sentences(self) -> list[str]:
        """The sentences."""
        return [request.sentences[index] for request, index in self.items]

    @property
    def requests(self) -> list[QueuedRequest]:
        """The requests, each once."""
        return list(dict.fromkeys(request for request, _ in self.items))

    @property
    def work(self) -> int:
        """The estimated work of all sentences."""
        return sum(request.work(index) for request, index in self.items)


class RequestQueue:
    """Fair scheduling: turns are given to clients, and within a client to its requests.

    A batch starts with the client that has used the least time, and with its request that has waited longest. Requests
    with the same settings fill it round-robin, one sentence per client: a one-line request is in the next batch,
    whatever the others have queued. A batch that completes requests ends with the last of them, so short requests never
    wait for sentences of long ones.
    """

    def __init__(self, max_sentences: int, max_work: Callable[[BatchSettings], int | None] = lambda _: None) -> None:
        self.max_sentences, self.max_work = max_sentences, max_work
        self.requests: deque[QueuedRequest] = deque()
        self.seconds: dict[str, float] = {}  # used by each client that has requests
        self.turns: dict[str, int] = {}  # number of the last batch of each client
        self.n_batches = 0
        self.running: list[SentenceBatch] = []
        self.changed = threading.Condition()
        self.closed = False

    def put(self, request: QueuedRequest) -> None:
        """Add a request."""
        with self.changed:
            if self.closed:
                raise QueueClosedError("the server is shutting down; try again in a moment")
            self._append(request)
            self.changed.notify_all()

    def drop(self, request: QueuedRequest) -> None:
        """Remove the waiting sentences of a request; stop running batches whose requests are all dropped."""
        with self.changed:
            request.dropped = True
            if request in self.requests:
                self.requests.remove(request)
            for batch in self.running:
                if all(one.dropped for one in batch.requests):
                    batch.stop.set()

    def begin(self, batch: SentenceBatch) -> None:
        """Register a batch that the worker starts."""
        with self.changed:
            self.running.append(batch)
            if all(request.dropped for request in batch.requests):
                batch.stop.set()

    def end(self, batch: SentenceBatch) -> None:
        """Remove a batch that the worker has ended."""
        with self.changed:
            self.running = [one for one in self.running if one is not batch]

    def charge(self, batch: SentenceBatch, seconds: float) -> None:
        """Charge the time of a batch to its clients, in proportion to their work."""
        with self.changed:
            total = max(1, batch.work)
            for request, index in batch.items:
                share = seconds * request.work(index) / total
                self.seconds[request.client] = self.seconds.get(request.client, 0.0) + share
            waiting = {request.client for request in self.requests}
            self.seconds = {client: used for client, used in self.seconds.items() if client in waiting}
            self.turns = {client: turn for client, turn in self.turns.items() if client in waiting}

    def put_back(self, batch: SentenceBatch) -> None:
        """Queue the sentences of an interrupted batch again."""
        with self.changed:
            for request in batch.requests:
                if not request.dropped:
                    request.n_taken = min(index for one, index in batch.items if one is request)
                    if request not in self.requests:
                        self._append(request)

    def close(self) -> None:
        """Accept no more requests; those in the queue are still translated."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def take(self) -> SentenceBatch | None:
        """Wait for the next batch; None when the queue is closed and empty."""
        with self.changed:
            self.changed.wait_for(lambda: self.requests or self.closed)
            return self._next_batch() if self.requests else None

    def take_short(self) -> SentenceBatch | None:
        """The next batch of requests whose next sentence is short, or None."""
        with self.changed:
            short = self._short_requests()
            return self._next_batch(short) if short else None

    def wait_for_concurrent(self, ended: Callable[[], bool]) -> SentenceBatch | None:
        """Wait for a short batch that can be translated while another one runs; None when that one has ended."""
        short: list[QueuedRequest] = []

        def found() -> bool:
            waiting = ((request, request.settings[request.n_taken]) for request in self._short_requests())
            short[:] = [request for request, one in waiting if one.is_concurrent and one.is_search_only]
            return bool(short)

        with self.changed:
            self.changed.wait_for(lambda: ended() or found())
            return None if ended() else self._next_batch(short)

    def wake(self) -> None:
        """Make `wait_for_concurrent` check whether the other batch has ended."""
        with self.changed:
            self.changed.notify_all()

    def is_short(self, request: QueuedRequest, index: int, running: int = 0) -> bool:
        """Whether a sentence fits into a slice of time, or is much shorter than the work that is running."""
        slice_work = self.max_work(request.settings[index]) or INITIAL_WORK
        return request.work(index) <= max(slice_work, running // MUCH_SHORTER)

    def _short_requests(self) -> list[QueuedRequest]:
        running = {request for batch in self.running for request in batch.requests}  # they may be put back
        work = max((batch.work for batch in self.running), default=0)
        waiting = (request for request in self.requests if request not in running)
        return [request for request in waiting if self.is_short(request, request.n_taken, work)]

    @property
    def n_sentences(self) -> int:
        """The number of waiting sentences."""
        with self.changed:
            return sum(request.n_waiting for request in self.requests)

    @property
    def n_requests(self) -> int:
        """The number of requests with waiting sentences."""
        return len(self.requests)

    def _append(self, request: QueuedRequest) -> None:
        """Add a request. A new client gets no credit: it starts with the time of the one that has used the least."""
        self.requests.append(request)
        if request.client not in self.seconds:
            self.seconds[request.client] = min(self.seconds.values(), default=0.0)

    def _next_batch(self, requests: Iterable[QueuedRequest] | None = None) -> SentenceBatch:
        waiting: dict[str, deque[tuple[QueuedRequest, int]]] = {}
        for request in self.requests if requests is None else requests:
            waiting.setdefault(request.client, deque()).append((request, request.n_taken))
        order = deque(sorted(waiting, key=lambda client: (self.seconds.get(client, 0.0), self.turns.get(client, 0))))
        first, index = waiting[order[0]][0]
        settings = first.settings[index]
        candidates = {
            client: deque((request, at) for request, at in waiting[client] if request.settings[at] == settings)
            for client in order
        }
        order = deque(client for client in order if candidates[client])
        room = self.max_work(settings) or INITIAL_WORK
        items: list[tuple[QueuedRequest, int]] = []
        completed = 0  # number of items up to the last that completes a request
        while order and len(items) < self.max_sentences and (room > 0 or not items):
            client = order.popleft()
            request, index = candidates[client].popleft()
            items.append((request, index))
            room -= request.work(index)
            if index + 1 == len(request.sentences):
                completed = len(items)
            elif request.settings[index + 1] == settings:
                candidates[client].append((request, index + 1))
            if candidates[client]:
                order.append(client)
        if completed and order:
            items = items[:completed]
        self.n_batches += 1
        self.turns |= {request.client: self.n_batches for request, _ in items}
        last = {request: number for number, (request, _) in enumerate(items)}
        for request, index in items:
            request.n_taken = index + 1
        unfinished = sorted((request for request in last if request.n_waiting), key=last.__getitem__)
        self.requests = deque([*(request for request in self.requests if request not in last), *unfinished])
        return SentenceBatch(settings, items)
