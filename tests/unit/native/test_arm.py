"""The ARM kernels, cross-compiled and run in an emulator."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from emulated import Emulated, program

from dragoman.config import ModelRecipe
from dragoman.engines.native import NativeEngine
from dragoman.engines.native_model import NativeModel
from dragoman.engines.torch import TorchEngine
from dragoman.modeldir.weights import read_weights
from dragoman.search.types import Hypothesis, Search
from random_models import RECIPES, sentences, write_random

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
CPUS = {"cortex-a53": "portable", "neoverse-n1": "dotprod", "max": "i8mm"}
SEARCH = Search(beam=3, n_best=3, extra_length=6)

pytestmark = pytest.mark.skipif(
    None in (shutil.which(COMPILER), shutil.which(EMULATOR)), reason=f"{COMPILER} and {EMULATOR} are not both here"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program([COMPILER], tmp_path_factory.mktemp("arm") / "program", "-Wall", "-Wextra", "-Werror")


@pytest.fixture(params=list(RECIPES))
def model(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, ModelRecipe, tuple[int, int]]:
    recipe, vocabulary = RECIPES[request.param]
    both = (vocabulary, vocabulary) if isinstance(vocabulary, int) else vocabulary
    return write_random(tmp_path / "m", recipe, vocabulary), recipe, both


def on_arm(cpu: str, built: Path, model: tuple[Path, ModelRecipe, tuple[int, int]], quantize: bool) -> NativeEngine:
    directory, recipe, vocabulary = model
    room = directory.with_name(f"{cpu}-{quantize}")
    room.mkdir()
    code: Any = Emulated([EMULATOR, "-cpu", cpu, str(built)], recipe, vocabulary, room)
    weights = read_weights(directory)
    assert weights is not None
    return NativeEngine([NativeModel(code, recipe, vocabulary, weights, 1, quantize)], 1, quantize)


@pytest.mark.parametrize("cpu", CPUS)
def test_each_processor_uses_what_it_has_and_sums_exactly(cpu: str, built: Path) -> None:
    done = subprocess.run([EMULATOR, "-cpu", cpu, str(built)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, CPUS[cpu])


def test_float_agrees_with_the_reference(built: Path, model: tuple[Path, ModelRecipe, tuple[int, int]]) -> None:
    sources = sentences(6, model[2][0])
    reference, engine = TorchEngine.load(model[0]), on_arm("max", built, model, False)
    expected, found = reference.search(sources, SEARCH), engine.search(sources, SEARCH)
    assert engine.search([sources[5]], SEARCH) == [found[5]]  # in any company
    assert [[h.ids for h in of] for of in found] == [[h.ids for h in of] for of in expected]
    for a, b in zip((h for of in found for h in of), (h for of in expected for h in of), strict=True):
        assert a.log_probability == pytest.approx(b.log_probability, abs=1e-3)


def test_eight_bits_are_the_same_on_every_processor_and_close(
    built: Path, model: tuple[Path, ModelRecipe, tuple[int, int]]
) -> None:
    sources = sentences(4, model[2][0])
    exact = on_arm("max", built, model, False)
    engines = [on_arm(cpu, built, model, True) for cpu in CPUS]
    found: list[list[list[Hypothesis]]] = [engine.search(sources, SEARCH) for engine in engines]
    assert found[0] == found[1] == found[2]
    assert [engine.search([sources[3]], SEARCH) for engine in engines] == [[found[0][3]]] * 3  # and in any company
    paths, ends_there = [of[0].ids for of in found[0]], Search(beam=1, max_length=1)
    a, b = ([of[0].log_probability for of in e.search(sources, ends_there, paths)] for e in (exact, engines[0]))
    off = [abs(x - y) / (len(path) + 1) for x, y, path in zip(a, b, paths, strict=True)]
    assert max(off) < 0.15 and any(off)
