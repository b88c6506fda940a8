"""Guided alignment (Garg et al., 2019): a loss that teaches one cross-attention head to align words.

Each target token gets the cross-entropy between the head's attention, at the step that reads the token, and the even
distribution over its links. A token without links, in a sentence that has some, is linked to the source's EOS token,
which is no word. Only this head's logits are computed, so a step costs little more.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.data.batch import Batch
from dragoman.nn import Layout, Packed


@dataclass(frozen=True)
class AlignmentGuidance:
    """The guided head, counted from 0, and the weight of its loss."""

    layer: int
    head: int
    weight: float


def alignment_loss(logits_BTS: Tensor, batch: Batch, source: Layout, target: Layout) -> Tensor:
    """The sum over target tokens with links; all shapes are fixed, as CUDA graphs need."""
    assert batch.links is not None and batch.link_weights is not None
    place, column = batch.links.unbind(-1)
    row = target.slot[place] if isinstance(target, Packed) else place
    logits = logits_BTS.float()
    shown = source.grid.real(logits.device)
    if shown is not None:
        logits = logits.masked_fill(~shown[:, None], torch.finfo(torch.float32).min)
    logits = logits.flatten(0, 1)
    row = row.clamp(max=len(logits) - 1)  # filler, which has the weight 0
    return (batch.link_weights * (logits.logsumexp(-1)[row] - logits[row, column])).sum()
