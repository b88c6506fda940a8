"""A search that is told to stop ends between two steps, in every engine that runs here."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.engines.native import NativeEngine
from dragoman.engines.torch import TorchEngine
from dragoman.search.types import Sampling, Search, SearchInterruptedError, StopFlag
from dragoman.translation.translator import Translator
from raising import raises
from tiny_model import write_tiny_model

SOURCES = [[5, 6, 7], [8, 9]]
ENDLESS = Search(beam=2, min_length=60_000, extra_length=60_000)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("interrupted") / "tiny")


@pytest.mark.parametrize("sampling", [None, Sampling()])
def test_a_torch_search_takes_no_step_after_the_flag(
    directory: Path, sampling: Sampling | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, stop, steps = TorchEngine.load(directory), StopFlag(), []
    step = engine.model.step

    def stop_after_three(*arguments: Any) -> Any:
        steps.append(1)
        if len(steps) == 3:
            stop.set()
        return step(*arguments)

    monkeypatch.setattr(engine.model, "step", stop_after_three)
    with raises(SearchInterruptedError, "search_interrupted"):
        engine.search(SOURCES, Search(beam=2, n_best=2, min_length=20, sampling=sampling), stop=stop)
    assert len(steps) == 3


def test_a_native_search_ends_when_another_thread_sets_the_flag(directory: Path) -> None:
    engine, stop = NativeEngine.load(directory, threads=1), StopFlag()
    if engine is None:
        pytest.skip("the native engine cannot be built here")
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait()
        stop.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    begun.set()
    with raises(SearchInterruptedError, "search_interrupted"):
        engine.search(SOURCES, ENDLESS, stop=stop)
    thread.join()
    assert engine.search(SOURCES, Search(), stop=StopFlag()) == engine.search(SOURCES, Search())


def test_a_translator_is_interrupted_before_it_begins(directory: Path) -> None:
    stop = StopFlag()
    stop.set()
    with raises(SearchInterruptedError, "search_interrupted"):
        Translator.load(directory, device="cpu").translate("the old box", stop=stop)


def test_lengths_count_once_per_text(directory: Path) -> None:
    translator = Translator.load(directory, device="cpu")
    text = "\N{GRINNING FACE}" * 60  # 240 bytes: parts of at most 30 tokens
    found = translator.translate(text, beam=1, min_length=90, extra_length=0)
    assert found.split
    assert 90 <= len(found.tokens) < 400  # 90 for each part would be over 700
    whole = translator.translate("the old box", beam=1, min_length=90, extra_length=0)
    assert len(whole.tokens) == 90


@pytest.mark.parametrize(("n_parts", "min_length", "extra_length"), [(1, 500, 300), (4, 125, 113), (1000, 1, 51)])
def test_parts_share_lengths(n_parts: int, min_length: int, extra_length: int) -> None:
    found = Search(min_length=500, extra_length=300).for_part(n_parts)
    assert (found.min_length, found.extra_length) == (min_length, extra_length)
    assert Search().for_part(n_parts) == Search()
    assert Search(extra_length=20).for_part(n_parts) == Search(extra_length=20)
