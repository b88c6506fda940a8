"""From the hypotheses of a text's parts to its translation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from dragoman.search.constraints.phrases import Demands
from dragoman.search.types import Hypothesis, Search
from dragoman.text import Tokeniser
from dragoman.translation.alignment import align, marks_last, seen_words
from dragoman.translation.result import Translation
from dragoman.translation.segmentation import begins_word, join

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Assembly:
    """How translations are put together.

    For pairs (source, written), `looked` has the attention [T, S], and `aligning` what `align` needs, where they were
    asked for. The first `lead` pieces of a source are no text: they say which language is wanted.
    """

    source: Tokeniser
    target: Tokeniser
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
        written, texts = [hypothesis.pieces for hypothesis in chosen], [ids[self.lead :] for ids in sources]
        total = sum((hypothesis.log_probability for hypothesis in chosen), 0.0)
        divisor = sum(self.search.normaliser(len(pieces) + 1) for pieces in written)
        made = Translation(
            join([self.target.decode(pieces).strip() for pieces in written]),  # a lone ▁ writes a space too many
            score=chosen[0].score if len(chosen) == 1 else total / divisor if divisor else 0.0,
            log_probability=total,
            tokens=tuple(piece for pieces in written for piece in self.target.pieces(pieces)),
            source_tokens=tuple(piece for ids in texts for piece in self.source.pieces(ids)),
            truncated=any(hypothesis.truncated for hypothesis in chosen),
            repetitive=any(
                (loop := longest_loop(pieces)) and loop > longest_loop(ids)
                for ids, pieces in zip(texts, written, strict=True)
            ),
            split=len(chosen) > 1,
        )
        pairs = [(ids, tuple(pieces)) for ids, pieces in zip(sources, written, strict=True)]
        if any(of_part.require for of_part in demands):
            told = [of_part.told(self.target.decode(one)) for of_part, one in zip(demands, written, strict=True)]
            met, unmet = (tuple(chain.from_iterable(names)) for names in zip(*told, strict=True))
            made = replace(made, met=met, unmet=unmet)
        if self.looked is not None:
            made = replace(made, attention=blocks([self.looked[pair][:, self.lead :] for pair in pairs]))
        if self.aligning is not None:
            links = self._aligned(texts, written, [marks_last(self.aligning[pair], self.lead) for pair in pairs])
            made = replace(made, alignment=tuple(links))
        return made

    def _aligned(self, sources: Sequence[Ids], written: Sequence[Sequence[int]], maps: Sequence[Any]) -> list[Any]:
        """The alignments of the parts, each with the words of the parts before it counted in."""
        found: list[tuple[int, int]] = []
        before_source = before_target = 0
        for ids, pieces, attention in zip(sources, written, maps, strict=True):
            from_pieces, to_pieces = self.source.pieces(ids), self.target.pieces(pieces)
            if before_source and not begins_word(from_pieces, 0):
                before_source -= 1  # the cut went through a word
            found += [(s + before_source, t + before_target) for s, t in align(attention, from_pieces, to_pieces)]
            before_source += max(seen_words(from_pieces), default=-1) + 1
            before_target += max(seen_words(to_pieces), default=-1) + 1
        return found


def blocks(maps: Sequence[Any]) -> Any:
    """One map for a text in parts: no piece of a part looked at another part."""
    import numpy

    whole = numpy.zeros((sum(len(m) for m in maps), sum(m.shape[1] for m in maps)), dtype=numpy.float32)
    row = column = 0
    for part in maps:
        whole[row : row + part.shape[0], column : column + part.shape[1]] = part
        row, column = row + part.shape[0], column + part.shape[1]
    return whole


def longest_loop(pieces: Sequence[int], longest_period: int = 8) -> int:
    """The most pieces in a row that say one thing four times or more; 0 where nothing goes round in circles."""
    found = 0
    if len(pieces) - len(set(pieces)) < 6:  # as 8 pieces of period 2 have: nearly every text is done here
        return found
    for period in range(1, longest_period + 1):
        run = 0
        for one, other in zip(pieces, pieces[period:], strict=False):
            run = run + 1 if one == other else 0
            if run + period >= max(8, 4 * period):
                found = max(found, run + period)
    return found
