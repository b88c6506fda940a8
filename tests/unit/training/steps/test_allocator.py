"""Freed memory stays with the process; tested in a child process, because the setting is permanent."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

CHILD = """
import ctypes, resource
from dragoman.training.steps.eager import keep_freed_memory
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
def step():
    places = [ctypes.c_void_p(c.malloc(size << 20)) for size in (64, 32, 48)]
    for place in places:
        c.memset(place, 1, 32 << 20)
        c.free(place)
def faults():
    step(); step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
plain = faults()
assert keep_freed_memory()
print(plain, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a switch of glibc")
def test_pages_are_asked_for_once() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, check=True)
    plain, kept = map(int, done.stdout.split())
    assert kept < plain / 4  # a fault may be for one page or for many: the system decides
