"""Build translations from hypotheses: decode them, and check them for signs of degeneracy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dragoman.arrays import split_rows
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.hypotheses import HypothesisTable
from dragoman.search.types import Hypothesis
from dragoman.text import Tokenizer
from dragoman.text.line_lengths import LineLengths
from dragoman.translation.degeneracy import compare_lengths, has_letters, is_copy, repetitive_rows
from dragoman.translation.result import Translation
from dragoman.translation.segmentation import Ids


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

    def translations(
        self,
        sources: Sequence[Ids],
        found: Sequence[Sequence[Hypothesis]],
        constraints: Sequence[Constraints] | None = None,
    ) -> list[Translation]:
        """The translation of each segment from its hypotheses, with its alternatives."""
        table, n = HypothesisTable.from_lists(found), self.n_language_tokens
        several = bool((table.counts != 1).any())
        of_each = np.repeat(np.arange(len(sources)), table.counts).tolist() if several else range(len(sources))
        every = [sources[i] for i in of_each] if several else sources
        read = [source[n:] for source in every] if n else every
        # strip: a lone ▁ writes an extra space
        texts = [text.strip() for text in self.target.decode_rows(table.ids, table.lengths)]
        made = self._plain(read, texts, table)
        for flag, rows in self._flags(read, texts, table):
            for row in rows:
                vars(made[row])[flag] = True
        if self.attention is not None or self.alignment is not None or constraints is not None:
            outputs = [*map(tuple, split_rows(table.ids, table.lengths))]
            pairs = [*zip(every, outputs, strict=True)]
            if constraints is not None:
                for one, output, i in zip(made, outputs, of_each, strict=True):
                    self._check_phrases(one, output, constraints[i])
            if self.attention is not None:
                for one, pair in zip(made, pairs, strict=True):
                    vars(one)["attention"] = self.attention[pair][:, n:]
            if self.alignment is not None:
                from dragoman.translation.alignment import move_language_last

                for one, pair, source in zip(made, pairs, read, strict=True):
                    weights = move_language_last(np.asarray(self.alignment[pair]), n)
                    vars(one)["alignment_weights"] = weights[:, : len(source)]
        if not several:
            return made
        best: list[Translation] = []
        for first, count in zip(table.firsts.tolist(), table.counts.tolist(), strict=True):
            best.append(made[first])
            vars(made[first])["alternatives"] = tuple(made[first + 1 : first + count])
        return best

    def _plain(self, read: Sequence[Ids], texts: Sequence[str], table: HypothesisTable) -> list[Translation]:
        """The translation of each hypothesis, without flags: fields without an entry have their defaults."""
        raw, ends = table.ids.astype(np.int32, copy=False).tobytes(), (4 * table.ends).tolist()
        numbers = table.scores.tolist(), table.log_probabilities.tolist(), [0, *ends[:-1]], ends
        made, tokenizers = [object.__new__(Translation) for _ in texts], (self.source, self.target)
        for one, source, text, score, total, start, end in zip(made, read, texts, *numbers, strict=False):
            values = {
                "text": text,
                "score": score,
                "log_probability": total,
                "_tokens": raw[start:end],
                "_source_tokens": source,
                "_tokenizers": tokenizers,
            }
            object.__setattr__(one, "__dict__", values)  # the __init__ of a frozen dataclass takes five times as long
        return made

    def _flags(
        self, read: Sequence[Ids], texts: Sequence[str], table: HypothesisTable
    ) -> Iterator[tuple[str, Iterable[int]]]:
        """Each flag, and the numbers of the hypotheses that have it."""
        lengths = np.fromiter(map(len, read), np.int64, len(read))
        too_short, too_long = compare_lengths(lengths, table.lengths, self.lengths)
        yield "truncated", np.flatnonzero(table.truncated).tolist()
        yield "repetitive", repetitive_rows(table.ids, table.lengths, read)
        yield "too_short", np.flatnonzero(too_short).tolist()
        yield "too_long", np.flatnonzero(too_long).tolist()
        yield "copied", self._copies(read, texts, table)
        silent = [i for i, text in enumerate(texts) if not text[:1].isalpha() and not has_letters(text)]
        yield "no_letters", [i for i in silent if texts[i] and has_letters(self.source.decode(read[i]))]
        yield "empty", [i for i in silent if not texts[i] and read[i]]
        if self.lengths is not None:
            yield "unseen_length", np.flatnonzero(lengths > self.lengths.longest).tolist()

    def _copies(self, read: Sequence[Ids], texts: Sequence[str], table: HypothesisTable) -> Iterator[int]:
        """The numbers of the hypotheses that are copies of their source."""
        rows = [row for row in np.flatnonzero(table.lengths).tolist() if read[row]]
        firsts = first_tokens(self.source, [read[row][0] for row in rows])
        starts = table.ends - table.lengths
        target_firsts = first_tokens(self.target, table.ids[starts[rows]].tolist())
        for row, one, other in zip(rows, firsts, target_firsts, strict=True):
            if one.startswith(other) or other.startswith(one):  # else they cannot begin the same text
                ids = table.ids[starts[row] : table.ends[row]].tolist()
                if is_copy(self.source.tokens(read[row]), self.target.tokens(ids), texts[row]):
                    yield row

    def _check_phrases(self, translation: Translation, output: Sequence[int], constraints: Constraints) -> None:
        """Set the required phrases that a new translation contains, and those that it lacks."""
        if constraints.require:
            met, unmet = constraints.met_and_unmet(self.target.decode(output))
            vars(translation).update(met=tuple(met), unmet=tuple(unmet))


def first_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The token of each id, as it is alone."""
    distinct = [*set(ids)]
    names = dict(zip(distinct, tokenizer.tokens_many([(i,) for i in distinct]), strict=True))
    return [names[i][0] for i in ids]
