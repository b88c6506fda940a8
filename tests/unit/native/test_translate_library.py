"""The C engine built for older processors: other kernels, the same translations."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.config import Recipe
from dragoman.engines.native import NativeEngine
from dragoman.engines.native_layout import STRUCTURES
from dragoman.engines.native_model import NativeModel
from dragoman.modeldir.weights import read_weights
from dragoman.native import build, library, why_not
from dragoman.native.build import layout_mismatch
from dragoman.native.variants import variants
from dragoman.search.types import Search
from random_models import PAPER, TOLD, sentences, write_random

BUILDS = {variant.name: variant.flags or ("-march=x86-64",) for variant in variants("translate", "x86_64", "linux")}
BUILDS["avx_vnni in avx512"] = ("-DNARROW",)  # where longer vectors have dot products, shorter ones have them too

TOLD_SIMPLY = {recipe.positions: recipe for recipe in reversed(TOLD.values())}  # the first of each


def engine_of(code: ctypes.CDLL, directory: Path, quantize: bool) -> NativeEngine:
    code.model_new.restype = code.worker_new.restype = ctypes.c_void_p
    weights, recipe = read_weights(directory), Recipe.load(directory / "recipe.toml").model
    assert weights is not None
    return NativeEngine([NativeModel(code, recipe, (137, 137), weights, 2, quantize)], 2, quantize)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="these flags are for x86-64")
@pytest.mark.parametrize(
    "build_name", [pytest.param(name, marks=pytest.mark.slow) if " in " in name else name for name in BUILDS]
)
def test_other_processors_translate_alike(build_name: str, tmp_path: Path) -> None:
    """One test per build, so that no two processes compile the same one at once."""
    processor, name = library("processor"), build_name.partition(" ")[0]
    if processor is not None and build_name == name and not processor.supports(name.encode()):
        pytest.skip(f"this processor has no {name}")
    best = library("translate")
    if best is None:
        pytest.skip(str(why_not("translate")))
    best.instructions.restype = ctypes.c_char_p
    if best.instructions() == name.encode() and build_name == name:
        code: ctypes.CDLL | None = best  # not compiled again, which takes 10 s
    else:
        code = library("translate", *BUILDS[build_name])
    if code is None:
        pytest.skip(str(why_not("translate")))
    code.instructions.restype = ctypes.c_char_p
    if build_name == name:
        assert code.instructions() == name.encode()
    for positions, recipe in {"paper": PAPER, **TOLD_SIMPLY}.items():
        compare_builds(code, best, build_name, write_random(tmp_path / positions, recipe, 137))


def compare_builds(code: ctypes.CDLL, best: ctypes.CDLL, build_name: str, directory: Path) -> None:
    """A model translates alike with two builds, in both precisions and in any batch."""
    sources, search = sentences(40, 137), Search(beam=3, n_best=3, extra_length=6)
    exact = engine_of(best, directory, False).search(sources, search)
    lesser = {quantize: engine_of(code, directory, quantize) for quantize in (False, True)}
    other = lesser[False].search(sources, search)
    for engine in lesser.values():  # the same bits in any company
        assert [engine.search([source], search)[0] for source in sources] == engine.search(sources, search)
        free = [of[0] for of in engine.search(sources, search)]  # and a path has the probability it was found with
        given = engine.search(sources, Search(beam=1, extra_length=6), [h.ids for h in free])
        assert [of[0].log_probability for of in given] == [h.log_probability for h in free]
    assert [[h.ids for h in of] for of in exact] == [[h.ids for h in of] for of in other]
    # In eight bits the probabilities of given paths: how keys are kept may differ, and a rounding with it.
    paths, ends_there = [[*of[0].ids, 5] for of in exact], Search(beam=1, max_length=1)
    a, b = (
        [of[0].log_probability for of in engine.search(sources, ends_there, paths)]
        for engine in (engine_of(best, directory, True), lesser[True])
    )
    assert sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a) < 0.3
    if best.instructions() in (b"amx", b"avx512_vnni") and build_name not in ("avx_vnni", "avx2", "portable"):
        # Sums of whole numbers are exact; compilers fuse the products of rotations in different ways.
        rotary = Recipe.load(directory / "recipe.toml").model.positions == "rotary"
        assert a == (pytest.approx(b, rel=0, abs=2e-5) if rotary else b)


def test_the_structures_of_python_are_those_of_c() -> None:
    code = library("translate")
    if code is None:
        pytest.skip(str(why_not("translate")))
    assert layout_mismatch(code, STRUCTURES) is None
    assert "TranslationJob" in str(layout_mismatch(code, STRUCTURES[:1]))


@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("cc"), reason="flags for a compiler for x86-64")
@pytest.mark.parametrize("flags", [("-mavx2", "-mavxvnni", "-mamx-int8"), ("-march=sapphirerapids", "-DNARROW")])
def test_tiles_have_signs_and_short_dot_products_have_none(flags: tuple[str, ...]) -> None:
    """Activations are made for one of them, and no machine here has both."""
    words = ["cc", *flags, "-DEXPORT=", "-dM", "-E", str(build.HERE / "translate/kernels/int8_kernels.h")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(done.stderr)
    assert "#define HAS_AMX 0" in done.stdout or "#define HAS_SHORT_DOTS 0" in done.stdout
