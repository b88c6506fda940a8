"""Compile lexical constraints to tables over a vocabulary: tokens that advance a phrase, tokens to forbid."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, islice, permutations
from threading import Lock
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dragoman.arrays import IntArray
from dragoman.errors import SearchError
from dragoman.search.constraints.aho_corasick import Automaton
from dragoman.search.constraints.phrases import Constraints, RequiredPhrase, min_occurrences
from dragoman.search.constraints.token_bytes import BETWEEN, EDGE, NOTHING, OTHER, SYMBOLS, UNCLEAR, Spelling
from dragoman.text.special_tokens import EOS

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
MAX_CACHED_TABLES: Final = 256
MAX_STATES: Final = 1 << 16


@dataclass(frozen=True)
class PhraseTokens:
    """One tokenization of a phrase; `read` is how many symbols of its pattern each token completes."""

    tokens: list[int]
    anywhere: bool  # may follow any text
    read: list[int]

    def remaining(self, path: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Pairs (tokens left, automaton state) along the path of its pattern."""
        for number, read in enumerate(self.read, 1):
            if read > 0:
                yield len(self.tokens) - number, path[read - 1]


class RequiredTables:
    """Tables for the required phrases of one translation: G phrases, S states of the automaton that reads the output.

    `length [S, G]` is the number of symbols of the phrase that ends in a state, 0 where none does. `needed [G]` is how
    often each must occur, `min_tokens [G]` the fewest tokens that write it after any text, and `nested [G, G]` how
    often the first occurs inside the second. `credit [S, G]` is how many of these tokens a state has already written,
    `saved [G]` how many fewer suffice after a space or a bracket. `follows [F, 2]` are the next tokens, with their
    phrase; those in state s begin at `first_follow[s]`. `starts [N, 3]` are the first tokens, with their phrase and
    whether they may follow any text.
    """

    def __init__(
        self, required: Sequence[RequiredPhrase], spelling: Spelling, avoided: AvoidedTables | None = None
    ) -> None:
        groups = range(len(required))
        phrases = [(one, g) for g in groups for one in required[g].phrases]
        patterns = [spelling.closed(one) for one, _ in phrases]
        ways = [[*self._ways(one, spelling, variants[0])] for (one, _), variants in zip(phrases, patterns, strict=True)]
        spelled = [
            [way for (_, of), found in zip(phrases, ways, strict=True) if of == g for way in found] for g in groups
        ]
        if avoided is not None:  # an alternative that cannot be written saves nothing
            free = [[way for way in found if not avoided.blocks(way.tokens)] for found in spelled]
            spelled = [
                some if any(way.anywhere for way in some) else all_ for some, all_ in zip(free, spelled, strict=True)
            ]
        starts = dict.fromkeys((way.tokens[0], g, way.anywhere) for g in groups for way in spelled[g])
        self.starts: IntArray = np.array([*starts], np.int32)
        self.needed = np.array([phrase.total for phrase in required], np.int32)
        fewest = [min(len(way.tokens) for way in found if way.anywhere) for found in spelled]
        self.min_tokens = np.array(fewest, np.int32)
        self.saved = self.min_tokens - np.array([min(len(way.tokens) for way in found) for found in spelled], np.int32)
        self.nested: IntArray = np.zeros((len(required), len(required)), np.int32)
        for g, h in permutations(groups, 2):
            self.nested[g, h] = min_occurrences(required[g].phrases, required[h].phrases)
        machine = Automaton([*chain.from_iterable(patterns)])
        self.transitions = machine.transitions()
        length = [[0] * len(required) for _ in range(len(machine))]
        credit = [[0] * len(required) for _ in range(len(machine))]
        follows: list[dict[tuple[int, int], None]] = [{} for _ in range(len(machine))]
        paths = iter(machine.paths)
        for (_, g), found, variants in zip(phrases, ways, patterns, strict=True):
            for path in islice(paths, len(variants)):
                length[path[-1]][g] = len(variants[0]) - 2
                for left, state, tokens in ((*step, way.tokens) for way in found for step in way.remaining(path)):
                    credit[state][g] = max(credit[state][g], fewest[g] - left)
                    if left:
                        follows[state][tokens[-left], g] = None
        for state in machine.order[1:]:  # a state has also written the prefixes that are its suffixes
            if shorter := machine.shorter[state]:
                for g, (own, other) in enumerate(zip(length[state], length[shorter], strict=True)):
                    length[state][g] = min(own, other) if own and other else max(own, other)
                credit[state] = [*map(max, credit[state], credit[shorter])]
                follows[state] |= follows[shorter]
        self.length: IntArray = np.array(length, np.int32)
        self.credit: IntArray = np.array(credit, np.int32)
        flat = [number for after in follows for follow in after for number in follow]
        self.follows: IntArray = np.array(flat, np.int32).reshape(-1, 2)
        self.first_follow: IntArray = np.array([0, *accumulate(map(len, follows))], np.int32)

    @cached_property
    def delta(self) -> IntArray:
        """The state after each symbol `[S, SYMBOLS]`."""
        delta = self.transitions.table(SYMBOLS)
        delta[:, NOTHING] = np.arange(len(delta))
        return delta

    @staticmethod
    def _ways(phrase: str, spelling: Spelling, pattern: list[int]) -> Iterator[PhraseTokens]:
        """Tokenizations of a phrase after a space, and without one."""
        for tokens, anywhere in spelling.spellings(phrase):
            symbols = [*spelling.symbols_of([*tokens, EOS])]
            ends = [*accumulate(map(len, symbols))]
            if [*chain.from_iterable(symbols)][-len(pattern) :] == pattern:
                yield PhraseTokens(tokens, anywhere, [end - (ends[-1] - len(pattern)) for end in ends[:-1]])
            elif anywhere:
                message = f"{phrase!r} cannot be written with this model's vocabulary; require other words"
                raise SearchError(message, code="phrase_not_writable")


