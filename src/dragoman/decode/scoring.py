"""How likely a model finds translations that are given: pair after pair, in order, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dragoman.decode.parsed import laid_over, parsed
from dragoman.decode.request import pair_of
from dragoman.decode.settings import WINDOW_BATCHES, WINDOW_CHARACTERS, Search, shown
from dragoman.decode.translation import Scored
from dragoman.errors import DragomanError, SearchError
from dragoman.text.trees import Trees

if TYPE_CHECKING:
    from dragoman.decode.assembly import Ids
    from dragoman.decode.translator import Translator

Pair = tuple[str, str]


def scored(
    translator: Translator,
    pairs: Iterable[object],
    search: Search,
    trees: Trees | None = None,
    batch: int | None = None,
    before: int = 0,
) -> Iterator[Scored]:
    """What the model thinks of each pair; every pair before one that must be refused is answered first."""
    from dragoman.decode.forced import forced_log_probabilities

    engine = translator.engines.torch
    for window, wrong in windows(pairs, (batch or engine.batch) * WINDOW_BATCHES):
        jobs, refused = encoded(translator, window, trees, before)
        rows = forced_log_probabilities(engine, jobs, batch)
        for (_, ids), row in zip(jobs, rows, strict=True):
            total = sum(row)
            tokens = (*translator.target.pieces(ids), "</s>")
            yield Scored(total / search.normaliser(len(row)), total, tokens, tuple(row))
        if refused is not None:
            raise refused
        if wrong is not None:
            raise wrong
        before += len(window)


def encoded(
    translator: Translator, window: list[Pair], trees: Trees | None, before: int
) -> tuple[list[tuple[Ids, Ids]], DragomanError | None]:
    """The pieces of each pair up to the first that must be refused, and why that one must be."""
    wrong, laid = None, None
    if trees is not None:
        laid, wrong = laid_over([source for source, _ in window], trees)
        window = window[: len(laid)]
    sources = translator.source.encode_many([source for source, _ in window])
    targets = translator.target.encode_many([target for _, target in window])
    jobs: list[tuple[Ids, Ids]] = []
    for number, (pair, source, target) in enumerate(zip(window, sources, targets, strict=True)):
        for what, ids, most in (
            ("source", source, translator.longest_source),
            ("target", target, translator.longest_output),
        ):
            if most is not None and len(ids) > most:
                return jobs, SearchError(
                    f"line {before + number + 1:,}, {shown(pair).removeprefix('tuple ')}: its {what} has {len(ids):,} "
                    f"pieces, but this model has learnt positions for {most:,}; a score is of the whole pair, so "
                    "shorten it, or leave it out"
                )
        jobs.append((tuple(source) if laid is None else parsed(source, translator.source, laid[number]), tuple(target)))
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
