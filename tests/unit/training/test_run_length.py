"""Finishing a stopped run, and changing the length of a run when it resumes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dragoman.config import TrainRecipe
from dragoman.errors import TrainingError
from dragoman.models.loading import load_model
from dragoman.progress import SilentReporter
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.optim.optimizer import learning_rate
from dragoman.training.run import finish_run, is_early, is_finished
from raising import raises
from tiny_run import Crash, CrashAt, difference, evaluate, metrics, outcome, prepare_tiny, tiny_run


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    directory = tmp_path_factory.mktemp("data")
    prepare_tiny(directory)
    return directory


@pytest.fixture(scope="module")
def reference(data: Path) -> dict[str, Any]:
    tiny_run(data, data / "reference")
    return outcome(data / "reference")


def stop(data: Path, out: Path, step: int, *changes: str) -> None:
    """A run that was stopped, with its data where the command line has them."""
    with pytest.raises(Crash):
        tiny_run(data, out, *changes, reporter=CrashAt(step))
    if not (out / "training/prepared").exists():
        shutil.copytree(data / "prepared", out / "training/prepared")


def finish(out: Path) -> None:
    finish_run(out, validation=lambda *_: evaluate, reporter=SilentReporter(), ranks=Ranks())


def test_a_stopped_run_becomes_a_model_and_can_still_be_trained_to_the_same_end(
    data: Path, reference: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "m"
    stop(data, out, 10)
    finish(out)
    assert is_finished(out) and is_early(out)
    result = json.loads((out / "training/result.json").read_text())
    assert result["steps"] == max(int(path.name[5:]) for path in (out / "training/checkpoints").glob("step-*")) < 14
    saved = {int(path.name[5:]): path for path in (out / "training/checkpoints").glob("step-*")}
    weights = {step: load_file(path / "model.safetensors") for step, path in saved.items()}
    newest = saved[max(saved)]
    best = json.loads((newest / "progress.json").read_text())["best_step"]
    mean = {name: (weights[4][name].double() + weights[8][name].double()) / 2 for name in weights[4]}
    average = {**weights[max(saved)], **load_file(newest / "ema.safetensors")}
    losses = []
    for candidate in (weights[best], mean, weights[max(saved)], average):
        model, _ = load_model(out, 0)
        model.load_state_dict(candidate)
        losses.append(evaluate(model).figures["loss"])
    assert result["scores"]["loss"] == pytest.approx(min(losses))
    assert evaluate(load_model(out, 0)[0]).figures == result["scores"]
    tiny_run(data, out)
    assert difference(reference, outcome(out)) == "" and not is_early(out)


def test_there_must_be_a_run_with_a_checkpoint(data: Path, tmp_path: Path) -> None:
    with raises(TrainingError, "run_not_found", str(tmp_path / "m")):
        finish(tmp_path / "m")
    stop(data, tmp_path / "m", 1)
    with raises(TrainingError, "checkpoint_not_found", "dragoman train"):
        finish(tmp_path / "m")


@pytest.mark.parametrize("steps", [10, 22])
def test_the_schedule_follows_the_new_length_and_the_record_has_both(data: Path, tmp_path: Path, steps: int) -> None:
    out, schedule = tmp_path / "m", "train.schedule=cosine"
    stop(data, out, 7, schedule)
    tiny_run(data, out, schedule, f"train.steps={steps}")
    record = json.loads((out / "training/run.json").read_text())
    assert record["changes"] == [{"after_step": 6, "was": 14, "now": steps}]
    assert record["recipe"]["train"]["steps"] == steps
    rates = {entry["step"]: entry["learning_rate"] for entry in metrics(out) if "loss" in entry}
    settings = {"schedule": "cosine", "warmup_steps": 6, "save_every": 4, "keep": 5}
    for step, rate in rates.items():
        length = 14 if step <= 6 else steps
        assert rate == learning_rate(TrainRecipe(steps=length, **settings), 16, step)
    assert max(rates) == steps and json.loads((out / "training/result.json").read_text())["steps"] == steps


def test_a_length_that_is_already_passed_ends_the_run(data: Path, tmp_path: Path) -> None:
    stop(data, tmp_path / "m", 10, "train.evaluate_every=14")  # the newest checkpoint is that of step 8
    tiny_run(data, tmp_path / "m", "train.evaluate_every=14", "train.steps=7")
    assert is_finished(tmp_path / "m") and not is_early(tmp_path / "m")
    assert json.loads((tmp_path / "m/training/result.json").read_text())["steps"] == 8


def test_a_finished_run_is_extended_and_its_model_stays_meanwhile(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    tiny_run(data, out)
    before = (out / "model.safetensors").read_bytes()
    with pytest.raises(Crash):
        tiny_run(data, out, "train.steps=20", reporter=CrashAt(18))
    assert is_finished(out) and is_early(out)  # a model, and a run that goes on
    assert (out / "model.safetensors").read_bytes() == before
    tiny_run(data, out, "train.steps=20")
    assert not is_early(out)
    assert max(entry["step"] for entry in metrics(out)) == 20


def test_other_settings_are_still_rejected_and_the_result_stays(data: Path, tmp_path: Path) -> None:
    tiny_run(data, tmp_path / "m")
    with raises(TrainingError, "run_mismatch", "train.seed was 1, is now 3", "train.steps"):
        tiny_run(data, tmp_path / "m", "train.steps=20", "train.seed=3")
    assert not is_early(tmp_path / "m")
