"""Demands as tables over a vocabulary: which tokens bring a phrase nearer, and which would write what is avoided."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from threading import Lock
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dragoman.arrays import IntArray
from dragoman.errors import SearchError
from dragoman.search.constraints.aho_corasick import Automaton
from dragoman.search.constraints.phrases import Demands, Need, inside
from dragoman.search.constraints.token_bytes import BETWEEN, EDGE, NOTHING, OTHER, SYMBOLS, UNCLEAR, Spelling
from dragoman.text.special_tokens import EOS

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")
MOST_PLANS: Final = 256
MOST_STATES: Final = 1 << 16


@dataclass(frozen=True)
class Way:
    """A phrase in tokens; `read` is how much of its pattern is there after each of them."""

    tokens: list[int]
    anywhere: bool  # whatever stands before
    read: list[int]

    def on(self, path: Sequence[int]) -> Iterator[tuple[int, int]]:
        """How many tokens are left in which states, where its pattern leads through these."""
        for number, read in enumerate(self.read, 1):
            if read > 0:
                yield len(self.tokens) - number, path[read - 1]


class Wanted:
    """What one translation must contain. G demands, S states of the automaton that reads it.

    `length [S, G]` is how many symbols a phrase of the demand has that ends in a state, 0 where none does.
    `needed [G]` is how often, `least [G]` by how few tokens a demand can be met from anywhere, and `nested [G, G]` how
    often the phrases of the first stand in those of the second. `credit [S, G]` is how many of these tokens are there
    already, `saved [G]` how many fewer are enough after a space or a bracket. `follows` are the tokens that come
    next in a state, with their demand, and `starts` those that begin one, with whether they may follow anything.
    """

    def __init__(self, needs: Sequence[Need], spelling: Spelling, unwanted: Unwanted | None = None) -> None:
        groups = range(len(needs))
        phrases = [(one, g) for g in groups for one in needs[g].phrases]
        patterns = [spelling.closed(one) for one, _ in phrases]
        ways = [[*self._ways(one, spelling, variants[0])] for (one, _), variants in zip(phrases, patterns, strict=True)]
        spelled = [
            [way for (_, of), found in zip(phrases, ways, strict=True) if of == g for way in found] for g in groups
        ]
        if unwanted is not None:  # an alternative that cannot be written is no short way
            free = [[way for way in found if not unwanted.blocks(way.tokens)] for found in spelled]
            spelled = [
                some if any(way.anywhere for way in some) else all_ for some, all_ in zip(free, spelled, strict=True)
            ]
        self.starts = [*dict.fromkeys((way.tokens[0], g, way.anywhere) for g in groups for way in spelled[g])]
        self.needed = np.array([need.times for need in needs], np.int64)
        self.least = np.array([min(len(way.tokens) for way in spelled[g] if way.anywhere) for g in groups], np.int64)
        self.saved = self.least - np.array([min(len(way.tokens) for way in spelled[g]) for g in groups], np.int64)
        self.nested = np.array(
            [[0 if g == h else inside(needs[g].phrases, needs[h].phrases) for h in groups] for g in groups], np.int64
        )
        self.automaton = machine = Automaton([*chain.from_iterable(patterns)], SYMBOLS)
        machine.delta[:, NOTHING] = np.arange(len(machine))
        self.length: IntArray = np.zeros((len(machine), len(needs)), np.int64)
        self.credit = self.length.copy()
        follows: list[dict[tuple[int, int], None]] = [{} for _ in range(len(machine))]
        paths = iter(machine.paths)
        for (_, g), found, variants in zip(phrases, ways, patterns, strict=True):
            for path in islice(paths, len(variants)):
                self.length[path[-1], g] = len(variants[0]) - 2
                for left, state, tokens in ((*step, way.tokens) for way in found for step in way.on(path)):
                    self.credit[state, g] = max(self.credit[state, g], self.least[g] - left)
                    if left:
                        follows[state][tokens[-left], g] = None
        for state in machine.order[1:]:  # what a state ends with is under way as well
            shorter = machine.shorter[state]
            own, other = self.length[state], self.length[shorter]
            self.length[state] = np.where((own > 0) & (other > 0), np.minimum(own, other), np.maximum(own, other))
            self.credit[state] = np.maximum(self.credit[state], self.credit[shorter])
            follows[state] |= follows[shorter]
        self.follows = [[*after] for after in follows]

    @staticmethod
    def _ways(phrase: str, spelling: Spelling, pattern: list[int]) -> Iterator[Way]:
        """How a phrase is spelled after a space, and without one."""
        for tokens, anywhere in spelling.ways(phrase):
            symbols = [*spelling.symbols_of([*tokens, EOS])]
            ends = [*accumulate(map(len, symbols))]
            if [*chain.from_iterable(symbols)][-len(pattern) :] == pattern:
                yield Way(tokens, anywhere, [end - (ends[-1] - len(pattern)) for end in ends[:-1]])
            elif anywhere:
                raise SearchError(f"{phrase!r} cannot be written with the tokens of this model; require other words")


class Unwanted:
    """What no translation may contain. A token that would end right after such a phrase is forbidden.

    So is every other way to spell it. A longer word that only begins so stays allowed, unless its tokens begin with the
    whole of the phrase: to write them one would have to write it first.
    """

    def __init__(self, phrases: Sequence[str], spelling: Spelling) -> None:
        self.phrases, self.spelling = phrases, spelling
        self.automaton = machine = Automaton([*map(spelling.opened, phrases)], SYMBOLS)
        machine.delta[:, NOTHING] = np.arange(len(machine))
        machine.delta[:, UNCLEAR] = machine.delta[:, EDGE]
        self.full: NDArray[np.bool_] = np.zeros(len(machine), np.bool_)
        for path in machine.paths:
            self.full[path[-1]] = True
        for state in machine.order[1:]:
            self.full[state] |= self.full[machine.shorter[state]]
        self.writing = np.flatnonzero(spelling.stream[:, 0] != NOTHING)
        self.memory: dict[tuple[int, int], IntArray] = {}

    def forbidden(self, state: int, last: int) -> IntArray:
        """The tokens that must not follow, after text that has led to a state and ends with such a character."""
        if (state, last) not in self.memory:
            found = self._hits(state, last)
            self.memory[state, last] = found if not state else np.union1d(found, self.forbidden(0, last))
        return self.memory[state, last]

    def _hits(self, state: int, last: int) -> IntArray:
        """Tokens that complete a phrase; but from the beginning, only those that complete one already begun."""
        stream, tokens, hits = self.spelling.stream, self.writing, []
        lead = BETWEEN[last, self.spelling.first[tokens]]
        states = self.automaton.delta[state, lead]
        read = (lead != NOTHING).astype(np.int64)
        for column in range(stream.shape[1] - 1):
            states, after = self.automaton.delta[states, stream[tokens, column]], stream[tokens, column + 1]
            read += 1
            hit = self.full[states] & (after >= EDGE)  # an edge, or the end of the token
            hits.append(tokens[hit])
            going = ~hit & (after != NOTHING)
            if state:
                going &= self.automaton.depth[states] > read  # the rest is as from the beginning
            tokens, states, read = tokens[going], states[going], read[going]
            if not len(tokens):
                break
        return np.unique(np.concatenate(hits)) if hits else np.zeros(0, np.int64)

    def blocks(self, tokens: Sequence[int]) -> bool:
        """Whether these tokens would write what is avoided, or come to where it would be written."""
        state, last = 0, OTHER
        for token, symbols in zip(tokens, self.spelling.symbols_of(tokens), strict=True):
            if token in self.forbidden(state, last):
                return True
            for symbol in symbols:
                state = int(self.automaton.delta[state, symbol])
            last = int(self.spelling.last[token])
        return False

    def refuse_within(self, need: Need) -> None:
        """Refuse a demand that can only be spelled by way of what is avoided."""
        ways = [tokens for phrase in need.phrases for tokens, _ in self.spelling.ways(phrase)]
        if all(map(self.blocks, ways)):
            avoided = f"{', '.join(map(repr, self.phrases[:3]))}{', ...' if self.phrases[3:] else ''}"
            spelled = " ".join(self.spelling.tokenizer.tokens(ways[0]))
            raise SearchError(
                f"{need.name!r} is required, but this model spells it {spelled}, which begins with what is to be "
                f"avoided ({avoided}); leave one of them out"
            )


class Remembered(Generic[Key, Made]):
    """What was made last, as many as have so many states together: each takes a kilobyte."""

    def __init__(self, states: Callable[[Made], int]) -> None:
        self.states = states
        self.made: OrderedDict[Key, Made] = OrderedDict()
        self.lock = Lock()

    def get(self, key: Key, make: Callable[[], Made]) -> Made:
        """What was made for a key, or is made now."""
        with self.lock:
            if key in self.made:
                self.made.move_to_end(key)
                return self.made[key]
        found = make()
        with self.lock:
            self.made[key] = found
            held = sum(map(self.states, self.made.values()))
            while len(self.made) > 1 and (held > MOST_STATES or len(self.made) > MOST_PLANS):
                held -= self.states(self.made.popitem(last=False)[1])
        return found


class Plan:
    """The tables of some demands."""

    def __init__(self, spelling: Spelling, wanted: Wanted | None, unwanted: Unwanted | None) -> None:
        self.spelling, self.wanted, self.unwanted = spelling, wanted, unwanted

    @property
    def states(self) -> int:
        """Of the automaton for what is required."""
        return 0 if self.wanted is None else len(self.wanted.automaton)


class Planner:
    """Plans for a vocabulary; those made last are remembered."""

    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling
        self.plans: Remembered[Demands, Plan] = Remembered(lambda plan: plan.states)
        self.avoided: Remembered[tuple[str, ...], Unwanted] = Remembered(lambda found: len(found.automaton))

    def unwanted(self, phrases: tuple[str, ...]) -> Unwanted:
        """The tables of what is avoided."""
        return self.avoided.get(phrases, lambda: Unwanted(phrases, self.spelling))

    def plan(self, demands: Demands) -> Plan:
        """The tables of some demands; refused where they contradict each other."""
        return self.plans.get(demands, lambda: self._plan(demands))

    def _plan(self, demands: Demands) -> Plan:
        needs = demands.needs()
        unwanted = self.unwanted(demands.avoid) if demands.avoid else None
        if unwanted is not None:
            for need in needs:
                unwanted.refuse_within(need)
        return Plan(self.spelling, Wanted(needs, self.spelling, unwanted) if needs else None, unwanted)
