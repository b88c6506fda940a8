"""Shard weights, gradients and optimizer state over ranks, layer by layer (FSDP2), for models that do not fit.

Checkpoints hold full tensors, gathered one by one for writing and sharded again after reading: they are the same with
any number of ranks.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from dragoman.config import TrainRecipe
from dragoman.data.batch import Batch
from dragoman.errors import RecipeError
from dragoman.training.checkpoints.checkpoint import PARTS, Checkpoint
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.loss.cross_entropy import LossSum

MAX_SHARE: Final = 0.6  # share of a GPU's memory for weights, gradients and optimizer; activations need the rest


class TensorOutputs(nn.Module):
    """A task that returns tensors instead of a dataclass: FSDP2 attaches its hooks only to tensors."""

    def __init__(self, task: nn.Module) -> None:
        super().__init__()
        self.task = task

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The smoothed and the plain sum."""
        loss = self.task(batch)
        return loss.smoothed, loss.plain


class Sharded(nn.Module):
    """The task over sharded weights, called like the task itself."""

    def __init__(self, task: nn.Module, model: nn.Module, ranks: Ranks) -> None:
        super().__init__()
        # It warns about changing a module's output in place, which our residual connections never do.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
        mesh = dist.device_mesh.init_device_mesh(ranks.device.type, (ranks.world,))
        for stack in (m for m in model.modules() if isinstance(m, nn.ModuleList)):
            for layer in stack:
                for part in shardable_parts(layer):
                    fully_shard(part, mesh=mesh)
        self.sums = TensorOutputs(task)
        fully_shard(self.sums, mesh=mesh)

    def forward(self, batch: Batch) -> LossSum:
        """Call the task."""
        return LossSum(*self.sums(batch))

    def sync_gradients(self, now: bool) -> None:
        """Set whether the next backward pass sums the gradients over ranks."""
        assert isinstance(self.sums, FSDPModule)
        self.sums.set_requires_gradient_sync(now)


def shardable_parts(layer: nn.Module) -> list[nn.Module]:
    """The modules of a layer to shard on their own: the layer itself, if it is only called as a whole.

    A decoder layer's cross-attention computes keys and values before its layer is called. It is left to the root, which
    is gathered for the whole step, and the layer's other large modules are sharded one by one.
    """
    if not any(hasattr(module, "remember") for module in layer.modules()):
        return [layer]
    return [
        part
        for part in layer.children()
        if not hasattr(part, "remember") and any(p.dim() > 1 for p in part.parameters())
    ]


def should_shard(recipe: TrainRecipe, model: nn.Module, ranks: Ranks) -> bool:
    """Whether to shard: by the recipe, or with "auto" if weights, gradients and optimizer would crowd a GPU."""
    if ranks.world == 1 or recipe.parallel == "ddp" or recipe.lora:
        return False
    if recipe.parallel == "fsdp":
        if recipe.optimizer == "muon":
            raise RecipeError(
                "train.optimizer='muon' needs whole matrices, but train.parallel='fsdp' shards them; use "
                "train.parallel='ddp', or train.optimizer='adam'",
                code="conflicting_settings",
            )
        return True
    if ranks.device.type != "cuda" or recipe.optimizer == "muon":
        return False
    copies = 4 + (recipe.ema > 0)  # weights, gradients, and two moments
    needed = sum(p.numel() * p.element_size() for p in model.parameters()) * copies
    return needed > MAX_SHARE * torch.cuda.get_device_properties(ranks.device).total_memory


def full_tensor(tensor: Tensor) -> Tensor:
    """The full tensor of one that may be sharded; every rank must call this."""
    gathered: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return gathered.detach()


def local_shard(tensor: Tensor) -> Tensor:
    """This rank's shard."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def shard_like(value: Tensor, pattern: Tensor) -> Tensor:
    """A copy of a full tensor on the pattern's device, sharded like the pattern."""
    if isinstance(pattern, DTensor) and value.shape == pattern.shape:
        sharded: Any = distribute_tensor(value.to(pattern.device), pattern.device_mesh, pattern.placements)
        return sharded  # type: ignore[no-any-return]
    return value.to(pattern.device, copy=True)


class Replica:
    """Lend the model itself; if its weights are sharded, lend a copy on rank 0 with full weights."""

    def __init__(self, model: nn.Module, ranks: Ranks, sharded: bool) -> None:
        self.ranks, self.sharded = ranks, sharded
        self.copy = copy.deepcopy(model) if sharded and ranks.first else None

    @contextmanager
    def with_replaced(self, model: nn.Module, replacements: Mapping[str, Tensor]) -> Iterator[nn.Module]:
        """The model with some of its weights replaced; every rank must enter."""
        if not self.sharded:
            with self.with_weights(model, replacements) as lent:
                yield lent
            return
        weights = {}
        for name, tensor in {**model.state_dict(), **replacements}.items():
            gathered = full_tensor(tensor)
            if self.copy is not None:
                weights[name] = gathered.cpu()
        with self.with_weights(model, weights) as lent:
            yield lent

    @contextmanager
    def with_weights(self, model: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[nn.Module]:
        """The model with these full weights, inside the context; on rank 0."""
        if self.copy is not None:
            self.copy.load_state_dict(dict(weights))
            yield self.copy.to(self.ranks.device)
            self.copy.cpu()  # training needs the device's memory
            return
        if self.sharded:
            yield model
            return
        kept = {name: tensor.detach().clone() for name, tensor in model.state_dict().items() if name in weights}
        model.load_state_dict(dict(weights), strict=False)
        try:
            yield model
        finally:
            model.load_state_dict(kept, strict=False)


def describe_checkpoint(saved: Checkpoint) -> dict[str, dict[str, Any]]:
    """Type and shape of each tensor by part, and the training state, as JSON."""
    about: dict[str, dict[str, Any]] = {
        part: {name: (str(t.dtype).removeprefix("torch."), list(t.shape)) for name, t in tensors.items()}
        for part, tensors in saved.parts().items()
    }
    return {**about, "state": {**saved.state, "step": saved.step}}


def broadcast_tensors(
    ranks: Ranks, saved: Checkpoint | None, about: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, str, Tensor]]:
    """Each tensor with its part and name, on this rank's device; one at a time, to save memory."""
    loaded = saved.parts() if saved is not None else {}
    for part in PARTS:
        for name, (kind, shape) in about[part].items():
            tensor = loaded[part][name] if loaded else torch.empty(shape, dtype=getattr(torch, kind))
            yield part, name, ranks.broadcast_tensor(tensor.to(ranks.device))
