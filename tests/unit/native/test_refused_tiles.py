"""If a thread's signal stack is too small for tile registers, the system denies them to the whole process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.engines.native import NativeEngine
from dragoman.native import why_not
from dragoman.search.types import Search
from random_models import PAPER, sentences, write_random

SMALL_STACK = """
import ctypes, json, sys, pathlib

class Stack(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

memory = ctypes.create_string_buffer(8192)
stack = Stack(ctypes.addressof(memory), 0, 8192)
if ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None):
    sys.exit(77)

from dragoman.engines.native import NativeEngine
from dragoman.search.types import Search

directory, sources = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
found = NativeEngine.load(directory, 2).search(sources, Search(beam=3, max_length=9))
print(json.dumps([of[0].ids for of in found]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="signal stacks as Linux has them")
def test_it_translates_without_tiles(tmp_path: Path) -> None:
    directory, sources = write_random(tmp_path / "m", PAPER, 137), sentences(30, 137)
    engine = NativeEngine.load(directory, 2)
    if engine is None:
        pytest.skip(str(why_not("translate")))
    words = [sys.executable, "-c", SMALL_STACK, str(directory), str(sources)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("this processor's signal frames are too large for such a stack")
    expected = [of[0].ids for of in engine.search(sources, Search(beam=3, max_length=9))]
    assert (done.returncode, done.stdout.strip()) == (0, str(expected)), done.stderr
