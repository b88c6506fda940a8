"""What a search is asked to do and what it gives back; no engine and no tensor in sight, so that it loads at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from numbers import Integral, Real
from typing import Any, Final, Literal, Protocol

from dragoman.errors import SearchError
from dragoman.values import describe_value

Mean = Literal["probabilities", "log-probabilities"]  # of several models that translate together
MOST_THREADS: Final = 1024
MOST_BEAM: Final = 10_000  # beyond these there is no memory that would do
MOST_TOKENS: Final = 100_000
MOST_PENALTY: Final = 5.0  # lp of the longest text is then still a float32
WINDOW_BATCHES: Final = 16  # batches that are read ahead and sorted by length
WINDOW_CHARACTERS: Final = 1 << 21  # and never more text than this, but for a single line that is longer
USUAL_TOKENS: Final = 80  # of a sentence; a batch of longer ones has fewer sentences, so that memory stays bounded
NO_NUMBERS: Final = "the model gives no probabilities for a sentence: its weights hold numbers that are none"


def whole(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """A whole number within its bounds, of NumPy too; True is none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise SearchError(f"{name} must be a whole number; got {describe_value(value)}")
    number = int(value)
    if least is not None and number < least:
        raise SearchError(f"{name} must be at least {least}; got {number}")
    if most is not None and number > most:
        raise SearchError(f"{name} must be at most {most:,}; got {number:,}")
    return number


def real(name: str, value: Any) -> float:
    """A number, of NumPy too."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise SearchError(f"{name} must be a number; got {describe_value(value)}")
    return float(value)


def settle(settings: object, **kinds: Callable[[str, Any], int | float]) -> None:
    """Have each field hold a plain number of its kind, or refuse what came."""
    for name, kind in kinds.items():
        object.__setattr__(settings, name, kind(name, getattr(settings, name)))


@dataclass(frozen=True)
class Sampling:
    """Draw tokens by chance instead of searching: from the `top_k` likeliest, or the likeliest that hold `top_p`.

    The draw of a sentence is a function of `seed`, the sentence and the number of its hypothesis, and of nothing else
    in the batch.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn from."""
        settle(self, temperature=real, top_k=whole, top_p=real, seed=whole)
        if not 1e-6 <= self.temperature <= 1e6:
            raise SearchError(
                f"temperature must be over 0, from 1e-6 to 1e6; got {self.temperature}. For the likeliest, use beam 1"
            )
        if self.top_k < 0:
            raise SearchError(f"top_k must be at least 0, which cuts nothing off; got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise SearchError(f"top_p must be over 0 and at most 1, which cuts nothing off; got {self.top_p}")


@dataclass(frozen=True)
class Search:
    """How to look for a translation; the defaults are the paper's (section 6.1).

    A sentence has `beam` slots. At each step its open hypotheses are extended by every token, and the likeliest stay,
    as many as there are open slots; one that ends keeps its slot to itself. The search ends when every slot has ended,
    or when no open hypothesis can still beat the `n_best` that have. Beam 1 is greedy search.

    Hypotheses are ranked by log P(Y | X) / lp(Y), with lp(Y) = ((5 + |Y|) / 6) ** length_penalty, where |Y| counts
    tokens and the end mark. Y has at most `extra_length` tokens more than the source, and no more than `max_length`;
    at that length only the end mark can follow. It has at least `min_length`.
    `no_repeat` n forbids a token that would make n tokens in a row appear twice.
    Probabilities are the model's, over its whole vocabulary: what is forbidden (padding and the start mark always) is
    left out, and what it had is not shared out among the rest.
    """

    beam: int = 4
    length_penalty: float = 0.6
    n_best: int = 1
    extra_length: int = 50
    max_length: int | None = None
    min_length: int = 0
    no_repeat: int = 0
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        """Refuse what no search can do."""
        settle(
            self,
            beam=partial(whole, least=1, most=MOST_BEAM),
            n_best=partial(whole, least=1, most=MOST_BEAM),
            extra_length=partial(whole, least=0, most=MOST_TOKENS),
            min_length=partial(whole, least=0, most=MOST_TOKENS),
            no_repeat=partial(whole, least=0, most=MOST_TOKENS),
            length_penalty=real,
        )
        if self.max_length is not None:
            settle(self, max_length=partial(whole, least=1))
        if not (self.sampling is None or isinstance(self.sampling, Sampling)):
            raise SearchError(
                f"sampling must be a Sampling, as in Sampling(top_p=0.9), or None; got {describe_value(self.sampling)}"
            )
        if not (isfinite(self.length_penalty) and abs(self.length_penalty) <= MOST_PENALTY):
            raise SearchError(
                f"length_penalty must be from {-MOST_PENALTY:g} to {MOST_PENALTY:g}; got {self.length_penalty}. The "
                "paper's is 0.6; 0 ranks by the bare probability"
            )
        if self.n_best > self.beam:
            raise SearchError(
                f"n_best={self.n_best} translations cannot come from beam={self.beam}; use beam={self.n_best} or more"
            )
        if self.max_length is not None and self.max_length < self.min_length:
            raise SearchError(f"max_length={self.max_length} leaves no room for min_length={self.min_length}")

    def limit(self, source_tokens: int) -> int:
        """The most tokens, without the end mark, that a source of so many tokens, without its own, may turn into."""
        longest = max(source_tokens + self.extra_length, self.min_length)
        return longest if self.max_length is None else min(longest, self.max_length)

    def normalizer(self, length: int) -> float:
        """lp of a hypothesis of so many tokens, the end mark counted."""
        return float(((5 + length) / 6) ** self.length_penalty)


@dataclass(frozen=True)
class Hypothesis:
    """One translation as tokens, without the end mark; `score` is what it was ranked by."""

    tokens: list[int]
    score: float
    log_probability: float
    truncated: bool = False  # it reached the limit of its length and was ended there


class Engine(Protocol):
    """Something that can translate ids to ids. Engines differ in speed, and in what they can be asked."""

    name: str

    @property
    def precision(self) -> str:
        """What it really computes in: "int8", "bfloat16", "float32", or a library's own word."""

    @property
    def threads(self) -> int | None:
        """How many threads of the CPU it works with; None where the work is not the CPU's."""

    def can(self, search: Search, prefixes: bool = False) -> bool:
        """Whether this engine does such a search; the PyTorch one does all."""

    def search(
        self, sources: Sequence[Sequence[int]], search: Search, prefixes: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, best first; sources are tokens without marks.

        The caller hands sentences of like length together; a forced prefix is part of the hypothesis and its score.
        PyTorch's takes `plans` besides, which say what each translation must contain and must not.
        """
