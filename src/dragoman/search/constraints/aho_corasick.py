"""Aho-Corasick automaton (1975): matches many patterns at once, one symbol at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dragoman.arrays import Int32Array, IntArray


class Automaton:
    """A trie of patterns with failure links; state 0 is the root.

    A state is the longest suffix of the input that is a prefix of a pattern. `below[s]` maps symbols to the children of
    a state, `shorter[s]` is its failure link (next longest suffix) and `depth[s]` its length. `paths[p][i]` is the
    state of the first i + 1 symbols of pattern p, and `order` has the states breadth first.
    """

    def __init__(self, patterns: Sequence[Sequence[int]]) -> None:
        self.below: list[dict[int, int]] = [{}]
        self.depth = [0]
        self.paths: list[list[int]] = []
        for pattern in patterns:
            state, path = 0, []
            for symbol in pattern:
                if symbol not in self.below[state]:
                    self.below[state][symbol] = len(self.below)
                    self.below.append({})
                    self.depth.append(self.depth[state] + 1)
                state = self.below[state][symbol]
                path.append(state)
            self.paths.append(path)
        self.shorter = [0] * len(self.below)
        self.order = [0]
        waiting = deque([0])
        while waiting:
            state = waiting.popleft()
            for symbol, after in self.below[state].items():
                if state:
                    self.shorter[after] = self.step(self.shorter[state], symbol)
                self.order.append(after)
                waiting.append(after)

    def step(self, state: int, symbol: int) -> int:
        """The state after one more symbol."""
        while state and symbol not in self.below[state]:
            state = self.shorter[state]
        return self.below[state].get(symbol, 0)

    def table(self, symbols: int) -> Int32Array:
        """All transitions `[S, symbols]`."""
        delta = np.zeros((len(self), symbols), np.int32)
        for state in self.order:
            if state:
                delta[state] = delta[self.shorter[state]]
            for symbol, after in self.below[state].items():
                delta[state, symbol] = after
        return delta

    @cached_property
    def edges(self) -> tuple[IntArray, IntArray]:
        """The children of all states as pairs (symbol, state), by state and symbol, and where those of each begin."""
        pairs = [pair for children in self.below for pair in sorted(children.items())]
        begins = np.cumsum([0, *map(len, self.below)], dtype=np.int32)
        return np.array(pairs, np.int32).reshape(-1, 2), begins

    def __len__(self) -> int:
        return len(self.below)
