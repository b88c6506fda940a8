"""A C library of ours that is given memory as often as a test says."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.native import build


def refusing(name: str, folder: Path) -> ctypes.CDLL:
    """The library `name`, built with `no_memory.h` before each of its sources."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    built = folder / "no_memory.so"
    counters, macros = Path(__file__).with_suffix(".c"), Path(__file__).with_suffix(".h")
    sources = map(str, (counters, *(build.HERE / name).rglob("*.c")))
    words = ["cc", *build.COMMON, "-O1", "-include", str(macros), *sources, "-o", str(built), "-lm"]
    subprocess.run(words, check=True, capture_output=True)
    return ctypes.CDLL(str(built))
