"""The loss of sections 5.3 and 5.4: cross-entropy with smoothed labels, as a sum and a count.

The sum of a batch's losses is divided once, by the target tokens of all ranks and micro-batches, so every token has the
same weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.data.batch import Batch
from dragoman.models import Seq2Seq, State, Transformer
from dragoman.nn import Layout, Packed, Padded
from dragoman.nn.attention.multi_head import HeadTap
from dragoman.nn.kernels import triton_available
from dragoman.nn.linear import matmul_into
from dragoman.training.loss.alignment import AlignmentGuidance, alignment_loss
from dragoman.training.loss.fused_cross_entropy import projected_loss
from dragoman.training.loss.r_drop import ProjectedRDrop

CPU_ROWS = 512  # rows of logits at a time: fewer make matmuls slower, more overflow the caches


@dataclass(frozen=True)
class LossSum:
    """Sums over target tokens: the smoothed loss, which is minimized, and the plain loss, for the perplexity."""

    smoothed: Tensor
    plain: Tensor


def smoothed_cross_entropy(
    logits_NV: Tensor, labels_N: Tensor, smoothing: float, real_N: Tensor | None = None
) -> LossSum:
    """Cross-entropy with (1 - smoothing) on the label and the rest spread evenly over the vocabulary.

    -sum_v q_v log p_v with log p_v = x_v - logsumexp(x) needs no table of log-probabilities: only the label's
    logit, the mean logit and the logsumexp. Rows that are not `real` count 0.
    """
    logits = logits_NV.float()
    normalizer = logits.logsumexp(-1)
    plain = normalizer - logits.gather(-1, labels_N[:, None]).squeeze(-1)
    smoothed = torch.lerp(plain, normalizer - logits.mean(-1), smoothing) if smoothing else plain
    if real_N is not None:
        plain, smoothed = plain * real_N, smoothed * real_N
    return LossSum(smoothed.sum(), plain.detach().sum())


class ProjectedCrossEntropy(torch.autograd.Function):
    """Projection to the vocabulary and loss in one, a few rows at a time, with gradients computed in the forward pass.

    The gradient of a row's loss with respect to its logits is p - q. The label's part of q is subtracted from p before
    the matmuls, so the difference is what is rounded; the uniform part is the same for all rows and is subtracted from
    the results instead. The full table of logits is never held, and each logit is touched three times.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, labels_N: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        n, vocabulary = len(hidden_ND), len(weight_VD)
        mean_weight = weight_VD.mean(0)
        grad_hidden = torch.empty_like(hidden_ND)
        grad_weight = torch.zeros_like(weight_VD) if ctx.needs_input_grad[1] else None  # not if it is frozen
        plain, even = hidden_ND.new_empty(n), hidden_ND.new_empty(n)
        rows = max(1, min(n, CPU_ROWS))
        tables = hidden_ND.new_empty(2, rows, vocabulary)  # allocated once: fresh memory is slow
        for start in range(0, n, rows):
            here = slice(start, start + rows)
            h, labels = hidden_ND[here], labels_N[here, None]
            logits, log_p = tables[:, : len(h)]
            matmul_into(h, weight_VD.T, logits)
            of_label = logits.gather(-1, labels).squeeze(-1)
            torch.log_softmax(logits, -1, out=log_p)
            plain[here] = -log_p.gather(-1, labels).squeeze(-1)
            even[here] = plain[here] + of_label - h @ mean_weight  # logsumexp - mean logit
            difference = log_p.exp_().scatter_(-1, labels, smoothing - 1, reduce="add")
            matmul_into(difference, weight_VD, grad_hidden[here])
            if grad_weight is not None:
                matmul_into(difference.T, h, grad_weight, add=True)
        grad_hidden.sub_(mean_weight, alpha=smoothing)
        if grad_weight is not None:
            grad_weight.sub_(hidden_ND.sum(0), alpha=smoothing / vocabulary)
        ctx.save_for_backward(grad_hidden, grad_weight)
        plain_sum = plain.sum()
        ctx.mark_non_differentiable(plain_sum)
        return torch.lerp(plain, even, smoothing).sum(), plain_sum

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad, None if grad_weight is None else grad_weight * grad, None, None


