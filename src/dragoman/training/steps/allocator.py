"""Keep the memory of CPU steps from one step to the next."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4  # of mallopt(3)
MAX_INT: Final = 2**31 - 1


def keep_freed_memory() -> bool:
    """Have the C library keep freed memory; return whether it does.

    By default it returns large blocks at once, and the system clears every page that it hands out again: up to a fifth
    of a step. Peak memory does not change.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # a C library that has no such switch
        return False
    return all(mallopt(name, value) for name, value in ((MMAP_MAX, 0), (TRIM_THRESHOLD, MAX_INT), (TOP_PAD, 1 << 26)))
