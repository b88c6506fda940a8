"""What a head does, in figures over a corpus, and in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

FAR: Final = 5  # tokens away, up to which places are counted one by one
EVEN: Final = 0.95  # of the entropy that equal weights would have
MOST: Final = 0.5  # of the queries, or of the weight: enough to be named after


@dataclass(frozen=True)
class Behavior:
    """Means over all queries of a corpus; shares are between 0 and 1, and None where there is no such thing.

    Within a sentence, the place of a query is its own; between two, it is the point of the diagonal beside it.
    """

    offset: float  # from the query's place to where it looks, weighted; behind it is negative
    spread: float  # the standard deviation of that
    entropy: float  # in nats
    evenness: float | None  # entropy over that of equal weights on all that is seen
    confidence: float  # the greatest weight
    at: Mapping[int, float]  # how often the greatest weight is so far away, among queries that have such a key
    end: float | None  # weight on the end mark,
    first: float  # on the first key of all,
    punctuation: float  # on tokens without a letter or figure,
    same: float | None  # on the same token at other places, among queries that have one,
    rarest: float | None  # and on the token of the sentence that comes least often in the corpus
    diagonal: float | None  # how often the greatest weight is within one token of the diagonal
    aligns: float | None  # how often it is where the model's pointer looks, for the better step of the two
    step: Literal["writes", "reads"] | None = None  # which step that is


def label(does: Behavior | None, first: str = "the first token") -> str:
    """What it does in a few words; `first` names the first key."""
    if does is None:
        return "mixes positions"
    if does.evenness is not None and does.evenness >= EVEN:
        return "spreads evenly"
    if does.aligns is not None and does.aligns >= MOST:
        return f"aligns {percent(does.aligns)}"
    share, words = max(candidates(does, first))
    if share >= MOST:
        return f"{words} {percent(share)}"
    return f"mixed; {words} {percent(share)}"


def candidates(does: Behavior, first: str) -> list[tuple[float, str]]:
    """All that a head might be named after, with its share."""
    end = does.end or 0.0
    found = [(does.first, first), (does.punctuation, "punctuation"), (end, "the end mark")]
    if max(end, does.punctuation) < MOST <= end + does.punctuation:
        found.append((end + does.punctuation, "punctuation and end"))
    found += [(share, distance(offset)) for offset, share in does.at.items()]
    for share, words in ((does.diagonal, "along the diagonal"), (does.rarest, "the rarest token")):
        if share is not None:
            found.append((share, words))
    return found


def distance(offset: int) -> str:
    """A relative place in words."""
    match offset:
        case 0:
            return "itself"
        case -1:
            return "the previous token"
        case 1:
            return "the next token"
        case _:
            return f"{abs(offset)} tokens {'back' if offset < 0 else 'ahead'}"


def percent(share: float) -> str:
    """As people write it."""
    return f"({100 * share:.0f} %)"