class AvoidedTables:
    """Tables for the avoided phrases: a token that would complete one is forbidden, however the phrase is tokenized.

    A longer word that begins with the phrase stays allowed, unless its first tokens write exactly the phrase.
    """

    def __init__(self, phrases: Sequence[str], spelling: Spelling) -> None:
        self.phrases, self.spelling = phrases, spelling
        machine = Automaton([*map(spelling.opened, phrases)])
        self.transitions, self.depth = machine.transitions(), np.array(machine.depth, np.int32)
        full = [False] * len(machine)
        for path in machine.paths:
            full[path[-1]] = True
        for state in machine.order[1:]:
            full[state] |= full[machine.shorter[state]]
        self.full: NDArray[np.bool_] = np.array(full, np.bool_)
        self.memory: dict[tuple[int, int], IntArray] = {}

    @cached_property
    def delta(self) -> IntArray:
        """The state after each symbol `[S, SYMBOLS]`; unclear boundaries count as boundaries."""
        delta = self.transitions.table(SYMBOLS)
        delta[:, NOTHING] = np.arange(len(delta))
        delta[:, UNCLEAR] = delta[:, EDGE]
        return delta

    def forbidden(self, state: int, last: int) -> IntArray:
        """The tokens forbidden in a state, after text whose last character is of the kind `last`."""
        if (state, last) not in self.memory:
            found = self._hits(state, last)
            self.memory[state, last] = found if not state else np.union1d(found, self.forbidden(0, last))
        return self.memory[state, last]

    def _hits(self, state: int, last: int) -> IntArray:
        """Tokens that complete a phrase; in states other than 0, only a phrase already begun."""
        stream, hits = self.spelling.stream, []
        tokens = np.flatnonzero(stream[:, 0] != NOTHING)  # those that write something
        boundary = BETWEEN[last, self.spelling.first[tokens]]
        states = self.delta[state, boundary]
        read = (boundary != NOTHING).astype(np.int64)
        for column in range(stream.shape[1] - 1):
            states, after = self.delta[states, stream[tokens, column]], stream[tokens, column + 1]
            read += 1
            hit = self.full[states] & (after >= EDGE)  # an edge, or the end of the token
            hits.append(tokens[hit])
            going = ~hit & (after != NOTHING)
            if state:
                going &= self.depth[states] > read  # the rest is covered by state 0
            tokens, states, read = tokens[going], states[going], read[going]
            if not len(tokens):
                break
        return np.unique(np.concatenate(hits)) if hits else np.zeros(0, np.int64)

    def blocks(self, tokens: Sequence[int]) -> bool:
        """Whether these tokens would write an avoided phrase."""
        state, last = 0, OTHER
        for token, symbols in zip(tokens, self.spelling.symbols_of(tokens), strict=True):
            if token in self.forbidden(state, last):
                return True
            for symbol in symbols:
                state = int(self.delta[state, symbol])
            last = int(self.spelling.last[token])
        return False

    def check_writable(self, phrase: RequiredPhrase) -> None:
        """Raise if every tokenization of a required phrase would write an avoided one."""
        ways = [tokens for one in phrase.phrases for tokens, _ in self.spelling.spellings(one)]
        if all(map(self.blocks, ways)):
            avoided = f"{', '.join(map(repr, self.phrases[:3]))}{', ...' if self.phrases[3:] else ''}"
            spelled = " ".join(self.spelling.tokenizer.tokens(ways[0]))
            raise SearchError(
                f"{phrase.name!r} is required, but this model writes it as {spelled}, which contains an avoided phrase "
                f"({avoided}); drop one of them",
                code="conflicting_constraints",
            )


