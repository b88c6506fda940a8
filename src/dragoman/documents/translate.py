"""Translate the segments of a document: translate their sentences, check, retry, and move the markup."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from dragoman.documents.jobs import NONE, Split, make_job
from dragoman.documents.memory.lookup import Memory
from dragoman.documents.memory.prefill import prefill
from dragoman.documents.reports.report import Report, SegmentResult
from dragoman.documents.segment import Segment
from dragoman.documents.sentences import SentenceTranslator
from dragoman.documents.source_vocabulary import SourceVocabulary
from dragoman.documents.transfer.assembly import Job, Unit, assemble, unmask
from dragoman.documents.transfer.capitals import with_capitals, without_capitals
from dragoman.documents.transfer.masks import remask
from dragoman.documents.transfer.ranges import Range
from dragoman.progress import Reporter
from dragoman.translation.overlap import interpreter_settings
from dragoman.translation.result import Translation

BLOCK_CHARACTERS: Final = 20_480  # of segments that are translated at once, about 150 sentences
ALL: Final = slice(None)


@dataclass(frozen=True)
class SentenceRequest:
    """Sentences to translate; a translation must have those of the `required` words that its source has."""

    texts: list[str]
    alignment: bool
    required: Sequence[str] | None = None


# Yields requests, and receives the translations (None if words cannot be required).
Steps = Generator[SentenceRequest, Iterable[Translation] | None, None]


def translate_segments(
    segments: Sequence[Segment],
    translator: SentenceTranslator,
    reporter: Reporter | None = None,
    name: str = "document",
    align: bool = False,
    memory: Memory | None = None,
) -> Report:
    """Translate segments; those whose placeholders or markup do not survive keep their source, and are reported.

    `name` is the title of the progress that `reporter` shows. With `align`, text without markup is aligned too.
    Sentences that `memory` has are taken from there.
    """
    with interpreter_settings, DocumentTranslation(translator, align, memory) as translation:
        return translation.finish(segments, reporter, name)


class DocumentTranslation:
    """The translation of a document, whose segments may be given one by one before all are known.

    If the engine allows it, each of its threads translates blocks of segments of its own, so that none waits for the
    others, while the caller's thread reads the document and moves the markup of blocks that are done.
    """

    def __init__(self, translator: SentenceTranslator, align: bool = False, memory: Memory | None = None) -> None:
        self.translator, self.align, self.memory = translator, align, memory
        self.waiting, self.size = list[Segment](), 0  # segments that are not in a block yet, and their characters
        self.pool: ThreadPoolExecutor | None = None
        self.blocks = deque[tuple[SegmentTranslation, Future[None]]]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.pool is None:
            return
        if error is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)
            self.translator.interrupt()
        self.pool.shutdown()

    def add(self, segment: Segment) -> None:
        """Take a segment before the others are known; a block begins as soon as there are enough."""
        self.waiting.append(segment)
        self.size += len(segment.text)
        if self.size >= BLOCK_CHARACTERS and self.memory is None and self.translator.threads:
            self._start(self._plan(self.waiting))
            self.waiting, self.size = [], 0

    def finish(self, segments: Sequence[Segment], reporter: Reporter | None = None, name: str = "document") -> Report:
        """Translate these segments, which include those that were given before."""
        show = Reporter() if reporter is None else reporter
        if not self.translator.threads:
            block = self._plan(segments)
            show.start_stage(name, len(block.units), "sentences")
            run_block(block, self.translator, show.advance)
            return Report(block.assemble())
        for block in self._other_blocks(segments):
            self._start(block)
        show.start_stage(name, sum(len(block.units) for block, _ in self.blocks), "sentences")
        results = dict[int, SegmentResult]()
        while self.blocks:
            block, found = self.blocks.popleft()  # so that its memory is freed while others are translated
            found.result()
            results.update(zip(map(id, block.segments), block.assemble(), strict=True))
            show.advance(len(block.units))
        return Report([results[id(segment)] for segment in segments])

    def _other_blocks(self, segments: Sequence[Segment]) -> Iterator[SegmentTranslation]:
        """Blocks of the segments that are in none, planned when they are taken, or at once if a memory must be read."""
        if self.memory is not None:
            yield from self._plan(segments).divide(BLOCK_CHARACTERS)
            return
        started = {id(segment) for block, _ in self.blocks for segment in block.segments}
        others = [segment for segment in segments if id(segment) not in started]
        for part in divide_segments(others, BLOCK_CHARACTERS):
            yield self._plan(others[part])

    def _plan(self, segments: Sequence[Segment]) -> SegmentTranslation:
        return SegmentTranslation(segments, self.translator.split, self.translator.vocabulary, self.align, self.memory)

    def _start(self, block: SegmentTranslation) -> None:
        """Translate a block in a thread of the engine."""
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.translator.threads, "document")
        self.blocks.append((block, self.pool.submit(run_block, block, self.translator)))


def run_block(
    block: SegmentTranslation, translator: SentenceTranslator, advance: Callable[[], None] = lambda: None
) -> None:
    """Translate the sentences of a block; `advance` counts them."""
    steps = block.steps(advance)
    found: Iterable[Translation] | None = None
    while (step := next_step(steps, found)) is not None:
        if step.required is None:
            found = translator.stream(step.texts, step.alignment)
        else:
            found = translator.stream_requiring(step.texts, step.required, step.alignment)


def next_step(steps: Steps, found: Iterable[Translation] | None) -> SentenceRequest | None:
    """The next request of a translation, given the translations of the last one; None at the end."""
    try:
        return steps.send(found)
    except StopIteration:
        return None


def divide_segments(segments: Sequence[Segment], size: int) -> Iterator[slice]:
    """Neighboring segments with about `size` characters."""
    start = total = 0
    for end, segment in enumerate(segments, 1):
        total += len(segment.text)
        if total >= size or end == len(segments):
            yield slice(start, end)
            start, total = end, 0


class SegmentTranslation:
    """The translation of segments, step by step; whoever runs the steps translates the sentences."""

    def __init__(
        self,
        segments: Sequence[Segment],
        split: Split,
        vocabulary: SourceVocabulary,
        align: bool = False,
        memory: Memory | None = None,
    ) -> None:
        characters = [vocabulary.unknown(segment.text) if segment.translate else NONE for segment in segments]
        jobs = [
            make_job(segment, split, align, NONE if memory is not None else own) if segment.translate else None
            for segment, own in zip(segments, characters, strict=True)
        ]
        if memory is not None:
            prefill([job for job in jobs if job is not None], memory)
            # a memory may translate what the model cannot read; the model gets the rest without it
            again = dict[int, Job]()
            for i, (job, own) in enumerate(zip(jobs, characters, strict=True)):
                if job is not None and own and not all(unit.approved for unit in job.units if unit.translate):
                    again[i] = jobs[i] = make_job(segments[i], split, align, own, approved_ranges(job))
            prefill([*again.values()], memory)
        self._set(segments, jobs)
        for unit in self.units:
            unit.lower_case = vocabulary.prefers_lower_case(unit.masked.text)

    def _set(self, segments: Sequence[Segment], jobs: Sequence[Job | None]) -> None:
        self.segments, self.jobs = segments, jobs
        units = (unit for job in jobs if job is not None for unit in job.units)
        self.units = [unit for unit in units if unit.translate and unit.translation is None]

    def divide(self, size: int) -> Iterator[SegmentTranslation]:
        """The same in blocks of about `size` characters."""
        for part in divide_segments(self.segments, size):
            block = object.__new__(SegmentTranslation)
            block._set(self.segments[part], self.jobs[part])
            yield block

    def steps(self, advance: Callable[[], None] = lambda: None) -> Steps:
        """Translate all sentences, and again those whose masks were lost; `advance` counts sentences."""
        failed = []
        for units in group_by_markup(self.units):
            found = yield request(units)
            for unit, translation in zip(units, found or (), strict=True):
                if not accept(unit, translation):
                    failed.append(unit)
                advance()
        yield from retry(failed)

    def assemble(self, part: slice = ALL) -> list[SegmentResult]:
        """The results of all segments, or of a part of them."""
        return [
            SegmentResult(segment) if job is None else assemble(segment, job)
            for segment, job in zip(self.segments[part], self.jobs[part], strict=True)
        ]


def request(units: Sequence[Unit]) -> SentenceRequest:
    """The request for units that are all marked, or all not."""
    return SentenceRequest([*map(model_text, units)], units[0].marked)


def model_text(unit: Unit) -> str:
    """What the model reads of a unit."""
    return without_capitals(unit.masked.text) if unit.lower_case else unit.masked.text


def accept(unit: Unit, translation: Translation) -> bool:
    """Give a unit the translation of its `model_text`; False if its placeholders were lost."""
    return unit.accept(with_capitals(translation) if unit.lower_case else translation)


def group_by_markup(units: Sequence[Unit]) -> list[list[Unit]]:
    """Units without and with markup inside; only the latter need an alignment, which takes time."""
    groups = [[unit for unit in units if unit.marked is marked] for marked in (False, True)]
    return [group for group in groups if group]


def retry(failed: Sequence[Unit]) -> Steps:
    """Translate units whose masks were lost again: with the other kind of mask, then with the masks required."""
    failed = [unit for unit in failed if unit.masked.masks]
    first = {id(unit): unit.masked for unit in failed}
    for unit in failed:
        unit.masked, unit.retried = remask(unit.masked), True
    left = []
    for units in group_by_markup(failed):
        found = yield request(units)
        for unit, translation in zip(units, found or (), strict=True):
            if not accept(unit, translation):
                unit.masked = first[id(unit)]
                left.append(unit)
    if not left:
        return
    words = sorted({mask.word for unit in left for mask in unit.masked.masks})
    aligned = any(unit.marked for unit in left)
    required = yield SentenceRequest([*map(model_text, left)], aligned, words)
    for unit, translation in zip(left, required or (), strict=False):
        accept(unit, translation)


def approved_ranges(job: Job) -> list[Range]:
    """Where the units that a memory has translated are in the text of the segment, whose note marks are detached."""
    found, place = list[Range](), 0
    for unit in job.units:
        start = place + len(unit.before)
        place = start + len(unmask(unit.masked, job.segment))
        if unit.approved:
            found.append((start, place))
    return found
