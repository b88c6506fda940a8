"""What a person gets back: the text, how sure the model was, and what to be careful with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

FLAGS: Final = ("truncated", "repetitive", "split", "unmet", "empty")


@dataclass(frozen=True)
class Translation:
    """One translation.

    `score` is log P / lp, by which hypotheses are ranked; of a text in parts, the sum of the first over that of the
    second. `tokens` are the tokens written, `source_tokens` those read. `alternatives` are the next best, where more
    than one was asked for; of a text in parts, the next best of each part.
    `alignment` pairs words (source, target), counted from 0; `attention [tokens, source_tokens]` is what each token
    looked at: a NumPy array whose rows miss what went to the source's end mark. Both are there on request.
    `met` are the phrases that were required of it and are in it, `unmet` those that are not.
    """

    text: str
    score: float = 0.0
    log_probability: float = 0.0
    tokens: tuple[str, ...] = ()
    source_tokens: tuple[str, ...] = ()
    truncated: bool = False  # it reached the longest that was allowed, and was ended there
    repetitive: bool = False  # it goes round in circles, and the source does not
    split: bool = False  # the source was longer than the model was trained for, and was translated in parts
    alignment: tuple[tuple[int, int], ...] | None = None
    attention: Any = field(default=None, repr=False, compare=False)
    alternatives: tuple[Translation, ...] = ()
    met: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def empty(self) -> bool:
        """Nothing was written."""
        return not self.text.strip()

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of what to be careful with."""
        return tuple(name for name in FLAGS if getattr(self, name))


@dataclass(frozen=True)
class Scored:
    """What a model thinks of a given translation; the end mark is the last of its tokens.

    `log_probability` is log P of all of it, and `score` that over lp, by which a search would have ranked it.
    """

    score: float
    log_probability: float
    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]

    @property
    def per_token(self) -> float:
        """log P over the number of tokens, the end mark counted: minus this is the logarithm of the perplexity."""
        return self.log_probability / len(self.tokens)
