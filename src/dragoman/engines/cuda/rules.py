"""Forced prefixes, `no_repeat` and lexical constraints in tensors of fixed shapes, so that graphs can obey them.

`BatchRules` is what a batch asks for, and `RuleShape` the sizes of the tensors that hold it: batches of similar sizes
use the same graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dragoman.search.constraints.batch import AvoidedTensors, BatchAutomata, RequiredTensors
from dragoman.search.constraints.beam import BeamAllocator, ConstraintProgress
from dragoman.search.constraints.token_bytes import NOTHING, OTHER, SYMBOLS, WORD, Spelling
from dragoman.search.types import Ids
from dragoman.text.special_tokens import PAD

if TYPE_CHECKING:
    from dragoman.search.constraints.tables import BatchConstraints

Follow = Callable[[BatchAutomata, ConstraintProgress, Tensor, Tensor], ConstraintProgress]
CPU = torch.device("cpu")
FEW_STATES, FEW_TOKENS, FEW_GROUPS, FEW_FOLLOWS = 1024, 64, 4, 8  # the smallest tensors: few shapes, few graphs


@dataclass(frozen=True)
class AvoidedShape:
    """States, listed tokens, and the longest lists of a state and of a table."""

    spelling: Spelling  # by identity
    states: int
    tokens: int
    begun: int
    anywhere: int


@dataclass(frozen=True)
class RequiredShape:
    """States, phrases of a sentence, and the most tokens that continue or begin them."""

    spelling: Spelling
    states: int
    groups: int
    follows: int
    starts: int


@dataclass(frozen=True)
class RuleShape:
    """The rules of a recorded step."""

    prefixes: bool = False
    no_repeat: int = 0
    avoided: AvoidedShape | None = None
    required: RequiredShape | None = None

    @property
    def forbids(self) -> bool:
        """Whether tokens are forbidden by what was written."""
        return bool(self.no_repeat) or self.avoided is not None

    def bytes(self) -> int:
        """Approximate memory of the tables."""
        states = sum(shape.states for shape in (self.avoided, self.required) if shape is not None)
        return states * (4 * SYMBOLS + 256)


NO_RULES = RuleShape()


class BatchRules:
    """The rules of a batch, on the host."""

    def __init__(self, prefixes: Ids | None, no_repeat: int, constraints: BatchConstraints | None, steps: int) -> None:
        self.prefixes = prefixes if prefixes is not None and any(prefixes) else None
        tables = [one for one in constraints or () if one is not None]
        self.avoided = self.required = None
        avoided_shape = required_shape = None
        if constraints is not None and any(one.avoided for one in tables):
            self.avoided = found = AvoidedTensors.from_tables(constraints, CPU)
            longest = [int((ranges[..., 1] - ranges[..., 0]).max()) for ranges in (found.begun, found.anywhere)]
            avoided_shape = AvoidedShape(
                tables[0].spelling,
                power_of_four(len(found.delta) // SYMBOLS, FEW_STATES),
                power_of_four(len(found.tokens), FEW_TOKENS),
                *(power_of_four(n, FEW_FOLLOWS) for n in longest),
            )
        if constraints is not None and any(one.required for one in tables):
            self.required = wanted = RequiredTensors.from_tables(constraints, CPU)
            required_shape = RequiredShape(
                tables[0].spelling,
                power_of_four(len(wanted.length), FEW_STATES),
                power_of_four(wanted.length.shape[1], FEW_GROUPS),
                power_of_four(wanted.follows.shape[1], FEW_FOLLOWS),
                power_of_four(wanted.starts.shape[1], FEW_FOLLOWS),
            )
        repeats = no_repeat if no_repeat < steps else 0  # longer than any translation
        self.shape = RuleShape(self.prefixes is not None, repeats, avoided_shape, required_shape)


def power_of_four(n: int, minimum: int) -> int:
    """The smallest of minimum, 4 minimum, 16 minimum, ... that is at least n."""
    while minimum < n:
        minimum *= 4
    return minimum


def follow_tokens(
    automata: BatchAutomata, before: ConstraintProgress, tokens: Tensor, lengths: Tensor
) -> ConstraintProgress:
    """Progress of hypotheses after one more token, with the same operations whatever the tokens are.

    `lengths [S, G]` are those of the phrases that end in a state.
    """
    states, length, met, reached = before.states, before.length, before.met, before.reached
    for column in range(automata.stream.shape[1]):  # the last one is always NOTHING
        symbols = automata.stream[tokens, column - 1] if column else automata.boundary(before.last, tokens)
        states, written = automata.step(states, symbols), symbols != NOTHING
        length = length + written
        if lengths.shape[1]:
            size, end = lengths[states], length[:, None] - 1  # without the boundary after it
            counts = (size > 0) & written[:, None] & (end - size >= reached)
            met, reached = met + counts, torch.where(counts, end, reached)
    return ConstraintProgress(states, automata.ends(before.last, tokens), length, met, reached)


class FixedProgress(ConstraintProgress):
    """Progress of the rows of a search, at fixed addresses."""

    def __init__(self, rows: int, groups: int, device: torch.device) -> None:
        numbers = torch.zeros(3, rows, dtype=torch.long, device=device)
        counts = torch.zeros(2, rows, groups, dtype=torch.long, device=device)
        super().__init__(*numbers, *counts)

    def reset(self, states: Tensor) -> None:
        """Before the first token."""
        for x in (self.length, self.met, self.reached):
            x.zero_()
        self.last.fill_(OTHER)
        self.states.copy_(states)

    def put(self, new: ConstraintProgress) -> None:
        """Copy the progress of as many rows as there are."""
        for mine, other in zip(self.parts(), (new.states, new.last, new.length, new.met, new.reached), strict=True):
            mine[: len(other)].copy_(other)

    def parts(self) -> tuple[Tensor, ...]:
        """All tensors."""
        return self.states, self.last, self.length, self.met, self.reached


class FixedTables:
    """Tables of fixed sizes, and the progress of all rows in their automata."""

    def __init__(self, tables: RequiredTensors | AvoidedTensors, rows: int, groups: int) -> None:
        self.contents, self.progress = tables, FixedProgress(rows, groups, tables.delta.device)

    def load(self, host: RequiredTensors | AvoidedTensors) -> None:
        """Start the search of a batch."""
        for mine, other in zip(_tensors(self.contents), _tensors(host), strict=True):
            mine.zero_()
            mine[tuple(slice(n) for n in other.shape)].copy_(other)
        begin = self.contents.begin
        self.progress.reset(begin.repeat_interleave(len(self.progress.states) // len(begin)))

    def take(self, other: FixedTables, sentences: Tensor, rows: Tensor) -> None:
        """Continue some sentences of another search with the same sizes."""
        all_sentences = len(other.contents.begin)
        for field in fields(self.contents):
            mine, theirs = getattr(self.contents, field.name), getattr(other.contents, field.name)
            if field.name in PER_SENTENCE:
                assert len(theirs) == all_sentences
                mine[: len(sentences)] = theirs.index_select(0, sentences)
            else:
                mine.copy_(theirs)
        self.progress.put(other.progress.of(rows))


PER_SENTENCE = {"begin", "anywhere", "needed", "min_tokens", "saved", "nested", "starts", "started"}


def _zeros(device: torch.device, *sizes: int, dtype: torch.dtype = torch.long) -> Tensor:
    return torch.zeros(*sizes, dtype=dtype, device=device)


def _tensors(tables: RequiredTensors | AvoidedTensors) -> list[Tensor]:
    return [getattr(tables, field.name) for field in fields(tables)]


class FixedAvoided(FixedTables):
    """Forbid tokens that would complete an avoided phrase."""

    def __init__(self, shape: AvoidedShape, sentences: int, rows: int, device: torch.device, follow: Follow) -> None:
        self.tables = AvoidedTensors(
            delta=_zeros(device, shape.states * SYMBOLS, dtype=torch.int32),
            tokens=_zeros(device, shape.tokens),
            begun=_zeros(device, shape.states, 2, 2),
            begin=_zeros(device, sentences),
            anywhere=_zeros(device, sentences, 2, 2),
        )
        super().__init__(self.tables, rows, 0)
        self.shape, self.follow = shape, follow
        self.automata = BatchAutomata(self.tables.delta, shape.spelling)
        self.no_lengths = _zeros(device, shape.states, 0)
        self.owners = torch.arange(rows, device=device) // (rows // sentences)

    def forbid(self, logits: Tensor) -> None:
        """Set forbidden tokens to minus infinity, in place; padding, which is never written, fills the lists."""
        kind = (self.progress.last != WORD).long()
        for ranges, width in (
            (self.tables.begun[self.progress.states, kind], self.shape.begun),
            (self.tables.anywhere[self.owners, kind], self.shape.anywhere),
        ):
            at = ranges[:, :1] + torch.arange(width, device=logits.device)
            tokens = self.tables.tokens[at.clamp(max=self.shape.tokens - 1)].where(at < ranges[:, 1:], PAD)
            logits.scatter_(1, tokens, -torch.inf)

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        """Keep these rows and append a token to each."""
        self.progress.put(self.follow(self.automata, self.progress.of(rows), tokens, self.no_lengths))


class FixedAllocator(BeamAllocator):
    """`BeamAllocator` on tensors at fixed addresses."""

    now: FixedProgress

    def __init__(self, shape: RequiredShape, sentences: int, rows: int, device: torch.device, follow: Follow) -> None:
        tables = RequiredTensors(
            delta=_zeros(device, shape.states * SYMBOLS, dtype=torch.int32),
            length=_zeros(device, shape.states, shape.groups),
            credit=_zeros(device, shape.states, shape.groups),
            follows=_zeros(device, shape.states, shape.follows),
            followed=_zeros(device, shape.states, shape.follows),
            begin=_zeros(device, sentences),
            needed=_zeros(device, sentences, shape.groups),
            min_tokens=_zeros(device, sentences, shape.groups),
            saved=_zeros(device, sentences, shape.groups),
            nested=_zeros(device, sentences, shape.groups, shape.groups, dtype=torch.float32),
            starts=_zeros(device, sentences, shape.starts),
            started=_zeros(device, sentences, shape.starts),
            anywhere=_zeros(device, sentences, shape.starts, dtype=torch.bool),
        )
        self.fixed, self.follow = FixedTables(tables, rows, shape.groups), follow
        super().__init__(tables, shape.spelling, self.fixed.progress)

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        """Keep these rows and append a token to each."""
        self.now.put(self._after(self.now.of(rows), tokens))

    def _after(self, before: ConstraintProgress, tokens: Tensor) -> ConstraintProgress:
        return self.follow(self.automata, before, tokens, self.tables.length)
