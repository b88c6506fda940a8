"""Limits of the server, chosen so that it can finish what it accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dragoman.errors import SearchError
from dragoman.search.types import MAX_BEAM, check_integer

BYTES_PER_CHARACTER: Final = 12  # at most in JSON, as in \ud83d\ude00
SMALL_BODY_BYTES: Final = 1 << 16  # bodies up to this size do not count as large
MAX_LARGE_BODIES: Final = 4  # of the maximum size, in memory at once
MAX_LENGTH_TOKENS: Final = 500  # maximum of `extra_length` and `min_length`
MAX_ATTENTION_CHARACTERS: Final = 1_000  # weights grow with the square of the length
MAX_ATTENTION_CELLS: Final = 500_000  # source tokens x target tokens; 3 MB of JSON
MAX_TEXTS: Final = 20_000  # per request
MAX_SENTENCES: Final = 50_000  # per request: each takes memory in addition to its characters
MAX_REQUIRED: Final = 50  # phrases per request
MAX_AVOIDED: Final = 200
MAX_TERMS: Final = 1_000
MAX_CONSTRAINT_CHARACTERS: Final = 2_000  # constraint tables take kilobytes per character
BODY_SECONDS: Final = 5.0  # to receive a body, plus one second for each of these:
BODY_BYTES_PER_SECOND: Final = 4_096
DRAIN_SECONDS: Final = 2.0  # for the rest of a rejected body, which is dropped, so that the client sees the reply
DRAIN_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class Limits:
    """The limits that the operator sets."""

    max_queue: int = 256  # open requests: being read, queued or translated
    max_client_requests: int | None = None  # per client; None is a quarter of max_queue
    max_characters: int = 1_000_000  # per request
    max_work: int = 4_000_000  # output tokens x beam per request, estimated from its text
    max_reply: int = 32_000_000  # approximate bytes per reply
    timeout: float = 60.0  # seconds from request head to response
    max_beam: int = 16
    max_batch: int | None = None  # sentences per batch; None is the choice of the engine
    beam: int = 4  # default of requests

    def __post_init__(self) -> None:
        """Check the limits."""
        for name, maximum in (
            ("max_queue", 100_000),
            ("max_characters", 100_000_000),
            ("max_work", 1_000_000_000_000),
            ("max_reply", 1 << 31),
            ("max_beam", MAX_BEAM),
        ):
            check_integer(name, getattr(self, name), 1, maximum)
        if self.max_client_requests is None:
            object.__setattr__(self, "max_client_requests", max(1, self.max_queue // 4))
        check_integer("max_client_requests", self.max_client_requests, 1)
        if self.max_batch is not None:
            check_integer("max_batch", self.max_batch, 1)
        if not 0 < self.timeout <= 86_400:
            message = f"timeout must be over 0 and at most 86,400 seconds; got {self.timeout:g}"
            raise SearchError(message, code="out_of_range")
        if check_integer("beam", self.beam, 1) > self.max_beam:
            message = f"beam={self.beam} is over max_beam={self.max_beam}; raise max_beam as well"
            raise SearchError(message, code="out_of_range")

    @property
    def max_bytes(self) -> int:
        """The maximum body size: any text of `max_characters` fits, however it is escaped in JSON."""
        return BYTES_PER_CHARACTER * self.max_characters + SMALL_BODY_BYTES
