"""How much the server takes on, so that what it takes it can finish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dragoman.errors import SearchError
from dragoman.search.types import MOST_BEAM, whole

ESCAPED: Final = 12  # bytes of a character in JSON at most, as in \ud83d\ude00
FRAME: Final = 1 << 16  # bytes of a body beside its text; bodies up to this size need no share of the memory
MOST_LENGTH: Final = 500  # tokens that a request may ask for beyond what the source has: a search cannot be interrupted
MOST_LOOKED: Final = 1_000  # characters of a line to look into: weights grow with the square
MOST_SENTENCES: Final = 50_000  # of a request, however short: each takes memory beside its characters
MOST_REQUIRED: Final = 50  # phrases of a request
MOST_AVOIDED: Final = 200
MOST_TERMS: Final = 1_000
MOST_WISHED: Final = 2_000  # characters of what is required and avoided: its tables take kilobytes for each
SHARES: Final = 4  # large bodies that fit into memory at once


@dataclass(frozen=True)
class Limits:
    """What a server was told to hold itself to."""

    max_queue: int = 256  # requests that are read, wait or are translated
    max_characters: int = 1_000_000  # of a request
    timeout: float = 60.0  # seconds from a request's head to its answer
    max_beam: int = 16
    max_batch: int | None = None  # sentences; the engine's own choice without it
    beam: int = 4  # where a request names none

    def __post_init__(self) -> None:
        """Refuse what no server can hold."""
        for name, most in (("max_queue", 100_000), ("max_characters", 100_000_000), ("max_beam", MOST_BEAM)):
            whole(name, getattr(self, name), 1, most)
        if self.max_batch is not None:
            whole("max_batch", self.max_batch, 1)
        if not 0 < self.timeout <= 86_400:
            raise SearchError(f"timeout must be over 0 and at most 86,400 seconds; got {self.timeout:g}")
        if whole("beam", self.beam, 1) > self.max_beam:
            raise SearchError(f"beam={self.beam} is over max_beam={self.max_beam}; raise the latter as well")

    @property
    def max_bytes(self) -> int:
        """Of a body: any text of `max_characters` fits, however it is written in JSON."""
        return ESCAPED * self.max_characters + FRAME
