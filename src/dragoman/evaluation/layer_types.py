"""The layer types of Table 1 (section 4), as real layers with the formulas of the table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import count
from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.errors import ShapeError
from dragoman.nn import MultiHeadSelfAttention, Padded, Sees, everything, look, window
from dragoman.nn.attention.sees import Rule
from dragoman.values import divisors


@dataclass(frozen=True)
class LayerSizes:
    """The paper's d and heads, k of a convolution, and r of restricted attention."""

    d_model: int = 512
    n_heads: int = 8
    kernel: int = 3
    neighbors: int = 65

    def __post_init__(self) -> None:
        """Reject impossible sizes."""
        if self.d_model < 1 or self.n_heads < 1 or self.d_model % self.n_heads:
            fitting = divisors(self.d_model)
            message = f"d_model={self.d_model} is not divisible by n_heads={self.n_heads}; use one of {fitting}"
            raise ShapeError(message, code="not_divisible")
        if self.kernel < 2:
            raise ShapeError(f"kernel={self.kernel} connects no positions; use 2 or more", code="out_of_range")
        if self.neighbors < 3 or self.neighbors % 2 == 0:
            message = f"neighbors={self.neighbors} has no center; use an odd number, 3 or more"
            raise ShapeError(message, code="out_of_range")


class LayerType(ABC):
    """A layer from `[1, n, d]` to `[1, n, d]`, with the formulas of Table 1."""

    name: ClassVar[str]
    complexity: ClassVar[str]
    sequential: ClassVar[str]
    path: ClassVar[str]
    same_reach: ClassVar[bool] = True  # whether all layers of a stack have the same reach

    def __init__(self, sizes: LayerSizes) -> None:
        self.sizes = sizes

    @abstractmethod
    def layer(self, level: int = 0) -> nn.Module:
        """Create a layer of a stack, counted from 0, with random weights."""

    @abstractmethod
    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        """Run one pass."""

    @abstractmethod
    def operations(self, n: int) -> int:
        """Table 1's complexity for n positions, as a number."""

    @abstractmethod
    def longest_path(self, n: int) -> int:
        """Table 1's maximum path length for n positions, with its constants."""

    def dependencies(self, layer: nn.Module, outputs: Tensor) -> Tensor:
        """`[n]`: the inputs on which these outputs `[n]` depend, by the gradients of one layer."""
        x = torch.randn(1, len(outputs), self.sizes.d_model, requires_grad=True)
        y = self.run(layer, x)
        (gradient,) = torch.autograd.grad(y, x, torch.randn_like(y) * outputs[:, None])
        return gradient[0].ne(0).any(-1)


class SelfAttention(LayerType):
    """Every position attends to every other."""

    name, complexity, sequential, path = "self-attention", "n² d", "1", "1"
    rule: Rule = staticmethod(everything)

    def layer(self, level: int = 0) -> nn.Module:
        """Multi-head attention, section 3.2.2."""
        return MultiHeadSelfAttention(self.sizes.d_model, self.sizes.n_heads)

    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        """Attend under the rule."""
        y: Tensor = layer(x, self.sees(x.shape[1], x.device))
        return y

    def sees(self, n: int, device: torch.device) -> Sees:
        """What each of n positions attends to."""
        layout = Padded(n)
        return look(layout, layout, self.rule, device)

    def operations(self, n: int) -> int:
        """The cost of the heads; the projections work on single positions."""
        return n * n * self.sizes.d_model

    def longest_path(self, n: int) -> int:
        """Any two positions are neighbors."""
        return 1


class RestrictedSelfAttention(SelfAttention):
    """Self-attention to a neighborhood of r positions around each."""

    name, complexity, sequential, path = "self-attention, restricted", "r n d", "1", "n / r"

    def __init__(self, sizes: LayerSizes) -> None:
        super().__init__(sizes)
        self.radius = sizes.neighbors // 2
        self.rule = window(self.radius)

    def sees(self, n: int, device: torch.device) -> Sees:
        """The neighborhood, computed as a band if that is less work; PyTorch's counter sees the products of a band."""
        sees = super().sees(n, device)
        return replace(sees, mask=None, band=self.radius, sparse=None) if n > 4 * self.radius else sees

    def operations(self, n: int) -> int:
        """The cost of the heads only."""
        return self.sizes.neighbors * n * self.sizes.d_model

    def longest_path(self, n: int) -> int:
        """One layer covers (r - 1) / 2 positions."""
        return -(-(n - 1) // self.radius)


class RecurrentType(LayerType):
    """An LSTM, as in the models that the paper replaced."""

    name, complexity, sequential, path = "recurrent", "n d²", "n", "n"

    def layer(self, level: int = 0) -> nn.Module:
        """PyTorch's layer."""
        return nn.LSTM(self.sizes.d_model, self.sizes.d_model, batch_first=True)

    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        """Read from left to right."""
        y: Tensor = layer(x)[0]
        return y

    def operations(self, n: int) -> int:
        """One matrix-vector product per position."""
        return n * self.sizes.d_model**2

    def longest_path(self, n: int) -> int:
        """One step from each position to the next."""
        return n - 1

    def dependencies(self, layer: nn.Module, outputs: Tensor) -> Tensor:
        """The dependencies of one step: its input and the previous state.

        Over a whole layer the gradient would vanish.
        """
        d = self.sizes.d_model
        x, state, cell = (torch.randn(1, 1, d, requires_grad=True) for _ in range(3))
        y = layer(x, (state, cell))[0]
        gradients = torch.autograd.grad(y, (x, state, cell), torch.randn_like(y))
        here, before, cell_before = (gradient.ne(0).any() for gradient in gradients)
        return (outputs & here) | (outputs.roll(-1) & (before | cell_before))


class ConvolutionalType(LayerType):
    """A causal convolution of k positions, as in a decoder."""

    name, complexity, sequential, path = "convolutional", "k n d²", "1", "n / k"

    def dilation(self, level: int) -> int:
        """The distance between the positions of a window."""
        return 1

    def layer(self, level: int = 0) -> nn.Module:
        """PyTorch's layer."""
        return nn.Conv1d(self.sizes.d_model, self.sizes.d_model, self.sizes.kernel, dilation=self.dilation(level))

    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        """Pad before the first position; PyTorch expects channels in the second dimension."""
        assert isinstance(layer, nn.Conv1d)
        y: Tensor = layer(F.pad(x.mT, ((layer.kernel_size[0] - 1) * layer.dilation[0], 0))).mT
        return y

    def operations(self, n: int) -> int:
        """One matrix product for each position of the window."""
        return self.sizes.kernel * n * self.sizes.d_model**2

    def longest_path(self, n: int) -> int:
        """One layer covers k - 1 positions."""
        return -(-(n - 1) // (self.sizes.kernel - 1))


class Dilated(ConvolutionalType):
    """Convolutions whose dilation grows by k from layer to layer (ByteNet, Kalchbrenner et al., 2017)."""

    name, path = "convolutional, dilated", "log_k n"
    same_reach = False

    def dilation(self, level: int) -> int:
        """k to the power of the layer's number."""
        return int(self.sizes.kernel**level)

    def longest_path(self, n: int) -> int:
        """The number of digits of n - 1 to the base k."""
        return next(layers for layers in count(1) if self.sizes.kernel**layers >= n)


LAYER_TYPES: Final[tuple[type[LayerType], ...]] = (
    *(SelfAttention, RestrictedSelfAttention, RecurrentType, ConvolutionalType, Dilated),
)
