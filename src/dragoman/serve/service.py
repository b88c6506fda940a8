"""From a request to its translations: texts are planned, queued, waited for, and put together again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from dragoman.search.constraints.phrases import Demands
from dragoman.search.constraints.terms import Terms
from dragoman.search.types import Sampling, Search
from dragoman.serve.errors import ProblemError
from dragoman.serve.limits import MOST_SENTENCES, MOST_WISHED, Limits
from dragoman.serve.metrics import Metrics
from dragoman.serve.queue import Asked, ClosedError, Job, Queue
from dragoman.serve.schema import Settings, TranslateRequest
from dragoman.serve.worker import Pace, Translates, Worker
from dragoman.translation.result import Translation
from dragoman.translation.segmentation import SplitLine, TextTranslation, join_texts, split_texts
from dragoman.values import suggest

LARGE: Final = 20_000  # characters from which work is done beside the event loop, so that others are answered meanwhile
DEFAULT_BATCH: Final = 64
Gone = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Served:
    """A model that is served."""

    name: str
    translator: Translates
    split: SplitLine = field(repr=False)
    engine: str = ""
    languages: tuple[str, str] | None = None
    looks: bool = True  # whether it has attention to show
    targets: tuple[str, ...] = ()  # the languages of a model that has several, of which a request must name one
    sources: tuple[str, ...] = ()  # those of its sources, where its card tells them

    @property
    def pairs(self) -> list[tuple[str | None, str]]:
        """From which language into which, as far as is known; a source of None may be any."""
        if self.targets:
            return [(source, to) for source in self.sources or (None,) for to in self.targets if source != to]
        return [] if self.languages is None else [self.languages]

    def language(self, to: str | None) -> str | None:
        """The language that a request asks for; None where there is no choice, refused where there is no such."""
        if not self.targets:
            if to is None or (self.languages is not None and to == self.languages[1]):
                return None
            known = f"{self.languages[1]!r} alone" if self.languages is not None else "one language"
            raise ProblemError(
                422, "no_such_language", f"the model {self.name!r} translates into {known}; leave to out"
            )
        if to is None:
            choices = ", ".join(self.targets)
            message = f'the model {self.name!r} translates into {choices}; say which, as in "to": "{self.targets[0]}"'
            raise ProblemError(422, "no_language", message)
        if to not in self.targets:
            message = f"the model {self.name!r} does not translate into {to!r}{suggest(to, self.targets)}"
            raise ProblemError(422, "no_such_language", message)
        return to


class Service:
    """Models, the queue before them and the thread behind it."""

    def __init__(
        self, models: Mapping[str, Served], limits: Limits, reproducible: bool = False, batch: int = DEFAULT_BATCH
    ) -> None:
        self.models, self.limits, self.metrics = models, limits, Metrics()
        self.default = next(iter(models))
        self.pace = Pace()
        self.queue = Queue(limits.max_batch or batch, self.pace.room)
        translators = {name: served.translator for name, served in models.items()}
        self.worker = Worker(translators, self.queue, self.metrics, self.pace, reproducible)
        self.leaving = False
        self.metrics.add_gauge("dragoman_queue_sentences", "Sentences in the queue.", lambda: self.queue.sentences)
        self.metrics.add_gauge(
            "dragoman_queue_requests", "Requests with sentences in the queue.", lambda: len(self.queue.turns)
        )

    @property
    def ready(self) -> bool:
        """Whether a request that comes now would be answered."""
        return self.worker.alive and not self.leaving

    def model(self, name: str | None) -> Served:
        """A model by its name; the first without one."""
        if name is None:
            return self.models[self.default]
        if name not in self.models:
            raise ProblemError(404, "no_such_model", f"there is no model {name!r}{suggest(name, self.models)}")
        return self.models[name]

    def asked(self, body: Settings) -> Asked:
        """What a request asks for, within what this server gives."""
        n_best, sampling, alignment = 1, None, False
        if isinstance(body, TranslateRequest):
            n_best, alignment = body.n_best, body.alignments
            sampling = None if body.sampling is None else Sampling(**body.sampling.model_dump())
        beam = body.beam if body.beam is not None else max(self.limits.beam, n_best)
        most = self.limits.max_beam
        for name, value in (("n_best", n_best), ("beam", beam)):
            if value > most:
                message = f"{name} must be at most {most:,} on this server (--max-beam); got {value:,}"
                raise ProblemError(422, "over_limit", message)
        search = Search(
            beam=beam,
            n_best=n_best,
            length_penalty=body.length_penalty,
            extra_length=body.extra_length,
            max_length=body.max_length,
            min_length=body.min_length,
            no_repeat=body.no_repeat,
            sampling=sampling,
        )
        served = self.model(body.model)
        demands, terms = wished(body) if isinstance(body, TranslateRequest) else (Demands(), ())
        return Asked(served.name, search, alignment, to=served.language(body.to), demands=demands, terms=terms)

    def check_size(self, texts: Sequence[str]) -> int:
        """The characters of a request, each text counted as one at least; refused where too many, or no text."""
        size = sum(max(1, len(text)) for text in texts)
        if size > self.limits.max_characters:
            raise ProblemError(
                413,
                "too_large",
                f"the texts have {size:,} characters; this server takes {self.limits.max_characters:,} at a time: send "
                "them in several requests",
            )
        for number, text in enumerate(texts, 1):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise ProblemError(
                    422,
                    "invalid",
                    f"text {number} has half of a UTF-16 pair, U+{ord(text[error.start]):04X}, at character "
                    f"{error.start}, which is not Unicode text; send the whole character",
                ) from None
        return size

    async def translate(self, texts: Sequence[str], asked: Asked, deadline: float, gone: Gone) -> list[TextTranslation]:
        """The translation of each text; `deadline` is the loop's time, and `gone` waits until nobody does."""
        size = self.check_size(texts)
        if size < LARGE:
            layouts, sentences = split_texts(texts, self.models[asked.model].split)
        else:
            layouts, sentences = await asyncio.to_thread(split_texts, texts, self.models[asked.model].split)
        if len(sentences) > MOST_SENTENCES:
            message = (
                f"the texts have {len(sentences):,} lines and sentences; send at most {MOST_SENTENCES:,} at a time"
            )
            raise ProblemError(413, "too_large", message)
        if asked.demands.require and any(layout.n_sentences > 1 for layout in layouts):
            words = "a text of several lines or sentences has nothing that says which is to contain what is required"
            raise ProblemError(422, "invalid", f"{words}; send it sentence by sentence, or use terms")
        if sum(map(characters, (targets for _, targets in asked.terms))) > MOST_WISHED:
            await asyncio.to_thread(check_terms, sentences, asked.terms)
        found = await self.sentences(sentences, asked, deadline, gone)
        if size < LARGE:
            return join_texts(layouts, found)
        return await asyncio.to_thread(join_texts, layouts, found)

    async def look(self, text: str, asked: Asked, deadline: float, gone: Gone) -> Translation:
        """One line with its alignment and what every token looked at."""
        asked = replace(asked, alignment=True, attention=True)
        self.check_size([text])
        return (await self.sentences([text], asked, deadline, gone))[0]

    async def sentences(self, sentences: Sequence[str], asked: Asked, deadline: float, gone: Gone) -> list[Translation]:
        """The translation of each sentence, through the queue."""
        if not sentences:
            return []
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not finished.done():
                finished.set_result(None)

        def done(_: Job) -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it everybody who waited
                loop.call_soon_threadsafe(settle)

        job = Job(asked, sentences, done)
        watch = asyncio.ensure_future(gone())
        try:
            try:
                self.queue.put(job)
            except ClosedError as error:
                raise ProblemError(503, "leaving", str(error), 5) from None
            left = deadline - loop.time()
            await asyncio.wait({finished, watch}, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
            if not finished.done():
                self._give_up(watch.done())
        finally:
            watch.cancel()
            if not finished.done():
                self.queue.drop(job)
        if job.error is not None:
            raise job.error
        return job.translations

    def _give_up(self, gone: bool) -> None:
        self.metrics.count_dropped("gone" if gone else "deadline")
        if gone:
            raise ProblemError(499, "gone", "the client has gone away")
        raise ProblemError(
            504,
            "deadline",
            f"the translation was not ready within {self.limits.timeout:g} seconds; send less at a time, or later",
        )

    def start(self) -> None:
        """Begin to translate."""
        self.worker.start()

    def close(self) -> None:
        """Take nothing more, and end when what was taken is done."""
        self.leaving = True
        self.queue.close()


def wished(body: TranslateRequest) -> tuple[Demands, tuple[tuple[str, tuple[str, ...]], ...]]:
    """What a request requires and avoids, and its terms, within what a server holds tables for."""
    demands, terms = Demands.of(body.require, body.avoid), Terms(body.terms)
    size = characters(demands.avoid) + sum(map(characters, demands.require))
    if size > MOST_WISHED:
        message = f"require and avoid have {size:,} characters; this server takes {MOST_WISHED:,} at a time"
        raise ProblemError(413, "too_large", message)
    if (demands.require or terms) and body.sampling is not None:
        message = "words are required, but what is drawn by chance is not searched for them; leave sampling out"
        raise ProblemError(422, "invalid", message)
    return demands, tuple(terms.targets.items())


def check_terms(sentences: Sequence[str], entries: Sequence[tuple[str, tuple[str, ...]]]) -> None:
    """Refuse a sentence whose terms demand more than a server holds tables for."""
    terms = Terms(entries)
    for sentence in sentences:
        size = sum(map(characters, {*terms.found(sentence)}))
        if size > MOST_WISHED:
            message = f"the terms of {sentence!r:.60} have {size:,} characters; this server takes {MOST_WISHED:,}"
            raise ProblemError(413, "too_large", f"{message} for a sentence")


def characters(phrases: Iterable[str]) -> int:
    """Of all of them together."""
    return sum(map(len, phrases))
