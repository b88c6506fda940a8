"""Translations and scores; translations are assembled from the hypotheses of sentences, line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from dragoman.search.constraints.phrases import Constraints
from dragoman.search.types import Hypothesis, Search
from dragoman.text import Tokenizer
from dragoman.translation.segmentation import Ids, TextLayout, begins_word, join_segments

LINE_BREAKS: Final = {ord(mark): " " for mark in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
FLAGS: Final = ("truncated", "repetitive", "split", "unmet", "empty")


@dataclass(frozen=True)
class Translation:
    """One translation.

    `score` is log P / lp, by which hypotheses are ranked; for a text in parts, the sum of log P over the sum of lp.
    `tokens` are the output tokens, `source_tokens` the input tokens. `alternatives` are the next best translations,
    with `n_best`; for a text in parts, the next best of each part.
    `alignment` has pairs of word indices (source, target) from 0; `attention [tokens, source_tokens]` is a NumPy array
    without the weights on the source's end mark. Both only on request.
    `met` are the required phrases that the translation contains, `unmet` those it lacks.
    """

    text: str
    score: float = 0.0
    log_probability: float = 0.0
    tokens: tuple[str, ...] = ()
    source_tokens: tuple[str, ...] = ()
    truncated: bool = False  # cut off at the maximum length
    repetitive: bool = False  # it repeats itself, and the source does not
    split: bool = False  # the source was too long and was translated in parts
    alignment: tuple[tuple[int, int], ...] | None = None
    attention: Any = field(default=None, repr=False, compare=False)
    alternatives: tuple[Translation, ...] = ()
    met: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def empty(self) -> bool:
        """Whether the text is empty."""
        return not self.text.strip()

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of the warnings that apply."""
        return tuple(name for name in FLAGS if getattr(self, name))


@dataclass(frozen=True)
class TextTranslation:
    """The translation of a text of several lines; `alignment` counts the words of all lines."""

    text: str
    score: float
    log_probability: float
    flags: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...] | None = None
    alternatives: tuple[TextTranslation, ...] = ()
    unmet: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scored:
    """The score of a given translation; the end mark is the last of its tokens.

    `log_probability` is log P of the whole translation, and `score` is log P / lp, by which a search would rank it.
    """

    score: float
    log_probability: float
    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]

    @property
    def per_token(self) -> float:
        """log P / number of tokens, the end mark included: the negative logarithm of the perplexity."""
        return self.log_probability / len(self.tokens)


