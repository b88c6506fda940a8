"""The model as it is evaluated: on one process, with whole weights, which may be a moving average."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

from dragoman.training.distributed.ranks import Ranks
from dragoman.training.distributed.sharding import whole


class Replica:
    """Lends the model itself; where its weights are cut over processes, a copy on the first one that is filled."""

    def __init__(self, model: nn.Module, ranks: Ranks, sharded: bool) -> None:
        self.ranks, self.sharded = ranks, sharded
        self.copy = copy.deepcopy(model) if sharded and ranks.first else None

    @contextmanager
    def holding(self, model: nn.Module, instead: Mapping[str, Tensor]) -> Iterator[nn.Module]:
        """The model with other values in the place of some weights; every process must enter."""
        if not self.sharded:
            with self.filled(model, instead) as lent:
                yield lent
            return
        weights = {}
        for name, tensor in {**model.state_dict(), **instead}.items():
            gathered = whole(tensor)
            if self.copy is not None:
                weights[name] = gathered.cpu()
        with self.filled(model, weights) as lent:
            yield lent

    @contextmanager
    def filled(self, model: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[nn.Module]:
        """The model with these whole weights, for as long as it is lent; for the first process."""
        if self.copy is not None:
            self.copy.load_state_dict(dict(weights))
            yield self.copy.to(self.ranks.device)
            self.copy.cpu()  # the training needs the room on the device
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
