"""Search options and hypotheses; imports neither engines nor PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_int32
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final, Literal

from dragoman.errors import SearchError
from dragoman.values import describe_value

if TYPE_CHECKING:
    from dragoman.arrays import IntArray

Ids = Sequence[Sequence[int]]  # token ids, one row per sentence
Mean = Literal["probabilities", "log-probabilities"]  # how an ensemble averages its models
MAX_BEAM: Final = 10_000  # no machine has the memory for more
MAX_TOKENS: Final = 100_000
MAX_PENALTY: Final = 5.0  # keeps the length penalty of the longest text within float32
WINDOW_BATCHES: Final = 16  # batches read ahead and sorted by length
WINDOW_CHARACTERS: Final = 1 << 21  # at most this much text, except for a single longer line
TYPICAL_TOKENS: Final = 80  # per sentence; batches of longer ones have fewer sentences, to bound memory
NOT_FINITE: Final = "the model produced NaN for a sentence: its weights are not finite; use another checkpoint"


def check_integer(name: str, value: Any, minimum: int | None = None, maximum: int | None = None) -> int:
    """An integer within its bounds, NumPy's included; booleans are rejected."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise SearchError(f"{name} must be an integer; got {describe_value(value)}", code="wrong_type")
    number = int(value)
    if minimum is not None and number < minimum:
        raise SearchError(f"{name} must be at least {minimum}; got {number}", code="out_of_range")
    if maximum is not None and number > maximum:
        raise SearchError(f"{name} must be at most {maximum:,}; got {number:,}", code="out_of_range")
    return number


def check_number(name: str, value: Any) -> float:
    """A number, NumPy's included."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise SearchError(f"{name} must be a number; got {describe_value(value)}", code="wrong_type")
    return float(value)


def convert_fields(options: object, **checks: Callable[[str, Any], int | float]) -> None:
    """Convert fields of a frozen dataclass to plain numbers, checked by the given functions."""
    for name, check in checks.items():
        object.__setattr__(options, name, check(name, getattr(options, name)))


class SearchInterruptedError(SearchError):
    """A search that another thread stopped."""

    default_code = "search_interrupted"


class StopFlag:
    """Interrupts searches between two steps; set by another thread. Engines in C read its address.

    Engines in Python also call `between_steps`, so that other work can be done while a search takes long.
    """

    def __init__(self, between_steps: Callable[[], None] | None = None) -> None:
        self.value, self.between_steps = c_int32(0), between_steps

    def set(self) -> None:
        """Stop the searches that were given this flag."""
        self.value.value = 1

    def is_set(self) -> bool:
        """Whether it was set."""
        return bool(self.value.value)

    def check(self) -> None:
        """Raise SearchInterruptedError if the flag is set."""
        if self.is_set():
            raise SearchInterruptedError("the search was interrupted by its caller; search again")
        if self.between_steps is not None:
            self.between_steps()


@dataclass(frozen=True)
class Sampling:
    """Sample tokens instead of searching: from the `top_k` likeliest, or the likeliest with total probability `top_p`.

    The sample of a sentence depends only on `seed`, the sentence and the number of its hypothesis, not on the rest of
    the batch.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        """Check the values."""
        convert_fields(self, temperature=check_number, top_k=check_integer, top_p=check_number, seed=check_integer)
        if not 1e-6 <= self.temperature <= 1e6:
            message = f"temperature must be from 1e-6 to 1e6; got {self.temperature}. For greedy search, use beam=1"
            raise SearchError(message, code="out_of_range")
        if self.top_k < 0:
            raise SearchError(f"top_k must be at least 0 (no limit); got {self.top_k}", code="out_of_range")
        if not 0 < self.top_p <= 1:
            message = f"top_p must be greater than 0 and at most 1 (no limit); got {self.top_p}"
            raise SearchError(message, code="out_of_range")


