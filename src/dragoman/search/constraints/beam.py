"""Lexically constrained beam search over a batch, with separate constraints for each sentence.

Dynamic beam allocation (Post and Vilar, 2018), vectorized over the batch (Hu et al., 2019): the open slots of a
sentence are divided among banks, one for each number of required tokens still to be written, so hypotheses that have
written more of them are not crowded out by those that postpone them. An automaton over bytes follows what a hypothesis
has written (`RequiredTables`, `AvoidedTables`), so every tokenization of a phrase counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from torch import Tensor

from dragoman.search.constraints.batch import BatchAutomata, RequiredTensors, join_automata
from dragoman.search.constraints.tables import AvoidedTables, BatchConstraints
from dragoman.search.constraints.token_bytes import NOTHING, OPENING, OTHER, SILENT, Spelling
from dragoman.text.special_tokens import EOS, PAD

MISSING_TOKEN_COST: Final = 6.0  # in log-probability; benchmarks/results/terms.md compares values


class AvoidedMask:
    """Forbid in each row of a search the tokens that would complete an avoided phrase."""

    def __init__(self, tables: BatchConstraints, device: torch.device) -> None:
        distinct: dict[int, AvoidedTables] = {id(p.avoided): p.avoided for p in tables if p is not None and p.avoided}
        numbers = {key: number for number, key in enumerate(distinct, 1)}
        self.tables = [*distinct.values()]
        delta, begins = join_automata([one.delta for one in self.tables], device)
        self.automata = BatchAutomata(delta, self.tables[0].spelling)
        owners = [numbers.get(id(p.avoided), 0) if p is not None else 0 for p in tables]
        self.states = begins[torch.tensor(owners, device=device)]
        self.last = torch.full_like(self.states, OTHER)
        self.begins = begins.tolist()
        self.lists: dict[tuple[int, int], Tensor] = {}

    @classmethod
    def from_tables(cls, tables: BatchConstraints, device: torch.device) -> AvoidedMask | None:
        """The mask for a batch; None where nothing is avoided."""
        if not any(one is not None and one.avoided for one in tables):
            return None
        return cls(tables, device)

    def forbid(self, logits: Tensor) -> None:
        """Set forbidden tokens to minus infinity, in place."""
        keys, which = torch.unique(self.states * (SILENT + 1) + self.last, return_inverse=True)
        for number, key in enumerate(keys.tolist()):
            tokens = self._tokens(*divmod(key, SILENT + 1))
            if len(tokens):
                rows = (which == number).nonzero()
                logits[rows, tokens[None]] = -torch.inf

    def _tokens(self, state: int, last: int) -> Tensor:
        if (state, last) not in self.lists:
            owner = int(np.searchsorted(self.begins, state, side="right")) - 1
            found = (
                self.tables[owner - 1].forbidden(state - self.begins[owner], last) if owner else np.zeros(0, np.int64)
            )
            self.lists[state, last] = torch.from_numpy(found).to(self.states.device)
        return self.lists[state, last]

    def select(self, rows: Tensor) -> None:
        """Keep these rows."""
        self.states, self.last = self.states[rows], self.last[rows]

    def advance(self, tokens: Tensor) -> None:
        """Append a token to each row."""
        states, last = self.states, self.last
        states = self.automata.step(states, self.automata.boundary(last, tokens))
        for column in range(self.automata.longest(tokens)):
            states = self.automata.step(states, self.automata.stream[tokens, column])
        self.states, self.last = states, self.automata.ends(last, tokens)


class ConstraintProgress:
    """Progress of hypotheses, one row each.

    The automaton's state, the kind of the last character, the number of symbols, how often each phrase occurred, and
    at which symbol its last occurrence ended.
    """

    def __init__(self, states: Tensor, last: Tensor, length: Tensor, met: Tensor, reached: Tensor) -> None:
        self.states, self.last, self.length, self.met, self.reached = states, last, length, met, reached

    @classmethod
    def begin(cls, required: RequiredTensors) -> ConstraintProgress:
        """Before the first token of each sentence."""
        zero, none = torch.zeros_like(required.begin), torch.zeros_like(required.needed)
        return cls(required.begin, torch.full_like(zero, OTHER), zero, none, none)

    def of(self, rows: Tensor) -> ConstraintProgress:
        """Progress of the given rows."""
        return ConstraintProgress(
            self.states[rows], self.last[rows], self.length[rows], self.met[rows], self.reached[rows]
        )


class BeamAllocator:
    """Choose which hypotheses continue, so that required phrases get written."""

    def __init__(self, tables: RequiredTensors, spelling: Spelling, now: ConstraintProgress) -> None:
        self.tables, self.now = tables, now
        self.automata, self.ending = BatchAutomata(tables.delta, spelling), tables.length.any(1)

    @classmethod
    def from_tables(cls, tables: BatchConstraints, device: torch.device) -> BeamAllocator | None:
        """The allocator for a batch; None where nothing is required."""
        if not any(one is not None and one.required for one in tables):
            return None
        spelling = next(one.spelling for one in tables if one is not None)
        required = RequiredTensors.from_tables(tables, device)
        return cls(required, spelling, ConstraintProgress.begin(required))

    @property
    def has_required(self) -> Tensor:
        """Whether each sentence has required phrases, `[B]`."""
        return self.tables.needed.any(1)

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        """Keep these rows and append a token to each."""
        self.now = self._after(self.now.of(rows), tokens)

    def _after(self, before: ConstraintProgress, tokens: Tensor) -> ConstraintProgress:
        """Progress of hypotheses after one more token."""
        states, length = before.states, before.length.clone()
        met, reached = before.met.clone(), before.reached.clone()
        symbols = self.automata.boundary(before.last, tokens)
        for column in range(self.automata.longest(tokens) + 1):
            if column:
                symbols = self.automata.stream[tokens, column - 1]
            states = self.automata.step(states, symbols)
            length += symbols != NOTHING
            rows = (self.ending[states] & (symbols != NOTHING)).nonzero().squeeze(1)
            if len(rows):
                size, end = self.tables.length[states[rows]], length[rows, None] - 1  # without the boundary after it
                counts = (size > 0) & (end - size >= reached[rows])
                met[rows] += counts
                reached[rows] = torch.where(counts, end, reached[rows])
        return ConstraintProgress(states, self.automata.ends(before.last, tokens), length, met, reached)

    def _missing(self, progress: ConstraintProgress, sentences: Tensor) -> Tensor:
        """How often each phrase must still occur, `[R, G]`."""
        return (self.tables.needed[sentences] - progress.met).clamp_min(0)

    def _far(self, progress: ConstraintProgress, sentences: Tensor) -> Tensor:
        """Number of required tokens still to be written `[R]`, less those of a phrase already begun."""
        missing = self._missing(progress, sentences)
        others = torch.einsum("rgh,rh->rg", self.tables.nested[sentences], missing.float()).long()  # inside longer ones
        required = ((missing - others).clamp_min(0) * self.tables.min_tokens[sentences]).sum(1)
        saved = self.tables.saved[sentences] * (progress.last == OPENING)[:, None]
        written = (self.tables.credit[progress.states].maximum(saved) * (missing > 0)).amax(1)
        return (required - written).clamp_min(0)

    def _forced(self, sentences: Tensor) -> Tensor:
        """Tokens `[R, F]` that advance a required phrase, padded with PAD."""
        now, missing = self.now, self._missing(self.now, sentences) > 0
        follows, starts = self.tables.follows[now.states], self.tables.starts[sentences]
        goes_on = missing.gather(1, self.tables.followed[now.states])
        begins = missing.gather(1, self.tables.started[sentences])
        begins &= self.tables.anywhere[sentences] | (now.last == OPENING)[:, None]
        return torch.cat([follows.where(goes_on, PAD), starts.where(begins, PAD)], dim=1)

    def choose(
        self,
        logits_of: Callable[[Tensor], Tensor],
        normalizer: Tensor,
        best: tuple[Tensor, Tensor],
        totals: Tensor,
        slots: Tensor,
        width: int,
        sentences: Tensor,
        room: Tensor,
        finished: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities, tokens and parents `[B, W]` of the hypotheses that continue, the likeliest first.

        `logits_of` returns the logits `[R, F]` of tokens, minus infinity where they are forbidden, and `best` are the
        likeliest of each row; `slots [B]` are open, `width` at most. `room [B]` is the number of tokens that may
        follow, and `finished [B]` whether any hypothesis has ended.
        """
        rows, beams = totals.shape
        likeliest = best[1].shape[1]
        owner = sentences.repeat_interleave(beams)
        forced = self._forced(owner)
        columns = torch.arange(likeliest + forced.shape[1], device=forced.device)
        own = columns[:likeliest] < slots.repeat_interleave(beams)[:, None]  # others in the batch may have more slots
        tokens = torch.cat([best[1].where(own, PAD), forced], dim=1)
        likely = torch.cat([best[0], logits_of(forced)], dim=1) - normalizer
        likely = likely.masked_fill(tokens == PAD, -torch.inf)
        again = (forced[:, :, None] == tokens[:, None, :]) & (columns < columns[likeliest:, None])
        likely[:, likeliest:].masked_fill_(again.any(2), -torch.inf)
        scores = totals[:, :, None] + likely.view(rows, beams, -1)
        hypotheses = torch.arange(rows * beams, device=tokens.device).repeat_interleave(tokens.shape[1])
        after = self._after(self.now.of(hypotheses), tokens.flatten())
        whose = owner.repeat_interleave(tokens.shape[1])
        far = self._far(after, whose).view(rows, -1)
        lacks = (self._missing(after, whose).sum(1) > 0).view(rows, -1)
        scores, tokens = scores.view(rows, -1), tokens.view(rows, -1)
        early = (tokens == EOS) & lacks
        open_ = scores.masked_fill(early, -torch.inf)
        stuck = (open_.amax(1) == -torch.inf) & ~finished  # no room left: end with the fewest missing
        nearest = far.where(early & (scores > -torch.inf), 1 << 40)
        last_resort = early & (nearest == nearest.amin(1, keepdim=True))
        scores = torch.where(stuck[:, None] & last_resort, scores, open_)
        order = allocation_order(scores, far, far > room[:, None])[:, : min(width, scores.shape[1])]
        totals = scores.gather(1, order)
        totals = totals.masked_fill(torch.arange(totals.shape[1], device=totals.device) >= slots[:, None], -torch.inf)
        totals, ranks = totals.sort(dim=1, descending=True, stable=True)
        order = order.gather(1, ranks)
        return totals, tokens.gather(1, order), order // (scores.shape[1] // beams)


