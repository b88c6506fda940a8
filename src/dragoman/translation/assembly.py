"""Build translations from hypotheses: decode them, and check them for signs of degeneracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from dragoman.search.constraints.phrases import Constraints
from dragoman.search.types import Hypothesis
from dragoman.text import Tokenizer
from dragoman.text.line_lengths import LineLengths
from dragoman.translation.degeneracy import begin_alike, compare_lengths, has_letters, is_copy, repetitive_rows
from dragoman.translation.result import Translation
from dragoman.translation.segmentation import Ids

Segment = tuple[Ids, Sequence[Hypothesis], Constraints]
DEFAULTS: Final = {name: value for name, value in vars(Translation("")).items() if not name.endswith("tokens")}


def token_tuple(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, ...]:
    """The tokens of ids."""
    return tuple(tokenizer.tokens(ids))


@dataclass(frozen=True)
class Assembly:
    """Build the translations of segments.

    For pairs (source, output) of ids, `attention` has the weights [T, S] and `alignment` those for `align`, if
    requested. The first `n_language_tokens` tokens of a source name the target language and are not text. `lengths`
    describes the lines that the model was trained on, if known.
    """

    source: Tokenizer
    target: Tokenizer
    attention: Mapping[tuple[Ids, Ids], Any] | None = None
    alignment: Mapping[tuple[Ids, Ids], Any] | None = None
    n_language_tokens: int = 0
    lengths: LineLengths | None = None

    def translations(self, segments: Sequence[Segment]) -> list[Translation]:
        """The translation of each segment, with its alternatives."""
        read = [source[self.n_language_tokens :] for source, _, _ in segments]
        outputs = [one.ids for _, hypotheses, _ in segments for one in hypotheses]
        firsts = iter(self.target.tokens_many([ids[:1] for ids in outputs]))
        source_firsts = self.source.tokens_many([ids[:1] for ids in read])
        texts = iter(self.target.decode_many(outputs))
        sources = [ids for ids, (_, hypotheses, _) in zip(read, segments, strict=True) for _ in hypotheses]
        repetitive = repetitive_rows(outputs, sources)
        extras = self.attention is not None or self.alignment is not None
        translations: list[Translation] = []
        number = 0  # of a hypothesis, in all segments
        for (source, hypotheses, constraints), ids, first in zip(segments, read, source_firsts, strict=True):
            found: list[Translation] = []
            for one in hypotheses:
                may_copy = begin_alike(first, next(firsts))
                made = self._translation(ids, one, next(texts).strip(), number in repetitive, may_copy)
                found.append(self._complete(made, source, one, constraints) if extras or constraints else made)
                number += 1
            translations.append(found[0] if len(found) == 1 else replace(found[0], alternatives=tuple(found[1:])))
        return translations

    def _translation(
        self,
        source: Ids,
        hypothesis: Hypothesis,
        text: str,  # stripped: a lone ▁ writes an extra space
        repetitive: bool,
        may_copy: bool,
    ) -> Translation:
        """The translation of one hypothesis."""
        ids = hypothesis.ids
        too_short, too_long = compare_lengths(len(source), len(ids), self.lengths)
        values = {
            **DEFAULTS,
            "text": text,
            "score": hypothesis.score,
            "log_probability": hypothesis.log_probability,
            "_tokens": partial(token_tuple, self.target, ids),
            "_source_tokens": partial(token_tuple, self.source, source),
            "truncated": hypothesis.truncated,
            "repetitive": repetitive,
            "too_short": too_short,
            "too_long": too_long,
            "copied": may_copy and is_copy(self.source.tokens(source), self.target.tokens(ids), text),
            "no_letters": bool(text) and not has_letters(text) and has_letters(self.source.decode(source)),
            "empty": not text and bool(source),
            "unseen_length": self.lengths is not None and len(source) > self.lengths.longest,
        }
        made = object.__new__(Translation)
        object.__setattr__(made, "__dict__", values)  # the __init__ of a frozen dataclass takes three times as long
        return made

    def _complete(
        self, translation: Translation, source: Ids, hypothesis: Hypothesis, constraints: Constraints
    ) -> Translation:
        """The translation with its required phrases, attention and alignment, if requested."""
        if constraints.require:
            met, unmet = constraints.met_and_unmet(self.target.decode(hypothesis.ids))
            translation = replace(translation, met=tuple(met), unmet=tuple(unmet))
        pair = (source, tuple(hypothesis.ids))
        values = vars(translation)  # nobody else has it yet, and `replace` takes as long as the alignment
        if self.attention is not None:
            values["attention"] = self.attention[pair][:, self.n_language_tokens :]
        if self.alignment is not None:
            import numpy

            from dragoman.translation.alignment import align, move_language_last

            weights = move_language_last(self.alignment[pair], self.n_language_tokens)
            values["alignment"] = tuple(align(weights, translation.source_tokens, translation.tokens))
            values["alignment_weights"] = numpy.asarray(weights)[:, : len(translation.source_tokens)]
        return translation
