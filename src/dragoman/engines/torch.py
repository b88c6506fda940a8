"""The reference engine: every search, for every model, on any device that PyTorch supports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dragoman.engines.forced import AttentionKind, EncodedPairs
from dragoman.engines.specs import TORCH
from dragoman.engines.torch_forced import attention_maps, cross_maps, forced_log_probabilities
from dragoman.errors import SearchError
from dragoman.models.loading import load_model
from dragoman.nn import Padded
from dragoman.nn.kernels.cpu_bf16 import torch_bfloat16_works
from dragoman.search.beam import beam_search
from dragoman.search.constraints.batch import pad_rows
from dragoman.search.constraints.tables import BatchConstraints
from dragoman.search.sampling import sample
from dragoman.search.sampling_keys import hypothesis_keys
from dragoman.search.types import NOT_FINITE, Hypothesis, Ids, RecordedHead, Search, StopFlag
from dragoman.text.special_tokens import EOS, PAD
from dragoman.text.trees.token_depths import ParsedIds, depths_of
from dragoman.values import plural


class TorchEngine:
    """A model in PyTorch, with the searches of `dragoman.search`."""

    name = "torch"
    capabilities = TORCH

    def __init__(self, model: Any, device: torch.device | str = "cpu") -> None:
        self.model, self.device = model, torch.device(device)
        self.batch = TORCH.preferred_batch * (1 if self.device.type == "cpu" else 4)

    @classmethod
    def load(
        cls, directory: Path, device: str = "cpu", bfloat16: bool = False, adapter: Path | None = None
    ) -> TorchEngine:
        """Load the engine from a verified model directory, with a verified adapter if given."""
        if bfloat16 and device == "cpu" and not torch_bfloat16_works():
            raise SearchError(
                "precision 'bfloat16' crashes PyTorch with an illegal instruction on this CPU; use 'float32' or 'int8'",
                code="unsupported_precision",
            )
        model, _ = load_model(directory, PAD, device, adapter)
        return cls(model.bfloat16() if bfloat16 else model, device)

    @property
    def precision(self) -> str:
        """The precision of its weights."""
        return str(next(self.model.parameters()).dtype).removeprefix("torch.")

    @property
    def threads(self) -> int | None:
        """PyTorch's number of threads, which is per process."""
        return torch.get_num_threads() if self.device.type == "cpu" else None

    def search(
        self,
        sources: Ids,
        search: Search,
        prefixes: Ids | None = None,
        constraints: BatchConstraints | None = None,
        stop: StopFlag | None = None,
        record: Sequence[RecordedHead] = (),
    ) -> list[list[Hypothesis]]:
        """Return the best hypotheses for each source, best first, under its lexical constraints."""
        if not sources:
            return []
        rows, layout = self.sources(sources)
        limits = torch.tensor([search.limit(len(source)) for source in sources], device=self.device)
        if search.sampling is not None:
            keys = torch.from_numpy(hypothesis_keys(sources, search.sampling.seed, search.n_best)).to(self.device)
            found = sample(self.model, rows, layout, limits, search, keys, prefixes, constraints, stop)
        else:
            found = beam_search(self.model, rows, layout, limits, search, prefixes, constraints, stop)
        if not all(found):
            raise SearchError(NOT_FINITE, code="not_finite")
        return found

    def log_probabilities(
        self, pairs: EncodedPairs, batch: int | None = None, stop: StopFlag | None = None
    ) -> list[list[float]]:
        """The log-probability of each target token and of EOS; see `ForcedEngine`."""
        return forced_log_probabilities(self, pairs, batch, stop)

    def cross_maps(self, pairs: EncodedPairs) -> Iterator[tuple[int, Any]]:
        """The cross-attention of all heads; see `ForcedEngine`."""
        return cross_maps(self, pairs)

    def attention_maps(self, source: Sequence[int], target: Sequence[int]) -> dict[AttentionKind, Any]:
        """The attention of all heads for one pair; see `ForcedEngine`."""
        return attention_maps(self, source, target)

    def sources(self, sources: Ids) -> tuple[torch.Tensor, Padded]:
        """Sources with EOS tokens as a padded batch, with depths if they have trees."""
        ids, layout = self.padded([[*source, EOS] for source in sources])
        parsed = sum(isinstance(source, ParsedIds) for source in sources)
        if not parsed:
            return ids, layout
        if parsed < len(sources):  # a depth of 0 means a root, not a missing tree
            message = f"got trees for {parsed} of {plural(len(sources), 'sentence')}; give one for each"
            raise SearchError(message, code="count_mismatch")
        depths = [[*deep, *[0] * (layout.size - len(deep))] for deep in map(depths_of, sources)]
        return ids, replace(layout, depths=torch.tensor(depths, device=self.device))

    def padded(self, rows: Ids) -> tuple[torch.Tensor, Padded]:
        """Rows of ids as a tensor, padded on the right."""
        ids = pad_rows(rows, self.device)
        return ids, Padded(ids.shape[1], torch.tensor([*map(len, rows)], device=self.device))
