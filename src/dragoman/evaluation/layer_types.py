"""The kinds of layers of Table 1 (section 4): real ones, each with what the table says of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.errors import ShapeError
from dragoman.nn import MultiHeadSelfAttention, Padded, Sees, everything, look, window
from dragoman.nn.attention.sees import Rule
from dragoman.values import divisors


@dataclass(frozen=True)
class Sizes:
    """What a layer is made with: the paper's d, its heads, k of a convolution, and r of restricted attention."""

    d_model: int = 512
    n_heads: int = 8
    kernel: int = 3
    neighbors: int = 65

    def __post_init__(self) -> None:
        """Refuse what no layer can be made with."""
        if self.d_model < 1 or self.n_heads < 1 or self.d_model % self.n_heads:
            fitting = divisors(self.d_model)
            raise ShapeError(f"d_model={self.d_model} does not split into n_heads={self.n_heads}; use one of {fitting}")
        if self.kernel < 2:
            raise ShapeError(f"kernel={self.kernel} joins no two positions; use 2 or more")
        if self.neighbors < 3 or self.neighbors % 2 == 0:
            raise ShapeError(f"neighbors={self.neighbors} has no middle to look from; use an odd number from 3")


class Kind(ABC):
    """A kind of layer that maps `[1, n, d]` to `[1, n, d]`, and what Table 1 says of it."""

    name: ClassVar[str]
    complexity: ClassVar[str]
    sequential: ClassVar[str]
    path: ClassVar[str]
    alike: ClassVar[bool] = True  # whether all layers of a stack reach equally far

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes

    @abstractmethod
    def layer(self, level: int = 0) -> nn.Module:
        """A layer of a stack, counted from 0, with weights by chance."""

    @abstractmethod
    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        """One pass."""

    @abstractmethod
    def operations(self, n: int) -> int:
        """Table 1's complexity for n positions, as a number."""

    @abstractmethod
    def longest_path(self, n: int) -> int:
        """Table 1's maximum path length for two or more positions, with its constants."""

    def depends(self, layer: nn.Module, outputs: Tensor) -> Tensor:
        """`[n]`: on the inputs of which positions these outputs `[n]` depend, by the gradients of one layer."""
        x = torch.randn(1, len(outputs), self.sizes.d_model, requires_grad=True)
        y = self.run(layer, x)
        (gradient,) = torch.autograd.grad(y, x, torch.randn_like(y) * outputs[:, None])
        return gradient[0].ne(0).any(-1)


class SelfAttention(Kind):
    """Every position looks at every other."""

    name, complexity, sequential, path = "self-attention", "n² d", "1", "1"
    rule: Rule = staticmethod(everything)

    def layer(self, level: int = 0) -> nn.Module:
        """Section 3.2.2's."""
        return MultiHeadSelfAttention(self.sizes.d_model, self.sizes.n_heads)

    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        """Attend under the rule."""
        y: Tensor = layer(x, self.sees(x.shape[1], x.device))
        return y

    def sees(self, n: int, device: torch.device) -> Sees:
        """What each of n positions looks at."""
        layout = Padded(n)
        return look(layout, layout, self.rule, device)

    def operations(self, n: int) -> int:
        """Of the heads; the projections before and after them are work on single positions."""
        return n * n * self.sizes.d_model

    def longest_path(self, n: int) -> int:
        """Any two positions are neighbors."""
        return 1


class Restricted(SelfAttention):
    """Self-attention to a neighborhood of r positions around each."""

    name, complexity, sequential, path = "self-attention, restricted", "r n d", "1", "n / r"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.radius = sizes.neighbors // 2
        self.rule = window(self.radius)

    def sees(self, n: int, device: torch.device) -> Sees:
        """Its neighborhood, as a band wherever that is less work: a model goes by what is quicker."""
        sees = super().sees(n, device)
        return replace(sees, mask=None, band=self.radius) if n > 4 * self.radius else sees

    def operations(self, n: int) -> int:
        """Of the heads, as above."""
        return self.sizes.neighbors * n * self.sizes.d_model

    def longest_path(self, n: int) -> int:
        """A layer carries over (r - 1) / 2 positions."""
        return -(-(n - 1) // self.radius)


class Recurrent(Kind):
    """An LSTM, as in the models that the paper set out to replace."""

    name, complexity, sequential, path = "recurrent", "n d²", "n", "n"

    def layer(self, level: int = 0) -> nn.Module:
        """PyTorch's."""
        return nn.LSTM(self.sizes.d_model, self.sizes.d_model, batch_first=True)

    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        """From left to right."""
        y: Tensor = layer(x)[0]
        return y

    def operations(self, n: int) -> int:
        """A product of a vector with a matrix for each position."""
        return n * self.sizes.d_model**2

    def longest_path(self, n: int) -> int:
        """From each position to the next."""
        return n - 1

    def depends(self, layer: nn.Module, outputs: Tensor) -> Tensor:
        """The same for one step of the layer: its input, and what the position before hands on.

        Over a whole layer a gradient shrinks at every step until it is no number any more.
        """
        d = self.sizes.d_model
        x, state, cell = (torch.randn(1, 1, d, requires_grad=True) for _ in range(3))
        y = layer(x, (state, cell))[0]
        here, before, also = (g.ne(0).any() for g in torch.autograd.grad(y, (x, state, cell), torch.randn_like(y)))
        return (outputs & here) | (outputs.roll(-1) & (before | also))


class Convolutional(Kind):
    """A convolution of k positions, the last of which is the output's own, as in a decoder."""

    name, complexity, sequential, path = "convolutional", "k n d²", "1", "n / k"

    def dilation(self, level: int) -> int:
        """How far the positions of a window are apart."""
        return 1

    def layer(self, level: int = 0) -> nn.Module:
        """PyTorch's."""
        return nn.Conv1d(self.sizes.d_model, self.sizes.d_model, self.sizes.kernel, dilation=self.dilation(level))

    def run(self, layer: nn.Module, x: Tensor) -> Tensor:
        """With nothing before the first position; PyTorch has the channels in the second dimension."""
        assert isinstance(layer, nn.Conv1d)
        y: Tensor = layer(F.pad(x.mT, ((layer.kernel_size[0] - 1) * layer.dilation[0], 0))).mT
        return y

    def operations(self, n: int) -> int:
        """A product with a matrix for each place of the window."""
        return self.sizes.kernel * n * self.sizes.d_model**2

    def longest_path(self, n: int) -> int:
        """A layer carries over k - 1 positions."""
        return -(-(n - 1) // (self.sizes.kernel - 1))


class Dilated(Convolutional):
    """Convolutions whose windows are k times as wide from layer to layer (ByteNet, Kalchbrenner et al., 2017)."""

    name, path = "convolutional, dilated", "log_k n"
    alike = False

    def dilation(self, level: int) -> int:
        """k to the power of the layer's number."""
        return int(self.sizes.kernel**level)

    def longest_path(self, n: int) -> int:
        """So many layers as n - 1 has digits to the base k."""
        layers = 1
        while self.sizes.kernel**layers < n:
            layers += 1
        return layers


KINDS: Final[tuple[type[Kind], ...]] = (SelfAttention, Restricted, Recurrent, Convolutional, Dilated)
