"""Forced decoding in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isnan
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from dragoman.engines.base import check_has_attention
from dragoman.engines.forced import AttentionKind, EncodedPairs, length_batches
from dragoman.errors import SearchError
from dragoman.models import AttentionMaps, EncoderDecoder
from dragoman.nn import Padded
from dragoman.search.types import NOT_FINITE, StopFlag
from dragoman.text.special_tokens import BOS, EOS

if TYPE_CHECKING:
    from dragoman.engines.torch import TorchEngine

LOGIT_ROWS: Final = 512  # rows of logits in memory at a time, because vocabularies are large


@dataclass(frozen=True)
class ForcedBatch:
    """A batch of sentence pairs."""

    indices: list[int]
    source: Tensor
    source_layout: Padded
    target: Tensor
    target_layout: Padded
    labels: Tensor  # [N], the target tokens and EOS tokens of all sentences, concatenated
    rows: Tensor  # [N], the sentence of each label

    def rows_and_labels(self, hidden: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The decoder's output `[B, T, D]` at each label, and the labels; in chunks, because logits are large."""
        hidden = hidden[self.target_layout.real(hidden.device)]
        for start in range(0, len(hidden), LOGIT_ROWS):
            yield hidden[start : start + LOGIT_ROWS], self.labels[start : start + LOGIT_ROWS]


def small_batch(engine: TorchEngine) -> int:
    """The batch size that leaves memory for the weights or gradients of all heads."""
    return max(1, engine.batch // 8)


def forced_batches(engine: TorchEngine, pairs: EncodedPairs, batch: int | None = None) -> Iterator[ForcedBatch]:
    """Batches of pairs of similar lengths, at most `batch` of typical length."""
    for here in length_batches(pairs, batch or engine.batch):
        source, source_layout = engine.sources([pairs[i][0] for i in here])
        target, target_layout = engine.padded([[BOS, *pairs[i][1]] for i in here])
        labels = torch.tensor([token for i in here for token in (*pairs[i][1], EOS)], device=source.device)
        rows = torch.tensor([row for row, i in enumerate(here) for _ in (*pairs[i][1], EOS)], device=source.device)
        yield ForcedBatch(here, source, source_layout, target, target_layout, labels, rows)


@torch.inference_mode()
def forced_log_probabilities(
    engine: TorchEngine, pairs: EncodedPairs, batch: int | None = None, stop: StopFlag | None = None
) -> list[list[float]]:
    """For each pair of source and target ids, the log-probability of each target token and of the EOS token."""
    found: list[list[float]] = [[] for _ in pairs]
    for here in forced_batches(engine, pairs, batch):
        if stop is not None:
            stop.check()
        hidden = engine.model.hidden(here.source, here.target, here.source_layout, here.target_layout)
        numbers: list[float] = []
        for rows, labels in here.rows_and_labels(hidden):
            logits = engine.model.logits(rows).float()
            chosen = logits.gather(-1, labels[:, None]).squeeze(-1)
            numbers += (chosen - logits.logsumexp(-1)).tolist()
        if any(map(isnan, numbers)):
            raise SearchError(NOT_FINITE, code="not_finite")
        each = iter(numbers)
        for i in here.indices:
            found[i] = list(islice(each, len(pairs[i][1]) + 1))
    return found


@torch.inference_mode()
def cross_maps(engine: TorchEngine, pairs: EncodedPairs) -> Iterator[tuple[int, Any]]:
    """The index of each pair, and the weights of all heads `[L, H, T + 1, S + 1]`; the last column is the EOS token.

    Row t is the step that reads target token t - 1 (the BOS token if t is 0) and writes token t (last, the EOS token).
    """
    check_engine_has_attention(engine)
    for here in forced_batches(engine, pairs, small_batch(engine)):
        maps = AttentionMaps()
        engine.model.hidden(here.source, here.target, here.source_layout, here.target_layout, maps)
        weights = torch.stack(maps.cross, dim=1).float().cpu().numpy()
        for row, i in enumerate(here.indices):
            yield i, weights[row, :, :, : len(pairs[i][1]) + 1, : len(pairs[i][0]) + 1]


@torch.inference_mode()
def attention_maps(engine: TorchEngine, source: Sequence[int], target: Sequence[int]) -> dict[AttentionKind, Any]:
    """The weights of all heads for one pair, `[L, H, queries, keys]`, of each kind that the model has."""
    check_engine_has_attention(engine)
    (batch,) = forced_batches(engine, [(source, target)])
    maps = AttentionMaps()
    engine.model.hidden(batch.source, batch.target, batch.source_layout, batch.target_layout, maps)
    layers: dict[AttentionKind, list[Tensor]] = {
        "cross": maps.cross,
        "encoder": maps.encoder,
        "decoder": maps.decoder,
    }
    return {kind: torch.cat(of).float().cpu().numpy() for kind, of in layers.items() if of}


def check_engine_has_attention(engine: TorchEngine) -> None:
    """Raise if a model has no attention between tokens."""
    if not isinstance(engine.model, EncoderDecoder):
        message = f"a {type(engine.model).__name__} has no attention; request neither attention nor alignment"
        raise SearchError(message, code="no_attention")
    check_has_attention(engine.model.recipe)
