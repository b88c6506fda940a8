"""Dropout (section 5.4), with faster random masks than PyTorch's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16
HASH_ROUNDS = ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB))  # shifts and multipliers of C. Wellons' "triple32"


class Dropout(nn.Module):
    """Zeroes each element with probability `p` in training, and scales the rest by 1 / (1 - p).

    On a CPU, PyTorch draws a random number per element, which takes a quarter of a small model's training time; here
    each 64 random bits are split into four groups of 16, and `p` is rounded to a multiple of 1/65536. In code compiled
    for a GPU, ten cipher rounds per element would cost more than reading and writing it; here a hash of two random
    seeds and the element's index decides, which the backward pass can recompute.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout in training; return `x` unchanged in evaluation."""
        if not self.training or not self.p:
            return x
        if x.device.type == "cpu":
            return x * keep_mask(x, self.p)
        if torch.compiler.is_compiling() and x.numel() < 1 << 31:
            return torch.where(hashed_mask(x, self.p, torch.rand(2, device=x.device)), x / (1 - self.p), 0.0)
        return F.dropout(x, self.p)

    def extra_repr(self) -> str:
        """The probability, for `repr`."""
        return f"p={self.p}"


def keep_mask(x: Tensor, p: float) -> Tensor:
    """0 with probability `p` and 1 / (1 - p) otherwise, in the shape and type of `x`."""
    dropped = min(round(p * LEVELS), LEVELS - 1)  # keeps at least one level if p is close to 1
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    levels = words.view(torch.int16)[: x.numel()].view(x.shape)
    return (levels >= dropped - LEVELS // 2).to(x.dtype).mul_(LEVELS / (LEVELS - dropped))


def hashed_mask(x: Tensor, p: float, seeds: Tensor) -> Tensor:
    """False with probability `p`, in the shape of `x`: a function of each index and two seeds from [0, 1).

    With two rounds instead of three, neighbors were correlated by 0.005.
    """
    first, second = (seeds * (1 << 24)).to(torch.int32).unbind()
    bits = torch.arange(x.numel(), dtype=torch.int32, device=x.device).view(x.shape) + (first << 7)
    for round_, (shift, factor) in enumerate(HASH_ROUNDS):
        shifted = (bits >> shift) & ((1 << (32 - shift)) - 1)  # without copies of the sign bit
        bits = (bits ^ shifted) * (factor - (factor >> 31 << 32))
        if not round_:
            bits = bits + (second << 7)
    return bits >= min(round(p * (1 << 32)), (1 << 32) - 1) - (1 << 31)  # likewise
