"""Translations and scores; the translation of a text is joined from those of its segments, line by line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any, Final, cast

from dragoman.translation.segmentation import ONE_SEGMENT, WHOLE, Layout, begins_word, join_segments

LINE_BREAKS: Final = {ord(mark): " " for mark in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
DEGENERATE: Final = ("truncated", "repetitive", "too_short", "too_long", "copied", "no_letters")
FLAGS: Final = (*DEGENERATE, "unseen_length", "split", "unmet", "empty")
UNORDERED_FLAGS: Final = frozenset(FLAGS)
MAX_DEGENERATE_CONFIDENCE: Final = 0.1


class DeferredTokens:
    """A field of `Translation` that is computed when it is first read; most readers need only the text.

    Until then the instance has ids in its place, or their 32-bit integers as bytes, which take less memory, under the
    name of the field with an underscore; and in `_tokenizers`, that of the source and that of the target.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> tuple[str, ...]:
        if instance is None:
            return ()  # the default of the field
        values = vars(instance)
        ids = values.get(f"_{self.name}")
        if ids is None:  # another thread has computed them since
            return cast("tuple[str, ...]", values[self.name])
        tokenizer = values["_tokenizers"][self.name == "tokens"]
        found = tuple(tokenizer.tokens(memoryview(ids).cast("i").tolist() if isinstance(ids, bytes) else ids))
        values[self.name] = found
        values.pop(f"_{self.name}", None)
        return found


class DeferredAlignment:
    """The `alignment` of a translation that has weights for it: it is computed when it is first read.

    Documents, whose markup follows the weights, need that of few sentences.
    """

    def __get__(self, instance: Translation | None, owner: type | None = None) -> tuple[tuple[int, int], ...] | None:
        if instance is None or instance.alignment_weights is None:
            return None  # the default of the field
        from dragoman.translation.alignment import align

        found = tuple(align(instance.alignment_weights, instance.source_tokens, instance.tokens))
        vars(instance)["alignment"] = found
        return found


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
    tokens: tuple[str, ...] = DeferredTokens()  # type: ignore[assignment]
    source_tokens: tuple[str, ...] = DeferredTokens()  # type: ignore[assignment]
    truncated: bool = False  # truncated at the maximum length
    repetitive: bool = False  # it repeats itself, and the source does not
    too_short: bool = False  # compared with the source, by the ratios of the training pairs
    too_long: bool = False
    copied: bool = False  # a copy of the source
    no_letters: bool = False  # the source has letters
    unseen_length: bool = False  # a sentence is longer than all lines that the model was trained on
    split: bool = False  # a line was translated in parts
    empty: bool = False  # a sentence has no translation
    alignment: tuple[tuple[int, int], ...] | None = DeferredAlignment()  # type: ignore[assignment]
    attention: Any = field(default=None, repr=False, compare=False)
    alignment_weights: Any = field(default=None, repr=False, compare=False)
    alternatives: tuple[Translation, ...] = ()
    met: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the tokens, not what computes them."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of the warnings that apply."""
        values = vars(self)  # has no entry for a field that has its default
        return () if UNORDERED_FLAGS.isdisjoint(values) else tuple([name for name in FLAGS if values.get(name)])

    @property
    def n_tokens(self) -> int:
        """The number of `tokens`, without computing them."""
        ids = vars(self).get("_tokens")
        return len(self.tokens) if ids is None else len(ids) // 4 if isinstance(ids, bytes) else len(ids)

    @property
    def confidence(self) -> float:
        """The geometric mean of the tokens' probabilities; at most 0.1 if a flag says that the text is degenerate."""
        if not self.n_tokens:
            return 0.0
        mean = math.exp(min(0.0, self.log_probability / (self.n_tokens + 1)))
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


def block_diagonal(maps: Sequence[Any]) -> Any:
    """One attention map for a text in parts; tokens attend within their part only."""
    import numpy

    full = numpy.zeros((sum(len(m) for m in maps), sum(m.shape[1] for m in maps)), dtype=numpy.float32)
    row = column = 0
    for part in maps:
        full[row : row + part.shape[0], column : column + part.shape[1]] = part
        row, column = row + part.shape[0], column + part.shape[1]
    return full


def join_texts(layouts: Sequence[Layout], translations: Sequence[Translation]) -> list[Translation]:
    """The translation of each text, from the translations of its segments."""
    found = iter(translations)
    return [join_translations(layout, [*islice(found, layout.n_segments)]) for layout in layouts]


def join_translations(layout: Layout, segments: Sequence[Translation]) -> Translation:
    """The translation of a text from those of its segments; its alternatives are the next best of each."""
    if layout is WHOLE or layout.lines == ONE_SEGMENT:
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
