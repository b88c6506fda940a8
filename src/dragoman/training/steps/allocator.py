"""The memory of steps on a CPU, kept from one to the next."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4  # of mallopt(3)
MOST: Final = 2**31 - 1


def keep_freed_memory() -> bool:
    """Have the C library keep what a step frees for the next one; whether it does.

    It would give large blocks back at once, and the system clears every page that it hands out again: up to a fifth of
    a step. The most that is held does not change.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # a C library that has no such switch
        return False
    return all(mallopt(name, value) for name, value in ((MMAP_MAX, 0), (TRIM_THRESHOLD, MOST), (TOP_PAD, 1 << 26)))
