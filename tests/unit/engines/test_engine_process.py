"""The CUDA engine in a process of its own: the same tables as in this one, errors, stop flags, deaths. On a CPU."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.engines.base import SearchCall
from dragoman.engines.cuda import process
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.engines.cuda.messages import EngineOptions, Failure
from dragoman.engines.cuda.process import EngineProcess, EngineProcessError
from dragoman.engines.cuda.worker import describe_failure
from dragoman.errors import DamagedError, DragomanError, MissingExtraError, SearchError, ShapeError, shortage
from dragoman.models.loading import load_model
from dragoman.search.hypotheses import HypothesisTable
from dragoman.search.types import RecordedHead, Sampling, Search, SearchInterruptedError, StopFlag
from dragoman.text.special_tokens import PAD
from raising import raises
from random_models import RECIPES, sentences, write_random
from stub_engine_process import COMMAND, FOREVER, UNTIL_STOPPED

LEARNED = "pre, gelu, learned, biases, free heads, nothing tied, other epsilon"  # 64 positions
SOURCES = sentences(9, 90)
CALLS = {
    "greedy": SearchCall(SOURCES, Search(beam=1)),
    "beam": SearchCall(SOURCES[:7], Search(beam=4, length_penalty=1.1)),
    "n-best": SearchCall(SOURCES, Search(beam=5, n_best=3, no_repeat=2, extra_length=9)),
    "prefixes": SearchCall(SOURCES, Search(beam=2), [[5, 6, 7][: i % 4] for i in range(9)]),
    "maps": SearchCall(SOURCES, Search(beam=3, n_best=2), record=[RecordedHead(1, None), RecordedHead(0, 2)]),
    "nothing": SearchCall([], Search()),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random(tmp_path_factory.mktemp("process") / "m", *RECIPES[LEARNED])


@pytest.fixture(scope="module")
def here(directory: Path) -> CudaEngine:
    model: Any = load_model(directory, PAD)[0]
    return CudaEngine(model, torch.float32, "cpu")


@pytest.fixture(scope="module")
def there(directory: Path) -> Iterator[EngineProcess]:
    engine = EngineProcess(EngineOptions(directory, "cpu", "float32"))
    yield engine
    engine.close()


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineProcess]:
    monkeypatch.setattr(process, "module_command", lambda _: COMMAND)
    engine = EngineProcess(EngineOptions(tmp_path, "cpu", "float32"))
    yield engine
    engine.close()


def same(found: HypothesisTable, expected: HypothesisTable) -> None:
    """Every array is the same, to the last bit."""
    for name in ("counts", "lengths", "ids", "scores", "log_probabilities", "truncated"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs, name)
    assert (found.maps is None) == (expected.maps is None)
    for ours, theirs in zip(found.maps or (), expected.maps or (), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", CALLS)
def test_it_finds_what_the_engine_finds_in_this_process(name: str, here: CudaEngine, there: EngineProcess) -> None:
    same(there.search(*CALLS[name]), here.search(*CALLS[name]))


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_it_finds_the_same_on_a_gpu(precision: str, directory: Path) -> None:
    model: Any = load_model(directory, PAD, "cuda")[0]
    here = CudaEngine(model, getattr(torch, precision), "cuda")
    there = EngineProcess(EngineOptions(directory, "cuda", precision))
    for call in CALLS.values():
        same(there.search(*call), here.search(*call))
    there.close()


def test_queued_searches_and_other_threads_get_their_own_results(here: CudaEngine, there: EngineProcess) -> None:
    expected = {name: here.search(*call) for name, call in CALLS.items()}
    with ThreadPoolExecutor(3) as pool:
        rounds = [pool.submit(there.search_all, [CALLS[name] for name in [*CALLS][i:]]) for i in range(3)]
    for i, found in enumerate(rounds):
        for name, table in zip([*CALLS][i:], found.result(), strict=True):
            same(table, expected[name])
    assert not there.child.waiting


def test_weights_that_were_rounded_here_are_rounded_there(directory: Path) -> None:
    model: Any = load_model(directory, PAD)[0]
    expected = CudaEngine(model.bfloat16(), torch.float32, "cpu").search(*CALLS["beam"])
    engine = EngineProcess(EngineOptions(directory, "cpu", "float32", round_weights=True))
    same(engine.search(*CALLS["beam"]), expected)
    engine.close()


def test_it_says_what_it_supports(here: CudaEngine, there: EngineProcess) -> None:
    assert there.capabilities.max_beam == here.capabilities.max_beam
    assert (there.name, there.batch, there.precision) == (here.name, here.batch, here.precision)
    with raises(SearchError, "unsupported_by_engine", "sampling"):
        there.search(SOURCES, Search(sampling=Sampling()))
    with raises(SearchError, "unsupported_by_engine", "phrases"):
        there.search(SOURCES, Search(), constraints=[None] * len(SOURCES))
    with raises(ShapeError, "count_mismatch"):
        there.search(SOURCES, Search(), [[]])
    with raises(ShapeError, "unknown_id"):
        there.search(SOURCES[:1], Search(), [[1 << 40]])


def test_an_error_is_the_same_and_the_next_search_works(here: CudaEngine, there: EngineProcess) -> None:
    for engine in (here, there):
        with raises(ShapeError, "text_too_long", "70 tokens") as caught:
            engine.search([[5] * 69], Search())
    assert "too_long(" in caught.value.__notes__[0]  # the child's traceback
    with pytest.raises(RuntimeError, match="IndexError"):
        there.search([[5000]], Search())
    same(there.search(*CALLS["greedy"]), here.search(*CALLS["greedy"]))


def test_errors_keep_their_kind_code_and_message() -> None:
    for error in (
        SearchError("one", code="two"),
        DamagedError("three"),
        MissingExtraError("torch", "train", "this"),
        SearchInterruptedError("four"),
    ):
        found = describe_failure(error).to_error()
        assert isinstance(found, DragomanError)
        assert (type(found), str(found), found.code) == (type(error), str(error), error.code)
    full = describe_failure(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")).to_error()
    assert shortage(full) == "PyTorch asked for 2.00 GiB"
    assert shortage(describe_failure(MemoryError()).to_error()) == ""
    assert describe_failure(KeyError("five")) == Failure(RuntimeError, "KeyError: 'five'", None, "KeyError: 'five'\n")


def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(DragomanError) as expected:
        load_model(tmp_path / "none", PAD)
    engine = EngineProcess(EngineOptions(tmp_path / "none", "cpu", "float32"))
    with raises(type(expected.value), expected.value.code):
        engine.search(SOURCES, Search())
    engine.close()


def test_a_stop_flag_ends_a_search_in_the_child(stub: EngineProcess) -> None:
    looks: list[int] = []

    def stop_at_the_third() -> None:
        looks.append(1)
        if len(looks) == 3:
            stop.set()

    stop = StopFlag(stop_at_the_third)
    with raises(SearchInterruptedError, "search_interrupted"):
        stub.search([[4]], UNTIL_STOPPED, stop=stop)
    assert [one.ids for (one,) in stub.search([[5, 6]], Search(), stop=StopFlag())] == [[5, 6]]


def test_an_error_cancels_the_searches_behind_it(stub: EngineProcess) -> None:
    calls = [SearchCall([[4]], Search()), SearchCall([[4]], UNTIL_STOPPED), SearchCall([[4]], Search(beam=10))]
    with raises(SearchError, "unsupported_by_engine", "beam=10"):
        stub.search_all(calls)
    assert len(stub.search([[5, 6]], Search())) == 1
    assert not stub.child.waiting


def test_a_child_that_is_killed_is_reported(stub: EngineProcess) -> None:
    stub.wait()
    _, future = stub.child.submit([[4]], FOREVER, None, ())
    stub.child.process.kill()
    with raises(EngineProcessError, "engine_died", "SIGKILL"):
        process.wait_for(future, StopFlag())
    assert not stub.alive
    with raises(EngineProcessError, "engine_died"):
        stub.search([[4]], Search())


def test_a_child_that_is_killed_while_it_loads_is_reported(stub: EngineProcess) -> None:
    stub.child.process.kill()
    with raises(EngineProcessError, "engine_died"):
        stub.wait()


def test_a_child_ends_with_its_engine(stub: EngineProcess) -> None:
    stub.wait()
    stub.child.submit([[4]], FOREVER, None, ())
    for number in (signal.SIGINT, signal.SIGTERM):  # for the parent, which ends the child
        os.kill(stub.child.process.pid, number)
    stub.close()
    assert stub.child.process.returncode in (-signal.SIGKILL, 0)  # 0 if it sees first that the engine is gone
    stub.close()


def test_a_child_ends_when_nobody_uses_its_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "module_command", lambda _: COMMAND)
    engine = EngineProcess(EngineOptions(tmp_path, "cpu", "float32"))
    engine.wait()
    child = engine.child
    del engine
    gc.collect()
    assert child.process.returncode is not None


PARENT = """
import sys, pathlib, signal
from dragoman.engines.cuda import process
from dragoman.engines.cuda.messages import EngineOptions
from stub_engine_process import COMMAND, FOREVER
process.module_command = lambda _: COMMAND
engine = process.EngineProcess(EngineOptions(pathlib.Path(), "cpu", "float32"))
if sys.argv[1] == "searching":
    engine.wait()
    engine.child.submit([[4]], FOREVER, None, ())
print("started", flush=True)
if sys.argv[1] != "exit":
    signal.pause()
"""


@pytest.mark.parametrize("way", ["loading", "searching", "exit"])
def test_a_child_ends_with_its_parent(way: str) -> None:
    paths = os.pathsep.join([str(Path(COMMAND[-1]).parent), os.environ.get("PYTHONPATH", "")])
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, way],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert parent.stdout is not None and parent.stdout.readline() == b"started\n"
    if way != "exit":
        parent.kill()
    assert parent.communicate(timeout=60)[1] == b""  # until the child has closed its stderr
    assert parent.returncode == (0 if way == "exit" else -signal.SIGKILL)
