"""Many phrases looked for at once, a symbol at a time (Aho and Corasick, 1975), as tables that a batch can step in."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from dragoman.arrays import IntArray


class Automaton:
    """States are numbers, 0 the beginning; `delta [S, symbols]` leads from one to the next.

    The state is the longest end of what was read that begins a pattern. `path[p][i]` is the state of the first i + 1
    symbols of pattern p, and `shorter [S]` the state of the next longest end of a state; `depth [S]` is its length.
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
        self.order = [0]  # nearest to the beginning first
        waiting = deque([0])
        while waiting:
            state = waiting.popleft()
            if state:
                self.order.append(state)
                self.delta[state] = self.delta[self.shorter[state]]
            for symbol, after in below[state].items():
                self.shorter[after] = self.delta[state, symbol]  # where its end without the first symbol leads
                self.delta[state, symbol] = after
                waiting.append(after)

    def __len__(self) -> int:
        return len(self.delta)
