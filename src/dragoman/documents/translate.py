"""Translate the segments of a document: mask, split into sentences, translate, check, retry, and move the markup."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from dragoman.documents.assembly import Job, Moves, Unit, assemble
from dragoman.documents.memory.lookup import Memory
from dragoman.documents.memory.prefill import prefill
from dragoman.documents.placeholders import MaskedText, cut, mask_text, protect_placeholders, remask
from dragoman.documents.report import Report, SegmentResult
from dragoman.documents.segment import Segment
from dragoman.documents.sentences import SentenceTranslator
from dragoman.documents.words import Range
from dragoman.progress import Reporter
from dragoman.translation.result import Translation
from dragoman.translation.segmentation import BEFORE_LINE

TAB: Final = re.compile(r"(?<=\t)")  # tabs separate columns, never words


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
    jobs = [make_job(segment, translator, align) if segment.translate else None for segment in segments]
    if memory is not None:
        prefill([job for job in jobs if job is not None], memory)
    units = [
        unit for job in jobs if job is not None for unit in job.units if unit.translate and unit.translation is None
    ]
    if reporter is not None:
        reporter.start_stage(name, len(units), "sentences")
    failed = []
    for unit, translation in translate_units(units, translator):
        if not unit.accept(translation):
            failed.append(unit)
        if reporter is not None:
            reporter.advance()
    retry(failed, translator)
    return Report(
        [
            SegmentResult(segment) if job is None else assemble(segment, job)
            for segment, job in zip(segments, jobs, strict=True)
        ]
    )


def translate_units(units: Sequence[Unit], translator: SentenceTranslator) -> Iterator[tuple[Unit, Translation]]:
    """Units with their translations; only those with markup inside need an alignment, which takes time."""
    for marked in (False, True):
        chosen = [unit for unit in units if unit.marked is marked]
        if chosen:
            yield from zip(chosen, translator.stream([unit.masked.text for unit in chosen], marked), strict=True)


def retry(failed: Sequence[Unit], translator: SentenceTranslator) -> None:
    """Translate units whose masks were lost again: with the other kind of mask, then with the masks required."""
    failed = [unit for unit in failed if unit.masked.masks]
    first = {id(unit): unit.masked for unit in failed}
    for unit in failed:
        unit.masked, unit.retried = remask(unit.masked), True
    left = []
    for unit, translation in translate_units(failed, translator):
        if not unit.accept(translation):
            unit.masked = first[id(unit)]
            left.append(unit)
    if not left:
        return
    words = sorted({mask.word for unit in left for mask in unit.masked.masks})
    aligned = any(unit.marked for unit in left)
    required = translator.stream_requiring([unit.masked.text for unit in left], words, aligned)
    for unit, translation in zip(left, required or (), strict=False):
        unit.accept(translation)


def make_job(segment: Segment, translator: SentenceTranslator, align: bool = False) -> Job:
    """Mask a segment and split it into units; with `align`, all of them are aligned."""
    segment = protect_placeholders(segment)
    protected = sorted(
        ((i, span) for i, span in enumerate(segment.spans) if span.kind == "protected"), key=lambda one: one[1].start
    )
    masked = mask_text(segment.text, protected, segment.numbers)
    edges, points = find_markup(segment, masked)
    units, place = list[Unit](), 0
    for start, end in sentence_ranges(masked.text, translator):
        unit = cut(masked, start, end)
        inside = bisect_right(edges, start) < bisect_left(edges, end)
        marked = align or inside or bisect_left(points, start) < bisect_right(points, end)
        units.append(Unit(unit, masked.text[place:start], unit.has_words(), marked))
        place = end
    return Job(segment, units, masked.text[place:], align)


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


def sentence_ranges(text: str, translator: SentenceTranslator) -> Iterator[Range]:
    """The place of each unit; line breaks, tabs, bullets and the spaces around units are outside of them."""
    start = 0
    for line in chain.from_iterable(map(TAB.split, text.splitlines(keepends=True))):
        bullet = BEFORE_LINE.match(line)
        if bullet is not None and (content := line[bullet.end() :].rstrip()):
            place = start + bullet.end()
            for sentence in translator.split(content):
                place = text.index(sentence, place)
                yield place, place + len(sentence)
                place += len(sentence)
        start += len(line)
