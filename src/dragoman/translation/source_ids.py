"""The source ids of texts as a model reads them: with language tokens, or with the depths of trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.errors import DragomanError, SearchError
from dragoman.text import Tokenizer, normalize
from dragoman.translation.segmentation import Ids
from dragoman.values import plural

if TYPE_CHECKING:
    from dragoman.text.trees.dependency import TreeAligner
    from dragoman.translation.translator import Translator


def depths_of_texts(texts: Sequence[str], trees: TreeAligner) -> tuple[list[bytes], DragomanError | None]:
    """The depths of each text up to the first with an invalid tree, and its error."""
    found: list[bytes] = []
    for text in texts:
        try:
            found.append(trees.byte_depths(normalize(text)))
        except DragomanError as error:
            return found, error
    return found, None


def language_tokens(tokenizer: Tokenizer, to: str | Sequence[str] | None, first: int, count: int) -> list[Ids]:
    """The language token, if any, before each of `count` texts from number `first` on."""
    if to is None:
        return [()] * count
    if isinstance(to, str):
        return [(tokenizer.target_id(to),)] * count
    codes = to[first : first + count]
    if len(codes) < count:
        message = f"got more texts than the {plural(len(to), 'language')} of `to`; give one for each, or one for all"
        raise SearchError(message, code="count_mismatch")
    return [(tokenizer.target_id(code),) for code in codes]


def encode_sources(
    translator: Translator, texts: Sequence[str], trees: TreeAligner | None, to: str | list[str] | None, first: int = 0
) -> tuple[list[Ids], DragomanError | None]:
    """The source ids of each text, unsplit, with language tokens or depths, up to the first invalid tree."""
    tokenizer = translator.source
    if trees is None:
        before = language_tokens(tokenizer, to, first, len(texts))
        return [(*token, *ids) for token, ids in zip(before, tokenizer.encode_many(texts), strict=True)], None
    from dragoman.text.trees.token_depths import attach_depths

    depths, error = depths_of_texts(texts, trees)
    rows = tokenizer.encode_many(texts[: len(depths)])
    return [attach_depths(ids, tokenizer, deep) for ids, deep in zip(rows, depths, strict=True)], error
