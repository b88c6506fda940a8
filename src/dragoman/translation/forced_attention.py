"""The attention of a given translation, by forced decoding: no search."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dragoman.search.types import Hypothesis
from dragoman.translation.assembly import Assembly
from dragoman.translation.result import Translation
from dragoman.translation.source_ids import language_tokens

if TYPE_CHECKING:
    from dragoman.translation.translator import Translator


def forced_attention(translator: Translator, source: str, target: str, to: str | None = None) -> Translation | None:
    """`target` as the translation of `source`, with its alignment and the weights behind it, but without a score.

    None if the source is too long to be translated at once, or the model has no positions for the target.
    """
    segmenter = translator.segmenter
    _, (segments,) = segmenter.encode(*segmenter.split_texts([source]), "auto")
    output = tuple(translator.target.encode(target))
    limit = translator.longest_output
    if len(segments) != 1 or (limit is not None and len(output) > limit):
        return None
    (language,) = language_tokens(translator.source, translator.resolve_target(to), 0, 1)
    pair = ((*language, *segments[0]), output)
    ((_, weights),) = translator.engines.forced().cross_maps([pair])
    assembly = Assembly(
        translator.source,
        translator.target,
        alignment={pair: translator.alignment_attention.select(weights)},
        n_language_tokens=translator.n_language_tokens,
    )
    (found,) = assembly.translations([pair[0]], [[Hypothesis(list(output), 0.0, 0.0)]])
    return replace(found, text=target)  # the given text, not the decoded tokens
