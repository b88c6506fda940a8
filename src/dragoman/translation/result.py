"""Translations and scores; the translation of a text is joined from those of its segments, line by line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from dragoman.search.constraints.phrases import Constraints
from dragoman.search.types import Hypothesis, Search
from dragoman.text import Tokenizer
from dragoman.text.line_lengths import LineLengths
from dragoman.translation.segmentation import ONE_SEGMENT, Ids, Layout, begins_word, join_segments

LINE_BREAKS: Final = {ord(mark): " " for mark in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
DEGENERATE: Final = ("truncated", "repetitive", "too_short", "too_long", "copied", "no_letters")
FLAGS: Final = (*DEGENERATE, "unseen_length", "split", "unmet", "empty")
MAX_DEGENERATE_CONFIDENCE: Final = 0.1
MIN_COMPARED_TOKENS: Final = 8  # shorter texts vary too much in length to compare
MIN_COPIED_WORDS: Final = 4  # short texts such as names and numbers are often copied correctly
RATIO_MARGIN: Final = 1.5  # beyond the usual ratios of target to source tokens
DEFAULT_RATIO: Final = (0.3, 3.0)  # for a model without recorded ratios
LETTER: Final = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class Translation:
    """One translation.

    `score` is log P / lp, by which hypotheses are ranked; for a text in parts, the sum of log P over the sum of lp.
    `tokens` are the output tokens, `source_tokens` the input tokens. `alternatives` are the next best translations,
    with `n_best`, no two with the same text; for a text in parts, the next best of each part.
    `alignment` has pairs of word indices (source, target) from 0; `attention [tokens, source_tokens]` is a NumPy array
    without the weights on the source's EOS token. `alignment_weights`, of the same shape, are those of the head that
    `alignment` was made from. All only on request.
    `met` are the required phrases that the translation contains, `unmet` those it lacks.
    """

    text: str
    score: float = 0.0
    log_probability: float = 0.0
    tokens: tuple[str, ...] = ()
    source_tokens: tuple[str, ...] = ()
    truncated: bool = False  # truncated at the maximum length
    repetitive: bool = False  # it repeats itself, and the source does not
    too_short: bool = False  # compared with the source, by the ratios of the training pairs
    too_long: bool = False
    copied: bool = False  # a copy of the source
    no_letters: bool = False  # the source has letters
    unseen_length: bool = False  # a sentence is longer than all lines that the model was trained on
    split: bool = False  # a line was translated in parts
    empty: bool = False  # a sentence has no translation
    alignment: tuple[tuple[int, int], ...] | None = None
    attention: Any = field(default=None, repr=False, compare=False)
    alignment_weights: Any = field(default=None, repr=False, compare=False)
    alternatives: tuple[Translation, ...] = ()
    met: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of the warnings that apply."""
        return tuple(name for name in FLAGS if getattr(self, name))

    @property
    def confidence(self) -> float:
        """The geometric mean of the tokens' probabilities; at most 0.1 if a flag says that the text is degenerate."""
        if not self.tokens:
            return 0.0
        mean = math.exp(min(0.0, self.log_probability / (len(self.tokens) + 1)))
        degenerate = any(getattr(self, name) for name in DEGENERATE)
        return min(mean, MAX_DEGENERATE_CONFIDENCE) if degenerate else mean


@dataclass(frozen=True)
class Scored:
    """The score of a given translation; the EOS token is the last of its tokens.

    `log_probability` is log P of the whole translation, and `score` is log P / lp, by which a search would rank it.
    """

    score: float
    log_probability: float
    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]

    @property
    def per_token(self) -> float:
        """log P / number of tokens, the EOS token included: the negative logarithm of the perplexity."""
        return self.log_probability / len(self.tokens)


Segment = tuple[Ids, Sequence[Hypothesis], Constraints]


@dataclass(frozen=True)
class Assembly:
    """Build translations from hypotheses.

    For pairs (source, output) of ids, `attention` has the weights [T, S] and `alignment` those for `align`, if
    requested. The first `n_language_tokens` tokens of a source name the target language and are not text. `lengths`
    describes the lines that the model was trained on, if known.
    """

    source: Tokenizer
    target: Tokenizer
    search: Search
    attention: Mapping[tuple[Ids, Ids], Any] | None = None
    alignment: Mapping[tuple[Ids, Ids], Any] | None = None
    n_language_tokens: int = 0
    lengths: LineLengths | None = None

    def translation(self, layout: Layout, segments: Sequence[Segment]) -> Translation:
        """The translation of a text from its segments, with its alternatives."""
        return join_translations(layout, [self.segment(*segment) for segment in segments])

    def segment(self, source: Ids, hypotheses: Sequence[Hypothesis], constraints: Constraints) -> Translation:
        """The translation of a segment, with its alternatives."""
        best, *others = [self._one(source, hypothesis, constraints) for hypothesis in hypotheses]
        return replace(best, alternatives=tuple(others)) if others else best

    def _one(self, source: Ids, hypothesis: Hypothesis, constraints: Constraints) -> Translation:
        """The translation of one hypothesis, with its met and unmet required phrases."""
        ids, read = hypothesis.ids, source[self.n_language_tokens :]
        text = self.target.decode(ids).strip()  # a lone ▁ writes an extra space
        tokens, source_tokens = self.target.tokens(ids), self.source.tokens(read)
        loop = longest_loop(ids)
        low, high = DEFAULT_RATIO if self.lengths is None else self.lengths.ratio
        comparable = max(len(read), len(ids)) >= MIN_COMPARED_TOKENS
        ratio = (len(ids) + 1) / (len(read) + 1)
        translation = Translation(
            text,
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            tokens=tuple(tokens),
            source_tokens=tuple(source_tokens),
            truncated=hypothesis.truncated,
            repetitive=bool(loop) and loop > longest_loop(read),
            too_short=comparable and ratio * RATIO_MARGIN < low,
            too_long=comparable and ratio > high * RATIO_MARGIN,
            copied=is_copy(source_tokens, tokens, text),
            no_letters=bool(text) and not LETTER.search(text) and bool(LETTER.search(self.source.decode(read))),
            empty=not text and bool(read),
            unseen_length=self.lengths is not None and len(read) > self.lengths.longest,
        )
        pair = (source, tuple(ids))
        if constraints.require:
            met, unmet = constraints.met_and_unmet(self.target.decode(ids))
            translation = replace(translation, met=tuple(met), unmet=tuple(unmet))
        if self.attention is not None:
            translation = replace(translation, attention=self.attention[pair][:, self.n_language_tokens :])
        if self.alignment is not None:
            import numpy

            from dragoman.translation.alignment import align, move_language_last

            weights = move_language_last(self.alignment[pair], self.n_language_tokens)
            links = tuple(align(weights, source_tokens, tokens))
            without_end = numpy.asarray(weights)[:, : len(source_tokens)]
            translation = replace(translation, alignment=links, alignment_weights=without_end)
        return translation


