"""Long streams move to an engine in a process of its own, with the same results; short ones start none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.engines.cuda import process
from dragoman.engines.cuda.engine import CudaEngine
from dragoman.engines.cuda.process import EngineProcess, EngineProcessError
from dragoman.errors import DragomanWarning
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.types import StopFlag
from dragoman.translation.result import Translation
from dragoman.translation.translator import Translator
from raising import raises
from stub_engine_process import COMMAND, FOREVER, UNTIL_STOPPED
from tiny_model import LINES, write_tiny_model

TEXTS = [" ".join(LINES[i % 6].split()[j % 3 : j % 3 + 4]) for i in range(6) for j in range(3)]
REQUESTS: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "n-best": {"beam": 3, "n_best": 3},
    "maps": {"beam": 2, "prefix": "the", "alignment": True, "attention": True},
    "constraints": {"beam": 2, "constraints": [Constraints(), Constraints.of(["box"]), Constraints()] * 6},
    "alone": {"beam": 2, "reproducible": True},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("separate") / "tiny")


def load(model: Path) -> Translator:
    """A translator whose engine runs the CUDA engine's steps on the CPU."""
    found = Translator.load(model, device="cpu", engine="torch")
    steps = CudaEngine(found.engines.torch.model, torch.float32, "cpu")
    steps.capabilities = replace(steps.capabilities, devices=("cpu",))
    found.engines.loaded["torch"] = steps
    return found


@pytest.fixture(scope="module")
def moved(model: Path) -> Iterator[Translator]:
    """A translator whose engine has a process of its own already."""
    translator = load(model)
    engine = translator.engines.loaded["torch"]
    assert engine is not None
    assert translator.engines.separate(engine, start=False) is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # as in this process: more threads round sums in other ways
        translator.engines.separate(engine, start=True)
    assert translator.engines.process is not None
    translator.engines.process.wait()
    yield translator
    translator.engines.process.close()


@pytest.fixture
def stubbed(model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Translator]:
    """A translator whose engine process, once it has one, copies the source."""
    monkeypatch.setattr(process, "module_command", lambda _: COMMAND)
    translator = load(model)
    yield translator
    if translator.engines.process is not None:
        translator.engines.process.close()


