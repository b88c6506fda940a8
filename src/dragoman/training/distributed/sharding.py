"""Models that do not fit: weights, gradients and the optimizer's state cut over processes, layer by layer (FSDP2).

A checkpoint knows nothing of it: tensors are gathered whole one by one when it is written, and cut again when it is
read, so that it is the same with any number of processes.
"""

from __future__ import annotations

import warnings
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from dragoman.config import TrainRecipe
from dragoman.data.batch import Batch
from dragoman.errors import RecipeError
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.loss.cross_entropy import LossSum

ROOM: Final = 0.6  # of a GPU's memory for weights, gradients and optimizer; activations want the rest


class Sums(nn.Module):
    """A task that gives tensors and not a dataclass: FSDP2 hangs its hooks on tensors alone."""

    def __init__(self, task: nn.Module) -> None:
        super().__init__()
        self.task = task

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The smoothed and the plain sum."""
        loss = self.task(batch)
        return loss.smoothed, loss.plain


class Sharded(nn.Module):
    """The task over cut weights, to be called like the task itself."""

    def __init__(self, task: nn.Module, model: nn.Module, ranks: Ranks) -> None:
        super().__init__()
        # It warns of changing a module's output in place, which no residual connection of ours does.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
        mesh = dist.device_mesh.init_device_mesh(ranks.device.type, (ranks.world,))
        for stack in (m for m in model.modules() if isinstance(m, nn.ModuleList)):
            for layer in stack:
                for part in parts_of(layer):
                    fully_shard(part, mesh=mesh)
        self.sums = Sums(task)
        fully_shard(self.sums, mesh=mesh)

    def forward(self, batch: Batch) -> LossSum:
        """As the task."""
        return LossSum(*self.sums(batch))

    def exchange(self, now: bool) -> None:
        """Whether the next backward pass sums the gradients over processes."""
        assert isinstance(self.sums, FSDPModule)
        self.sums.set_requires_gradient_sync(now)


def parts_of(layer: nn.Module) -> list[nn.Module]:
    """What of a layer is cut and gathered by itself: all of it at once, where it is called as a whole.

    A decoder layer's attention to the source makes keys and values before its layer is called. It is left to the root,
    which is gathered for the whole step, and the layer's other large parts are cut one by one.
    """
    if not any(hasattr(module, "remember") for module in layer.modules()):
        return [layer]
    return [
        part
        for part in layer.children()
        if not hasattr(part, "remember") and any(p.dim() > 1 for p in part.parameters())
    ]


def wants_sharding(recipe: TrainRecipe, model: nn.Module, ranks: Ranks) -> bool:
    """As the recipe says; by itself only where weights, gradients and the optimizer would crowd a GPU."""
    if ranks.world == 1 or recipe.parallel == "ddp":
        return False
    if recipe.parallel == "fsdp":
        if recipe.optimizer == "muon":
            raise RecipeError(
                "train.optimizer='muon' needs whole matrices, which train.parallel='fsdp' cuts; use 'ddp'"
            )
        return True
    if ranks.device.type != "cuda" or recipe.optimizer == "muon":
        return False
    copies = 4 + (recipe.ema > 0)  # weights, gradients, and two moments
    needed = sum(p.numel() * p.element_size() for p in model.parameters()) * copies
    return needed > ROOM * torch.cuda.get_device_properties(ranks.device).total_memory


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor that is cut over processes; every process must ask."""
    gathered: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return gathered.detach()


def own(tensor: Tensor) -> Tensor:
    """This process's part."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def cut_like(value: Tensor, pattern: Tensor) -> Tensor:
    """A copy of a whole tensor, at the pattern's place and cut as the pattern is."""
    if isinstance(pattern, DTensor) and value.shape == pattern.shape:
        cut: Any = distribute_tensor(value.to(pattern.device), pattern.device_mesh, pattern.placements)
        return cut  # type: ignore[no-any-return]
    return value.to(pattern.device, copy=True)
