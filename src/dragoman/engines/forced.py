"""Forced decoding: the probabilities and the attention of given translations; imports no PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

from dragoman.engines.base import Engine
from dragoman.search.types import TYPICAL_TOKENS, RecordedHead, StopFlag

EncodedPairs = Sequence[tuple[Sequence[int], Sequence[int]]]
AttentionKind = Literal["cross", "encoder", "decoder"]


class ForcedEngine(Engine, Protocol):
    """An engine that also decodes given translations (teacher forcing)."""

    def log_probabilities(
        self, pairs: EncodedPairs, batch: int | None = None, stop: StopFlag | None = None
    ) -> list[list[float]]:
        """For each pair of source and target ids, the log-probability of each target token and of EOS.

        Another thread may set `stop`: then SearchInterruptedError is raised after the batch that runs.
        """

    def cross_maps(self, pairs: EncodedPairs) -> Iterator[tuple[int, Any]]:
        """The index of each pair, and the weights of all heads `[L, H, T + 1, S + 1]`; the last column is EOS.

        Row t is the step that reads target token t - 1 (BOS if t is 0) and writes token t (last, EOS).
        """

    def attention_maps(self, source: Sequence[int], target: Sequence[int]) -> dict[AttentionKind, Any]:
        """The weights of all heads for one pair, `[L, H, queries, keys]`, of each kind that the model has.

        Source tokens end with EOS; target tokens are those that the decoder reads, from BOS on.
        """


def cross_attention(engine: ForcedEngine, pairs: EncodedPairs, layer: int | None = None) -> list[Any]:
    """For each pair, the attention `[T, S]` from each target token, at the step that writes it, to each source token.

    The mean over the heads of one decoder layer, counted from 0. The default is the last but one: its heads still
    attend to words, while those of the last prepare the output. The column of the source's EOS token is left out.
    """
    found: list[Any] = [None] * len(pairs)
    for i, weights in engine.cross_maps(pairs):
        found[i] = mean_attention(weights, layer)
    return found


def attention_layer(n_layers: int) -> int:
    """The layer whose mean attention is shown, counted from 0: the last but one.

    Its heads still attend to words, while those of the last prepare the output.
    """
    return max(0, n_layers - 2)


def select_head(weights: Any, head: RecordedHead) -> Any:
    """`[T + 1, S + 1]` of a head, or the mean of a layer's heads, from the weights `[L, H, T + 1, S + 1]` of a pair."""
    layer = weights[head.layer]
    return layer.mean(0) if head.head is None else layer[head.head]


def mean_attention(weights: Any, layer: int | None = None) -> Any:
    """`[T, S]` from the weights `[L, H, T + 1, S + 1]` of one pair, as in `cross_attention`."""
    chosen = attention_layer(len(weights)) if layer is None else layer
    return select_head(weights, RecordedHead(chosen, None))[:-1, :-1].copy()


def length_batches(pairs: EncodedPairs, batch: int, weights: int | None = None) -> Iterator[list[int]]:
    """Indices of the pairs in batches of similar length: at most `batch` of typical length, or fewer longer ones.

    `weights` limits the attention weights of a head in a batch, if given.
    """
    here: list[int] = []
    longest = 1
    lengths = [(len(source), len(target)) for source, target in pairs]
    for i in sorted(range(len(pairs)), key=lengths.__getitem__):
        longest = max(longest, *lengths[i])
        limit = min(batch, batch * TYPICAL_TOKENS // longest, batch if weights is None else weights // longest**2)
        if here and len(here) >= limit:
            yield here
            here, longest = [], max(1, *lengths[i])
        here.append(i)
    if here:
        yield here
