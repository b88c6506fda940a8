"""The reference engine: every search, for every model, on any device that PyTorch has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dragoman.errors import SearchError
from dragoman.models.loading import load_model
from dragoman.nn import Padded
from dragoman.nn.kernels.cpu_bf16 import torch_bfloat16_works
from dragoman.search.beam import beam_search
from dragoman.search.constraints.beam import Plans
from dragoman.search.sampling import keys_of, sample
from dragoman.search.types import NO_NUMBERS, Hypothesis, Search
from dragoman.text.special_tokens import EOS, PAD
from dragoman.text.trees.token_depths import Parsed, depths_of


class TorchEngine:
    """A model in PyTorch, driven by the searches that are written out in this package."""

    name = "torch"
    independent = False  # matrix products of other shapes differ in the last bits

    def __init__(self, model: Any, device: torch.device | str = "cpu") -> None:
        self.model, self.device = model, torch.device(device)
        self.batch = 64 if self.device.type == "cpu" else 256

    @classmethod
    def load(cls, directory: Path, device: str = "cpu", bfloat16: bool = False) -> TorchEngine:
        """The engine of a model directory that has been verified."""
        if bfloat16 and device == "cpu" and not torch_bfloat16_works():
            raise SearchError(
                "precision 'bfloat16' ends in an illegal instruction of PyTorch's on this CPU; use 'float32' or 'int8'"
            )
        model, _ = load_model(directory, PAD, device)
        return cls(model.bfloat16() if bfloat16 else model, device)

    @property
    def precision(self) -> str:
        """What its weights are in."""
        return str(next(self.model.parameters()).dtype).removeprefix("torch.")

    @property
    def threads(self) -> int | None:
        """PyTorch's own, for the whole process."""
        return torch.get_num_threads() if self.device.type == "cpu" else None

    def can(self, search: Search, prefixes: bool = False) -> bool:
        """Every search."""
        return True

    def search(
        self,
        sources: Sequence[Sequence[int]],
        search: Search,
        prefixes: Sequence[Sequence[int]] | None = None,
        plans: Plans | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, best first; `plans` say what each must contain and must not."""
        if not sources:
            return []
        rows, layout = self.sources(sources)
        limits = torch.tensor([search.limit(len(source)) for source in sources], device=self.device)
        if search.sampling is not None:
            keys = torch.tensor(keys_of(sources, search.sampling.seed), device=self.device)
            found = sample(self.model, rows, layout, limits, search, keys, prefixes, plans)
        else:
            found = beam_search(self.model, rows, layout, limits, search, prefixes, plans)
        if not all(found):
            raise SearchError(NO_NUMBERS)
        return found

    def sources(self, sources: Sequence[Sequence[int]]) -> tuple[torch.Tensor, Padded]:
        """Sources with their end marks; with depths where they came with trees, and a mark at the root's."""
        ids, layout = self.padded([[*source, EOS] for source in sources])
        parsed = sum(isinstance(source, Parsed) for source in sources)
        if not parsed:
            return ids, layout
        if parsed < len(sources):  # a depth of 0 is a root's, and not that of a word whose tree was lost
            raise SearchError(f"{parsed} of {len(sources)} sentences came with their trees; give all of them theirs")
        depths = [[*deep, *[0] * (layout.size - len(deep))] for deep in map(depths_of, sources)]
        return ids, replace(layout, depths=torch.tensor(depths, device=self.device))

    def padded(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, Padded]:
        """Rows of ids as a tensor, filled up on the right."""
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], device=self.device)
        return ids, Padded(width, torch.tensor([len(row) for row in rows], device=self.device))
