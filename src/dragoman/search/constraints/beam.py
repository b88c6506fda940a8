"""Lexically constrained beam search over a batch, with separate constraints for each sentence.

Dynamic beam allocation (Post and Vilar, 2018), vectorized over the batch (Hu et al., 2019): the open slots of a
sentence are divided among banks, one for each number of required tokens still to be written, so hypotheses that have
written more of them are not crowded out by those that postpone them. An automaton over bytes follows what a hypothesis
has written (`RequiredTables`, `AvoidedTables`), so every tokenization of a phrase counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from dragoman.search.constraints.tables import AvoidedTables, BatchConstraints, RequiredTables
from dragoman.search.constraints.token_bytes import BETWEEN, NOTHING, OPENING, OTHER, SILENT, SYMBOLS, Spelling
from dragoman.text.special_tokens import EOS, PAD

MISSING_TOKEN_COST: Final = 6.0  # in log-probability; benchmarks/results/terms.md compares values


class BatchAutomata:
    """The automata of all sentences of a batch in one table, and the symbols of each token, on the search device."""

    def __init__(self, deltas: Sequence[Any], spelling: Spelling, device: torch.device) -> None:
        starts = np.cumsum([0, *map(len, deltas)])
        moved = [delta + np.int32(start) for delta, start in zip(deltas, starts, strict=False)]
        self.starts = torch.tensor(starts[:-1], device=device)
        self.delta = torch.from_numpy(np.concatenate(moved)).to(device).flatten()
        if device not in spelling.copies:
            spelling.copies[device] = [
                torch.from_numpy(table).to(device, torch.long)
                for table in (spelling.stream, spelling.first, spelling.last, BETWEEN)
            ]
        copies: list[Tensor] = spelling.copies[device]
        self.stream, self.first, self.last, self.between = copies

    def boundary(self, last: Tensor, tokens: Tensor) -> Tensor:
        """The boundary symbol between the text so far and the next token."""
        return self.between[last, self.first[tokens]]

    def step(self, states: Tensor, symbols: Tensor) -> Tensor:
        """The states after one more symbol."""
        return self.delta[states * SYMBOLS + symbols].long()

    def ends(self, last: Tensor, tokens: Tensor) -> Tensor:
        """The kind of the last character after these tokens."""
        after = self.last[tokens]
        return torch.where(after == SILENT, last, after)

    def longest(self, tokens: Tensor) -> int:
        """The largest number of symbols that any of these tokens writes."""
        return int((self.stream[tokens] != NOTHING).sum(1).max()) if len(tokens) else 0


class AvoidedMask:
    """Forbid in each row of a search the tokens that would complete an avoided phrase."""

    def __init__(self, tables: BatchConstraints, device: torch.device) -> None:
        distinct: dict[int, AvoidedTables] = {id(p.avoided): p.avoided for p in tables if p is not None and p.avoided}
        numbers = {key: number for number, key in enumerate(distinct, 1)}
        self.tables = [*distinct.values()]
        spelling = self.tables[0].spelling
        deltas = [empty_automaton(), *(one.delta for one in self.tables)]
        self.automata = BatchAutomata(deltas, spelling, device)
        self.owners = [numbers.get(id(p.avoided), 0) if p is not None else 0 for p in tables]
        self.states = self.automata.starts[torch.tensor(self.owners, device=device)]
        self.last = torch.full_like(self.states, OTHER)
        self.begins = self.automata.starts.tolist()
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

    def of(self, rows: Tensor) -> ConstraintProgress:
        """Progress of the given rows."""
        return ConstraintProgress(
            self.states[rows], self.last[rows], self.length[rows], self.met[rows], self.reached[rows]
        )


class BeamAllocator:
    """Choose which hypotheses continue, so that required phrases get written."""

    def __init__(self, tables: BatchConstraints, device: torch.device) -> None:
        required = [None if one is None else one.required for one in tables]
        spelling = next(one.spelling for one in tables if one is not None)
        there: dict[int, RequiredTables] = {id(one): one for one in required if one is not None}
        self.automata = automata = BatchAutomata(
            [empty_automaton(), *(one.delta for one in there.values())], spelling, device
        )
        numbers = {key: number for number, key in enumerate(there, 1)}
        owners = torch.tensor([numbers.get(id(one), 0) for one in required], device=device)
        groups = max(len(one.needed) for one in there.values())

        def table(of: str) -> Tensor:
            """One row per phrase or state of each sentence, padded with zeros."""
            rows = [np.zeros((1, groups), np.int64)]
            rows += [np.atleast_2d(getattr(one, of)) for one in there.values()]
            rows = [np.pad(row, ((0, 0), (0, groups - row.shape[1]))) for row in rows]
            return torch.from_numpy(np.concatenate(rows)).to(device, torch.long)

        self.length, self.credit = table("length"), table("credit")  # [S, G]
        self.ending = self.length.any(1)
        self.needed, self.min_tokens = table("needed")[owners], table("min_tokens")[owners]  # [B, G]
        self.saved = table("saved")[owners]
        nested = torch.zeros(len(there) + 1, groups, groups)
        for number, one in enumerate(there.values(), 1):
            nested[number, : len(one.needed), : len(one.needed)] = torch.from_numpy(one.nested)
        self.nested = nested.to(device)[owners]
        follows: list[list[list[int]]] = [[]]
        for one in there.values():
            follows += [part.tolist() for part in np.split(one.follows, one.first_follow[1:-1])]
        self.follows = pad_rows([[token for token, _ in after] for after in follows], device)
        self.followed = pad_rows([[group for _, group in after] for after in follows], device)
        starts: list[list[list[int]]] = [[], *(one.starts.tolist() for one in there.values())]
        columns = [pad_rows([[start[i] for start in row] for row in starts], device)[owners] for i in range(3)]
        self.starts, self.started, self.anywhere = columns[0], columns[1], columns[2].bool()
        n = len(tables)
        zero = torch.zeros(n, dtype=torch.long, device=device)
        none = torch.zeros(n, groups, dtype=torch.long, device=device)
        self.now = ConstraintProgress(automata.starts[owners], torch.full_like(zero, OTHER), zero, none, none)

    @classmethod
    def from_tables(cls, tables: BatchConstraints, device: torch.device) -> BeamAllocator | None:
        """The allocator for a batch; None where nothing is required."""
        if not any(one is not None and one.required for one in tables):
            return None
        return cls(tables, device)

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
                size, end = self.length[states[rows]], length[rows, None] - 1  # without the boundary after it
                counts = (size > 0) & (end - size >= reached[rows])
                met[rows] += counts
                reached[rows] = torch.where(counts, end, reached[rows])
        return ConstraintProgress(states, self.automata.ends(before.last, tokens), length, met, reached)

    def _missing(self, progress: ConstraintProgress, sentences: Tensor) -> Tensor:
        """How often each phrase must still occur, `[R, G]`."""
        return (self.needed[sentences] - progress.met).clamp_min(0)

    def _far(self, progress: ConstraintProgress, sentences: Tensor) -> Tensor:
        """Number of required tokens still to be written `[R]`, less those of a phrase already begun."""
        missing = self._missing(progress, sentences)
        others = torch.einsum("rgh,rh->rg", self.nested[sentences], missing.float()).long()  # inside longer ones
        required = ((missing - others).clamp_min(0) * self.min_tokens[sentences]).sum(1)
        saved = self.saved[sentences] * (progress.last == OPENING)[:, None]
        written = (self.credit[progress.states].maximum(saved) * (missing > 0)).amax(1)
        return (required - written).clamp_min(0)

    def _forced(self, sentences: Tensor) -> Tensor:
        """Tokens `[R, F]` that advance a required phrase, padded with PAD."""
        now, missing = self.now, self._missing(self.now, sentences) > 0
        follows, starts = self.follows[now.states], self.starts[sentences]
        goes_on = missing.gather(1, self.followed[now.states])
        begins = missing.gather(1, self.started[sentences])
        begins &= self.anywhere[sentences] | (now.last == OPENING)[:, None]
        return torch.cat([follows.where(goes_on, PAD), starts.where(begins, PAD)], dim=1)

    def choose(
        self,
        logits: Tensor,
        normalizer: Tensor,
        best: tuple[Tensor, Tensor],
        totals: Tensor,
        slots: Tensor,
        sentences: Tensor,
        room: Tensor,
        finished: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities, tokens and parents `[B, W]` of the hypotheses that continue, the likeliest first.

        `logits [R, V]` are minus infinity at forbidden tokens, and `best` are the likeliest of each row;
        `room [B]` is the number of tokens that may follow, and `finished [B]` whether any hypothesis has ended.
        """
        rows, beams = totals.shape
        width = best[1].shape[1]
        owner = sentences.repeat_interleave(beams)
        forced = self._forced(owner)
        columns = torch.arange(width + forced.shape[1], device=forced.device)
        own = columns[:width] < slots.repeat_interleave(beams)[:, None]  # others in the batch may have more slots
        tokens = torch.cat([best[1].where(own, PAD), forced], dim=1)
        likely = torch.cat([best[0], logits.gather(1, forced)], dim=1) - normalizer
        likely = likely.masked_fill(tokens == PAD, -torch.inf)
        again = (forced[:, :, None] == tokens[:, None, :]) & (columns < columns[width:, None])
        likely[:, width:].masked_fill_(again.any(2), -torch.inf)
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
        order = allocation_order(scores, far, far > room[:, None])[:, : min(int(slots.max()), scores.shape[1])]
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


def empty_automaton() -> Any:
    """An automaton without patterns."""
    return np.zeros((1, SYMBOLS), np.int32)


def pad_rows(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Rows of numbers as a tensor, padded with PAD to at least one column."""
    width = max(1, *map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], device=device)
