"""Results: translations and scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

FLAGS: Final = ("truncated", "repetitive", "split", "unmet", "empty")


@dataclass(frozen=True)
class Translation:
    """One translation.

    `score` is log P / lp, by which hypotheses are ranked; for a text in parts, the sum of log P over the sum of lp.
    `tokens` are the output tokens, `source_tokens` the input tokens. `alternatives` are the next best translations,
    with `n_best`; for a text in parts, the next best of each part.
    `alignment` has pairs of word indices (source, target) from 0; `attention [tokens, source_tokens]` is a NumPy array
    without the weights on the source's end mark. Both only on request.
    `met` are the required phrases that the translation contains, `unmet` those it lacks.
    """

    text: str
    score: float = 0.0
    log_probability: float = 0.0
    tokens: tuple[str, ...] = ()
    source_tokens: tuple[str, ...] = ()
    truncated: bool = False  # cut off at the maximum length
    repetitive: bool = False  # it repeats itself, and the source does not
    split: bool = False  # the source was too long and was translated in parts
    alignment: tuple[tuple[int, int], ...] | None = None
    attention: Any = field(default=None, repr=False, compare=False)
    alternatives: tuple[Translation, ...] = ()
    met: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def empty(self) -> bool:
        """Whether the text is empty."""
        return not self.text.strip()

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of the warnings that apply."""
        return tuple(name for name in FLAGS if getattr(self, name))


@dataclass(frozen=True)
class Scored:
    """The score of a given translation; the end mark is the last of its tokens.

    `log_probability` is log P of the whole translation, and `score` is log P / lp, by which a search would rank it.
    """

    score: float
    log_probability: float
    tokens: tuple[str, ...]
    token_log_probabilities: tuple[float, ...]

    @property
    def per_token(self) -> float:
        """log P / number of tokens, the end mark included: the negative logarithm of the perplexity."""
        return self.log_probability / len(self.tokens)
