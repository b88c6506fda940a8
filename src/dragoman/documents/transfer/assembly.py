"""Join the translated sentences of a segment, put protected text back, and move the markup."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from dragoman.documents.memory.lookup import Match
from dragoman.documents.reports.numbers import numbers_differ
from dragoman.documents.reports.report import NUMBERS_DIFFER, Problem, SegmentResult, WordLinks
from dragoman.documents.segment import Segment, Span, Target, children_of
from dragoman.documents.transfer.aligned_text import AlignedText, AlignedUnit
from dragoman.documents.transfer.masks import (
    MaskedText,
    covered_ranges,
    has_ordered_placeholders,
    has_other_placeholders,
    masking,
    ordered_placeholders,
    unmasking,
)
from dragoman.documents.transfer.no_break_spaces import restore_no_break
from dragoman.documents.transfer.notes import DetachedNotes
from dragoman.documents.transfer.projection import project
from dragoman.documents.transfer.ranges import Places, Range
from dragoman.documents.transfer.words import Links, WordParts, link_parts, locate_tokens, space_ranges
from dragoman.translation.result import Translation


@dataclass
class Unit:
    """A sentence, or a group of sentences, and its translation; without one, its source is kept."""

    masked: MaskedText
    before: str  # white space before it
    translate: bool = True
    marked: bool = True  # whether markup begins or ends in it, so that its words must be aligned
    lower_case: bool = False  # whether it is in capitals, and the model reads it in lower case
    translation: Translation | None = None
    mask_places: list[int] = field(default_factory=list)  # in the translation
    problem: Problem | None = None
    retried: bool = False
    match: Match | None = None  # in a translation memory
    approved: bool = False  # its translation is that of the memory

    def accept(self, translation: Translation) -> bool:
        """Take a translation if it is not empty, has every mask once, and no placeholder or mask of its own."""
        places = self.masked.locate(translation.text)
        if not translation.text:
            self.problem = "empty"
        elif places is None or has_other_placeholders(self.masked, translation.text):
            self.problem = "placeholder_lost"
        else:
            self.translation, self.mask_places, self.problem = translation, places, None
        return self.problem is None

    @property
    def target(self) -> MaskedText:
        """The translation with the masks at their places in it."""
        if self.translation is None:
            return self.masked
        masks = (replace(mask, start=at) for mask, at in zip(self.masked.masks, self.mask_places, strict=True))
        return MaskedText(self.translation.text, tuple(masks))

    def align(self) -> UnitAlignment:
        """The words of source and target, and their alignment as far as markup needs it."""
        source, one = self.masked.text, self.translation
        if one is None:
            words = space_ranges(source)
            return UnitAlignment(words, words, lambda: [(i, i) for i in range(len(words))] if self.marked else [])
        if self.marked:
            own, other = locate_tokens(source, one.source_tokens), locate_tokens(one.text, one.tokens)
            if own.words is not None and other.words is not None:
                return UnitAlignment(own.words, other.words, lambda: one.alignment or (), own.tokens, other.tokens)
        # only spans around whole sentences can be placed
        return UnitAlignment(space_ranges(source), space_ranges(one.text), list)


class UnitAlignment(NamedTuple):
    """The words of a unit and of its translation, what finds the links between them, and the places of tokens."""

    words: list[Range]
    target_words: list[Range]
    find_links: Callable[[], Sequence[Range]]
    tokens: Places | None = None
    target_tokens: Places | None = None


@dataclass
class Job:
    """A segment with its placeholders protected, and its units."""

    segment: Segment
    units: list[Unit]
    after: str  # white space at the end
    align: bool = False  # whether the result has the links between words
    notes: DetachedNotes | None = None  # the note marks that `segment` lacks


def assemble(original: Segment, job: Job) -> SegmentResult:
    """The result of a segment from the translations of its units."""
    if job.notes is None:
        return assemble_units(original, job)
    return job.notes.attach(assemble_units(job.notes.segment, job))


def assemble_units(original: Segment, job: Job) -> SegmentResult:
    """The result of a segment that has no note marks, or lacks them."""
    done = [unit.translation for unit in job.units if unit.translation is not None]
    result = SegmentResult(
        original,
        problem=next((unit.problem for unit in job.units if unit.problem), None),
        confidence=min(
            (unit.translation.confidence for unit in job.units if unit.translation and not unit.approved), default=None
        ),
        flags=tuple(dict.fromkeys(flag for one in done for flag in one.flags)),
        unmet=tuple(phrase for one in done for phrase in one.unmet),
        retried=any(unit.retried for unit in job.units),
        matches=tuple(unit.match for unit in job.units if unit.match is not None),
    )
    if original.bilingual and result.problem is not None:
        return result
    if not done:
        return replace(result, target=Target(original.text, original.spans)) if original.bilingual else result
    segment = job.segment
    target = join_masked(job, lambda unit: unit.target)
    text = restore_no_break(original.text, unmask(target, segment))
    approved = all(unit.approved for unit in job.units if unit.translate)
    if not approved and numbers_differ(original.text, text):
        result = replace(result, flags=(*result.flags, NUMBERS_DIFFER))
    if same_words(text, original.text):
        same = Target(original.text, original.spans, approved)
        return replace(result, target=same) if original.bilingual else result
    if not original.spans and not job.align:
        return replace(result, target=Target(text, approved=approved))
    source = join_masked(job, lambda unit: unit.masked)
    masked = Segment(source.text, masking(source, segment.spans).spans(segment.spans))
    places = {mask.span: (mask.start, mask.end) for mask in target.masks}
    aligned = align_units(job, source.text, target.text)
    found = project(masked, aligned, places)
    if found is None:
        return replace(result, problem="markup_lost")
    projected, unaligned = found
    moves, back = (unmasking(side, segment.spans) for side in (target, source))
    moved = moves.spans(projected.spans)
    if not keeps_order(segment.spans, moved):
        return replace(result, problem="placeholder_lost")
    spans = tuple(
        span if span.kind == own.kind else replace(span, kind=own.kind)
        for span, own in zip(moved[: len(original.spans)], original.spans, strict=True)
    )
    result = replace(result, target=Target(text, spans, approved), unaligned=tuple(unaligned))
    if not job.align:
        return result
    parts = [*map(back.range, aligned.source.parts)], [*map(moves.range, aligned.target.parts)]
    return replace(result, words=WordLinks(*parts, aligned.links))


def same_words(text: str, other: str) -> bool:
    """Whether two texts differ in nothing but white space; most differ in their first word."""
    return text.split(maxsplit=1)[:1] == other.split(maxsplit=1)[:1] and text.split() == other.split()


def keeps_order(before: Sequence[Span], after: Sequence[Span]) -> bool:
    """Whether placeholders whose order counts have stayed in order, if some are in markup, such as <a href="%s">.

    Those between words have stayed in order among themselves: `Unit.accept` has seen to it.
    """
    ordered = {i for i, span in enumerate(before) if span.open and has_ordered_placeholders(span.open)}
    if not ordered:
        return True
    ordered |= {i for i, span in enumerate(before) if span.kind == "protected" and ordered_placeholders(span.name)}
    places, other_places = ([i for i in written_order(spans) if i in ordered] for spans in (before, after))
    return places == other_places


def written_order(spans: Sequence[Span]) -> list[int]:
    """The indices of spans in the order in which they begin in a document."""
    children, found = children_of(spans), list[int]()
    rest = children.get(None, [])[::-1]
    while rest:
        found.append(rest.pop())
        rest += children.get(found[-1], [])[::-1]
    return found


def join_masked(job: Job, side: Callable[[Unit], MaskedText]) -> MaskedText:
    """The source or the target of all units, with white space between them."""
    text, masks = "", []
    for unit in job.units:
        text += unit.before
        masked = side(unit)
        masks += [replace(mask, start=mask.start + len(text)) for mask in masked.masks]
        text += masked.text
    return MaskedText(text + job.after, tuple(masks))


def unmask(masked: MaskedText, segment: Segment) -> str:
    """The text with the protected text of the segment instead of its masks."""
    text, place = "", 0
    for mask, start, end in covered_ranges(masked):
        span = segment.spans[mask.span]
        text += masked.text[place:start] + segment.text[span.start : span.end]
        place = end
    return text + masked.text[place:]


def align_units(job: Job, source: str, target: str) -> AlignedText:
    """The alignment of a segment from those of its units."""
    of_source, of_target = WordParts(source), WordParts(target)
    units = list[AlignedUnit]()
    start = other_start = 0  # the place of the unit in both texts
    for unit in job.units:
        start, other_start, one = start + len(unit.before), other_start + len(unit.before), unit.translation
        n_words, n_parts = (len(of_source.ends), len(of_target.ends)), (len(of_source.parts), len(of_target.parts))
        words, other_words, find_links, tokens, other_tokens = unit.align()
        if unit.marked:
            of_source.add_words(words, start)
            of_target.add_words(other_words, other_start)
        else:
            of_source.add_whole(words, start)
            of_target.add_whole(other_words, other_start)
        own = (n_parts[0], len(of_source.parts)), (n_parts[1], len(of_target.parts))
        link = partial(link_unit, of_source, of_target, n_words, find_links)
        if one is None or tokens is None or other_tokens is None:
            units.append(AlignedUnit(*own, link=link))
        else:
            pairs = [*lettered_parts(other_tokens, other_start, of_target, own[1])]
            units.append(AlignedUnit(*own, one.alignment_weights, tokens, start, pairs, link))
        start, other_start = start + len(unit.masked.text), other_start + len((one or unit.masked).text)
    return AlignedText(of_source, of_target, units)


def link_unit(
    of_source: WordParts, of_target: WordParts, n_words: Range, find_links: Callable[[], Sequence[Range]]
) -> Links:
    """The links between the parts of a unit; `n_words` are the words of both texts before it."""
    return link_parts(of_source, of_target, [(s + n_words[0], t + n_words[1]) for s, t in find_links()])


def lettered_parts(tokens: Places, shift: int, of_text: WordParts, own: Range) -> Iterator[Range]:
    """Each token with each part, among those in the range `own`, that it is in and that is not punctuation.

    `shift` is where the unit with these tokens begins in the text.
    """
    parts, marks, (first, last) = of_text.parts, of_text.marks, own
    for i, (start, end) in enumerate(zip(*tokens, strict=True)):
        start, end = start + shift, end + shift
        while first < last and parts[first][1] <= start:
            first += 1
        part = first
        while part < last and parts[part][0] < end:
            if part not in marks:
                yield i, part
            part += 1
