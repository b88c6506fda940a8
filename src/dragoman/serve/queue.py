"""What waits to be translated, shared out fairly: requests in turn, sentences of several requests in one batch."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dragoman.errors import DragomanError
from dragoman.search.constraints.phrases import Demands
from dragoman.search.types import Search
from dragoman.translation.result import Translation

FIRST_CHARACTERS: Final = 2_000  # in a batch, before anything is known of the model's pace


class ClosedError(DragomanError):
    """Work that comes after the server has begun to leave."""


@dataclass(frozen=True)
class Asked:
    """What sentences must have in common to be translated in one batch."""

    model: str
    search: Search = field(default_factory=Search)
    alignment: bool = False
    attention: bool = False
    to: str | None = None  # the language, where the model has several
    demands: Demands = field(default_factory=Demands)
    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def wishes(self) -> dict[str, Any]:
        """What is required and avoided, as a translator takes it; nothing where nothing is."""
        if not (self.demands or self.terms):
            return {}
        return {"require": self.demands.require, "avoid": self.demands.avoid, "terms": self.terms}


class Job:
    """The sentences of one request, in order; `done` is called from the worker's thread when the last is there."""

    def __init__(self, asked: Asked, sentences: Sequence[str], done: Callable[[Job], None]) -> None:
        self.asked, self.sentences, self.done = asked, sentences, done
        self.found: list[Translation | None] = [None] * len(sentences)
        self.taken = 0  # sentences that have gone into batches
        self.missing = len(sentences)
        self.error: BaseException | None = None
        self.dropped = False

    @property
    def waiting(self) -> int:
        """Sentences that are in no batch yet."""
        return len(self.sentences) - self.taken

    def keep(self, place: int, translation: Translation) -> None:
        """One sentence more is done."""
        self.found[place] = translation
        self.missing -= 1

    @property
    def translations(self) -> list[Translation]:
        """What was found, when all of it was."""
        whole = [found for found in self.found if found is not None]
        if len(whole) != len(self.sentences):
            raise AssertionError(f"{len(self.sentences) - len(whole)} sentences of a finished job are missing")
        return whole


@dataclass(frozen=True)
class Batch:
    """Sentences to translate together, each with its job and its place there."""

    asked: Asked
    parts: list[tuple[Job, int]]

    @property
    def sentences(self) -> list[str]:
        """Their texts."""
        return [job.sentences[place] for job, place in self.parts]

    @property
    def jobs(self) -> list[Job]:
        """Whose they are, each once."""
        return list(dict.fromkeys(job for job, _ in self.parts))


class Queue:
    """Jobs in turn.

    A batch is for the job that has waited longest since its last turn. Others that ask for the same are taken along,
    a sentence of each at a time until the batch is full: so a request of one line is in the next batch, however many
    lines the others still have, and none ever waits for another to end. A batch that completes requests ends with the
    last of them: who has little is not kept waiting by what who has much would still put in.
    """

    def __init__(self, most: int, characters: Callable[[Asked], int | None] = lambda _: None) -> None:
        self.most, self.characters = most, characters
        self.turns: deque[Job] = deque()
        self.ready = threading.Condition()
        self.closed = False

    def put(self, job: Job) -> None:
        """Have a job translated."""
        with self.ready:
            if self.closed:
                raise ClosedError("the server is about to leave and takes no more work; ask again in a moment")
            self.turns.append(job)
            self.ready.notify()

    def drop(self, job: Job) -> None:
        """Forget what still waits of a job: nobody wants it any more."""
        with self.ready:
            job.dropped = True
            if job in self.turns:
                self.turns.remove(job)

    def close(self) -> None:
        """Take nothing more; what waits is still handed out."""
        with self.ready:
            self.closed = True
            self.ready.notify_all()

    def take(self) -> Batch | None:
        """The next batch, as soon as there is one; None when the queue is closed and empty."""
        with self.ready:
            self.ready.wait_for(lambda: self.turns or self.closed)
            return self._next() if self.turns else None

    @property
    def sentences(self) -> int:
        """How many wait."""
        with self.ready:
            return sum(job.waiting for job in self.turns)

    @property
    def jobs(self) -> int:
        """How many requests have sentences that wait."""
        return len(self.turns)

    def _next(self) -> Batch:
        asked = self.turns[0].asked
        together = deque((job, job.taken) for job in self.turns if job.asked == asked)
        room = self.characters(asked) or FIRST_CHARACTERS
        parts: list[tuple[Job, int]] = []
        whole = 0  # parts up to the last that completes a job
        while together and len(parts) < self.most and (room > 0 or not parts):
            job, place = together.popleft()
            parts.append((job, place))
            room -= len(job.sentences[place])
            if place + 1 < len(job.sentences):
                together.append((job, place + 1))
            else:
                whole = len(parts)
        if whole and together:
            parts = parts[:whole]
        last = {job: number for number, (job, _) in enumerate(parts)}
        for job, place in parts:
            job.taken = place + 1
        behind = sorted((job for job in last if job.waiting), key=last.__getitem__)
        self.turns = deque([*(job for job in self.turns if job not in last), *behind])
        return Batch(asked, parts)
