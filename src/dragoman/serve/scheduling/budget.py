"""What a request costs: output tokens x beam, and bytes of the reply. Estimated before, metered while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from dragoman.search.types import Search
from dragoman.serve.errors import RequestError
from dragoman.serve.limits import Limits
from dragoman.translation.result import Translation

BYTES_PER_TOKEN: Final = 3  # of UTF-8; between English (4) and rare scripts, which are encoded byte by byte
BYTES_PER_REPLY: Final = 100  # of one translation, besides its text
FREE_LENGTH: Final = 2_000  # tokens that `min_length` and `extra_length` may add to a request
LENGTH_PER_TOKEN: Final = 8  # and so many more for each token of the source
METERED_FACTOR: Final = 4  # by which real work may exceed the limit of estimates
SECONDS_FACTOR: Final = 2.0  # by which estimated seconds may exceed the deadline: other work slows measurements


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN + 1


def added_length(search: Search) -> int:
    """Tokens that a search may write, or must write, whatever its source."""
    return max(search.min_length, search.extra_length - Search.extra_length, 0)


def count_rows(search: Search) -> int:
    """The hypotheses of a sentence that are computed at each step."""
    return search.n_best if search.sampling is not None else search.beam


def estimate_work(sentence: str, search: Search) -> int:
    """Output tokens x beam of a sentence, and its source tokens."""
    tokens = estimate_tokens(sentence)
    output = tokens + added_length(search)
    if search.max_length is not None:
        output = min(output, search.max_length)
    return tokens + output * count_rows(search)


def measure_work(translation: Translation, search: Search) -> int:
    """Output tokens x beam that a translation took."""
    return len(translation.source_tokens) + (len(translation.tokens) + 1) * count_rows(search)


def measure_bytes(translation: Translation) -> int:
    """About the bytes of a translation and its alternatives in a reply."""
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
    """Reject lengths that turn short texts into much work; `min_length` and `extra_length` count once per text."""
    added = len(texts) * added_length(search)
    if added <= FREE_LENGTH:
        return
    allowed = FREE_LENGTH + LENGTH_PER_TOKEN * sum(map(estimate_tokens, texts))
    if added > allowed:
        what = "min_length" if search.min_length >= search.extra_length - Search.extra_length else "extra_length"
        message = (
            f"{what} adds up to {added:,} tokens, {added // len(texts):,} for each text; texts of this size may have "
            f"{allowed:,} in all; use a smaller {what}, or send fewer texts"
        )
        raise RequestError(413, "over_budget", message)


def check_seconds(seconds: float, limits: Limits) -> None:
    """Reject a request that could not be ready in time even if it were the only one."""
    if seconds > SECONDS_FACTOR * limits.timeout:
        message = (
            f"the request would take about {seconds:,.0f} seconds; replies must be ready within {limits.timeout:g} "
            "(--timeout); use a smaller beam or smaller lengths, or send the text in several requests"
        )
        raise RequestError(413, "over_budget", message)


def check_work(total: int, limits: Limits) -> None:
    """Reject a request whose estimated work is over the limit of the server."""
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
    """The reply would be too large."""
    message = (
        f"the reply would have about {size:,} bytes; this server sends at most {limits.max_reply:,}; use a smaller "
        "n_best, or send the text in several requests"
    )
    return RequestError(413, "over_budget", message)


class Meter:
    """The work and the bytes of a request so far; raises as soon as they are over the limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.work, self.bytes = limits, 0, 0

    def add(self, translation: Translation, search: Search) -> None:
        """Count a translation."""
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