def fields(one: Translation) -> dict[str, Any]:
    """Everything but the tokenizers, which are another translator's."""
    found = {name: value for name, value in vars(one).items() if name != "_tokenizers"}
    found["alternatives"] = [fields(other) for other in one.alternatives]
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in found.items()}


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sentences of each batch that a separate process searched."""
    found: list[int] = []
    search_all = EngineProcess.search_all

    def counted(self: EngineProcess, calls: Any) -> Any:
        tables = search_all(self, calls)
        found.extend(map(len, tables))
        return tables

    monkeypatch.setattr(EngineProcess, "search_all", counted)
    return found


@pytest.mark.parametrize("name", REQUESTS)
def test_translations_are_the_same(name: str, model: Path, moved: Translator, searched: list[int]) -> None:
    options = {"max_length": 12, "batch": 1, **REQUESTS[name]}  # windows of 16
    assert [fields(one) for one in moved.translate(TEXTS, **options)] == [
        fields(one) for one in load(model).translate(TEXTS, **options)
    ]
    assert len(searched) >= len(TEXTS) // 2


def test_a_search_that_its_caller_may_stop_stays_in_this_process(moved: Translator, searched: list[int]) -> None:
    moved.translate(TEXTS, stop=StopFlag(), max_length=5)
    assert not searched


@pytest.mark.parametrize(("n_texts", "starts"), [(32, False), (33, True)])
def test_a_stream_of_more_than_two_windows_starts_a_process(stubbed: Translator, n_texts: int, starts: bool) -> None:
    texts = [f"the old box {i}" for i in range(n_texts)]
    assert len(stubbed.translate(texts, beam=1, max_length=2, batch=1)) == n_texts
    assert (stubbed.engines.process is not None) == starts


def test_a_long_stream_moves_when_the_process_is_ready(stubbed: Translator, searched: list[int]) -> None:
    def texts() -> Iterator[str]:
        for i in range(200):
            if stubbed.engines.process is not None:
                stubbed.engines.process.wait()
            yield f"the old box {i}"

    found = [one.text for one in stubbed.stream(texts(), beam=1, max_length=2, batch=1)]
    assert len(found) == 200
    assert found[-1] == "the old box 199"  # copied by the stub
    assert found[0] != "the old box 0"
    assert 100 < len(searched) < 200


def test_a_stream_stays_here_if_the_model_cannot_be_loaded_twice(
    stubbed: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = stubbed.engines.loaded["torch"]
    assert engine is not None
    monkeypatch.setattr(stubbed.engines, "directory", Path("/no/such/model"))
    assert stubbed.engines.separate(engine, start=True) is None
    assert stubbed.engines.process is not None
    with pytest.raises(RuntimeError, match="out of memory"):
        stubbed.engines.process.wait()
    with pytest.warns(DragomanWarning, match="out of memory"):
        found = stubbed.translate(TEXTS, beam=1, max_length=2, batch=1)
    assert len(found) == len(TEXTS)
    assert stubbed.engines.process is None
    assert not stubbed.engines.separable(engine)  # not tried again


def test_a_process_that_was_killed_is_reported_and_replaced(stubbed: Translator) -> None:
    engine = stubbed.engines.loaded["torch"]
    assert engine is not None
    stubbed.engines.separate(engine, start=True)
    first = stubbed.engines.process
    assert first is not None
    first.wait()

    def kill_while_it_searches() -> None:
        while not first.child.waiting:
            time.sleep(0.01)
        first.child.process.kill()

    killer = threading.Thread(target=kill_while_it_searches)
    killer.start()
    with raises(EngineProcessError, "engine_died", "SIGKILL"):
        stubbed.translate([f"the old box {i}" for i in range(100)], beam=FOREVER.beam, batch=1, max_length=2)
    killer.join()
    first.child.thread.join()
    stubbed.engines.separate(engine, start=True)
    assert stubbed.engines.process not in (None, first)


def test_leaving_a_stream_early_leaves_nothing_to_do(stubbed: Translator) -> None:
    engine = stubbed.engines.loaded["torch"]
    assert engine is not None
    stubbed.engines.separate(engine, start=True)
    assert stubbed.engines.process is not None
    stubbed.engines.process.wait()
    stream = stubbed.stream((f"the old box {i}" for i in range(100)), beam=1, batch=1)
    assert next(stream).text == "the old box 0"
    stream.close()  # type: ignore[attr-defined]
    assert not stubbed.engines.process.child.waiting


COMMAND_LINE = """
import sys
from dragoman.cli import main
from dragoman.engines.cuda import process
from dragoman.engines.select import EngineSelector
from stub_engine_process import COMMAND, CopyEngine

def separate(self, engine, start):
    found = started(self, engine, True)
    self.process.wait()
    return found or started(self, engine, True)

process.module_command = lambda _: COMMAND
started, EngineSelector.separate = EngineSelector.separate, separate
EngineSelector.for_request = lambda self, request: CopyEngine()
main(sys.argv[1:])
"""


def test_ctrl_c_ends_both_processes_without_a_traceback(model: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("".join(f"the old box {i}\n" for i in range(99)))
    paths = os.pathsep.join([str(Path(COMMAND[-1]).parent), os.environ.get("PYTHONPATH", "")])
    options = ["--device", "cpu", "--batch", "1", "--beam", str(UNTIL_STOPPED.beam)]
    running = subprocess.Popen(
        [sys.executable, "-c", COMMAND_LINE, "translate", str(model), str(tmp_path / "lines"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert running.stderr is not None
    told = [running.stderr.readline()]
    while b"searching" not in told[-1]:
        assert told[-1], b"".join(told[-9:])  # it has ended
        told.append(running.stderr.readline())
    running.send_signal(signal.SIGINT)
    _, rest = running.communicate(timeout=60)  # until the child has closed its stderr
    assert (running.returncode, b"Traceback" in rest) == (130, False), rest
