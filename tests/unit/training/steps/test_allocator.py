"""Freed memory stays with the process; tested in a child process, because the setting is permanent."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

CHILD = """
import ctypes, resource, sys
from dragoman.training.steps.eager import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
def step():
    places = [ctypes.c_void_p(c.malloc(size << 20)) for size in (64, 32, 48)]
    for place in places:
        c.memset(place, 1, 32 << 20)
        c.free(place)
step(); step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a switch of glibc")
def test_pages_are_asked_for_once() -> None:
    faults = {
        kind: int(subprocess.run([sys.executable, "-c", CHILD, kind], capture_output=True, check=True).stdout)
        for kind in ("plain", "keep")
    }
    assert faults["keep"] < faults["plain"] / 4  # a fault may be for one page or for many: the system decides