@dataclass(frozen=True)
class Search:
    """Options of a search; the defaults are the paper's (section 6.1).

    A sentence has `beam` slots. At each step its open hypotheses are extended by every token, and the likeliest are
    kept, as many as there are open slots; a finished hypothesis keeps its slot. The search stops when every slot is
    finished, or when no open hypothesis can still beat the `n_best` finished ones. With required phrases, it already
    stops when no open hypothesis would be among the `n_best` if it ended with the next token. Beam 1 is greedy search.

    Hypotheses are ranked by log P(Y | X) / lp(Y), with lp(Y) = ((5 + |Y|) / 6) ** length_penalty, where |Y| counts
    tokens and the EOS token. Y has at most `extra_length` tokens more than the source, and no more than `max_length`;
    at that length only the EOS token can follow. It has at least `min_length` tokens.
    `no_repeat` n forbids tokens that would repeat an n-gram.
    Probabilities are the model's, over its whole vocabulary: forbidden tokens (always padding and the BOS token) are
    excluded without renormalizing the rest.
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
        """Check the values."""
        convert_fields(
            self,
            beam=partial(check_integer, minimum=1, maximum=MAX_BEAM),
            n_best=partial(check_integer, minimum=1, maximum=MAX_BEAM),
            extra_length=partial(check_integer, minimum=0, maximum=MAX_TOKENS),
            min_length=partial(check_integer, minimum=0, maximum=MAX_TOKENS),
            no_repeat=partial(check_integer, minimum=0, maximum=MAX_TOKENS),
            length_penalty=check_number,
        )
        if self.max_length is not None:
            convert_fields(self, max_length=partial(check_integer, minimum=1))
        if not (self.sampling is None or isinstance(self.sampling, Sampling)):
            value = describe_value(self.sampling)
            raise SearchError(
                f"sampling must be None or a Sampling, such as Sampling(top_p=0.9); got {value}", code="wrong_type"
            )
        if not (isfinite(self.length_penalty) and abs(self.length_penalty) <= MAX_PENALTY):
            raise SearchError(
                f"length_penalty must be from {-MAX_PENALTY:g} to {MAX_PENALTY:g}; got {self.length_penalty}. The "
                "paper uses 0.6; 0 ranks by probability alone",
                code="out_of_range",
            )
        if self.n_best > self.beam:
            message = f"n_best={self.n_best} needs beam={self.n_best} or more; got beam={self.beam}"
            raise SearchError(message, code="out_of_range")
        if self.max_length is not None and self.max_length < self.min_length:
            message = f"max_length={self.max_length} is smaller than min_length={self.min_length}"
            raise SearchError(message, code="out_of_range")

    def for_part(self, n_parts: int) -> Search:
        """The search of one of `n_parts` parts of a text: they share `min_length` and any additional `extra_length`.

        Both count once per text, so a text that is split costs no more than one that is not.
        """
        default = type(self).extra_length
        if n_parts < 2 or not (self.min_length or self.extra_length > default):
            return self
        extra = min(self.extra_length, default) + -(-max(0, self.extra_length - default) // n_parts)
        return replace(self, min_length=-(-self.min_length // n_parts), extra_length=extra)

    def limit(self, source_tokens: int) -> int:
        """The maximum output length for a source of this many tokens; neither counts the EOS token."""
        longest = max(source_tokens + self.extra_length, self.min_length)
        return longest if self.max_length is None else min(longest, self.max_length)

    def normalizer(self, length: int) -> float:
        """The length penalty lp of a hypothesis of this length, EOS token included."""
        return float(((5 + length) / 6) ** self.length_penalty)


def output_limits(search: Search, source_tokens: IntArray) -> IntArray:
    """`Search.limit` for an array of numbers of tokens."""
    longest = (source_tokens + search.extra_length).clip(min=search.min_length)
    return longest if search.max_length is None else longest.clip(max=min(search.max_length, longest.max(initial=0)))


@dataclass(frozen=True)
class RecordedHead:
    """A cross-attention head, or with None the mean of a layer's heads, whose weights a search records."""

    layer: int
    head: int | None


@dataclass(frozen=True)
class Hypothesis:
    """One translation as token ids, without the EOS token; hypotheses are ranked by `score`."""

    ids: list[int]
    score: float
    log_probability: float
    truncated: bool = False  # cut off at its maximum length
    maps: Any = field(default=None, repr=False, compare=False)  # of the recorded heads, [n, T + 1, S + 1]
