"""What may follow what has been written: limits of length, forced prefixes, avoided phrases, no repetition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dragoman.search.types import Search
from dragoman.text.special_tokens import BOS, EOS, PAD

if TYPE_CHECKING:
    from dragoman.search.constraints.beam import Avoided

MARKS = slice(PAD, BOS + 1)  # what no sentence holds; the end mark comes right after


class Rules:
    """For a batch of sentences, which tokens are allowed at each position; the rest is set to minus infinity.

    `limits [B]` are the most tokens of each. `prefixes` are the tokens that each must begin with, and stand above all
    other rules. `avoided` are phrases that none may contain, where there are any.
    """

    def __init__(
        self,
        search: Search,
        limits: Tensor,
        prefixes: Sequence[Sequence[int]] | None = None,
        avoided: Avoided | None = None,
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
        """Forbid in `logits [R, V]`, in place; row r has `written [R, T]` so far and is of the sentence named."""
        end = logits[:, EOS].clone()
        forced = self.prefixes[sentences, position] if position < self.forced else None
        kept = None if forced is None else logits.gather(1, forced[:, None])
        logits[:, MARKS] = -torch.inf
        if position < self.search.min_length:
            logits[:, EOS] = -torch.inf
        if self.search.no_repeat and position >= self.search.no_repeat:
            forbid_repeats(logits, written[:, :position], self.search.no_repeat)
        if self.avoided is not None:
            self.avoided.forbid(logits)
        if self.avoided is not None or (self.search.no_repeat and position >= self.search.no_repeat):
            end_here = logits.amax(-1) == -torch.inf  # nothing is left to say
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
    """Minus infinity for each token that would end a run of n tokens that `written [R, T]` already holds."""
    windows = written.unfold(1, n, 1)  # [R, T - n + 1, n]
    last = written[:, written.shape[1] - (n - 1) :]
    rows, where = (windows[:, :, :-1] == last[:, None]).all(-1).nonzero(as_tuple=True)
    logits[rows, windows[rows, where, -1]] = -torch.inf
