"""Word alignments from attention between tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dragoman.text.word_groups import is_punctuation, visible_word_ids

Links = list[tuple[int, int]]
MIN_LINK_SHARE: Final = 0.4  # of the attention that a source word gets (chosen on half of a gold set)
MIN_LINK_WEIGHT: Final = 0.1  # of the attention that a target word gives


def align(attention_TS: Any, source: Sequence[str], target: Sequence[str]) -> Links:
    """Pairs (source word, target word), counted from 0, by the rule of `link_words`.

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
    """Link each source word to the target words that give it most of the attention that it gets.

    `source_words` and `target_words` are the word indices of the tokens, -1 for a token that does not count. Words are
    linked with words, and punctuation, for which `source_marks` and `target_marks` are True, with punctuation.
    """
    n_source, n_target = len(source_marks), len(target_marks)
    if not n_source or not n_target:
        return []
    import numpy as np  # imported here, because plain translation does not need it

    weights = np.asarray(attention_TS, dtype=np.float64)[:, : len(source_words)]
    weights, n_tokens = sum_by_word(weights, target_words, n_target, axis=0)
    weights, _ = sum_by_word(weights, source_words, n_source, axis=1)
    weights /= np.maximum(n_tokens, 1)[:, None]
    weights *= np.equal.outer(target_marks, source_marks)
    linked = (weights >= MIN_LINK_SHARE * weights.sum(0)) & (weights >= MIN_LINK_WEIGHT)
    return [(s, t) for s, t in np.argwhere(linked.T).tolist()]


def sum_by_word(weights: Any, words: Sequence[int], count: int, axis: int) -> tuple[Any, Any]:
    """The sums of the weights of each word along an axis, and its number of tokens; -1 does not count.

    The words are in order. Not a product of matrices: NumPy would compute it with threads of its own, beside those of
    the engine.
    """
    import numpy as np

    ids = np.asarray(words)
    if -1 in words:
        kept = np.flatnonzero(ids >= 0)
        ids, weights = ids[kept], weights.take(kept, axis)
    n_tokens = np.bincount(ids, minlength=count)
    starts = n_tokens.cumsum() - n_tokens
    if n_tokens.all():
        return np.add.reduceat(weights, starts, axis), n_tokens
    sums = np.zeros((count, weights.shape[1]) if axis == 0 else (weights.shape[0], count))
    if len(ids):
        there = np.flatnonzero(n_tokens)
        sums[(slice(None),) * axis + (there,)] = np.add.reduceat(weights, starts[there], axis)
    return sums, n_tokens


def lettered_words(tokens: Sequence[str]) -> tuple[list[int], list[bool]]:
    """The word of each token, without the punctuation of words that have letters; and which words have none."""
    ids, silent = visible_word_ids(tokens), [*map(is_punctuation, tokens)]
    lettered = {word for word, mark in zip(ids, silent, strict=True) if not mark}
    marks = [word not in lettered for word in range(max(ids, default=-1) + 1)]
    return [-1 if mark and word in lettered else word for word, mark in zip(ids, silent, strict=True)], marks


def move_language_last(weights_TS: Any, n_language_tokens: int) -> Any:
    """Weights `[T, S + 1]` with the columns of the first tokens, which name the language, moved behind EOS."""
    if not n_language_tokens:
        return weights_TS
    import numpy as np

    return np.roll(weights_TS, -n_language_tokens, axis=1)
