"""A short description of what a head does, from its statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dragoman.inspect.heads.statistics import HeadStatistics

MIN_UNIFORMITY: Final = 0.95  # of the entropy of equal weights, from which weights count as uniform
MIN_SHARE: Final = 0.5  # of the queries or of the weight, from which a head is named after it


def label_head(statistics: HeadStatistics | None, first: str = "the first token") -> str:
    """A short description; `first` names the first key."""
    if statistics is None:
        return "mixes positions"
    if statistics.uniformity is not None and statistics.uniformity >= MIN_UNIFORMITY:
        return "spreads evenly"
    if statistics.alignment_agreement is not None and statistics.alignment_agreement >= MIN_SHARE:
        return f"aligns {format_share(statistics.alignment_agreement)}"
    share, words = max(candidates(statistics, first))
    if share >= MIN_SHARE:
        return f"{words} {format_share(share)}"
    return f"mixed; {words} {format_share(share)}"


def candidates(statistics: HeadStatistics, first: str) -> list[tuple[float, str]]:
    """All possible names of a head, with their shares."""
    end, punctuation = statistics.end or 0.0, statistics.punctuation
    found = [(statistics.first, first), (punctuation, "punctuation"), (end, "the end mark")]
    if max(end, punctuation) < MIN_SHARE <= end + punctuation:
        found.append((end + punctuation, "punctuation and end"))
    found += [(share, describe_offset(offset)) for offset, share in statistics.offsets.items()]
    for share, words in ((statistics.diagonal, "along the diagonal"), (statistics.rarest_token, "the rarest token")):
        if share is not None:
            found.append((share, words))
    return found


def describe_offset(offset: int) -> str:
    """A relative position in words."""
    match offset:
        case 0:
            return "itself"
        case -1:
            return "the previous token"
        case 1:
            return "the next token"
        case _:
            return f"{abs(offset)} tokens {'back' if offset < 0 else 'ahead'}"


def format_share(share: float) -> str:
    """A share as a percentage in parentheses."""
    return f"({100 * share:.0f} %)"
