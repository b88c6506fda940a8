"""The loss of sections 5.3 and 5.4: cross-entropy with smoothed labels, as a sum and a count.

A batch gives the sum of its losses and the number of its target tokens. They are divided once, by the target tokens of
all ranks and micro-batches, so that a token weighs the same wherever it stands.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dragoman.data.batch import Batch
from dragoman.models import Seq2Seq, State
from dragoman.nn import Layout, Packed, Padded


@dataclass(frozen=True)
class LossSum:
    """Sums over target tokens: the smoothed loss, which is minimised, and the plain one, for the perplexity."""

    smoothed: Tensor
    plain: Tensor


def smoothed_cross_entropy(
    logits_NV: Tensor, labels_N: Tensor, smoothing: float, real_N: Tensor | None = None
) -> LossSum:
    """Cross-entropy with (1 - smoothing) on the label and the rest spread evenly over the vocabulary.

    -sum_v q_v log p_v with log p_v = x_v - logsumexp(x) needs no table of log-probabilities: the label's logit, the
    mean logit and the logsumexp are all there is to it. Rows that are not `real` count nothing.
    """
    logits = logits_NV.float()
    normaliser = logits.logsumexp(-1)
    plain = normaliser - logits.gather(-1, labels_N[:, None]).squeeze(-1)
    smoothed = torch.lerp(plain, normaliser - logits.mean(-1), smoothing) if smoothing else plain
    if real_N is not None:
        plain, smoothed = plain * real_N, smoothed * real_N
    return LossSum(smoothed.sum(), plain.detach().sum())


class TranslationLoss(nn.Module):
    """A model with its loss, as one module, so that what wraps the model for many processes wraps the whole step."""

    def __init__(self, model: Seq2Seq[State], smoothing: float, pad: int) -> None:
        super().__init__()
        self.model, self.smoothing, self.pad = model, smoothing, pad

    def forward(self, batch: Batch) -> LossSum:
        """The loss over the real target tokens of a batch."""
        source, target = layouts(batch)
        hidden = self.model.hidden(batch.source, batch.target_in, source, target)
        labels = batch.target_out.flatten()
        hidden = hidden.reshape(len(labels), -1)
        real = labels != self.pad
        if hidden.device.type == "cpu":  # elsewhere, choosing rows would make the host wait for the device
            kept = real.nonzero().squeeze(-1)
            return smoothed_cross_entropy(self.model.logits(hidden[kept]), labels[kept], self.smoothing)
        return smoothed_cross_entropy(self.model.logits(hidden), labels, self.smoothing, real)


def layouts(batch: Batch) -> tuple[Layout, Layout]:
    """The layouts of a batch's source and target."""
    if batch.layout == "packed":
        return (
            Packed.of(batch.source_lengths, size=len(batch.source), longest=batch.longest),
            Packed.of(batch.target_lengths, size=len(batch.target_in), longest=batch.longest),
        )
    return Padded(batch.source.shape[1], batch.source_lengths), Padded(batch.target_in.shape[1], batch.target_lengths)
