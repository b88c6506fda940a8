"""Score given translations: pair by pair, in order, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dragoman.errors import DragomanError, SearchError
from dragoman.search.types import WINDOW_BATCHES, WINDOW_CHARACTERS, Search
from dragoman.text.trees.dependency import TreeAligner
from dragoman.text.trees.token_depths import attach_depths
from dragoman.translation.options import parse_pair
from dragoman.translation.result import Scored
from dragoman.translation.source_trees import depths_of_texts
from dragoman.translation.target_language import language_tokens
from dragoman.values import describe_value

if TYPE_CHECKING:
    from dragoman.translation.assembly import Ids
    from dragoman.translation.translator import Translator

Pair = tuple[str, str]


def score_pairs(
    translator: Translator,
    pairs: Iterable[object],
    search: Search,
    trees: TreeAligner | None = None,
    batch: int | None = None,
    before: int = 0,
    to: str | list[str] | None = None,
) -> Iterator[Scored]:
    """The score of each pair; pairs before an invalid one are scored before the error is raised.

    `to` is the target language of all pairs, or of each, for a multilingual model.
    """
    from dragoman.engines.forced_decoding import forced_log_probabilities

    engine, done = translator.engines.torch, 0
    for window, pair_error in pair_windows(pairs, (batch or engine.batch) * WINDOW_BATCHES):
        languages = language_tokens(translator.source, to, done, len(window))
        encoded, error = encode_window(translator, window, trees, before + done, languages)
        rows = forced_log_probabilities(engine, encoded, batch)
        for (_, ids), row in zip(encoded, rows, strict=True):
            total = sum(row)
            tokens = (*translator.target.tokens(ids), "</s>")
            yield Scored(total / search.normalizer(len(row)), total, tokens, tuple(row))
        if error := error or pair_error:
            raise error
        done += len(window)
    if isinstance(to, list) and len(to) > done:
        raise SearchError(
            f"`to` has {len(to)} languages, but there are only {done} pairs; give one for each", code="count_mismatch"
        )


def encode_window(
    translator: Translator, window: list[Pair], trees: TreeAligner | None, before: int, languages: Sequence[Ids]
) -> tuple[list[tuple[Ids, Ids]], DragomanError | None]:
    """The ids of each pair up to the first invalid one, and what is wrong with that one.

    `languages` are the language tokens before each source.
    """
    error, depths = None, None
    if trees is not None:
        depths, error = depths_of_texts([source for source, _ in window], trees)
        window = window[: len(depths)]
    texts = translator.source.encode_many([source for source, _ in window])
    sources = [(*token, *ids) for token, ids in zip(languages, texts, strict=False)]  # fewer texts before a wrong tree
    targets = translator.target.encode_many([target for _, target in window])
    encoded: list[tuple[Ids, Ids]] = []
    for number, (pair, source, target) in enumerate(zip(window, sources, targets, strict=True)):
        for what, ids, limit in (
            ("source", source, translator.longest_source),
            ("target", target, translator.longest_output),
        ):
            if limit is not None and len(ids) > limit:
                return encoded, SearchError(
                    f"line {before + number + 1:,}, {describe_value(pair).removeprefix('tuple ')}: its {what} has "
                    f"{len(ids):,} tokens, but this model has learned positions for {limit:,}; scores are of whole "
                    "pairs: shorten it, or leave it out",
                    code="text_too_long",
                )
        source_ids = source if depths is None else attach_depths(source, translator.source, depths[number])
        encoded.append((source_ids, tuple(target)))
    return encoded, error


def pair_windows(pairs: Iterable[object], max_pairs: int) -> Iterator[tuple[list[Pair], DragomanError | None]]:
    """Lists of at most `max_pairs` pairs, of bounded size where they are long, and what is wrong with the next pair."""
    window: list[Pair] = []
    size = 0
    for each in pairs:
        try:
            pair = parse_pair(each)
        except SearchError as error:
            yield window, error
            return
        window.append(pair)
        size += len(pair[0]) + len(pair[1])
        if len(window) == max_pairs or size > WINDOW_CHARACTERS:
            yield window, None
            window, size = [], 0
    if window:
        yield window, None
