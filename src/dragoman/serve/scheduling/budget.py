"""The cost of requests, in output tokens x beam and bytes of the reply: estimated first, metered while they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from dragoman.search.types import Search
from dragoman.serve.errors import RequestError
from dragoman.serve.limits import Limits
from dragoman.translation.result import Translation

BYTES_PER_TOKEN: Final = 3  # of UTF-8; between English (4) and rare scripts, which are encoded byte by byte
BYTES_PER_REPLY: Final = 100  # per translation, in addition to its text
FREE_LENGTH: Final = 2_000  # tokens that `min_length` and `extra_length` may add to any request
LENGTH_PER_TOKEN: Final = 8  # more of them per source token
METERED_FACTOR: Final = 4  # by which measured work may exceed the limit on estimated work
SECONDS_FACTOR: Final = 2.0  # by which estimated seconds may exceed the deadline: a busy machine measures too slow


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text."""
    return len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN + 1


def added_length(search: Search) -> int:
    """Output tokens that a search allows or requires, whatever the source."""
    return max(search.min_length, search.extra_length - Search.extra_length, 0)


def count_rows(search: Search) -> int:
    """The number of hypotheses of a sentence per step."""
    return search.n_best if search.sampling is not None else search.beam


def estimate_work(sentence: str, search: Search) -> int:
    """Estimate the work of a sentence: output tokens x beam, plus source tokens."""
    tokens = estimate_tokens(sentence)
    output = tokens + added_length(search)
    if search.max_length is not None:
        output = min(output, search.max_length)
    return tokens + output * count_rows(search)


def measure_work(translation: Translation, search: Search) -> int:
    """The work of a translation: output tokens x beam, plus source tokens."""
    return len(translation.source_tokens) + (len(translation.tokens) + 1) * count_rows(search)


def measure_bytes(translation: Translation) -> int:
    """The approximate bytes of a translation and its alternatives in a reply."""
    pairs = 8 * len(translation.alignment or ())
    own = BYTES_PER_REPLY + len(translation.text) + pairs
    return own + sum(measure_bytes(other) for other in translation.alternatives)


def exceeds_bytes(translations: Iterable[Translation], limit: int) -> bool:
    """Whether a reply has about `limit` bytes or more; stops counting there."""
    total = 0
    for translation in translations:
        total += measure_bytes(translation)
        if total >= limit:
            return True
    return False


def check_added_length(texts: Sequence[str], search: Search) -> None:
    """Reject lengths that make short texts expensive; `min_length` and `extra_length` count once per text."""
    added = len(texts) * added_length(search)
    if added <= FREE_LENGTH:
        return
    allowed = FREE_LENGTH + LENGTH_PER_TOKEN * sum(map(estimate_tokens, texts))
    if added > allowed:
        what = "min_length" if search.min_length >= search.extra_length - Search.extra_length else "extra_length"
        message = (
            f"{what} adds {added:,} tokens, {added // len(texts):,} per text; the limit for texts of this size is "
            f"{allowed:,} in total; use a smaller {what}, or send fewer texts"
        )
        raise RequestError(413, "over_budget", message)


def check_seconds(seconds: float, limits: Limits) -> None:
    """Reject a request that would miss its deadline even on an idle server."""
    if seconds > SECONDS_FACTOR * limits.timeout:
        message = (
            f"the request would take about {seconds:,.0f} seconds; the limit is {limits.timeout:g} (--timeout); "
            "use a smaller beam or smaller lengths, or send the text in several requests"
        )
        raise RequestError(413, "over_budget", message)


def check_work(total: int, limits: Limits) -> None:
    """Reject a request whose estimated work is over the limit."""
    if total > limits.max_work:
        message = (
            f"the request would take about {total:,} output tokens x beam; this server accepts {limits.max_work:,} "
            "(--max-work); use a smaller beam, or send the text in several requests"
        )
        raise RequestError(413, "over_budget", message)


def check_reply(n_texts: int, characters: int, search: Search, limits: Limits) -> None:
    """Reject a request whose reply would be too large."""
    size = search.n_best * (characters + BYTES_PER_REPLY * n_texts)
    if size > limits.max_reply:
        raise over_reply(size, limits)


def over_reply(size: int, limits: Limits) -> RequestError:
    """The error for a reply that is too large."""
    message = (
        f"the reply would have about {size:,} bytes; this server sends at most {limits.max_reply:,}; use a smaller "
        "n_best, or send the text in several requests"
    )
    return RequestError(413, "over_budget", message)


class Meter:
    """The work, reply bytes and sentences of a request so far; raises when they exceed the limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.work, self.bytes, self.sentences = limits, 0, 0, 0

    def add(self, translation: Translation, search: Search) -> None:
        """Count a translation."""
        self.sentences += 1
        self.work += measure_work(translation, search)
        self.bytes += measure_bytes(translation)
        if self.bytes > self.limits.max_reply:
            raise over_reply(self.bytes, self.limits)
        if self.work > METERED_FACTOR * self.limits.max_work:
            message = (
                f"the request has taken {self.work:,} output tokens x beam, far over its estimate; this server accepts "
                f"{self.limits.max_work:,} (--max-work); use a smaller beam, or send the text in several requests"
            )
            raise RequestError(413, "over_budget", message)
