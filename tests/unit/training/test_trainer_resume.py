"""A run stopped anywhere and resumed equals the uninterrupted run, bit for bit."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.errors import DragomanError, RecipeError, TrainingError
from dragoman.nn.kernels.cpu_bf16 import has_bfloat16_matmul
from dragoman.progress import SilentReporter
from dragoman.training.checkpoints.checkpoint import Checkpoints
from dragoman.training.interrupt import InterruptedTrainingError
from raising import raises
from tiny_run import (
    Crash,
    CrashAt,
    Found,
    Notes,
    Telling,
    assert_crashes_leave_no_trace,
    difference,
    evaluate,
    metrics,
    outcome,
    prepare_tiny,
    start,
    tiny_run,
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    prepare_tiny(directory)
    return directory


@pytest.fixture(scope="module")
def reference(data: Path) -> dict[str, Any]:
    """The run that nobody stops. 14 steps of 2 micro-batches are over an epoch and a half."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tiny_run(data, data / "reference")
    return outcome(data / "reference")


def test_the_reference_covers_more_than_an_epoch(data: Path, reference: dict[str, Any]) -> None:
    steps = [entry["step"] for entry in metrics(data / "reference")]
    assert steps == sorted(steps)
    assert {3, 6, 9, 12, 14} == set(steps)
    progress = next(reference[name] for name in reference if name.endswith("step-00000014/progress.json"))
    assert int(json.loads(progress)["loader"]) >> 32 == 1


def test_a_crash_after_every_single_step(data: Path, reference: dict[str, Any], tmp_path: Path) -> None:
    for step in range(1, 15):  # one run that crashes 14 times, each time a step later
        with pytest.raises(Crash):
            tiny_run(data, tmp_path / "m", reporter=CrashAt(step))
    tiny_run(data, tmp_path / "m")
    assert difference(reference, outcome(tmp_path / "m")) == ""


@pytest.mark.skipif(not has_bfloat16_matmul(), reason="no instructions for bfloat16, or no C compiler")
def test_in_bfloat16_to_the_bit_as_well(data: Path, reference: dict[str, Any], tmp_path: Path) -> None:
    changes = ("train.precision=bfloat16",)
    assert_crashes_leave_no_trace(data, tmp_path, *changes)
    assert difference(reference, outcome(tmp_path / "m")) != ""  # the kernel was used


def test_with_two_passes_a_step_to_the_bit_as_well(data: Path, reference: dict[str, Any], tmp_path: Path) -> None:
    assert_crashes_leave_no_trace(data, tmp_path, "train.r_drop=3")
    assert difference(reference, outcome(tmp_path / "m")) != ""


@pytest.mark.parametrize("step", [5, 6, 13])
def test_asked_to_stop_at_an_odd_step(data: Path, reference: dict[str, Any], tmp_path: Path, step: int) -> None:
    """The extra checkpoint of an interruption is not averaged, not chosen, and not left behind."""

    class AskAt(SilentReporter):
        def step_done(self, done: int, target_tokens: float, loss: float) -> None:
            if done == step - 1:
                os.kill(os.getpid(), signal.SIGTERM)

    with raises(InterruptedTrainingError, "interrupted", f"step {step}") as stopped:
        tiny_run(data, tmp_path / "m", reporter=AskAt())
    assert stopped.value.exit_code == 128 + signal.SIGTERM
    assert (tmp_path / "m/training/checkpoints/latest").read_text() == f"step-{step:08d}\n"
    tiny_run(data, tmp_path / "m")
    assert difference(reference, outcome(tmp_path / "m")) == ""


@pytest.mark.parametrize("number", [1, 2, 5])
def test_an_evaluation_is_broken_off_and_done_again(
    data: Path, reference: dict[str, Any], tmp_path: Path, number: int
) -> None:
    looks = []

    def look(model: torch.nn.Module, check: Callable[[], None]) -> Found:
        looks.append(model)
        if len(looks) == number:
            os.kill(os.getpid(), signal.SIGTERM)
        check()
        return evaluate(model)

    step = (3, 6, None, None, 14)[number - 1]  # the last step is not the end before it is evaluated
    with raises(InterruptedTrainingError, "interrupted", f"step {step}"):
        tiny_run(data, tmp_path / "m", look=look)
    assert len(looks) == number
    tiny_run(data, tmp_path / "m", look=look)
    assert difference(reference, outcome(tmp_path / "m")) == ""


