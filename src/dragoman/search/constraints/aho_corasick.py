"""Aho-Corasick automaton (1975): matches many patterns at once, one symbol at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np

from dragoman.arrays import Int32Array


@dataclass(frozen=True, eq=False)
class Transitions:
    """The transitions of an automaton as arrays; state 0 is the root.

    `edges [E, 2]` are the children of all states, as (symbol, state), by state and symbol; those of state s begin at
    `begins[s]`. `shorter [S]` is the failure link of each state, and `order [S]` has the states breadth first.
    """

    edges: Int32Array
    begins: Int32Array
    shorter: Int32Array
    order: Int32Array

    def __len__(self) -> int:
        return len(self.shorter)

    def table(self, symbols: int) -> Int32Array:
        """The state after each symbol in each state, `[S, symbols]`."""
        delta = np.zeros((len(self), symbols), np.int32)
        for state in self.order.tolist():
            if state:
                delta[state] = delta[self.shorter[state]]
            children = self.edges[self.begins[state] : self.begins[state + 1]]
            delta[state, children[:, 0]] = children[:, 1]
        return delta


class Automaton:
    """A trie of patterns with failure links, while tables are built from it; state 0 is the root.

    A state is the longest suffix of the input that is a prefix of a pattern. `below[s]` maps symbols to the children of
    a state, `shorter[s]` is its failure link (next longest suffix) and `depth[s]` its length. `paths[p][i]` is the
    state of the first i + 1 symbols of pattern p, and `order` has the states breadth first.
    """

    def __init__(self, patterns: Sequence[Sequence[int]]) -> None:
        self.below: list[dict[int, int]] = [{}]
        self.depth = [0]
        self.paths: list[list[int]] = []
        below, depth = self.below, self.depth
        for pattern in patterns:
            state, path = 0, []
            for symbol in pattern:
                after = below[state].get(symbol)
                if after is None:
                    after = below[state][symbol] = len(below)
                    below.append({})
                    depth.append(depth[state] + 1)
                state = after
                path.append(state)
            self.paths.append(path)
        self.shorter = [0] * len(below)
        self.order = [0]
        for state in self.order:  # which grows
            for symbol, after in below[state].items():
                if state:
                    self.shorter[after] = self.step(self.shorter[state], symbol)
                self.order.append(after)

    def __len__(self) -> int:
        return len(self.below)

    def step(self, state: int, symbol: int) -> int:
        """The state after one more symbol."""
        while state and symbol not in self.below[state]:
            state = self.shorter[state]
        return self.below[state].get(symbol, 0)

    def transitions(self) -> Transitions:
        """The transitions as arrays, which take a tenth of the memory."""
        pairs = (sorted(children.items()) if len(children) > 1 else children.items() for children in self.below)
        flat = [*chain.from_iterable(chain.from_iterable(pairs))]
        begins = [*accumulate(map(len, self.below), initial=0)]
        numbers = (np.array(values, np.int32) for values in (flat, begins, self.shorter, self.order))
        edges, *others = numbers
        return Transitions(edges.reshape(-1, 2), *others)
