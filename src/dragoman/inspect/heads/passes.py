"""The passes over a corpus that make up a survey of heads: statistics, gradients, ablation, pruning."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from dragoman.engines.forced import EncodedPairs
from dragoman.engines.torch import TorchEngine
from dragoman.engines.torch_forced import ForcedBatch
from dragoman.errors import SearchError
from dragoman.inspect.heads.gates import GatedModel, HeadId
from dragoman.inspect.heads.statistics import HeadStatistics, StatisticsAccumulator, aligned_keys, attention_context
from dragoman.nn import LowRank, everything
from dragoman.progress import Reporter
from dragoman.search.types import NOT_FINITE, Search
from dragoman.text import Tokenizer
from dragoman.text.normalization import MARK
from dragoman.translation.translator import Translator

MAX_CURVE_POINTS: Final = 24
TRANSLATION_BATCH: Final = 32  # sentences

ScoreModel = Callable[[GatedModel], float]


@dataclass(frozen=True)
class PruningPoint:
    """The cross-entropy, and BLEU if requested, with this many heads removed together."""

    removed: int
    cross_entropy: float
    bleu: float | None = None


@dataclass(frozen=True)
class GateGradients:
    """The loss of a corpus, and for each head its gradients and their absolute values, summed over sentences."""

    loss: float
    signed: Tensor
    absolute: Tensor


def measure_statistics(
    translator: Translator, model: GatedModel, batches: Sequence[ForcedBatch], reporter: Reporter
) -> dict[HeadId, HeadStatistics | None]:
    """The statistics of each head; None for low-rank attention, whose weights are not a distribution."""
    alignment_head = translator.alignment_head
    accumulators = {
        kind: StatisticsAccumulator(len(of), of[0].gates.shape[-1])
        for kind, of in model.by_kind.items()
        if of and not isinstance(of[0].function, LowRank)
    }
    device = model.model.projection().device
    source_punctuation, target_punctuation = (
        torch.tensor(punctuation_mask(t), device=device) for t in (translator.source, translator.target)
    )
    frequencies = count_tokens(batches, translator.source.vocabulary_size)
    encoder_sees, decoder_sees = model.model.encoder_sees, model.model.decoder_sees
    reporter.start_stage("statistics", len(batches), "passes")
    for batch in batches:
        maps = model.attention_maps(batch)
        source, target = (batch.source, batch.source_layout), (batch.target, batch.target_layout)
        lengths = [layout.lengths for layout in (batch.source_layout, batch.target_layout)]
        assert lengths[0] is not None and lengths[1] is not None  # batches from an engine have lengths
        aligned = aligned_keys(maps.cross, alignment_head, lengths[0], lengths[1] - 1, translator.n_language_tokens)
        contexts = {
            "encoder": attention_context("encoder", source, source, encoder_sees, source_punctuation, frequencies),
            "decoder": attention_context("decoder", target, target, decoder_sees, target_punctuation, None),
            "cross": attention_context("cross", target, source, everything, source_punctuation, frequencies, aligned),
        }
        for kind, accumulator in accumulators.items():
            accumulator.add(getattr(maps, kind), contexts[kind])
        reporter.advance()
    return {
        id_: accumulators[id_.kind].statistics(id_.layer - 1, id_.head - 1) if id_.kind in accumulators else None
        for id_ in model.heads
    }


def punctuation_mask(tokenizer: Tokenizer) -> list[bool]:
    """For each token of a vocabulary, whether it has no letter or digit."""
    tokens = (token.strip(MARK) for token in tokenizer.tokens(range(tokenizer.vocabulary_size)))
    return [bool(token) and not any(letter.isalnum() for letter in token) for token in tokens]


def count_tokens(batches: Sequence[ForcedBatch], vocabulary: int) -> Tensor:
    """`[V]`: the frequency of each token in the sources."""
    return torch.cat([batch.source.flatten() for batch in batches]).bincount(minlength=vocabulary).double()


def measure_gradients(model: GatedModel, batches: Sequence[ForcedBatch], reporter: Reporter) -> GateGradients:
    """The gradients of all gates, with one backward pass per batch."""
    reporter.start_stage("gradients", len(batches), "passes")
    loss, signed, absolute = 0.0, torch.zeros(len(model.heads)).double(), torch.zeros(len(model.heads)).double()
    for batch in batches:
        loss += model.loss_without([], [batch])
        gradients = model.gradients(batch).cpu()
        signed += gradients.sum(0)
        absolute += gradients.abs().sum(0)
        reporter.advance()
    if not (math.isfinite(loss) and absolute.isfinite().all()):
        raise SearchError(NOT_FINITE, code="not_finite")
    return GateGradients(loss, signed, absolute)


def measure_ablations(model: GatedModel, batches: Sequence[ForcedBatch], reporter: Reporter) -> Tensor:
    """`[heads]`: the increase of the corpus's loss when only this head is removed."""
    reporter.start_stage("ablation", len(batches) * len(model.heads), "passes")
    total = torch.zeros(len(model.heads), dtype=torch.float64)
    for batch in batches:
        total += model.ablations(batch, reporter.advance).cpu()
    return total


def measure_pruning(
    model: GatedModel,
    order: Sequence[HeadId],
    batches: Sequence[ForcedBatch],
    reporter: Reporter,
    score: ScoreModel | None = None,
) -> tuple[PruningPoint, ...]:
    """The cross-entropy per token as heads are removed in this order, from none to all."""
    count = len(order)
    steps: Sequence[int] = range(count + 1)
    if count > MAX_CURVE_POINTS:
        steps = sorted({round(i * count / MAX_CURVE_POINTS) for i in range(MAX_CURVE_POINTS + 1)})
    tokens = sum(len(batch.labels) for batch in batches)
    reporter.start_stage("pruning", len(steps) * len(batches), "passes")
    points = []
    for removed in steps:
        loss = model.loss_without(order[:removed], batches, reporter.advance)
        bleu = None
        if score is not None:
            model.remove(order[:removed])
            bleu = score(model)
            model.remove([])
        points.append(PruningPoint(removed, loss / tokens, bleu))
    return tuple(points)


def translate_greedily(model: GatedModel, translator: Translator, pairs: EncodedPairs) -> list[str]:
    """Greedy translations with the current gates."""
    engine = TorchEngine(model.model, model.model.projection().device)
    texts: list[str] = []
    for start in range(0, len(pairs), TRANSLATION_BATCH):
        sources = [source for source, _ in pairs[start : start + TRANSLATION_BATCH]]
        texts += [translator.target.decode(best[0].ids) for best in engine.search(sources, Search(beam=1))]
    return texts