def allocation_order(scores: Tensor, far: Tensor, hopeless: Tensor) -> Tensor:
    """The order `[B, M]` in which candidates get a slot: the best of each bank, then the second best of each, ...

    With more banks than slots, banks are ranked by the log-probability of their best candidate minus
    `MISSING_TOKEN_COST` per missing token. `hopeless` candidates, with no room for the required phrases, come last.
    """
    out = scores == -torch.inf
    banks = far + hopeless * (1 << 20) + out * (1 << 40)
    by_score = scores.argsort(dim=1, descending=True, stable=True)
    by_bank = by_score.gather(1, banks.gather(1, by_score).argsort(dim=1, stable=True))
    banks = banks.gather(1, by_bank)
    index = torch.arange(scores.shape[1], device=scores.device).expand_as(banks)
    new = torch.ones_like(banks, dtype=torch.bool)
    new[:, 1:] = banks[:, 1:] != banks[:, :-1]
    rank = index - torch.where(new, index, 0).cummax(1).values  # in its bank
    promise = (scores - MISSING_TOKEN_COST * far).masked_fill(out, -torch.inf).gather(1, by_bank)
    by_promise = promise.argsort(dim=1, descending=True, stable=True)
    key = ((banks >> 20 << 20) + rank).gather(1, by_promise)
    return by_bank.gather(1, by_promise.gather(1, key.argsort(dim=1, stable=True)))
