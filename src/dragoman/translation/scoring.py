"""How likely a model finds translations that are given: pair after pair, in order, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dragoman.errors import DragomanError, SearchError
from dragoman.search.types import WINDOW_BATCHES, WINDOW_CHARACTERS, Search
from dragoman.text.trees.dependency import TreeAligner
from dragoman.text.trees.token_depths import parsed
from dragoman.translation.options import pair_of
from dragoman.translation.result import Scored
from dragoman.translation.source_trees import laid_over
from dragoman.translation.target_language import heads
from dragoman.values import describe_value

if TYPE_CHECKING:
    from dragoman.translation.assembly import Ids
    from dragoman.translation.translator import Translator

Pair = tuple[str, str]


def scored(
    translator: Translator,
    pairs: Iterable[object],
    search: Search,
    trees: TreeAligner | None = None,
    batch: int | None = None,
    before: int = 0,
    to: str | list[str] | None = None,
) -> Iterator[Scored]:
    """What the model thinks of each pair; every pair before one that must be refused is answered first.

    `to` is the target language of all pairs, or of each, for a model of several.
    """
    from dragoman.engines.forced_decoding import forced_log_probabilities

    engine, done = translator.engines.torch, 0
    for window, wrong in windows(pairs, (batch or engine.batch) * WINDOW_BATCHES):
        languages = heads(translator.source, to, done, len(window))
        jobs, refused = encoded(translator, window, trees, before + done, languages)
        rows = forced_log_probabilities(engine, jobs, batch)
        for (_, ids), row in zip(jobs, rows, strict=True):
            total = sum(row)
            tokens = (*translator.target.tokens(ids), "</s>")
            yield Scored(total / search.normalizer(len(row)), total, tokens, tuple(row))
        if refused is not None:
            raise refused
        if wrong is not None:
            raise wrong
        done += len(window)
    if isinstance(to, list) and len(to) > done:
        raise SearchError(f"there are {len(to)} languages in to, but only {done} pairs; give one for each")


def encoded(
    translator: Translator, window: list[Pair], trees: TreeAligner | None, before: int, languages: Sequence[Ids]
) -> tuple[list[tuple[Ids, Ids]], DragomanError | None]:
    """The tokens of each pair up to the first that must be refused, and why that one must be.

    Sources begin with what `languages` has for them, which is nothing where there is one target language.
    """
    wrong, laid = None, None
    if trees is not None:
        laid, wrong = laid_over([source for source, _ in window], trees)
        window = window[: len(laid)]
    texts = translator.source.encode_many([source for source, _ in window])
    sources = [(*head, *ids) for head, ids in zip(languages, texts, strict=False)]  # fewer, before a wrong tree
    targets = translator.target.encode_many([target for _, target in window])
    jobs: list[tuple[Ids, Ids]] = []
    for number, (pair, source, target) in enumerate(zip(window, sources, targets, strict=True)):
        for what, ids, most in (
            ("source", source, translator.longest_source),
            ("target", target, translator.longest_output),
        ):
            if most is not None and len(ids) > most:
                return jobs, SearchError(
                    f"line {before + number + 1:,}, {describe_value(pair).removeprefix('tuple ')}: its {what} has "
                    f"{len(ids):,} tokens, but this model has learned positions for {most:,}; a score is of the whole "
                    "pair, so shorten it, or leave it out"
                )
        jobs.append((source if laid is None else parsed(source, translator.source, laid[number]), tuple(target)))
    return jobs, wrong


def windows(pairs: Iterable[object], most: int) -> Iterator[tuple[list[Pair], DragomanError | None]]:
    """Pairs in lists of at most `most`, and of bounded size where they are long; and what is wrong with the next."""
    window: list[Pair] = []
    size = 0
    for each in pairs:
        try:
            pair = pair_of(each)
        except SearchError as error:
            yield window, error
            return
        window.append(pair)
        size += len(pair[0]) + len(pair[1])
        if len(window) == most or size > WINDOW_CHARACTERS:
            yield window, None
            window, size = [], 0
    if window:
        yield window, None
