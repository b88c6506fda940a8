"""Keys of the random numbers of samples: a function of the seed, the source and the number of the hypothesis."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from dragoman.search.types import Ids

if TYPE_CHECKING:
    from dragoman.arrays import Int64Array

BETWEEN_HYPOTHESES: Final = -3335678366873096957  # an odd number: each hypothesis has other keys


def sampling_keys(sources: Ids, seed: int) -> list[int]:
    """A 64-bit hash of each source and the seed."""
    texts = (f"{seed} {' '.join(map(str, source))}" for source in sources)
    return [
        int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True) for text in texts
    ]


def hypothesis_keys(sources: Ids, seed: int, n_best: int) -> Int64Array:
    """The key `[B, n_best]` of each hypothesis."""
    import numpy as np

    keys = np.array(sampling_keys(sources, seed), np.int64)
    return keys[:, None] ^ (np.arange(n_best, dtype=np.int64) * BETWEEN_HYPOTHESES)
