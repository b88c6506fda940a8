"""Counter-based random numbers: the k-th number of SplitMix64 (Steele et al., 2014) depends on (seed, k) alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Word = TypeVar("Word", int, NDArray[Any])

GAMMA: Final = 0x9E3779B97F4A7C15  # increment of the state
MULTIPLIERS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
MASK: Final = (1 << 64) - 1


def mix64(state: Word) -> Word:
    """The 64 random bits of a state: a Python int below 2**64, or an array of uint64."""
    state = (state ^ state >> 30) * MULTIPLIERS[0] & MASK
    state = (state ^ state >> 27) * MULTIPLIERS[1] & MASK
    state ^= state >> 31
    return state