def is_copy(source: Sequence[str], target: Sequence[str], text: str) -> bool:
    """Whether a translation is a copy of the source; False for a few words, because names are copied correctly."""
    if "".join(source) != "".join(target):
        return False
    return sum(LETTER.search(word) is not None for word in text.split()) >= MIN_COPIED_WORDS


def block_diagonal(maps: Sequence[Any]) -> Any:
    """One attention map for a text in parts; tokens attend within their part only."""
    import numpy

    full = numpy.zeros((sum(len(m) for m in maps), sum(m.shape[1] for m in maps)), dtype=numpy.float32)
    row = column = 0
    for part in maps:
        full[row : row + part.shape[0], column : column + part.shape[1]] = part
        row, column = row + part.shape[0], column + part.shape[1]
    return full


def longest_loop(tokens: Sequence[int], longest_period: int = 8) -> int:
    """Length of the longest run of tokens that repeats a sequence four times or more, or 0."""
    found = 0
    if len(tokens) - len(set(tokens)) < 6:  # nearly every text has fewer repeats, and a loop of 8 tokens has at least 6
        return found
    for period in range(1, longest_period + 1):
        run = 0
        for one, other in zip(tokens, tokens[period:], strict=False):
            run = run + 1 if one == other else 0
            if run + period >= max(8, 4 * period):
                found = max(found, run + period)
    return found


def join_texts(layouts: Sequence[Layout], translations: Sequence[Translation]) -> list[Translation]:
    """The translation of each text, from the translations of its segments."""
    found = iter(translations)
    return [join_translations(layout, [*islice(found, layout.n_segments)]) for layout in layouts]


def join_translations(layout: Layout, segments: Sequence[Translation]) -> Translation:
    """The translation of a text from those of its segments; its alternatives are the next best of each."""
    if layout.lines == ONE_SEGMENT:
        return segments[0]
    ranked = [(best, *best.alternatives) for best in segments]
    n_ranks = max(map(len, ranked), default=1)
    ranks = (_join_rank(layout, [of[min(rank, len(of) - 1)] for of in ranked]) for rank in range(n_ranks))
    distinct: dict[str, Translation] = {}
    for joined in ranks:
        distinct.setdefault(joined.text, joined)
    best, *others = distinct.values()
    return replace(best, alternatives=tuple(others)) if others else best


def _join_rank(layout: Layout, segments: Sequence[Translation]) -> Translation:
    """A text from one translation of each segment."""
    texts, start = [], 0
    for line in layout.lines:
        here = segments[start : start + line.n_segments]
        texts += [line.before, join_segments([one.text.translate(LINE_BREAKS) for one in here]), line.after]
        start += line.n_segments
    total = sum((one.log_probability for one in segments), 0.0)
    divisor = sum(one.log_probability / one.score for one in segments if one.score)
    joined = Translation(
        "".join(texts),
        score=segments[0].score if len(segments) == 1 else total / divisor if divisor else 0.0,
        log_probability=total,
        tokens=tuple(token for one in segments for token in one.tokens),
        source_tokens=tuple(token for one in segments for token in one.source_tokens),
        split=any(line.n_segments > 1 for line in layout.lines) or any(one.split for one in segments),
        alignment=join_alignments(segments),
        met=tuple(phrase for one in segments for phrase in one.met),
        unmet=tuple(phrase for one in segments for phrase in one.unmet),
    )
    names = (*DEGENERATE, "unseen_length", "empty")
    found: dict[str, Any] = {name: True for name in names if any(getattr(one, name) for one in segments)}
    for name in ("attention", "alignment_weights"):
        maps = [getattr(one, name) for one in segments]
        if maps and all(one is not None for one in maps):
            found[name] = block_diagonal(maps)
    return replace(joined, **found) if found else joined


def join_alignments(segments: Sequence[Translation]) -> tuple[tuple[int, int], ...] | None:
    """The alignments of all segments, counting words from the first, or None."""
    if any(one.alignment is None for one in segments):
        return None
    from dragoman.text.word_groups import count_visible_words

    links: list[tuple[int, int]] = []
    n_source = n_target = 0
    for one in segments:
        if n_source and one.source_tokens and not begins_word(one.source_tokens, 0):
            n_source -= 1  # the split was inside a word
        links += [(source + n_source, target + n_target) for source, target in one.alignment or ()]
        n_source += count_visible_words(one.source_tokens)
        n_target += count_visible_words(one.tokens)
    return tuple(links)