class TranslationLoss(nn.Module):
    """A model with its loss as one module: wrapping it for several processes wraps the whole step."""

    def __init__(
        self,
        model: Seq2Seq[State],
        smoothing: float,
        pad: int,
        r_drop: float = 0.0,
        guidance: AlignmentGuidance | None = None,
    ) -> None:
        super().__init__()
        self.model, self.smoothing, self.pad, self.r_drop = model, smoothing, pad, r_drop
        self.guidance = guidance

    def forward(self, batch: Batch) -> LossSum:
        """The loss over the real target tokens of a batch; guided alignment adds to the one that is minimized."""
        labels = batch.target_out.flatten()
        logits: list[Tensor] = []
        hidden, weight = self._projected(batch, len(labels), logits)
        if self.r_drop and self.training:
            again, _ = self._projected(batch, len(labels), logits)
            found = self._r_drop_loss([hidden, again], weight, labels, labels != self.pad)
        else:
            found = self._cross_entropy(hidden, weight, labels)
        if self.guidance is None or not logits:
            return found
        guided = sum(alignment_loss(each, batch, *layouts(batch)) for each in logits)
        return LossSum(found.smoothed + self.guidance.weight / len(logits) * guided, found.plain)

    def _cross_entropy(self, hidden: Tensor, weight: Tensor, labels: Tensor) -> LossSum:
        """The loss of one pass."""
        real = labels != self.pad
        if hidden.device.type == "cpu" and hidden.dtype == torch.float32:
            kept = real.nonzero().squeeze(-1)  # on a GPU, selecting rows would synchronize
            sums = ProjectedCrossEntropy.apply(hidden[kept], weight, labels[kept], self.smoothing)  # type: ignore[no-untyped-call]
            return LossSum(*sums)
        if hidden.device.type == "cuda" and torch.is_autocast_enabled("cuda") and triton_available("cuda"):
            hidden = hidden.to(torch.get_autocast_dtype("cuda"))
            sums = projected_loss(hidden, weight, labels, self.smoothing, self.pad, torch.is_grad_enabled())
            return LossSum(sums[0], sums[1].detach())
        return smoothed_cross_entropy(F.linear(hidden, weight), labels, self.smoothing, real)

    def _projected(self, batch: Batch, n: int, logits: list[Tensor]) -> tuple[Tensor, Tensor]:
        """The hidden states of a batch, `[N, D]`, and the projection to the vocabulary, `[V, D]`.

        In training with guided alignment, the logits of the guided head are appended to `logits`.
        """
        source, target = layouts(batch)
        if self.guidance is not None and self.training and batch.links is not None:
            assert isinstance(self.model, Transformer)
            taps = {self.guidance.layer: HeadTap(self.guidance.head, logits)}
            memory = self.model.encode(batch.source, source)
            hidden = self.model.decode(batch.target_in, memory, target, taps=taps).reshape(n, -1)
        else:
            hidden = self.model.hidden(batch.source, batch.target_in, source, target).reshape(n, -1)
        weight, bias = self.model.projection(), self.model.projection_bias()
        return (hidden, weight) if bias is None else fold_bias(hidden, weight, bias)

    def _r_drop_loss(self, passes: list[Tensor], weight: Tensor, labels: Tensor, real: Tensor) -> LossSum:
        kind = passes[0].device.type
        if kind == "cpu":
            kept = real.nonzero().squeeze(-1)
            passes, labels, real = [hidden[kept] for hidden in passes], labels[kept], real[kept]
        if torch.is_autocast_enabled(kind):
            passes = [hidden.to(torch.get_autocast_dtype(kind)) for hidden in passes]
        sums = ProjectedRDrop.apply(*passes, weight, labels, real, self.smoothing, self.r_drop)  # type: ignore[no-untyped-call]
        return LossSum(*sums)


def fold_bias(hidden_ND: Tensor, weight_VD: Tensor, bias_V: Tensor) -> tuple[Tensor, Tensor]:
    """Fold a bias into the weights as a column that is multiplied by one; zeros pad the width.

    The fused losses then need no biases, which only imported models have.
    """
    more = 16 - hidden_ND.shape[1] % 16  # to a width with fast matmuls
    ones = F.pad(hidden_ND.new_ones(len(hidden_ND), 1), (0, more - 1))
    return torch.cat([hidden_ND, ones], 1), torch.cat([weight_VD, F.pad(bias_V[:, None], (0, more - 1))], 1)


def layouts(batch: Batch) -> tuple[Layout, Layout]:
    """The layouts of a batch's source and target."""
    if batch.layout == "packed":
        return (
            Packed.of(batch.source_lengths, len(batch.source), batch.longest, batch.source_tiles, batch.source_depths),
            Packed.of(batch.target_lengths, len(batch.target_in), batch.longest, batch.target_tiles),
        )
    source = Padded(batch.source.shape[1], batch.source_lengths, depths=batch.source_depths)
    return source, Padded(batch.target_in.shape[1], batch.target_lengths)
