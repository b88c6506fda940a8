"""The passes over a corpus that a survey of the heads is made of: looking, slopes, removing one, removing many."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from dragoman.engines.forced_decoding import Pairs
from dragoman.engines.torch import TorchEngine
from dragoman.errors import SearchError
from dragoman.inspect.attention_maps import Kind
from dragoman.inspect.gates import Forced, Gates, Place
from dragoman.inspect.head_labels import Behavior
from dragoman.inspect.head_statistics import Tally, pointed_goals, scene_of
from dragoman.nn import LowRank, everything
from dragoman.progress import Reporter
from dragoman.search.types import NOT_FINITE, Search
from dragoman.text import Tokenizer
from dragoman.text.words import MARK
from dragoman.translation.translator import Translator

POINTS: Final = 24  # of a curve, at most
SENTENCES: Final = 32  # translated at a time

Score = Callable[[Gates], float]


@dataclass(frozen=True)
class Point:
    """The cross-entropy, and BLEU where it was asked for, with so many heads removed together."""

    removed: int
    cross_entropy: float
    bleu: float | None = None


@dataclass(frozen=True)
class Slopes:
    """The cost of a corpus, and for each head the sum of its slopes and of their sizes, sentence by sentence."""

    cost: float
    signed: Tensor
    sizes: Tensor


def looked_at(
    translator: Translator, gates: Gates, work: Sequence[Forced], reporter: Reporter
) -> dict[Place, Behavior | None]:
    """What each head does; None for low-rank attention, whose weights are no shares."""
    model, pointer = gates.model, translator.alignment_head
    counts: dict[Kind, tuple[int, int]] = {
        kind: (len(of), of[0].gates.shape[-1]) for kind, of in gates.by_kind.items() if not low_rank(of[0].function)
    }
    tallies = {kind: Tally(*size) for kind, size in counts.items()}
    device = model.projection().device
    source_marks, target_marks = (
        torch.tensor(is_punctuation(t), device=device) for t in (translator.source, translator.target)
    )
    rarity = occurrences(work, translator.source.vocabulary_size)
    reporter.start_stage("looking", len(work), "passes")
    for batch in work:
        maps = gates.maps(batch)
        source, target = (batch.source, batch.source_layout), (batch.target, batch.target_layout)
        ends = [layout.lengths for layout in (batch.source_layout, batch.target_layout)]
        assert ends[0] is not None and ends[1] is not None  # the engine's batches say them
        goals = pointed_goals(maps.cross, pointer, ends[0], ends[1] - 1, translator.n_language_tokens)
        scenes = {
            "encoder": scene_of("encoder", source, source, model.encoder_sees, source_marks, rarity),
            "decoder": scene_of("decoder", target, target, model.decoder_sees, target_marks, None),
            "cross": scene_of("cross", target, source, everything, source_marks, rarity, goals),
        }
        for kind, tally in tallies.items():
            tally.add(getattr(maps, kind), scenes[kind])
        reporter.advance()
    return {
        place: tallies[place.kind].behavior(place.layer - 1, place.head - 1) if place.kind in tallies else None
        for place in gates.places
    }


def low_rank(function: object) -> bool:
    """Whether weights may be negative, and sum to anything."""
    return isinstance(function, LowRank)


def is_punctuation(tokenizer: Tokenizer) -> list[bool]:
    """For each token of a vocabulary, whether it is of signs alone."""
    tokens = (token.strip(MARK) for token in tokenizer.tokens(range(tokenizer.vocabulary_size)))
    return [bool(token) and not any(letter.isalnum() for letter in token) for token in tokens]


def occurrences(work: Sequence[Forced], vocabulary: int) -> Tensor:
    """`[V]`: how often each token comes in the sources."""
    counts = sum((Counter(batch.source.flatten().tolist()) for batch in work), Counter[int]())
    table = torch.zeros(vocabulary, dtype=torch.float64)
    for token, count in counts.items():
        table[token] = count
    return table.to(work[0].source.device)


def slopes_of(gates: Gates, work: Sequence[Forced], reporter: Reporter) -> Slopes:
    """One pass back for each batch."""
    reporter.start_stage("slopes", len(work), "passes")
    cost, signed, sizes = 0.0, torch.zeros(len(gates.places)).double(), torch.zeros(len(gates.places)).double()
    for batch in work:
        cost += gates.without([], [batch])
        each = gates.slopes(batch).cpu()
        signed += each.sum(0)
        sizes += each.abs().sum(0)
        reporter.advance()
    if not (math.isfinite(cost) and sizes.isfinite().all()):
        raise SearchError(NOT_FINITE)
    return Slopes(cost, signed, sizes)


def removed_in_turn(gates: Gates, work: Sequence[Forced], reporter: Reporter) -> Tensor:
    """`[places]`: how much more the corpus costs without each of the heads alone."""
    reporter.start_stage("removing each head", len(work) * len(gates.places), "passes")
    total = torch.zeros(len(gates.places), dtype=torch.float64)
    for batch in work:
        total += gates.removals(batch, reporter.advance).cpu()
    return total


def curve_of(
    gates: Gates, order: Sequence[Place], work: Sequence[Forced], reporter: Reporter, score: Score | None = None
) -> tuple[Point, ...]:
    """The cross-entropy a token as heads are removed in this order, from none to all."""
    steps = sorted({round(i * len(order) / POINTS) for i in range(POINTS + 1)} if len(order) > POINTS else
                   range(len(order) + 1))  # fmt: skip
    tokens = sum(len(batch.follows) for batch in work)
    reporter.start_stage("removing many heads", len(steps) * len(work), "passes")
    found = []
    for count in steps:
        cost = gates.without(order[:count], work, reporter.advance)
        bleu = None
        if score is not None:
            gates.remove(order[:count])
            bleu = score(gates)
            gates.remove([])
        found.append(Point(count, cost / tokens, bleu))
    return tuple(found)


def translations(gates: Gates, translator: Translator, pairs: Pairs) -> list[str]:
    """What the model writes with its gates as they are, greedily."""
    engine = TorchEngine(gates.model, gates.model.projection().device)
    written: list[str] = []
    for start in range(0, len(pairs), SENTENCES):
        sources = [source for source, _ in pairs[start : start + SENTENCES]]
        found = engine.search(sources, Search(beam=1))
        written += [translator.target.decode(best[0].ids) for best in found]
    return written
