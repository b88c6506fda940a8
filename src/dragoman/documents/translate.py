"""Translate the segments of a document: mask, split into sentences, translate, check, retry, and move the markup."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Final

from dragoman.documents.memory.lookup import Memory
from dragoman.documents.memory.prefill import prefill
from dragoman.documents.reports.report import Report, SegmentResult
from dragoman.documents.segment import Segment
from dragoman.documents.sentences import SentenceTranslator
from dragoman.documents.transfer.assembly import Job, Unit, assemble, unmask
from dragoman.documents.transfer.moves import Moves
from dragoman.documents.transfer.notes import detach_notes
from dragoman.documents.transfer.placeholders import (
    MaskedText,
    cut,
    mask_text,
    protect_placeholders,
    protect_points,
    remask,
)
from dragoman.documents.transfer.ranges import Range
from dragoman.documents.transfer.unknown_text import SEPARATORS, SYMBOLS, Unknown
from dragoman.progress import Reporter
from dragoman.translation.overlap import interpreter_settings
from dragoman.translation.result import Translation
from dragoman.translation.segmentation import BEFORE_LINE

BLOCK_CHARACTERS: Final = 20_480  # of segments that are translated at once, about 150 sentences
ALL: Final = slice(None)
NONE: Final = frozenset[str]()
VISIBLE: Final = re.compile(r"\S")
TAB: Final = re.compile(r"(?<=\t)")  # tabs separate columns, never words
Split = Callable[[str], list[str]]


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

    If the engine allows it, each of its threads translates blocks of segments of its own, so that none waits for the
    others, while this one moves the markup of blocks that are done.
    """
    show = Reporter() if reporter is None else reporter
    if not translator.threads:
        block = SegmentTranslation(segments, translator.split, translator.unknown, align, memory)
        show.start_stage(name, len(block.units), "sentences")
        run_block(block, translator, show.advance)
        return Report(block.assemble())
    blocks = plan_blocks(segments, translator.split, translator.unknown, align, memory)
    results = list[SegmentResult]()
    with interpreter_settings, ThreadPoolExecutor(translator.threads, "document") as pool:
        try:
            started = [(block, pool.submit(run_block, block, translator)) for block in blocks]
            show.start_stage(name, sum(len(block.units) for block, _ in started), "sentences")
            for block, found in started:
                found.result()
                results += block.assemble()
                show.advance(len(block.units))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            translator.interrupt()
            raise
    return Report(results)


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


def plan_blocks(
    segments: Sequence[Segment], split: Split, unknown: Unknown, align: bool = False, memory: Memory | None = None
) -> Iterator[SegmentTranslation]:
    """Segments in blocks, planned when they are taken, or at once if a memory must be read."""
    if memory is not None:
        yield from SegmentTranslation(segments, split, unknown, align, memory).divide(BLOCK_CHARACTERS)
        return
    for part in divide_segments(segments, BLOCK_CHARACTERS):
        yield SegmentTranslation(segments[part], split, unknown, align)


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
        unknown: Unknown,
        align: bool = False,
        memory: Memory | None = None,
    ) -> None:
        characters = [unknown(segment.text) if segment.translate else NONE for segment in segments]
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
            found = yield request_of(units)
            for unit, translation in zip(units, found or (), strict=True):
                if not unit.accept(translation):
                    failed.append(unit)
                advance()
        yield from retry(failed)

    def assemble(self, part: slice = ALL) -> list[SegmentResult]:
        """The results of all segments, or of a part of them."""
        return [
            SegmentResult(segment) if job is None else assemble(segment, job)
            for segment, job in zip(self.segments[part], self.jobs[part], strict=True)
        ]


def group_by_markup(units: Sequence[Unit]) -> list[list[Unit]]:
    """Units without and with markup inside; only the latter need an alignment, which takes time."""
    groups = [[unit for unit in units if unit.marked is marked] for marked in (False, True)]
    return [group for group in groups if group]


def request_of(units: Sequence[Unit]) -> SentenceRequest:
    """The request for units that are all marked, or all not."""
    return SentenceRequest([unit.masked.text for unit in units], units[0].marked)


