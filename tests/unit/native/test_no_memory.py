"""Every failed memory allocation of the engine is an error, without leaks."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import pytest
from no_memory import refusing
from test_translate_library import TOLD_SIMPLY, engine_of

from dragoman.config import ModelRecipe
from dragoman.search.types import Search
from random_models import PAPER, sentences, write_random

ALL = 10**9


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return refusing("translate", tmp_path_factory.mktemp("code"))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [PAPER, *TOLD_SIMPLY.values()], ids=["paper", *TOLD_SIMPLY])
def test_each_refusal_is_an_error_that_leaves_nothing_behind(
    recipe: ModelRecipe, code: ctypes.CDLL, tmp_path: Path
) -> None:
    directory = write_random(tmp_path / "m", recipe, 137)
    granted, held = ctypes.c_int.in_dll(code, "granted"), ctypes.c_int.in_dll(code, "held")
    engine, grants = None, 0
    while engine is None:
        granted.value = grants
        try:
            engine = engine_of(code, directory, True)
        except MemoryError as error:
            assert "memory for the model" in str(error) and held.value == 0
        grants += 1
    assert grants > 30  # the model, its arrays, orders of channels and the two threads that pack

    sources, search, refusals, found = sentences(5, 137), Search(beam=2, max_length=7), 0, None
    while found is None:
        granted.value = refusals
        try:
            found = engine.search(sources, search)
        except MemoryError as error:
            refusals += 1
            assert "memory" in str(error)
    sines = recipe.positions in ("sinusoidal", "rotary")
    assert refusals >= 3 + sines  # a worker, its two regions and the sines
    granted.value = ALL
    assert found == engine.search(sources, search) == engine_of(code, directory, True).search(sources, search)
    del engine
    gc.collect()  # errors that were raised hold their frames, and these the engine
    assert held.value == 0
