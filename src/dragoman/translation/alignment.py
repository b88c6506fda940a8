"""Word alignments from attention between tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from dragoman.text.word_groups import visible_word_ids

Links = list[tuple[int, int]]


def align(attention_TS: Any, source: Sequence[str], target: Sequence[str]) -> Links:
    """Pairs (source word, target word), counted from 0, by the rule of `link_words`.

    `attention_TS [T, S]` has a row for each target token and a column for each source token; one more column is the
    source's EOS token.
    """
    return link_words(attention_TS, visible_word_ids(source), visible_word_ids(target))


def link_words(
    attention_TS: Any, source_words: Sequence[int], target_words: Sequence[int], by: Literal["token", "word"] = "token"
) -> Links:
    """Link each target token, or each target word, to its most attended source word; no link to the EOS token.

    `source_words` and `target_words` are the word indices of the tokens, -1 for a token without a word.
    """
    if max(source_words, default=-1) < 0 or max(target_words, default=-1) < 0:
        return []
    import numpy as np  # imported here, because plain translation does not need it

    weights = np.asarray(attention_TS, dtype=np.float64)
    sources = [*source_words, *[-1] * (weights.shape[1] - len(source_words))]
    targets = list(target_words)
    if by == "word":
        columns, rows = sorted(set(sources)), sorted({word for word in targets if word >= 0})
        weights = pool_words(
            weights,
            [[i for i, word in enumerate(targets) if word == row] for row in rows],
            [[i for i, word in enumerate(sources) if word == column] for column in columns],
        )
        sources, targets = columns, rows
    pairs = {*zip([sources[best] for best in weights.argmax(1).tolist()], targets, strict=True)}
    return sorted([pair for pair in pairs if pair[0] >= 0 and pair[1] >= 0])


def pool_words(weights: Any, rows: Sequence[Sequence[int]], columns: Sequence[Sequence[int]]) -> Any:
    """Attention between words, `[..., len(rows), len(columns)]`, from attention between tokens `[..., T, S]`.

    Weights are averaged over the tokens of a row's word and summed over those of a column's word, so each row still
    sums to 1 (Clark et al., 2019).
    """
    import numpy as np

    summed = np.stack([weights[..., list(tokens)].sum(-1) for tokens in columns], axis=-1)
    return np.stack([summed[..., list(tokens), :].mean(-2) for tokens in rows], axis=-2)


def move_language_last(weights_TS: Any, n_language_tokens: int) -> Any:
    """Weights `[T, S + 1]` with the columns of the first tokens, which name the language, moved behind EOS."""
    if not n_language_tokens:
        return weights_TS
    import numpy as np

    return np.roll(weights_TS, -n_language_tokens, axis=1)
