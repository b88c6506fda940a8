"""A fair queue of requests: sentences of several requests share a batch, round-robin."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dragoman.errors import DragomanError
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.types import Search
from dragoman.translation.result import Translation

INITIAL_CHARACTERS: Final = 2_000  # in a batch, before the throughput is known


class QueueClosedError(DragomanError):
    """A request that arrives while the server is shutting down."""

    default_code = "shutting_down"


@dataclass(frozen=True)
class BatchSettings:
    """What sentences must have in common to be translated in one batch."""

    model: str
    search: Search = field(default_factory=Search)
    alignment: bool = False
    attention: bool = False
    to: str | None = None  # the target language, for a model with several
    constraints: Constraints | None = None
    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()
    translation: str | None = None  # given with the sentence: attention without a search

    @property
    def constraint_options(self) -> dict[str, Any]:
        """The lexical constraints as options of a translator; empty without constraints."""
        if self.constraints is None:
            return {}
        return {"require": self.constraints.require, "avoid": self.constraints.avoid, "terms": self.terms}


class QueuedRequest:
    """The sentences of one request, in order; the worker's thread calls `on_done` after the last."""

    def __init__(
        self, settings: BatchSettings, sentences: Sequence[str], on_done: Callable[[QueuedRequest], None]
    ) -> None:
        self.settings, self.sentences, self.on_done = settings, sentences, on_done
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
        """Store the translation of one sentence."""
        self.results[index] = translation
        self.n_missing -= 1

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

    @property
    def sentences(self) -> list[str]:
        """The texts."""
        return [request.sentences[index] for request, index in self.items]

    @property
    def requests(self) -> list[QueuedRequest]:
        """The requests, each once."""
        return list(dict.fromkeys(request for request, _ in self.items))


class RequestQueue:
    """Requests in turn.

    A batch is for the request that has waited longest since its last turn. Other requests with the same settings join
    it, one sentence of each at a time until the batch is full: a request of one line is in the next batch, however many
    lines the others still have. A batch that completes requests ends with the last of them, so short requests never
    wait for sentences of long ones.
    """

    def __init__(
        self, max_sentences: int, max_characters: Callable[[BatchSettings], int | None] = lambda _: None
    ) -> None:
        self.max_sentences, self.max_characters = max_sentences, max_characters
        self.requests: deque[QueuedRequest] = deque()
        self.changed = threading.Condition()
        self.closed = False

    def put(self, request: QueuedRequest) -> None:
        """Add a request."""
        with self.changed:
            if self.closed:
                raise QueueClosedError("the server is shutting down; try again in a moment")
            self.requests.append(request)
            self.changed.notify()

    def drop(self, request: QueuedRequest) -> None:
        """Remove the waiting sentences of a request."""
        with self.changed:
            request.dropped = True
            if request in self.requests:
                self.requests.remove(request)

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

    @property
    def n_sentences(self) -> int:
        """The number of waiting sentences."""
        with self.changed:
            return sum(request.n_waiting for request in self.requests)

    @property
    def n_requests(self) -> int:
        """The number of requests with waiting sentences."""
        return len(self.requests)

    def _next_batch(self) -> SentenceBatch:
        settings = self.requests[0].settings
        candidates = deque((request, request.n_taken) for request in self.requests if request.settings == settings)
        room = self.max_characters(settings) or INITIAL_CHARACTERS
        items: list[tuple[QueuedRequest, int]] = []
        completed = 0  # items up to the last that completes a request
        while candidates and len(items) < self.max_sentences and (room > 0 or not items):
            request, index = candidates.popleft()
            items.append((request, index))
            room -= len(request.sentences[index])
            if index + 1 < len(request.sentences):
                candidates.append((request, index + 1))
            else:
                completed = len(items)
        if completed and candidates:
            items = items[:completed]
        last = {request: number for number, (request, _) in enumerate(items)}
        for request, index in items:
            request.n_taken = index + 1
        unfinished = sorted((request for request in last if request.n_waiting), key=last.__getitem__)
        self.requests = deque([*(request for request in self.requests if request not in last), *unfinished])
        return SentenceBatch(settings, items)
