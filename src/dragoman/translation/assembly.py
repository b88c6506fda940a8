"""From the hypotheses of a text's parts to its translation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from dragoman.search.constraints.phrases import Demands
from dragoman.search.types import Hypothesis, Search
from dragoman.text import Tokenizer
from dragoman.text.word_groups import count_visible_words
from dragoman.translation.alignment import align, move_language_last
from dragoman.translation.result import Translation
from dragoman.translation.segmentation import begins_word, join_segments

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Assembly:
    """How translations are put together.

    For pairs (source, written), `looked` has the attention [T, S], and `aligning` what `align` needs, where they were
    asked for. The first `lead` tokens of a source are no text: they say which language is wanted.
    """

    source: Tokenizer
    target: Tokenizer
    search: Search
    looked: Mapping[tuple[Ids, Ids], Any] | None = None
    aligning: Mapping[tuple[Ids, Ids], Any] | None = None
    lead: int = 0

    def translation(
        self, parts: Sequence[tuple[Ids, Sequence[Hypothesis]]], demands: Sequence[Demands] = ()
    ) -> Translation:
        """The translation of a text from the hypotheses of its parts, with its alternatives.

        Where anything was demanded of them, it is told what each has and what it lacks.
        """
        sources = [ids for ids, _ in parts]
        ranks = max((len(best) for _, best in parts), default=1)
        best, *others = [
            self._one(sources, [hypotheses[min(rank, len(hypotheses) - 1)] for _, hypotheses in parts], demands)
            for rank in range(ranks)
        ]
        return replace(best, alternatives=tuple(others)) if others else best

    def _one(self, sources: Sequence[Ids], chosen: Sequence[Hypothesis], demands: Sequence[Demands]) -> Translation:
        written, texts = [hypothesis.tokens for hypothesis in chosen], [ids[self.lead :] for ids in sources]
        total = sum((hypothesis.log_probability for hypothesis in chosen), 0.0)
        divisor = sum(self.search.normalizer(len(tokens) + 1) for tokens in written)
        made = Translation(
            join_segments([self.target.decode(tokens).strip() for tokens in written]),  # a lone ▁ adds a space
            score=chosen[0].score if len(chosen) == 1 else total / divisor if divisor else 0.0,
            log_probability=total,
            tokens=tuple(token for tokens in written for token in self.target.tokens(tokens)),
            source_tokens=tuple(token for ids in texts for token in self.source.tokens(ids)),
            truncated=any(hypothesis.truncated for hypothesis in chosen),
            repetitive=any(
                (loop := longest_loop(tokens)) and loop > longest_loop(ids)
                for ids, tokens in zip(texts, written, strict=True)
            ),
            split=len(chosen) > 1,
        )
        pairs = [(ids, tuple(tokens)) for ids, tokens in zip(sources, written, strict=True)]
        if any(of_part.require for of_part in demands):
            told = [of_part.told(self.target.decode(one)) for of_part, one in zip(demands, written, strict=True)]
            met, unmet = (tuple(chain.from_iterable(names)) for names in zip(*told, strict=True))
            made = replace(made, met=met, unmet=unmet)
        if self.looked is not None:
            made = replace(made, attention=blocks([self.looked[pair][:, self.lead :] for pair in pairs]))
        if self.aligning is not None:
            links = self._aligned(
                texts, written, [move_language_last(self.aligning[pair], self.lead) for pair in pairs]
            )
            made = replace(made, alignment=tuple(links))
        return made

    def _aligned(self, sources: Sequence[Ids], written: Sequence[Sequence[int]], maps: Sequence[Any]) -> list[Any]:
        """The alignments of the parts, each with the words of the parts before it counted in."""
        found: list[tuple[int, int]] = []
        before_source = before_target = 0
        for ids, tokens, attention in zip(sources, written, maps, strict=True):
            from_tokens, to_tokens = self.source.tokens(ids), self.target.tokens(tokens)
            if before_source and not begins_word(from_tokens, 0):
                before_source -= 1  # the cut went through a word
            found += [(s + before_source, t + before_target) for s, t in align(attention, from_tokens, to_tokens)]
            before_source += count_visible_words(from_tokens)
            before_target += count_visible_words(to_tokens)
        return found


def blocks(maps: Sequence[Any]) -> Any:
    """One map for a text in parts: no token of a part looked at another part."""
    import numpy

    whole = numpy.zeros((sum(len(m) for m in maps), sum(m.shape[1] for m in maps)), dtype=numpy.float32)
    row = column = 0
    for part in maps:
        whole[row : row + part.shape[0], column : column + part.shape[1]] = part
        row, column = row + part.shape[0], column + part.shape[1]
    return whole


def longest_loop(tokens: Sequence[int], longest_period: int = 8) -> int:
    """The most tokens in a row that say one thing four times or more; 0 where nothing goes round in circles."""
    found = 0
    if len(tokens) - len(set(tokens)) < 6:  # as 8 tokens of period 2 have: nearly every text is done here
        return found
    for period in range(1, longest_period + 1):
        run = 0
        for one, other in zip(tokens, tokens[period:], strict=False):
            run = run + 1 if one == other else 0
            if run + period >= max(8, 4 * period):
                found = max(found, run + period)
    return found
