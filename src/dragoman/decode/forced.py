"""What a model thinks of a translation that is given: its probabilities, and where it looked (teacher forcing)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dragoman.decode.torch_engine import TorchEngine
from dragoman.errors import SearchError
from dragoman.models import AttentionMaps, EncoderDecoder
from dragoman.text.special import BOS, EOS

Pairs = Sequence[tuple[Sequence[int], Sequence[int]]]


@torch.inference_mode()
def forced_log_probabilities(engine: TorchEngine, pairs: Pairs) -> list[list[float]]:
    """For each pair of source and target pieces, the log-probability of each target piece and of the end mark."""
    found: list[list[float]] = [[] for _ in pairs]
    for here in like_lengths(pairs, engine.batch):
        source, source_layout = engine.sources([pairs[i][0] for i in here])
        target, target_layout = engine.padded([[BOS, *pairs[i][1]] for i in here])
        follows, _ = engine.padded([[*pairs[i][1], EOS] for i in here])
        log_p = engine.model(source, target, source_layout, target_layout).float().log_softmax(-1)
        rows = log_p.gather(-1, follows[:, :, None]).squeeze(-1).tolist()
        for i, row in zip(here, rows, strict=True):
            found[i] = row[: len(pairs[i][1]) + 1]
    return found


@torch.inference_mode()
def cross_maps(engine: TorchEngine, pairs: Pairs) -> Iterator[tuple[int, Any]]:
    """The number of each pair, and what all its heads looked at: `[L, H, T + 1, S + 1]`, the end mark the last column.

    Row t is the step that reads target piece t - 1, or first the beginning, and writes target piece t, or last the end.
    """
    if not isinstance(engine.model, EncoderDecoder):
        raise SearchError(f"a {type(engine.model).__name__} has no attention between pieces; ask for the text alone")
    for here in like_lengths(pairs, max(1, engine.batch // 8)):  # few, because the weights of all heads take much room
        source, source_layout = engine.sources([pairs[i][0] for i in here])
        target, target_layout = engine.padded([[BOS, *pairs[i][1]] for i in here])
        maps = AttentionMaps()
        engine.model.hidden(source, target, source_layout, target_layout, maps)
        weights = torch.stack(maps.cross, dim=1).float().cpu().numpy()
        for row, i in enumerate(here):
            yield i, weights[row, :, :, : len(pairs[i][1]) + 1, : len(pairs[i][0]) + 1]


def cross_attention(engine: TorchEngine, pairs: Pairs, layer: int | None = None) -> list[Any]:
    """For each pair, `[T, S]`: how much each target piece, as it was written, looked at each source piece.

    The mean of the heads of one decoder layer, counted from 0; without a number the last but one, whose heads still
    look at words where those of the last prepare the output. The column of the source's end mark is left out.
    """
    found: list[Any] = [None] * len(pairs)
    for i, weights in cross_maps(engine, pairs):
        chosen = max(0, len(weights) - 2) if layer is None else layer
        found[i] = weights[chosen].mean(0)[:-1, :-1].copy()
    return found


def like_lengths(pairs: Pairs, batch: int) -> Iterator[list[int]]:
    """The numbers of the pairs, at most `batch` at a time, those of like length together."""
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][0]), len(pairs[i][1])))
    for start in range(0, len(order), batch):
        yield order[start : start + batch]
