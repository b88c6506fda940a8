"""Translate requests: split texts, queue their sentences, wait, and join the results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from dragoman.search.constraints.phrases import Constraints
from dragoman.search.constraints.terms import Terms
from dragoman.search.types import Sampling, Search
from dragoman.serve.api.schema import SearchSettings, TranslateRequest
from dragoman.serve.errors import RequestError
from dragoman.serve.limits import MAX_ATTENTION_CELLS, MAX_CONSTRAINT_CHARACTERS, MAX_SENTENCES, Limits
from dragoman.serve.metrics import ServerMetrics
from dragoman.serve.models.served_model import ServedModel
from dragoman.serve.offload import offload
from dragoman.serve.scheduling.budget import (
    Meter,
    check_added_length,
    check_reply,
    check_seconds,
    check_work,
    estimate_tokens,
    estimate_work,
)
from dragoman.serve.scheduling.queue import BatchSettings, QueueClosedError, QueuedRequest, RequestQueue
from dragoman.serve.scheduling.throughput import Throughput
from dragoman.serve.scheduling.worker import Worker
from dragoman.translation.result import Translation, join_texts
from dragoman.translation.segmentation import Layout, Segmenter
from dragoman.values import suggest

LARGE_CHARACTERS: Final = 20_000  # larger requests are prepared in a thread, to keep the event loop responsive
DEFAULT_BATCH: Final = 64
MAX_SENTENCE_BYTES: Final = 2_000  # per queued sentence; the translator splits it further if needed
BYTES_PER_TOKEN: Final = 8  # at most, for the longest input of a model
T = TypeVar("T")
WaitDisconnected = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Caller:
    """Who waits for a reply: the deadline in the event loop's time, a wait for disconnection, and the client."""

    deadline: float
    disconnected: WaitDisconnected
    client: str = ""


