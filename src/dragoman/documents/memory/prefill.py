"""Take translations from a memory before the model translates the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dragoman.documents.memory.lookup import Match, Memory
from dragoman.documents.segment import Segment
from dragoman.documents.transfer.assembly import Job, Unit, join_masked, unmask
from dragoman.documents.transfer.masks import MaskedText
from dragoman.translation.result import Translation


def prefill(jobs: Sequence[Job], memory: Memory) -> None:
    """Give the units of segments their exact matches, and note fuzzy ones.

    A segment is looked up as a whole first, then by sentences. Text with markup inside it is not taken from a memory,
    which does not say where the markup goes; the match is noted.
    """
    texts = {text for job in jobs for text in (job.segment.text.strip(), *(source_text(one, job) for one in job.units))}
    found = memory.match(texts)
    for job in jobs:
        whole = found.get(job.segment.text.strip())
        if whole is not None and whole.score == 100 and len(job.units) > 1:
            unit = join_units(job)
            if fill(unit, job.segment, whole):
                job.units = [unit]
                continue
        for unit in job.units:
            match = found.get(source_text(unit, job)) if unit.translate else None
            if match is not None and not (match.score == 100 and fill(unit, job.segment, match)):
                unit.match = match


def source_text(unit: Unit, job: Job) -> str:
    """The source of a unit, with its protected text."""
    return unmask(unit.masked, job.segment)


def join_units(job: Job) -> Unit:
    """One unit for a whole segment."""
    whole = join_masked(job, lambda unit: unit.masked)
    before = job.units[0].before
    end = len(whole.text) - len(job.after)
    masks = tuple(replace(mask, start=mask.start - len(before)) for mask in whole.masks)
    return Unit(MaskedText(whole.text[len(before) : end], masks), before)


def fill(unit: Unit, segment: Segment, match: Match) -> bool:
    """Translate a unit with a match, if its markup and its placeholders allow it."""
    if unit.marked and has_inner_markup(segment):
        return False
    text = match.target
    for mask in sorted(unit.masked.masks, key=lambda mask: mask.start):
        span = segment.spans[mask.span]
        protected = segment.text[span.start : span.end]
        place = text.find(protected)
        if place < 0 or not protected:  # a point between words: the memory does not say where it goes
            return False
        word = " " * mask.space_left + mask.word + " " * mask.space_right
        text = text[:place] + word + text[place + len(protected) :]
    if not unit.accept(Translation(text)):
        unit.problem = None
        return False
    unit.approved, unit.match = True, match
    return True


def has_inner_markup(segment: Segment) -> bool:
    """Whether there is markup inside the text, other than the boundaries of cues."""
    last = len(segment.text)
    return any(
        (0 < span.start < last if span.kind == "point" else (span.start, span.end) != (0, last))
        for span in segment.spans
        if span.kind != "protected" and span.name != "cue"
    )