class BoundedCache(Generic[Key, Value]):
    """Least-recently-used cache, bounded by the total number of automaton states: each takes up to a kilobyte."""

    def __init__(self, states: Callable[[Value], int]) -> None:
        self.states = states
        self.entries: OrderedDict[Key, Value] = OrderedDict()
        self.held = 0  # states of all entries
        self.lock = Lock()

    def get(self, key: Key, create: Callable[[], Value]) -> Value:
        """The value of a key, created now if it is not cached."""
        with self.lock:
            if key in self.entries:
                self.entries.move_to_end(key)
                return self.entries[key]
        found = create()
        with self.lock:
            if key in self.entries:  # another thread was faster
                return self.entries[key]
            self.entries[key] = found
            self.held += self.states(found)
            while len(self.entries) > 1 and (self.held > MAX_STATES or len(self.entries) > MAX_CACHED_TABLES):
                self.held -= self.states(self.entries.popitem(last=False)[1])
        return found


@dataclass(frozen=True, eq=False)
class ConstraintTables:
    """Compiled constraints of one sentence."""

    spelling: Spelling
    required: RequiredTables | None
    avoided: AvoidedTables | None

    @property
    def states(self) -> int:
        """Number of states of the automaton for required phrases."""
        return 0 if self.required is None else len(self.required.transitions)


BatchConstraints = Sequence[ConstraintTables | None]  # one for each sentence


class ConstraintCompiler:
    """Compile constraints for a vocabulary; recently used tables are cached."""

    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling
        self._compiled: BoundedCache[Constraints, ConstraintTables] = BoundedCache(lambda tables: tables.states)
        self._avoided: BoundedCache[tuple[str, ...], AvoidedTables] = BoundedCache(
            lambda tables: len(tables.transitions)
        )

    def compile_avoided(self, phrases: tuple[str, ...]) -> AvoidedTables:
        """The tables of avoided phrases."""
        return self._avoided.get(phrases, lambda: AvoidedTables(phrases, self.spelling))

    def compile(self, constraints: Constraints) -> ConstraintTables:
        """The tables of constraints; raise if they contradict each other."""
        return self._compiled.get(constraints, lambda: self._compile(constraints))

    def _compile(self, constraints: Constraints) -> ConstraintTables:
        required = constraints.required_phrases()
        avoided = self.compile_avoided(constraints.avoid) if constraints.avoid else None
        if avoided is not None:
            for phrase in required:
                avoided.check_writable(phrase)
        tables = RequiredTables(required, self.spelling, avoided) if required else None
        return ConstraintTables(self.spelling, tables, avoided)
