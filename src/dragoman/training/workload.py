"""What a run trains: batches and the loss of a model on them. The trainer knows neither sentences nor series."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import nn

from dragoman.config import Recipe
from dragoman.config.recipe import guided_head
from dragoman.data.batch import Batch
from dragoman.data.loader import Loader
from dragoman.data.prepared import Prepared
from dragoman.text.special_tokens import PAD
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.loss.alignment import AlignmentGuidance
from dragoman.training.loss.cross_entropy import TranslationLoss
from dragoman.training.steps.eager import add_tiles, empty_batch, to_device


class TrainingBatch(Protocol):
    """A batch as the trainer sees it: a dataclass whose tensors go to the device."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def source_tokens(self) -> int:
        """Number of inputs, for the log."""

    @property
    def target_tokens(self) -> int:
        """Number of targets, by which the sum of losses is divided."""

    @property
    def state(self) -> int:
        """The loader's state after this batch."""

    @property
    def fixed_shape(self) -> bool:
        """Whether all batches of the run have one shape, as CUDA graphs need."""

    def to(self, device: torch.device, /) -> Self:
        """The same batch on a device."""


class Workload(Protocol):
    """Batches and loss of a run; the loss is a module that maps a batch to a `LossSum`."""

    @property
    def figure(self) -> str:
        """Name in the log of the plain loss, which is reported beside the one that is minimized."""

    @property
    def curve(self) -> tuple[str, str]:
        """The figure of the log that the training curve shows, and the label of its axis."""

    def loader(self, state: int) -> AbstractContextManager[Iterator[Any]]:
        """This rank's batches from a state of the loader on."""

    def loss(self, model: nn.Module) -> nn.Module:
        """The model with its loss as one module."""

    def to_device(self, batch: Any, device: torch.device) -> Any:
        """The batch as an eager step needs it."""

    def to_graph(self, batch: Any) -> Any:
        """The batch, still on the host, as a CUDA graph step needs it."""

    def empty_batch(self, device: torch.device) -> Any:
        """A batch with a gradient of 0 for every weight."""

    def advice(self, directory: Path, step: int) -> str:
        """How to end a run that was stopped after a step and saved in `directory`, beside resuming it."""


@dataclass(frozen=True)
class TranslationWorkload:
    """Sentence pairs and label-smoothed cross-entropy."""

    prepared: Prepared
    recipe: Recipe
    ranks: Ranks
    alignments: Path | None = None  # of the training data, for guided alignment
    figure: str = "nll"
    curve: tuple[str, str] = ("nll", "cross-entropy per target token")

    def loader(self, state: int) -> Loader:
        """This rank's batches from a state of the loader on."""
        return self.prepared.loader(
            self.recipe.data,
            rank=self.ranks.rank,
            world=self.ranks.world,
            state=state,
            alignments=self.alignments,
        )

    def loss(self, model: nn.Module) -> nn.Module:
        """Cross-entropy with the recipe's label smoothing, R-Drop and guided alignment."""
        train, head = self.recipe.train, guided_head(self.recipe)
        guidance = None if head is None else AlignmentGuidance(*head, train.alignment_weight)
        return TranslationLoss(model, train.label_smoothing, PAD, train.r_drop, guidance)  # type: ignore[arg-type]

    def to_device(self, batch: Batch, device: torch.device) -> Batch:
        """The batch on the device, with tiles where packed attention needs them."""
        return to_device(batch, device)

    def to_graph(self, batch: Batch) -> Batch:
        """The batch with tiles."""
        return add_tiles(batch)

    def empty_batch(self, device: torch.device) -> Batch:
        """A batch of one empty sentence."""
        return empty_batch(device)

    def advice(self, directory: Path, step: int) -> str:
        """How to write a model early."""
        return f"`dragoman finish {directory}` to write a model from the checkpoints so far"
