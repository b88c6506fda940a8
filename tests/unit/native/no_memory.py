"""A C source of ours that is given memory as often as a test says."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.native import build


def refusing(source: str, folder: Path) -> ctypes.CDLL:
    """`source`, built with `no_memory.c` around it."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    made = folder / "no_memory.so"
    around = Path(__file__).with_suffix(".c")
    words = ["cc", *build.COMMON, "-O1", f'-DSOURCE="{source}"', f"-I{build.HERE}", str(around), "-o", str(made), "-lm"]
    subprocess.run(words, check=True, capture_output=True)
    return ctypes.CDLL(str(made))