class Service:
    """The models, their queue and the worker."""

    def __init__(
        self, models: Mapping[str, ServedModel], limits: Limits, reproducible: bool = False, batch: int = DEFAULT_BATCH
    ) -> None:
        self.models, self.limits, self.metrics = dict(models), limits, ServerMetrics()
        self.default = next(iter(models))
        self.throughput = Throughput()
        self.queue = RequestQueue(limits.max_batch or batch, self.throughput.max_work)
        self.worker = Worker(self.queue, self.metrics, self.throughput, reproducible)
        self.shutting_down = False
        self.needs_token = False
        self.metrics.add_gauge("dragoman_queue_sentences", "Sentences in the queue.", lambda: self.queue.n_sentences)
        self.metrics.add_gauge(
            "dragoman_queue_requests", "Requests with sentences in the queue.", lambda: self.queue.n_requests
        )

    @property
    def ready(self) -> bool:
        """Whether new requests are accepted."""
        return self.worker.alive and not self.shutting_down

    def model(self, name: str | None) -> ServedModel:
        """Find a model by name; None is the default model."""
        if name is None:
            return self.models[self.default]
        if name not in self.models:
            raise RequestError(404, "model_not_found", f"there is no model {name!r}{suggest(name, self.models)}")
        return self.models[name]

    def batch_settings(self, body: SearchSettings) -> BatchSettings:
        """Convert the settings of a request; reject those over the limits of the server."""
        n_best, sampling, alignment = 1, None, False
        if isinstance(body, TranslateRequest):
            n_best, alignment = body.n_best, body.alignments
            sampling = None if body.sampling is None else Sampling(**body.sampling.model_dump())
        beam = body.beam if body.beam is not None else max(self.limits.beam, n_best)
        maximum = self.limits.max_beam
        for name, value in (("n_best", n_best), ("beam", beam)):
            if value > maximum:
                message = f"{name} must be at most {maximum:,} on this server (--max-beam); got {value:,}"
                raise RequestError(422, "over_limit", message)
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
        model = self.model(body.model)
        constraints, terms = parse_constraints(body)
        to = model.check_target(body.to)
        return BatchSettings(model, search, alignment, to=to, constraints=constraints, terms=terms)

    def check_size(self, texts: Sequence[str], advice: str = "send the texts in several requests") -> int:
        """Count characters, at least one per text; reject too many, and invalid Unicode."""
        size = sum(max(1, len(text)) for text in texts)
        if size > self.limits.max_characters:
            limit = f"this server accepts {self.limits.max_characters:,} per request"
            message = f"got {size:,} characters; {limit}; {advice}"
            raise RequestError(413, "too_large", message)
        for number, text in enumerate(texts, 1):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                surrogate = f"the unpaired surrogate U+{ord(text[error.start]):04X}"
                message = f"text {number} has {surrogate} at character {error.start}; send valid Unicode"
                raise RequestError(422, "invalid_character", message) from None
        return size

    async def translate(
        self, texts: Sequence[str], settings: BatchSettings, caller: Caller, meter: Meter | None = None
    ) -> list[Translation]:
        """Translate texts by the deadline; drop them if the client disconnects."""
        large = is_large(texts)
        layouts, sentences, each = await self.run_step(partial(self.prepare, texts, settings), caller, large)
        translations = await self.translate_sentences(sentences, each, caller, meter)
        return await self.run_step(partial(join_texts, layouts, translations), caller, large)

    async def run_step(self, call: Callable[[], T], caller: Caller, large: bool) -> T:
        """Call a function, off the event loop if it is large; give up at the deadline or if the client disconnects."""
        if not large:
            return call()
        step = asyncio.ensure_future(offload(call))
        try:
            await self._wait(step, caller)
        finally:
            step.cancel()  # it may not have begun
        return step.result()

    def prepare(
        self, texts: Sequence[str], settings: BatchSettings
    ) -> tuple[list[Layout], list[str], list[BatchSettings]]:
        """Split texts into sentences, with layouts and settings; reject requests that cost too much."""
        size = self.check_size(texts)
        check_reply(len(texts), size, settings.search, self.limits)
        check_added_length(texts, settings.search)
        whole = settings.constraints is not None and bool(settings.constraints.require)
        layouts, sentences = split_texts(settings.model.segmenter, texts, whole)
        if len(sentences) > MAX_SENTENCES:
            message = f"the texts have {len(sentences):,} lines and sentences; send at most {MAX_SENTENCES:,} at a time"
            raise RequestError(413, "too_large", message)
        if whole and any(layout.n_segments > 1 for layout in layouts):
            message = "`require` applies to one sentence, but a text has several lines"
            raise RequestError(
                422, "constraints_with_splitting", f"{message}; send sentences one by one, or use `terms`"
            )
        if sum(count_characters(targets) for _, targets in settings.terms) > MAX_CONSTRAINT_CHARACTERS:
            check_terms(sentences, settings.terms)
        each = share_lengths(settings, [layout.n_segments for layout in layouts])
        work = sum(estimate_work(sentence, one.search) for sentence, one in zip(sentences, each, strict=True))
        check_work(work, self.limits)
        check_seconds(self.throughput.seconds(settings, work), self.limits)
        return layouts, sentences, each

    async def translate_with_attention(
        self, text: str, settings: BatchSettings, caller: Caller, translation: str | None = None
    ) -> Translation:
        """Translate one line with its alignment; a given translation needs no search."""
        settings = replace(settings, alignment=True, translation=translation)
        self.check_size([text] if translation is None else [text, translation])
        check_added_length([text], settings.search)
        count = settings.model.count_tokens or estimate_tokens
        tokens = await asyncio.to_thread(count, text)
        check_cells(tokens * (tokens if translation is None else estimate_tokens(translation)))
        (found,) = await self.translate_sentences([text], [settings], caller)
        check_cells(len(found.source_tokens) * len(found.tokens), 2 * MAX_ATTENTION_CELLS)  # estimates may be wrong
        return found

    async def translate_sentences(
        self,
        sentences: Sequence[str],
        settings: Sequence[BatchSettings],
        caller: Caller,
        meter: Meter | None = None,
    ) -> list[Translation]:
        """Queue sentences, and wait for their translations; `meter` has the costs of earlier ones of the request."""
        if not sentences:
            return []
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            if not finished.done():
                finished.set_result(None)

        def on_done(_: QueuedRequest) -> None:
            with suppress(RuntimeError):  # the event loop has closed
                loop.call_soon_threadsafe(finish)

        request = QueuedRequest(settings, sentences, on_done, caller.client, meter or Meter(self.limits))
        try:
            try:
                self.queue.put(request)
            except QueueClosedError as error:
                raise RequestError(503, error.code, str(error), 5) from None
            await self._wait(finished, caller)
        finally:
            if not finished.done():
                self.queue.drop(request)
        if request.error is not None:
            raise request.error
        return request.translations

    async def _wait(self, finished: asyncio.Future[Any], caller: Caller) -> None:
        """Wait until it is finished; give up at the deadline or if the client disconnects."""
        watch = asyncio.ensure_future(caller.disconnected())
        try:
            timeout = max(0.0, caller.deadline - asyncio.get_running_loop().time())
            await asyncio.wait({finished, watch}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not finished.done():
                self._give_up(watch.done())
        finally:
            watch.cancel()

    def _give_up(self, disconnected: bool) -> None:
        self.metrics.count_dropped("gone" if disconnected else "deadline")
        if disconnected:
            raise RequestError(499, "client_disconnected", "the client disconnected")
        message = (
            f"the translation was not ready within {self.limits.timeout:g} seconds; send less text, or retry later"
        )
        raise RequestError(504, "deadline_exceeded", message)

    def replace_model(self, model: ServedModel) -> None:
        """Replace the model of the same name; accepted requests keep the old one."""
        self.models = {**self.models, model.name: model}

    def start(self) -> None:
        """Start the worker."""
        self.worker.start()

    def close(self) -> None:
        """Accept no more requests; the worker ends when the queue is empty."""
        self.shutting_down = True
        self.queue.close()


def is_large(texts: Sequence[str]) -> bool:
    """Whether texts are prepared off the event loop."""
    return len(texts) + sum(map(len, texts)) > LARGE_CHARACTERS


def split_texts(segmenter: Segmenter, texts: Sequence[str], whole: bool) -> tuple[list[Layout], list[str]]:
    """Split texts into sentences that are not much longer than the model can translate at once."""
    return segmenter.split_texts(texts, "never" if whole else "auto", max_sentence_characters(segmenter, texts))


def max_sentence_characters(segmenter: Segmenter, texts: Sequence[str]) -> int:
    """The characters of the longest sentence that is queued; the translator splits it further if needed."""
    size = sum(map(len, texts))
    limit = max(200, min(MAX_SENTENCE_BYTES, BYTES_PER_TOKEN * segmenter.max_tokens))
    if not size:
        return limit
    return max(50, limit * size // sum(len(text.encode()) for text in texts))  # at worst, each byte is a token


def share_lengths(settings: BatchSettings, counts: Sequence[int]) -> list[BatchSettings]:
    """The settings of each sentence, given the sentences per text; the sentences of a text share its length limits."""
    shared = {n: replace(settings, search=settings.search.for_part(n)) for n in set(counts)}
    return [shared[n] for n in counts for _ in range(n)]


def check_cells(cells: int, maximum: int = MAX_ATTENTION_CELLS) -> None:
    """Reject attention with too many weights."""
    if cells > maximum:
        message = (
            f"attention is limited to {MAX_ATTENTION_CELLS:,} weights, source tokens x target tokens; this text has "
            f"about {cells:,}; send a shorter one"
        )
        raise RequestError(413, "over_budget", message)


def with_terms(settings: BatchSettings, terms: Mapping[str, str | list[str]]) -> BatchSettings:
    """The settings of a document with the terms of its request."""
    if not terms:
        return settings
    return replace(settings, constraints=Constraints.of((), ()), terms=tuple(Terms(terms).targets.items()))


def parse_constraints(body: SearchSettings) -> tuple[Constraints | None, tuple[tuple[str, tuple[str, ...]], ...]]:
    """Parse the lexical constraints and terms of a request; reject those over the limits of the server."""
    if not isinstance(body, TranslateRequest) or not (body.require or body.avoid or body.terms):
        return None, ()
    constraints, terms = Constraints.of(body.require, body.avoid), Terms(body.terms)
    size = count_characters(constraints.avoid) + sum(map(count_characters, constraints.require))
    if size > MAX_CONSTRAINT_CHARACTERS:
        limit = f"this server accepts {MAX_CONSTRAINT_CHARACTERS:,} per request"
        raise RequestError(413, "too_large", f"require and avoid have {size:,} characters; {limit}")
    if (constraints.require or terms) and body.sampling is not None:
        message = "required phrases cannot be combined with sampling; drop `sampling`, or `require` and `terms`"
        raise RequestError(422, "constraints_with_sampling", message)
    return constraints, tuple(terms.targets.items())


def check_terms(sentences: Sequence[str], entries: Sequence[tuple[str, tuple[str, ...]]]) -> None:
    """Reject a sentence whose terms exceed the limit on constraints."""
    terms = Terms(entries)
    for sentence in sentences:
        size = sum(map(count_characters, {*terms.required_by(sentence)}))
        if size > MAX_CONSTRAINT_CHARACTERS:
            limit = f"this server accepts {MAX_CONSTRAINT_CHARACTERS:,} per sentence"
            raise RequestError(413, "too_large", f"the terms of {sentence!r:.60} have {size:,} characters; {limit}")


def count_characters(phrases: Iterable[str]) -> int:
    """The total number of characters of phrases."""
    return sum(map(len, phrases))
