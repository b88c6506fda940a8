"""Score given translations: pair by pair, in order, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dragoman.engines.forced import EncodedPairs
from dragoman.errors import DragomanError, SearchError
from dragoman.search.types import WINDOW_BATCHES, WINDOW_CHARACTERS, Search, StopFlag
from dragoman.translation.overlap import blocks_of, overlap
from dragoman.translation.result import Scored
from dragoman.translation.segmentation import Ids
from dragoman.translation.source_ids import encode_sources
from dragoman.values import describe_value, plural

if TYPE_CHECKING:
    from dragoman.text.trees.dependency import TreeAligner
    from dragoman.translation.translator import Translator

Pair = tuple[str, str]


def score_pairs(
    translator: Translator,
    pairs: object,
    search: Search,
    trees: TreeAligner | None = None,
    batch: int | None = None,
    before: int = 0,
    to: str | list[str] | None = None,
) -> Iterator[Scored]:
    """The score of each pair; pairs before an invalid one are scored before the error is raised.

    `to` is the target language of all pairs, or of each, for a multilingual model.
    """
    engine, stop = translator.engines.forced(exact=True), StopFlag()
    pairs = pairs if isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes) else [pairs]
    windows = encoded_windows(translator, pairs, (batch or engine.batch) * WINDOW_BATCHES, trees, before, to)

    def work(encoded: EncodedPairs) -> list[list[float]]:
        return engine.log_probabilities(encoded, batch, stop)

    for encoded, rows in overlap(windows, work, stop.set):
        tokens = translator.target.tokens_many([ids for _, ids in encoded])
        for names, row in zip(tokens, rows, strict=True):
            total = sum(row)
            yield Scored(total / search.normalizer(len(row)), total, (*names, "</s>"), tuple(row))


def encoded_windows(
    translator: Translator,
    pairs: Iterable[object],
    max_pairs: int,
    trees: TreeAligner | None = None,
    before: int = 0,
    to: str | list[str] | None = None,
) -> Iterator[list[tuple[Ids, Ids]] | None]:
    """The ids of at most `max_pairs` pairs at a time; None for an empty block."""
    done = 0
    for block in blocks_of(pairs):
        first = done
        for window in pair_windows(block, max_pairs):
            sources, tree_error = encode_sources(translator, [source for source, _ in window], trees, to, done)
            encoded, error = encode_window(translator, window[: len(sources)], sources, before + done)
            yield encoded
            if error := error or tree_error:
                raise error
            done += len(window)
        if done == first:
            yield None
    if isinstance(to, list) and len(to) > done:
        raise SearchError(
            f"`to` has {plural(len(to), 'language')} for {plural(done, 'pair')}; give one for each",
            code="count_mismatch",
        )


def encode_window(
    translator: Translator, window: list[Pair], sources: list[Ids], before: int
) -> tuple[list[tuple[Ids, Ids]], DragomanError | None]:
    """The ids of each pair up to the first that is too long, and its error."""
    targets = translator.target.encode_many([target for _, target in window])
    encoded: list[tuple[Ids, Ids]] = []
    for number, (texts, source, target) in enumerate(zip(window, sources, targets, strict=True)):
        for what, text, ids, limit in (
            ("source", texts[0], source, translator.longest_source),
            ("target", texts[1], target, translator.longest_output),
        ):
            if limit is not None and len(ids) > limit:
                return encoded, SearchError(
                    f"line {before + number + 1:,}, {describe_value(text).removeprefix('str ')}: its {what} has "
                    f"{len(ids):,} tokens, but this model has learned positions for {limit:,}; pairs are scored "
                    "whole: shorten it, or leave it out",
                    code="text_too_long",
                )
        encoded.append((source, tuple(target)))
    return encoded, None


def pair_windows(pairs: Iterable[object], max_pairs: int) -> Iterator[list[Pair]]:
    """Lists of at most `max_pairs` pairs, with a bounded total size; the pairs before an invalid one come first."""
    window: list[Pair] = []
    size = 0
    for each in pairs:
        try:
            pair = parse_pair(each)
        except SearchError:
            yield window
            raise
        window.append(pair)
        size += len(pair[0]) + len(pair[1])
        if len(window) == max_pairs or size > WINDOW_CHARACTERS:
            yield window
            window, size = [], 0
    if window:
        yield window


def parse_pair(pair: object) -> tuple[str, str]:
    """A source and a target text."""
    if isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(text, str) for text in pair):
        return pair[0], pair[1]
    raise SearchError(f"expected pairs (source, target) of texts; got {describe_value(pair)}", code="wrong_type")
