"""Which tokens may come next: length limits, forced prefixes, avoided phrases, repetition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dragoman.search.types import Search
from dragoman.text.special_tokens import BOS, EOS, PAD

if TYPE_CHECKING:
    from dragoman.search.constraints.beam import AvoidedMask

NEVER_WRITTEN = slice(PAD, BOS + 1)


class Rules:
    """Sets the logits of forbidden tokens to minus infinity, for a batch of sentences.

    `limits [B]` are the maximum numbers of tokens. `prefixes` are forced and override all other rules. `avoided` masks
    avoided phrases.
    """

    def __init__(
        self,
        search: Search,
        limits: Tensor,
        prefixes: Sequence[Sequence[int]] | None = None,
        avoided: AvoidedMask | None = None,
    ) -> None:
        self.search, self.limits, self.forced, self.avoided = search, limits, 0, avoided
        if prefixes is not None and any(prefixes):
            lengths = torch.tensor([len(prefix) for prefix in prefixes])
            self.forced = int(lengths.max())
            rows = [[*prefix, *[PAD] * (self.forced - len(prefix))] for prefix in prefixes]
            self.prefixes = torch.tensor(rows, device=limits.device)
            self.limits = limits.maximum(lengths.to(limits.device))
        self.shortest, self.longest = (int(bound) for bound in self.limits.aminmax()) if len(limits) else (0, 0)

    def apply(self, logits: Tensor, written: Tensor, position: int, sentences: Tensor) -> None:
        """Mask `logits [R, V]` in place; `written [R, T]` are the tokens so far, `sentences [R]` that of each row."""
        end = logits[:, EOS].clone()
        forced = self.prefixes[sentences, position] if position < self.forced else None
        kept = None if forced is None else logits.gather(1, forced[:, None])
        logits[:, NEVER_WRITTEN] = -torch.inf
        if position < self.search.min_length:
            logits[:, EOS] = -torch.inf
        if self.search.no_repeat and position >= self.search.no_repeat:
            forbid_repeats(logits, written[:, :position], self.search.no_repeat)
        if self.avoided is not None:
            self.avoided.forbid(logits)
        if self.avoided is not None or (self.search.no_repeat and position >= self.search.no_repeat):
            end_here = logits.amax(-1) == -torch.inf  # no token is left
            logits[:, EOS] = torch.where(end_here, end, logits[:, EOS])
        if position >= self.shortest:
            full = self.limits[sentences] <= position
            logits.masked_fill_(full[:, None], -torch.inf)
            logits[:, EOS] = torch.where(full, end, logits[:, EOS])
        if forced is not None and kept is not None:
            bound = forced != PAD
            logits.masked_fill_(bound[:, None], -torch.inf)
            logits.scatter_(1, forced[:, None], torch.where(bound[:, None], kept, -torch.inf))


def forbid_repeats(logits: Tensor, written: Tensor, n: int) -> None:
    """Mask each token that would complete an n-gram that `written [R, T]` already contains."""
    windows = written.unfold(1, n, 1)  # [R, T - n + 1, n]
    last = written[:, written.shape[1] - (n - 1) :]
    rows, where = (windows[:, :, :-1] == last[:, None]).all(-1).nonzero(as_tuple=True)
    logits[rows, windows[rows, where, -1]] = -torch.inf
