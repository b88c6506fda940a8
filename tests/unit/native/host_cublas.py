"""What is asked of cuBLASLt, done by the host: the binding can be tried without a GPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.native.cublas import CublasLt


def on_the_host(folder: Path) -> CublasLt:
    """The binding of a library that is built from `host_cublas.c`, with nothing asked of it yet."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    made = folder / "host_cublas.so"
    source = Path(__file__).with_suffix(".c")
    words = ["cc", "-O1", "-std=gnu11", "-Wall", "-Werror", "-fPIC", "-shared", str(source), "-o", str(made)]
    subprocess.run(words, check=True)
    return CublasLt(str(made))


def number(lt: CublasLt, name: str) -> ctypes.c_int:
    """One of the numbers that the library counts by, or is told."""
    return ctypes.c_int.in_dll(lt.functions, name)


def address(lt: CublasLt, name: str) -> int | None:
    """One of the addresses that it was given last."""
    return ctypes.c_void_p.in_dll(lt.functions, name).value
