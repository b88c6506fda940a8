"""Aho-Corasick automaton (1975) as a transition table: matches many patterns at once, one symbol at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from dragoman.arrays import IntArray


class Automaton:
    """Transition table `delta [S, symbols]`; state 0 is the root.

    A state is the longest suffix of the input that is a prefix of a pattern. `paths[p][i]` is the state of the first
    i + 1 symbols of pattern p, `shorter [S]` the failure link (next longest suffix) and `depth [S]` the length.
    """

    def __init__(self, patterns: Sequence[Sequence[int]], symbols: int) -> None:
        below: list[dict[int, int]] = [{}]
        depth = [0]
        self.paths: list[list[int]] = []
        for pattern in patterns:
            state, path = 0, []
            for symbol in pattern:
                if symbol not in below[state]:
                    below[state][symbol] = len(below)
                    below.append({})
                    depth.append(depth[state] + 1)
                state = below[state][symbol]
                path.append(state)
            self.paths.append(path)
        self.delta: IntArray = np.zeros((len(below), symbols), np.int32)
        self.depth: IntArray = np.array(depth, np.int32)
        self.shorter: IntArray = np.zeros(len(below), np.int32)
        self.order = [0]  # breadth first
        waiting = deque([0])
        while waiting:
            state = waiting.popleft()
            if state:
                self.order.append(state)
                self.delta[state] = self.delta[self.shorter[state]]
            for symbol, after in below[state].items():
                self.shorter[after] = self.delta[state, symbol]  # failure link of the child
                self.delta[state, symbol] = after
                waiting.append(after)

    def __len__(self) -> int:
        return len(self.delta)