def retry(failed: Sequence[Unit]) -> Steps:
    """Translate units whose masks were lost again: with the other kind of mask, then with the masks required."""
    failed = [unit for unit in failed if unit.masked.masks]
    first = {id(unit): unit.masked for unit in failed}
    for unit in failed:
        unit.masked, unit.retried = remask(unit.masked), True
    left = []
    for units in group_by_markup(failed):
        found = yield request_of(units)
        for unit, translation in zip(units, found or (), strict=True):
            if not unit.accept(translation):
                unit.masked = first[id(unit)]
                left.append(unit)
    if not left:
        return
    words = sorted({mask.word for unit in left for mask in unit.masked.masks})
    aligned = any(unit.marked for unit in left)
    required = yield SentenceRequest([unit.masked.text for unit in left], aligned, words)
    for unit, translation in zip(left, required or (), strict=False):
        unit.accept(translation)


def approved_ranges(job: Job) -> list[Range]:
    """Where the units that a memory has translated are in the text of the segment, whose note marks are detached."""
    found, place = list[Range](), 0
    for unit in job.units:
        start = place + len(unit.before)
        place = start + len(unmask(unit.masked, job.segment))
        if unit.approved:
            found.append((start, place))
    return found


def make_job(
    segment: Segment, split: Split, align: bool = False, unknown: Set[str] = NONE, known: Sequence[Range] = ()
) -> Job:
    """Mask a segment and split it into units; with `align`, all of them are aligned.

    Text with `unknown` characters is masked too, except in the ranges that are `known`.
    """
    notes = detach_notes(segment)
    bases = () if notes is None else notes.bases
    plain = protect_points(segment if notes is None else notes.segment)
    segment = protect_placeholders(plain, unknown, known, bases)
    protected = sorted(
        ((i, span) for i, span in enumerate(segment.spans) if span.kind == "protected"), key=lambda one: one[1].start
    )
    masked = mask_text(segment.text, protected, segment.numbers)
    edges, points = find_markup(segment, masked)
    units, place = list[Unit](), 0
    ranges = sentence_ranges(masked.text, split)
    for start, end in cut_symbols(masked, segment, ranges) if unknown else ranges:
        unit = cut(masked, start, end)
        inside = bisect_right(edges, start) < bisect_left(edges, end)
        marked = align or inside or bisect_left(points, start) < bisect_right(points, end)
        units.append(Unit(unit, masked.text[place:start], unit.has_words(), marked))
        place = end
    return Job(segment, units, masked.text[place:], align, notes)


def cut_symbols(masked: MaskedText, segment: Segment, ranges: Iterable[Range]) -> Iterator[Range]:
    """The ranges of sentences, without the unknown symbols at their ends and the separators inside them.

    These are ranges of their own, which have nothing to translate.
    """
    text = masked.text
    for start, end in ranges:
        inside = [mask for mask in cut(masked, start, end).masks if segment.spans[mask.span].name == SYMBOLS]
        places = [(start + mask.start, start + mask.start + len(mask.word), mask.span) for mask in inside]
        last = end  # where the symbols at the end begin
        for low, high, _ in reversed(places):
            if VISIBLE.search(text, high, last):
                break
            last = low
        for low, high, index in places:
            span = segment.spans[index]
            before = VISIBLE.search(text, start, low)
            if before and low < last and not SEPARATORS.issuperset(segment.text[span.start : span.end]):
                continue
            if before:
                yield start, start + len(text[start:low].rstrip())
            yield low, high
            start = following.start() if (following := VISIBLE.search(text, high, end)) else end
        if start < end:
            yield start, end


def find_markup(segment: Segment, masked: MaskedText) -> tuple[list[int], list[int]]:
    """The places in the masked text at which pairs begin and end, and of points between words, both sorted."""
    lengths = [(segment.spans[mask.span], len(mask.word)) for mask in masked.masks]
    moves = Moves((span.start, span.end - span.start, length) for span, length in lengths)
    first, last = len(masked.text) - len(masked.text.lstrip()), len(masked.text.rstrip())
    edges, points = list[int](), list[int]()
    for span in segment.spans:
        if span.kind == "protected":
            continue
        moved = moves.span(span)
        if moved.start < moved.end:
            edges += [moved.start, moved.end]
        elif span.parent is not None or first < moved.start < last:
            points.append(moved.start)
    return sorted(edges), sorted(points)


def sentence_ranges(text: str, split: Split) -> Iterator[Range]:
    """The place of each unit; line breaks, tabs, bullets and the spaces around units are outside of them."""
    start = 0
    for line in chain.from_iterable(map(TAB.split, text.splitlines(keepends=True))):
        bullet = BEFORE_LINE.match(line)
        if bullet is not None and (content := line[bullet.end() :].rstrip()):
            place = start + bullet.end()
            for sentence in split(content):
                place = text.index(sentence, place)
                yield place, place + len(sentence)
                place += len(sentence)
        start += len(line)