def die_in_system_call(data: Path, out: Path, number: int) -> None:
    """Be killed at the n-th time that a file is synced or renamed: in the midst of saves, prunings and the end."""
    calls = 0

    def deadly(real: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **named)

        return call

    os.fsync, os.rename, os.replace = deadly(os.fsync), deadly(os.rename), deadly(os.replace)
    Path.rename, Path.replace = deadly(Path.rename), deadly(Path.replace)  # type: ignore[method-assign]
    tiny_run(data, out)


def test_killed_inside_saves(data: Path, reference: dict[str, Any], tmp_path: Path) -> None:
    kills = 0
    for number in (2, 5, 9, 13, 11, 17, 14, 24, 31, 45, 58, 500):  # calls of one life, the last of them a whole one
        process = start(die_in_system_call, data, tmp_path / "m", number)
        process.join()
        assert process.exitcode in (-signal.SIGKILL, 0)
        kills += process.exitcode == -signal.SIGKILL
    assert kills >= 8
    assert difference(reference, outcome(tmp_path / "m")) == ""
    assert sorted(p.name for p in (tmp_path / "m/training").rglob(".*")) == []  # nothing half-written is left


def slow_run(data: Path, out: Path, changes: tuple[str, ...] = ()) -> None:
    class Slow(Telling):
        def step_done(self, done: int, target_tokens: float, loss: float) -> None:
            time.sleep(0.05)

    tiny_run(data, out, *changes, reporter=Slow())


def wait_for(condition: Any, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_killed_from_outside_twice_in_one_epoch(data: Path, reference: dict[str, Any], tmp_path: Path) -> None:
    checkpoints = tmp_path / "m/training/checkpoints"
    for step in (3, 4):
        process = start(slow_run, data, tmp_path / "m")
        wait_for(lambda step=step: (checkpoints / f"step-{step:08d}").exists())
        time.sleep(0.07)
        process.kill()
        process.join()
    tiny_run(data, tmp_path / "m")
    assert difference(reference, outcome(tmp_path / "m")) == ""


def test_ctrl_c_saves_and_says_how_to_go_on_and_a_second_one_ends_at_once(
    data: Path, reference: dict[str, Any], tmp_path: Path
) -> None:
    log, out = tmp_path / "stderr", tmp_path / "m"
    process = start(slow_run, data, out, stderr=log)
    wait_for(lambda: (out / "training/checkpoints/step-00000003").exists())
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    assert "stopping: finishing" in log.read_text() and "run the same command to resume" in log.read_text()
    saved = sorted(path.name for path in (out / "training/checkpoints").glob("step-*"))
    process = start(stubborn_run, data, out, stderr=log)
    wait_for(lambda: log.read_text().count("in a step") == 1)
    os.kill(process.pid, signal.SIGINT)
    wait_for(lambda: log.read_text().count("stopping: finishing") == 2)
    os.kill(process.pid, signal.SIGINT)
    process.join(20)
    assert process.exitcode == 130
    assert sorted(path.name for path in (out / "training/checkpoints").glob("step-*")) == saved
    tiny_run(data, out)
    assert difference(reference, outcome(out)) == ""


def test_a_closed_terminal_is_a_reason_to_save(data: Path, reference: dict[str, Any], tmp_path: Path) -> None:
    process = start(slow_run, data, tmp_path / "m", stderr=tmp_path / "stderr")
    wait_for(lambda: (tmp_path / "m/training/checkpoints/step-00000004").exists())
    os.kill(process.pid, signal.SIGHUP)
    process.join()
    assert process.exitcode == 143
    assert max(p.name for p in (tmp_path / "m/training/checkpoints").glob("step-*")) > "step-00000004"
    tiny_run(data, tmp_path / "m")
    assert difference(reference, outcome(tmp_path / "m")) == ""


def stubborn_run(data: Path, out: Path) -> None:
    class Stubborn(Telling):
        def step_done(self, done: int, target_tokens: float, loss: float) -> None:
            self.note("in a step")
            for _ in range(3000):  # a step that takes half a minute
                time.sleep(0.01)

    tiny_run(data, out, reporter=Stubborn())


def test_a_finished_run_does_nothing(data: Path, tmp_path: Path) -> None:
    tiny_run(data, tmp_path / "m", "train.steps=2")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "m").rglob("*step-*")}
    tiny_run(data, tmp_path / "m", "train.steps=2")  # the command line does not even come here
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "m").rglob("*step-*")}