@dataclass(frozen=True)
class Assembly:
    """Assembles translations.

    For pairs (source, output) of ids, `attention` has the weights [T, S] and `alignment` those for `align`, where they
    were requested. The first `n_language_tokens` tokens of a source name the target language and are not text.
    """

    source: Tokenizer
    target: Tokenizer
    search: Search
    attention: Mapping[tuple[Ids, Ids], Any] | None = None
    alignment: Mapping[tuple[Ids, Ids], Any] | None = None
    n_language_tokens: int = 0

    def translation(
        self, parts: Sequence[tuple[Ids, Sequence[Hypothesis]]], constraints: Sequence[Constraints] = ()
    ) -> Translation:
        """The translation of a text from the hypotheses of its parts, with its alternatives.

        Where phrases were required, it says which of them each has and which it lacks.
        """
        sources = [ids for ids, _ in parts]
        ranks = max((len(best) for _, best in parts), default=1)
        best, *others = [
            self._one(sources, [hypotheses[min(rank, len(hypotheses) - 1)] for _, hypotheses in parts], constraints)
            for rank in range(ranks)
        ]
        return replace(best, alternatives=tuple(others)) if others else best

    def _one(
        self, sources: Sequence[Ids], chosen: Sequence[Hypothesis], constraints: Sequence[Constraints]
    ) -> Translation:
        outputs, texts = [hypothesis.ids for hypothesis in chosen], [ids[self.n_language_tokens :] for ids in sources]
        total = sum((hypothesis.log_probability for hypothesis in chosen), 0.0)
        divisor = sum(self.search.normalizer(len(tokens) + 1) for tokens in outputs)
        translation = Translation(
            join_segments([self.target.decode(tokens).strip() for tokens in outputs]),  # a lone ▁ writes an extra space
            score=chosen[0].score if len(chosen) == 1 else total / divisor if divisor else 0.0,
            log_probability=total,
            tokens=tuple(token for tokens in outputs for token in self.target.tokens(tokens)),
            source_tokens=tuple(token for ids in texts for token in self.source.tokens(ids)),
            truncated=any(hypothesis.truncated for hypothesis in chosen),
            repetitive=any(
                (loop := longest_loop(tokens)) and loop > longest_loop(ids)
                for ids, tokens in zip(texts, outputs, strict=True)
            ),
            split=len(chosen) > 1,
        )
        pairs = [(ids, tuple(tokens)) for ids, tokens in zip(sources, outputs, strict=True)]
        if any(of_part.require for of_part in constraints):
            satisfied = [
                of_part.met_and_unmet(self.target.decode(one))
                for of_part, one in zip(constraints, outputs, strict=True)
            ]
            met, unmet = (tuple(chain.from_iterable(names)) for names in zip(*satisfied, strict=True))
            translation = replace(translation, met=met, unmet=unmet)
        if self.attention is not None:
            translation = replace(
                translation,
                attention=block_diagonal([self.attention[pair][:, self.n_language_tokens :] for pair in pairs]),
            )
        if self.alignment is not None:
            links = self._aligned(texts, outputs, [self.alignment[pair] for pair in pairs])
            translation = replace(translation, alignment=tuple(links))
        return translation

    def _aligned(self, sources: Sequence[Ids], outputs: Sequence[Sequence[int]], maps: Sequence[Any]) -> list[Any]:
        """The alignments of the parts, with word indices of the whole text."""
        from dragoman.text.word_groups import count_visible_words
        from dragoman.translation.alignment import align, move_language_last

        found: list[tuple[int, int]] = []
        before_source = before_target = 0
        for ids, tokens, attention in zip(sources, outputs, maps, strict=True):
            from_tokens, to_tokens = self.source.tokens(ids), self.target.tokens(tokens)
            if before_source and not begins_word(from_tokens, 0):
                before_source -= 1  # the split went through a word
            weights = move_language_last(attention, self.n_language_tokens)
            found += [(s + before_source, t + before_target) for s, t in align(weights, from_tokens, to_tokens)]
            before_source += count_visible_words(from_tokens)
            before_target += count_visible_words(to_tokens)
        return found


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
    if len(tokens) - len(set(tokens)) < 6:  # fewer than 8 tokens of period 2 have: true of nearly every text
        return found
    for period in range(1, longest_period + 1):
        run = 0
        for one, other in zip(tokens, tokens[period:], strict=False):
            run = run + 1 if one == other else 0
            if run + period >= max(8, 4 * period):
                found = max(found, run + period)
    return found


def join_texts(layouts: Sequence[TextLayout], translations: Sequence[Translation]) -> list[TextTranslation]:
    """The translation of each text, from the translations of its sentences."""
    joined, start = [], 0
    for layout in layouts:
        joined.append(join_text(layout, translations[start : start + layout.n_sentences]))
        start += layout.n_sentences
    return joined


def join_text(layout: TextLayout, translations: Sequence[Translation]) -> TextTranslation:
    """The translation of one text; its alternatives are the next best of every sentence."""
    ranked = [(best, *best.alternatives) for best in translations]
    n_ranks = max(map(len, ranked), default=1)
    best, *others = [_join_rank(layout, [of[min(rank, len(of) - 1)] for of in ranked]) for rank in range(n_ranks)]
    return replace(best, alternatives=tuple(others)) if others else best


def _join_rank(layout: TextLayout, sentences: Sequence[Translation]) -> TextTranslation:
    """A text from one translation of each sentence."""
    parts, flags, start = [], set(), 0
    for line in layout.lines:
        here = sentences[start : start + line.n_sentences]
        start += line.n_sentences
        parts += [line.before, join_segments([one.text.translate(LINE_BREAKS) for one in here]), line.after]
        flags |= {flag for one in here for flag in one.flags}
        if line.n_sentences > 1:
            flags.add("split")
    total = sum((one.log_probability for one in sentences), 0.0)
    divisor = sum(one.log_probability / one.score for one in sentences if one.score)
    score = sentences[0].score if len(sentences) == 1 else total / divisor if divisor else 0.0
    unmet = tuple(phrase for one in sentences for phrase in one.unmet)
    ordered = tuple(flag for flag in FLAGS if flag in flags)
    return TextTranslation("".join(parts), score, total, ordered, join_alignments(sentences), unmet=unmet)


def join_alignments(sentences: Sequence[Translation]) -> tuple[tuple[int, int], ...] | None:
    """The alignments of all sentences, counting words from the first sentence, or None."""
    if any(one.alignment is None for one in sentences):
        return None
    from dragoman.text.word_groups import count_visible_words

    links: list[tuple[int, int]] = []
    n_source = n_target = 0
    for one in sentences:
        links += [(source + n_source, target + n_target) for source, target in one.alignment or ()]
        n_source += count_visible_words(one.source_tokens)
        n_target += count_visible_words(one.tokens)
    return tuple(links)
