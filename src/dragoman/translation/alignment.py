"""Word alignments from attention between tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import not_
from typing import Any, Final

import numpy as np

from dragoman.text.word_groups import is_punctuation, visible_word_ids

Links = list[tuple[int, int]]
MIN_STRENGTH: Final = 0.42  # of a link (chosen on half of a gold set)
TINY: Final = 1e-30  # words that get or give no attention have no links


def align(attention_TS: Any, source: Sequence[str], target: Sequence[str]) -> Links:
    """Pairs (source word, target word), counted from 0, by the rule of `is_linked`.

    `attention_TS [T, S]` has a row for each target token and a column for each source token; one more column is the
    source's EOS token. The punctuation of a word has no part in its links.
    """
    sides = [lettered_words(tokens) for tokens in (source, target)]
    return link_words(attention_TS, sides[0][0], sides[1][0], sides[0][1], sides[1][1])


def link_words(
    attention_TS: Any,
    source_words: Sequence[int],
    target_words: Sequence[int],
    source_marks: Sequence[bool],
    target_marks: Sequence[bool],
) -> Links:
    """Links between words, by the rule of `is_linked` and the attention of their tokens.

    `source_words` and `target_words` are the word indices of the tokens, -1 for a token that does not count. Words are
    linked with words, and punctuation, for which `source_marks` and `target_marks` are True, with punctuation.
    """
    weights = np.asarray(attention_TS, np.float64)[:, : len(source_words)]
    shape = len(target_marks) + 1, len(source_marks) + 1  # the first row and column are of tokens that do not count
    rows, columns = np.array(target_words, np.int64) + 1, np.array(source_words, np.int64) + 1
    cells = np.add.outer(rows * shape[1], columns)
    # not a product of matrices: NumPy would compute it with threads of its own, beside those of the engine
    sums = np.bincount(cells.ravel(), weights.ravel(), shape[0] * shape[1]).reshape(shape)[1:, 1:]
    means = sums / np.maximum(np.bincount(rows, minlength=shape[0])[1:, None], 1)
    means *= np.equal.outer(target_marks, source_marks)
    sources, targets = is_linked(means).T.nonzero()
    return [*zip(sources.tolist(), targets.tolist(), strict=True)]


def is_linked(weights: Any) -> Any:
    """Which words are linked, `[..., T, S]`, by the attention of target words to source words, in NumPy or PyTorch.

    The strength of a link is a geometric mean of its weight, its share of what the target word gives, and its share of
    what the source word gets, which counts four times.
    """
    given = weights / (weights.sum(-1, keepdims=True) + TINY)
    got = weights / (weights.sum(-2, keepdims=True) + TINY)
    return got**4 * given * weights >= MIN_STRENGTH**6


def lettered_words(tokens: Sequence[str]) -> tuple[list[int], list[bool]]:
    """The word of each token, without the punctuation of words that have letters; and which words have none."""
    words, silent = visible_word_ids(tokens), [*map(is_punctuation, tokens)]
    lettered = {-1, *compress(words, map(not_, silent))}
    marks = [False] * (max(words, default=-1) + 1)
    for token in compress(range(len(words)), silent):
        if words[token] in lettered:
            words[token] = -1
        else:
            marks[words[token]] = True
    return words, marks


def move_language_last(weights_TS: Any, n_language_tokens: int) -> Any:
    """Weights `[T, S + 1]` with the columns of the first tokens, which name the language, moved behind EOS."""
    if not n_language_tokens:
        return weights_TS
    return np.roll(weights_TS, -n_language_tokens, axis=1)
