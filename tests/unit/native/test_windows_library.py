"""The C engine cross-compiled for Windows with zig and run under wine: the same translations as here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from emulated import Emulated, program

from dragoman.engines.native import NativeEngine
from dragoman.engines.native_model import NativeModel
from dragoman.modeldir.weights import read_weights
from dragoman.search.types import Search
from random_models import PAPER, sentences, write_random

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("wine") is None or find_spec("ziglang") is None,
    reason="wine and ziglang are not both here",
)
ZIG = (sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu")


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs a program for Windows, with a prefix of its own."""
    prefix = Path(os.environ.get("WINEPREFIX") or tmp_path_factory.mktemp("wine") / "prefix")
    command = ["env", f"WINEPREFIX={prefix}", "WINEDEBUG=-all", "wine"]
    started = subprocess.run([*command, "cmd", "/c", "echo", "here"], capture_output=True, text=True, check=False)
    if "here" not in started.stdout:
        pytest.skip(f"wine does not start: {started.stderr[-200:]}")
    return command


@pytest.fixture(scope="module", params=["", "x86_64_v3"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = [f"-mcpu={request.param}"] if request.param else []
    return program(ZIG, tmp_path_factory.mktemp("windows") / "program.exe", "-Wall", "-Wextra", "-Werror", *flags)


def test_the_kernels_sum_exactly(wine: list[str], built: Path) -> None:
    done = subprocess.run([*wine, str(built)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip() in ("portable", "avx2")


def test_translations_are_those_of_this_machine(wine: list[str], built: Path, tmp_path: Path) -> None:
    directory, sources = write_random(tmp_path / "m", PAPER, 137), sentences(12, 137)
    code: Any = Emulated([*wine, str(built)], PAPER, (137, 137), tmp_path)
    weights, here = read_weights(directory), NativeEngine.load(directory, 1, quantize=False)
    if here is None:
        pytest.skip("the C engine cannot be built here")
    assert weights is not None
    there = NativeEngine([NativeModel(code, PAPER, (137, 137), weights, 2, False)], 2, False)
    search = Search(beam=3, n_best=3, extra_length=6)
    expected, found = here.search(sources, search), there.search(sources, search)
    assert [[h.ids for h in of] for of in found] == [[h.ids for h in of] for of in expected]
