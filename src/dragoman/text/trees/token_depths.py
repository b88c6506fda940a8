"""The ids of a sentence with the depth of each token in its dependency tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dragoman.text.tokenizer import Tokenizer
from dragoman.text.trees.dependency import depths_of_tokens


class ParsedIds(tuple[int, ...]):
    """The ids of a sentence with the depth of each token in its tree; equal only with equal depths."""

    depths: tuple[int, ...]

    def __new__(cls, ids: Iterable[int], depths: Iterable[int]) -> ParsedIds:
        """Ids, and a depth for each."""
        parsed = super().__new__(cls, ids)
        parsed.depths = tuple(depths)
        assert len(parsed.depths) == len(parsed)
        return parsed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParsedIds) and tuple(self) == tuple(other) and self.depths == other.depths

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: tuple[int, ...]) -> bool:
        return (tuple(self), self.depths) < (tuple(other), depths_of(other))

    def __hash__(self) -> int:
        return hash((tuple(self), self.depths))

    def parts(self, sizes: Iterable[int]) -> list[ParsedIds]:
        """The sentence in consecutive parts of these sizes; depths are those in the whole tree."""
        found, start = [], 0
        for size in sizes:
            here = slice(start, start + size)
            found.append(ParsedIds(self[here], self.depths[here]))
            start += size
        return found


def attach_depths(ids: Sequence[int], tokenizer: Tokenizer, of_bytes: bytes) -> ParsedIds:
    """The ids of a text, with depths from those of its bytes."""
    return ParsedIds(ids, depths_of_tokens(ids, tokenizer.widths, of_bytes))


def depths_of(ids: Sequence[int]) -> tuple[int, ...]:
    """The depths of a sentence's tokens; empty without a tree."""
    return ids.depths if isinstance(ids, ParsedIds) else ()
