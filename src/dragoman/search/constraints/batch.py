"""The tables of a batch's lexical constraints as tensors on the search device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.arrays import IntArray, concatenate
from dragoman.search.constraints.forbidden import forbidden_tokens
from dragoman.search.constraints.tables import AvoidedTables, BatchConstraints, RequiredTables
from dragoman.search.constraints.token_bytes import BETWEEN, NOTHING, SILENT, SYMBOLS, Spelling
from dragoman.text.special_tokens import PAD


class BatchAutomata:
    """The automata of all sentences of a batch in one table, and the symbols of each token, on the search device."""

    def __init__(self, delta: Tensor, spelling: Spelling) -> None:
        self.delta, device = delta, delta.device  # [S * SYMBOLS]
        if device not in spelling.copies:
            spelling.copies[device] = [
                torch.from_numpy(table).long().to(device)
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


@dataclass(frozen=True)
class RequiredTensors:
    """The `RequiredTables` of B sentences, padded to the same sizes; states are numbered over the whole batch.

    `starts` and `follows` are tokens, `started` and `followed` their phrases; `begin [B]` is each sentence's first
    state.
    """

    delta: Tensor  # [S * SYMBOLS]
    length: Tensor  # [S, G]
    credit: Tensor  # [S, G]
    follows: Tensor  # [S, F]
    followed: Tensor  # [S, F]
    begin: Tensor  # [B]
    needed: Tensor  # [B, G]
    min_tokens: Tensor  # [B, G]
    saved: Tensor  # [B, G]
    nested: Tensor  # [B, G, G]
    starts: Tensor  # [B, N]
    started: Tensor  # [B, N]
    anywhere: Tensor  # [B, N]

    @classmethod
    def from_tables(cls, tables: BatchConstraints, device: torch.device) -> RequiredTensors:
        """The tensors of a batch in which something is required."""
        required = [None if one is None else one.required for one in tables]
        there: dict[int, RequiredTables] = {id(one): one for one in required if one is not None}
        numbers = {key: number for number, key in enumerate(there, 1)}
        owners = torch.tensor([numbers.get(id(one), 0) for one in required], device=device)
        compiled = [*there.values()]
        groups = max(len(one.needed) for one in compiled)

        def table(of: str) -> Tensor:
            """One row per phrase or state of each sentence, padded with zeros."""
            rows = [np.atleast_2d(getattr(one, of)) for one in compiled]
            found = np.zeros((1 + sum(map(len, rows)), groups), np.int64)
            start = 1
            for row in rows:
                found[start : start + len(row), : row.shape[1]] = row
                start += len(row)
            return torch.from_numpy(found).to(device)

        nested = np.zeros((len(there) + 1, groups, groups), np.float32)
        for number, one in enumerate(compiled, 1):
            nested[number, : len(one.needed), : len(one.needed)] = one.nested
        counts = np.concatenate([[0], *(np.diff(one.first_follow) for one in compiled)])
        follows = pad_lists(np.concatenate([one.follows for one in compiled]), counts, device)
        sizes = np.array([0, *(len(one.starts) for one in compiled)])
        starts = pad_lists(np.concatenate([one.starts for one in compiled]), sizes, device)[owners]
        delta, begins = join_automata([one.delta for one in compiled], device)
        return cls(
            delta,
            table("length"),
            table("credit"),
            follows[:, :, 0],
            follows[:, :, 1],
            begins[owners],
            table("needed")[owners],
            table("min_tokens")[owners],
            table("saved")[owners],
            torch.from_numpy(nested).to(device)[owners],
            starts[:, :, 0],
            starts[:, :, 1],
            starts[:, :, 2].bool(),
        )


@dataclass(frozen=True)
class AvoidedTensors:
    """The `ForbiddenTokens` of B sentences; states are numbered over the whole batch, lists are ranges of `tokens`."""

    delta: Tensor  # [S * SYMBOLS]
    tokens: Tensor  # [N]
    begun: Tensor  # [S, 2, 2], the range of each list, after a word and after anything else
    begin: Tensor  # [B], each sentence's first state
    anywhere: Tensor  # [B, 2, 2]

    @classmethod
    def from_tables(cls, tables: BatchConstraints, device: torch.device) -> AvoidedTensors:
        """The tensors of a batch in which something is avoided."""
        avoided = [None if one is None else one.avoided for one in tables]
        there: dict[int, AvoidedTables] = {id(one): one for one in avoided if one is not None}
        numbers = {key: number for number, key in enumerate(there, 1)}
        owners = torch.tensor([numbers.get(id(one), 0) for one in avoided], device=device)
        found = [forbidden_tokens(one) for one in there.values()]
        anywhere = [tokens for one in found for tokens in one.anywhere]
        begun = [tokens for one in found for of_state in one.begun for tokens in of_state]
        none = np.zeros(0, np.int64)
        lists = [none, none, *anywhere, none, none, *begun]  # the first table and the first state avoid nothing
        ends = np.cumsum([0, *map(len, lists)])
        ranges = torch.from_numpy(np.stack([ends[:-1], ends[1:]], 1)).view(-1, 2, 2).to(device)
        delta, begins = join_automata([one.delta for one in there.values()], device)
        tokens = torch.from_numpy(np.concatenate(lists)).to(device)
        return cls(delta, tokens, ranges[len(found) + 1 :], begins[owners], ranges[: len(found) + 1][owners])


def join_automata(deltas: Sequence[Any], device: torch.device) -> tuple[Tensor, Tensor]:
    """Transitions of several automata, behind one without patterns, and the first state of each."""
    deltas = [np.zeros((1, SYMBOLS), np.int32), *deltas]
    starts = np.cumsum([0, *map(len, deltas)])
    moved = [delta + np.int32(start) for delta, start in zip(deltas, starts, strict=False)]
    return torch.from_numpy(np.concatenate(moved)).to(device).flatten(), torch.tensor(starts[:-1], device=device)


def pad_lists(entries: IntArray, counts: IntArray, device: torch.device) -> Tensor:
    """Consecutive lists of entries `[N, C]`, of these lengths `[L]`, padded with PAD to `[L, longest, C]`."""
    found = np.full((len(counts), max(1, int(counts.max())), entries.shape[1]), PAD, np.int64)
    found[np.arange(found.shape[1]) < counts[:, None]] = entries
    return torch.from_numpy(found).to(device)


def pad_rows(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Rows of numbers as a tensor, padded with PAD to at least one column."""
    ids, lengths = concatenate(rows)
    return pad_lists(ids[:, None], lengths, device)[..., 0]
