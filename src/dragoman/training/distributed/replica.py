"""The model for evaluation: on rank 0, with full weights, which may be a moving average."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

from dragoman.training.distributed.ranks import Ranks
from dragoman.training.distributed.sharding import full_tensor


class Replica:
    """Lends the model itself; if its weights are sharded, a copy on rank 0 that is filled with full ones."""

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
        """The model with these full weights for the time of the context; on rank 0."""
        if self.copy is not None:
            self.copy.load_state_dict(dict(weights))
            yield self.copy.to(self.ranks.device)
            self.copy.cpu()  # training needs the memory of the device
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