def test_changed_settings_are_refused_with_both_values(data: Path, tmp_path: Path) -> None:
    with pytest.raises(Crash):
        tiny_run(data, tmp_path / "m", reporter=CrashAt(5))
    with raises(TrainingError, "run_mismatch", "train.seed was 1, is now 2", "--out"):
        tiny_run(data, tmp_path / "m", "train.seed=2")
    with raises(TrainingError, "run_mismatch", "model.dropout was 0.1, is now 0.25"):
        tiny_run(data, tmp_path / "m", "model.dropout=0.25")
    with pytest.raises(Crash):  # how fast data come is free to change
        tiny_run(data, tmp_path / "m", "data.workers=2", "data.ahead=3", reporter=CrashAt(6))


def test_a_setting_that_cannot_be_is_no_beginning(data: Path, tmp_path: Path) -> None:
    with raises(RecipeError, "text_too_long", "model.max_positions=3"):
        tiny_run(data, tmp_path / "m", "model.positions=learned", "model.max_positions=3")
    with pytest.raises(Crash):  # whoever heeds the advice is not told that it began otherwise
        tiny_run(data, tmp_path / "m", "model.positions=learned", "model.max_positions=99", reporter=CrashAt(1))


def test_changed_data_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(Crash):
        tiny_run(data, tmp_path / "m", reporter=CrashAt(5))
    run = tmp_path / "m/training/run.json"
    facts = json.loads(run.read_text())
    now = facts["data"][:12]
    run.write_text(json.dumps({**facts, "data": "0" * 64}))
    with raises(TrainingError, "run_mismatch", "000000000000", now):
        tiny_run(data, tmp_path / "m")


def test_two_runs_into_one_directory_are_refused(data: Path, tmp_path: Path) -> None:
    process = start(slow_run, data, tmp_path / "m")
    wait_for(lambda: (tmp_path / "m/training/checkpoints").exists())
    with pytest.raises(DragomanError, match=f"process {process.pid} on .* is training in"):
        tiny_run(data, tmp_path / "m")
    process.kill()
    process.join()
    with pytest.raises(Crash):  # a killed holder holds nothing
        tiny_run(data, tmp_path / "m", reporter=CrashAt(14))


class Spoil:
    """A backward pass that leaves an infinite gradient at some steps."""

    def __init__(self, steps: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
        from dragoman.training.steps.eager import EagerSteps

        real = EagerSteps._clipped_norm

        def spoilt(waited: EagerSteps) -> float:
            if waited.step in steps:
                next(waited.model.parameters()).grad[0, 0] = float("inf")  # type: ignore[index]
            return real(waited)

        monkeypatch.setattr(EagerSteps, "_clipped_norm", spoilt)


def test_steps_that_are_not_finite_are_skipped_and_counted(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = Notes()
    Spoil({2, 7, 8}, monkeypatch)
    tiny_run(data, tmp_path / "m", reporter=reporter)
    assert next(note for note in reporter.notes if "skipped" in note).startswith("step 2: loss")
    assert metrics(tmp_path / "m")[-2]["skipped"] == 3
    for path in (tmp_path / "m").rglob("*.safetensors"):
        from safetensors.torch import load_file

        assert all(tensor.isfinite().all() for tensor in load_file(path).values()), path


def test_too_many_of_them_stop_the_run_with_advice(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Spoil(set(range(6, 15)), monkeypatch)
    advice = "3 steps in a row, up to step 8.*last checkpoint is that of step 4.*lower train.learning_rate"
    with pytest.raises(TrainingError, match=advice):
        tiny_run(data, tmp_path / "m", "train.max_skips=3", "train.evaluate_every=14")
    assert sorted(p.name for p in (tmp_path / "m/training/checkpoints").glob("step-*")) == ["step-00000004"]


def test_a_resumed_run_does_not_invent_metrics(data: Path, tmp_path: Path) -> None:
    reporter = Notes()
    with pytest.raises(Crash):
        tiny_run(data, tmp_path / "m", reporter=CrashAt(13))
    (tmp_path / "m/training/metrics.jsonl").write_text("")  # someone emptied it
    tiny_run(data, tmp_path / "m", reporter=reporter)
    assert any("has lost lines" in note for note in reporter.notes)
    assert [entry["step"] for entry in metrics(tmp_path / "m")] == [14, 14]


def test_killed_after_the_last_save_and_before_its_pruning(
    data: Path, reference: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(self: Checkpoints, keep: set[int]) -> None:
        if 14 in keep:
            raise Crash
        prune(self, keep)

    prune = Checkpoints.prune
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(Checkpoints, "prune", crash)
        tiny_run(data, tmp_path / "m")
    tiny_run(data, tmp_path / "m")
    assert difference(reference, outcome(tmp_path / "m")) == ""
