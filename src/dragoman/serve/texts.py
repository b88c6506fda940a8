"""A text as the sentences that are translated, and back: every line break and every indentation stays where it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from dragoman.text.word_groups import count_visible_words
from dragoman.translation.result import Translation
from dragoman.translation.segmentation import join

if TYPE_CHECKING:
    from dragoman.translation.translator import Translator

LONGEST: Final = 2_000  # characters of a sentence that stays whole; the translator cuts further where it must
LINE_ENDS: Final = {ord(mark): " " for mark in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
FLAGS: Final = ("truncated", "repetitive", "split", "unmet", "empty")
Cut = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text: the white space around it, empty lines included, and how many sentences it is translated in."""

    before: str
    sentences: int
    after: str


@dataclass(frozen=True)
class Plan:
    """Where the sentences of a text stand."""

    lines: tuple[Line, ...]

    @property
    def sentences(self) -> int:
        """How many there are."""
        return sum(line.sentences for line in self.lines)


@dataclass(frozen=True)
class Answer:
    """The translation of a whole text; `alignment` counts the words of all its lines."""

    text: str
    score: float
    log_probability: float
    flags: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...] | None = None
    alternatives: tuple[Answer, ...] = ()
    unmet: tuple[str, ...] = ()


def planned(texts: Sequence[str], cut: Cut) -> tuple[list[Plan], list[str]]:
    """The plan of each text, and the sentences of all of them in order."""
    sentences: list[str] = []
    plans = []
    for text in texts:
        lines = []
        blank: list[str] = []  # joined once: a text may have a million empty lines
        for raw in text.splitlines(keepends=True):
            inside = raw.strip()
            if not inside:
                blank.append(raw)
                continue
            found = cut(inside)
            sentences += found
            before = raw[: len(raw) - len(raw.lstrip())]
            lines.append(Line("".join(blank) + before, len(found), raw[len(before) + len(inside) :]))
            blank.clear()
        if blank:
            lines.append(Line("".join(blank), 0, ""))
        plans.append(Plan(tuple(lines)))
    return plans, sentences


def cutter(translator: Translator) -> Cut:
    """How a line becomes sentences: whole where the model takes it, as the translator itself would split it if not."""
    from sentencex import segment

    def cut(line: str) -> list[str]:
        few = len(line) < translator.longest and len(line.encode("utf-8", "replace")) < translator.longest
        if few or len(translator.source.encode(line)) <= translator.longest:  # a token is a byte at least
            return [line]
        sentences = [sentence for found in segment(translator.language, line) if (sentence := found.strip())]
        return [part for sentence in sentences for part in shorter(sentence)] or [line]

    return cut


def shorter(sentence: str) -> Iterator[str]:
    """A sentence in parts that a batch can hold, cut at white space where there is some."""
    while len(sentence) > LONGEST:
        spaces = [found.start() for found in re.finditer(r"\s", sentence[LONGEST // 2 : LONGEST])]
        end = LONGEST // 2 + spaces[-1] if spaces else LONGEST
        if part := sentence[:end].strip():
            yield part
        sentence = sentence[end:].strip()
    if sentence:
        yield sentence


def answers(plans: Sequence[Plan], translations: Sequence[Translation]) -> list[Answer]:
    """The translation of each text from those of its sentences."""
    found, start = [], 0
    for plan in plans:
        found.append(answer(plan, translations[start : start + plan.sentences]))
        start += plan.sentences
    return found


def answer(plan: Plan, translations: Sequence[Translation]) -> Answer:
    """One text's translation, with its alternatives: the next best of every sentence."""
    ranked = [(best, *best.alternatives) for best in translations]
    ranks = max(map(len, ranked), default=1)
    best, *others = [assembled(plan, [of[min(rank, len(of) - 1)] for of in ranked]) for rank in range(ranks)]
    return replace(best, alternatives=tuple(others)) if others else best


def assembled(plan: Plan, chosen: Sequence[Translation]) -> Answer:
    """A text from one translation of each of its sentences."""
    parts, flags, start = [], set(), 0
    for line in plan.lines:
        here = chosen[start : start + line.sentences]
        start += line.sentences
        parts += [line.before, join([one.text.translate(LINE_ENDS) for one in here]), line.after]
        flags |= {flag for one in here for flag in one.flags}
        if line.sentences > 1:
            flags.add("split")
    total = sum((one.log_probability for one in chosen), 0.0)
    divisor = sum(one.log_probability / one.score for one in chosen if one.score)
    score = chosen[0].score if len(chosen) == 1 else total / divisor if divisor else 0.0
    unmet = tuple(phrase for one in chosen for phrase in one.unmet)
    told = tuple(flag for flag in FLAGS if flag in flags)
    return Answer("".join(parts), score, total, told, aligned(chosen), unmet=unmet)


def aligned(chosen: Sequence[Translation]) -> tuple[tuple[int, int], ...] | None:
    """The alignments of the sentences as one, with the words of those before counted in; None where none was asked."""
    found: list[tuple[int, int]] = []
    sources = targets = 0
    for one in chosen:
        if one.alignment is None:
            return None
        found += [(source + sources, target + targets) for source, target in one.alignment]
        sources += count_visible_words(one.source_tokens)
        targets += count_visible_words(one.tokens)
    return tuple(found)
