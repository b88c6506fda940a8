"""Word alignments by majority: those of a model, and those of the statistical aligner in both directions.

Each has errors of its own, so links that two of the three have are more often right than those of the model alone. The
model is then trained with them (guided alignment).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from shipped_phrases import as_sentences

from dragoman.cpu import available_cores
from dragoman.data.alignment.statistical import AlignmentModel, TokenPairs
from dragoman.inspect.attention.maps import record_attention
from dragoman.translation.alignment import align
from dragoman.translation.translator import Translator

Links = set[tuple[int, int]]


def parse_links(line: str) -> Links:
    """The links of a line such as `0-0 1-2`."""
    return {(int(source), int(target)) for source, _, target in (link.partition("-") for link in line.split())}


def format_links(links: Iterable[tuple[int, int]]) -> str:
    """The opposite of `parse_links`."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def forced_alignments(model: Path, pairs: Sequence[tuple[str, str]]) -> list[Links]:
    """The links of a model between sentences and given translations, in a process for each core."""
    with get_context("spawn").Pool(available_cores()) as pool:
        return pool.map(partial(forced_alignment, model), pairs, chunksize=200)


def forced_alignment(model: Path, pair: tuple[str, str]) -> Links:
    """The links of a model between a sentence and a given translation."""
    translator = load(model)
    head, found = translator.alignment_head, record_attention(translator, *pair)
    weights = found.maps["cross"][head.layer, head.head]
    rows = weights[:-1] if head.step == "writes" else weights[1:]
    return {*align(rows, found.source.tokens[:-1], found.target_output.tokens[:-1])}


@cache
def load(model: Path) -> Translator:
    """The model, once in each process."""
    return Translator.load(model, device="cpu", threads=1)


def majority_alignments(pairs: Sequence[tuple[str, str]], links: Sequence[Links]) -> list[Links]:
    """Links between the words of sentence pairs; `links` are those of a model. Words are separated by spaces."""
    forward, backward = statistical_alignments(pairs)
    return [vote(*three) for three in zip(links, forward, backward, strict=True)]


def vote(model: Links, forward: Links, backward: Links) -> Links:
    """The links that two of three have, and those of the model between words that have none then."""
    found = model & forward | model & backward | forward & backward
    sources, targets = {s for s, _ in found}, {t for _, t in found}
    return found | {(s, t) for s, t in model if s not in sources and t not in targets}


def statistical_alignments(pairs: Sequence[tuple[str, str]]) -> tuple[list[Links], list[Links]]:
    """The links of the statistical aligner from each target word, and from each source word."""
    ids: tuple[dict[str, int], dict[str, int]] = ({}, {})
    corpus = [as_sentences((bare_words(pair[side]) for pair in pairs), ids[side]) for side in (0, 1)]
    tokens = TokenPairs.gather(corpus[0], corpus[1], np.arange(len(pairs)))
    sides = []
    for own, vocabulary in ((tokens, len(ids[0])), (tokens.swapped, len(ids[1]))):
        found, offsets = AlignmentModel(own, vocabulary).align(own).tolist(), own.target_offsets.tolist()
        sides.append([found[start:stop] for start, stop in pairwise(offsets)])
    return (
        [{(s, t) for t, s in enumerate(places) if s >= 0} for places in sides[0]],
        [{(s, t) for s, t in enumerate(places) if t >= 0} for places in sides[1]],
    )


def bare_words(text: str) -> list[str]:
    """The words of a text without the punctuation around them, except those that are nothing else."""
    return [word.strip(".,;:!?…()[]\"'“”„‚‘’«»‹›–-") or word for word in text.split()]
