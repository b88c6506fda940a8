"""The tokens that avoided phrases forbid, for every state at once: for searches that cannot ask the host for a list.

A token is forbidden if it completes a phrase that the text has begun, or contains a whole one. The first kind depends
on the state, and is found by looking the rest of each phrase up in the sorted vocabulary.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from dragoman.arrays import IntArray
from dragoman.search.constraints.aho_corasick import Automaton
from dragoman.search.constraints.tables import MAX_CACHED_TABLES, AvoidedTables
from dragoman.search.constraints.token_bytes import EDGE, NOTHING, OTHER, UNCLEAR, WORD, Spelling

AFTER_WORD, AFTER_OTHER = range(2)  # what the text ends with: only a word joins with the next token
MAX_SPELLINGS: Final = 4


@dataclass(frozen=True)
class ForbiddenTokens:
    """The lists of one table: `anywhere [2]` in all states, and `begun [S][2]` in addition in each state.

    The index of 2 is `AFTER_WORD` or `AFTER_OTHER`.
    """

    anywhere: Sequence[IntArray]
    begun: Sequence[Sequence[IntArray]]

    @classmethod
    def from_tables(cls, tables: AvoidedTables) -> ForbiddenTokens:
        """The lists of these phrases."""
        spelling = tables.spelling
        anywhere = [tables.forbidden(0, last) for last in (WORD, OTHER)]
        patterns = [spelling.opened(phrase) for phrase in tables.phrases]
        machine = Automaton(patterns)
        vocabulary = sorted_vocabulary(spelling)
        own: list[tuple[set[int], set[int]]] = [(set(), set()) for _ in range(len(machine))]
        for pattern, path in zip(patterns, machine.paths, strict=True):
            for read, state in enumerate(path[:-1], 1):
                rest = pattern[read:]
                edge = rest[0] == EDGE
                for token in vocabulary.completing(rest[1:] if edge else rest):
                    joins = spelling.first[token] == WORD  # after a word, with no boundary before it
                    if edge:
                        own[state][AFTER_OTHER].add(token)
                    if edge != joins:
                        own[state][AFTER_WORD].add(token)
        everywhere = [{*found.tolist()} for found in anywhere]
        for state in machine.order[1:]:  # a state has also begun the phrases of its suffixes
            for kind, shorter in enumerate(own[machine.shorter[state]]):
                own[state][kind].update(shorter)
        none: IntArray = np.zeros(0, np.int64)
        begun = [
            [np.array(sorted(found - everywhere[kind]), np.int64) if found else none for kind, found in enumerate(of)]
            for of in own
        ]
        return cls(anywhere, begun)


class SortedVocabulary:
    """The tokens that write something, sorted by their symbols; unclear boundaries count as boundaries."""

    def __init__(self, spelling: Spelling) -> None:
        stream = np.where(spelling.stream == UNCLEAR, EDGE, spelling.stream)
        written = (stream != NOTHING).sum(1).tolist()
        rows = stream.tolist()
        named = sorted(
            ("".join(map(chr, row[:n])), i) for i, (row, n) in enumerate(zip(rows, written, strict=True)) if n
        )
        self.keys, self.tokens = [key for key, _ in named], [token for _, token in named]

    def completing(self, rest: Sequence[int]) -> list[int]:
        """The tokens that begin with these symbols, at the end of which they end or have a boundary."""
        key = "".join(map(chr, rest))
        start, stop = bisect_left(self.keys, key), bisect_left(self.keys, key + "\0")
        first, last = bisect_left(self.keys, key + chr(EDGE)), bisect_left(self.keys, key + chr(EDGE + 1))
        return self.tokens[start:stop] + self.tokens[first:last]


@lru_cache(maxsize=MAX_CACHED_TABLES)
def forbidden_tokens(tables: AvoidedTables) -> ForbiddenTokens:
    """The lists of these phrases; recently used ones are cached."""
    return ForbiddenTokens.from_tables(tables)


@lru_cache(maxsize=MAX_SPELLINGS)
def sorted_vocabulary(spelling: Spelling) -> SortedVocabulary:
    """The vocabulary of a model, sorted once."""
    return SortedVocabulary(spelling)
