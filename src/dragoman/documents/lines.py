"""Translate lines of plain text, with their placeholders, URLs and e-mail addresses protected as in documents.

Lines with any are masked and go through the same stream as all others. Those whose masks do not survive, lines with
tabs or wide gaps, without words, with characters that the model cannot read or with a sentence in capitals are
translated sentence by sentence, as segments of a document.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Unpack

from dragoman.documents.transfer.capitals import may_have_capitals
from dragoman.documents.transfer.placeholders import has_placeholders
from dragoman.translation.options import TranslationOptions
from dragoman.translation.overlap import Blocks
from dragoman.translation.result import Translation, join_translations
from dragoman.translation.segmentation import GAP, Layout, LineLayout

if TYPE_CHECKING:
    from dragoman.documents.jobs import Split
    from dragoman.documents.reports.report import SegmentResult
    from dragoman.documents.segment import Segment
    from dragoman.documents.sentences import ModelTranslator
    from dragoman.documents.source_vocabulary import SourceVocabulary
    from dragoman.documents.transfer.assembly import Job, Unit
    from dragoman.documents.transfer.masks import MaskedText
    from dragoman.translation.translator import Translator


class MaskedLine(NamedTuple):
    """A line with placeholders: its segment, with the placeholders as spans, and its masked text."""

    segment: Segment
    masked: MaskedText


def mask_line(line: str) -> MaskedLine | None:
    """A line with its placeholders masked; None if it has none."""
    if not has_placeholders(line):
        return None
    from dragoman.documents.segment import Segment  # few lines need it
    from dragoman.documents.transfer.masks import mask_text
    from dragoman.documents.transfer.protected import protect_placeholders

    segment = protect_placeholders(Segment(line))
    return MaskedLine(segment, mask_text(line, [*enumerate(segment.spans)]))


def is_read_in_parts(text: str, split: Split, vocabulary: SourceVocabulary) -> bool:
    """Whether a text has what the model should not read as it is: separators, unknown characters, or capitals."""
    if has_separators(text, vocabulary) or vocabulary.unknown(text):
        return True
    return has_capitals(text, split, vocabulary)


def has_separators(text: str, vocabulary: SourceVocabulary) -> bool:
    """Whether a line of a text has tabs or gaps between its words, or has no words, such as `***`."""
    lines = map(str.strip, text.splitlines())
    return any("\t" in line or GAP in line or (line and not vocabulary.has_words(line)) for line in lines)


def has_capitals(text: str, split: Split, vocabulary: SourceVocabulary) -> bool:
    """Whether a sentence of a text is in capitals, and better read in lower case."""
    if not may_have_capitals(text):
        return False
    from dragoman.documents.jobs import sentence_ranges  # few lines need it

    return any(vocabulary.prefers_lower_case(text[start:end]) for start, end in sentence_ranges(text, (), split))


class LineTranslator:
    """Translate lines with a `Translator`; `options` are those of its `stream`."""

    def __init__(self, translator: Translator, **options: Unpack[TranslationOptions]) -> None:
        self.translator, self.options = translator, options
        # The lines whose translation has not been returned yet; those that are translated as segments have the
        # translations of all such lines of their block.
        self.read: deque[MaskedLine | Iterator[Translation] | None] = deque()

    def stream(self, blocks: Iterable[Sequence[str]]) -> Iterator[Translation]:
        """The translation of each line, in order; the lines arrive in blocks, as those of `Blocks`."""
        for translation in self.translator.stream(Blocks(map(self._mask_block, blocks)), **self.options):
            line = self.read.popleft()
            if line is None:
                yield translation
            else:
                yield self._restore(line, translation) if isinstance(line, MaskedLine) else next(line)

    def _mask_block(self, block: Sequence[str]) -> list[str]:
        others = list[str]()
        as_segments = self._translate_segments(others)
        return [self._mask(line, others, as_segments) for line in block]

    def _mask(self, line: str, others: list[str], as_segments: Iterator[Translation]) -> str:
        found = mask_line(line)
        text = line if found is None else found.masked.text
        if is_read_in_parts(text, self._model.split, self._model.vocabulary):
            others.append(line)
            self.read.append(as_segments)
            return ""
        self.read.append(found)
        return text if found is None or found.masked.has_words() else ""

    def _restore(self, line: MaskedLine, translation: Translation) -> Translation:
        if not line.masked.has_words():
            return Translation(line.segment.text)
        return restore(line, translation) or next(self._translate_segments([line.segment.text]))

    def _translate_segments(self, lines: Sequence[str]) -> Iterator[Translation]:
        """The translations of lines, all made when the first is taken."""
        from dragoman.documents.segment import Segment
        from dragoman.documents.translate import SegmentTranslation, run_block

        block = SegmentTranslation([*map(Segment, lines)], self._model.split, self._model.vocabulary)
        run_block(block, self._model)
        yield from text_translations(block.jobs, block.assemble())

    @cached_property
    def _model(self) -> ModelTranslator:
        from dragoman.documents.sentences import ModelTranslator

        return ModelTranslator(self.translator, **self.options)


def restore(line: MaskedLine, translation: Translation) -> Translation | None:
    """The translation of a masked line with its placeholders; None if one is lost."""
    from dragoman.documents.transfer.assembly import Unit, unmask  # few texts need it

    unit = Unit(line.masked, "", marked=False)
    return replace(translation, text=unmask(unit.target, line.segment)) if unit.accept(translation) else None


def restore_alternatives(line: MaskedLine, translation: Translation) -> Translation | None:
    """The best translation that has all placeholders, with the others that do; None if all lack one."""
    found = [restore(line, one) for one in (replace(translation, alternatives=()), *translation.alternatives)]
    kept = [one for one in found if one is not None]
    return replace(kept[0], alternatives=tuple(kept[1:])) if kept else None


def text_translations(jobs: Sequence[Job | None], results: Sequence[SegmentResult]) -> list[Translation]:
    """The translation of each text that was translated as a segment, with the scores and flags of its sentences."""
    return [
        join_sentences(
            [] if job is None else job.units, result.segment.text if result.target is None else result.target.text
        )
        for job, result in zip(jobs, results, strict=True)
    ]


def join_sentences(units: Sequence[Unit], text: str) -> Translation:
    """A translation with that text; `copied` says that a sentence was left in the source language."""
    found, per_line = list[Translation](), [0]
    for unit in units:
        if "\n" in unit.before:
            per_line.append(0)
        if unit.translate:
            left = Translation(unit.masked.text, copied=unit.problem != "empty", empty=unit.problem == "empty")
            found.append(unit.translation or left)
            per_line[-1] += 1
    layout = Layout(tuple(LineLayout("", n, "") for n in per_line))
    return replace(join_translations(layout, found), text=text) if found else Translation(text)
