"""Low-rank attention (Linformer; Wang et al., 2020): keys and values projected to a fixed number of mixtures."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.errors import ShapeError
from dragoman.nn.attention.function import Attended
from dragoman.nn.attention.sees import Sees, everything


class LowRank(nn.Module):
    """softmax(q (E k)^T / sqrt(d_k)) (G v), where the learned matrices E and G mix all positions into `rank` of them.

    Time and memory grow with length times rank. Every mixture contains the whole sequence, so this cannot hide the
    future and is for encoders only. Padding contributes nothing. Linformer assumes sequences of one length; here
    lengths differ, so mixtures are divided by the square root of the length, which preserves their variance. The heads
    of a layer share E and G.
    """

    def __init__(self, rank: int, max_positions: int) -> None:
        super().__init__()
        self.key_mix = nn.Parameter(torch.randn(rank, max_positions))
        self.value_mix = nn.Parameter(torch.randn(rank, max_positions))

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Attend to the mixtures; the weights are the resulting factor of each value.

        They may be negative and need not sum to one.
        """
        if sees.rule is not everything:
            message = "low-rank attention mixes all positions and cannot mask any; use it only without a mask"
            raise ShapeError(message, code="unsupported_mask")
        grid, size = sees.keys.grid, k.shape[2]
        if size > self.key_mix.shape[1]:
            raise ShapeError(
                f"a sentence of {size} tokens is too long: {self.key_mix.shape[1]} positions were learned; "
                "use shorter sentences, or train with a larger model.max_positions or another model.pattern",
                code="text_too_long",
            )
        mixes = self.key_mix[:, :size], self.value_mix[:, :size]
        real = grid.real(q.device)
        if real is None:
            key_mix, value_mix = (mix[None, None] * size**-0.5 for mix in mixes)
        else:
            shown = (real * real.sum(-1, keepdim=True).clamp(min=1) ** -0.5)[:, None, None, :]
            key_mix, value_mix = (mix * shown for mix in mixes)  # [B, 1, rank, S]
        key_mix, value_mix = key_mix.to(k.dtype), value_mix.to(v.dtype)
        scores = q @ (key_mix @ k).mT * q.shape[-1] ** -0.5
        mixture = scores.float().softmax(-1).to(v.dtype)
        kept = F.dropout(mixture, dropout) if dropout else mixture
        return Attended(kept @ (value_mix @ v), mixture @ value_mix if weights else None)
