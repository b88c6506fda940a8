"""Fine-tuning: the starting weights are evaluated once, are a candidate, and are described on the card."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dragoman.modeldir.info import read_info
from dragoman.modeldir.save import set_license
from dragoman.models.loading import load_model
from dragoman.training.checkpoints.averaging import parts_of_run
from dragoman.training.interrupt import InterruptedTrainingError
from raising import raises
from tiny_run import Crash, CrashAt, Found, Notes, difference, evaluate, metrics, outcome, prepare_tiny, tiny_run

TUNED = ("train.steps=7", "train.warmup_steps=2", "train.seed=5")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    directory = tmp_path_factory.mktemp("data")
    prepare_tiny(directory)
    tiny_run(directory, directory / "base")
    set_license(directory / "base", "CC-BY-4.0")
    return directory


@pytest.fixture(scope="module")
def reference(data: Path) -> dict[str, Any]:
    tiny_run(data, data / "reference", *TUNED, start_from=data / "base")
    return outcome(data / "reference")


def far_from(start: Path) -> Callable[..., Found]:
    """An evaluation by which every step makes the model worse."""
    weights = load_file(start / "model.safetensors")

    def look(model: torch.nn.Module, check: Callable[[], None]) -> Found:
        moved = sum(float((p.detach() - weights[name]).abs().sum()) for name, p in model.state_dict().items())
        return Found({"loss": moved})

    return look


def test_the_starting_weights_are_evaluated_first(data: Path, reference: dict[str, Any]) -> None:
    model, _ = load_model(data / "base", 0)
    assert metrics(data / "reference")[0] == {"step": 0, "valid": evaluate(model).figures}


def test_a_crash_after_every_step_of_fine_tuning(data: Path, reference: dict[str, Any], tmp_path: Path) -> None:
    looks = []

    def look(model: torch.nn.Module, check: Callable[[], None]) -> Found:
        looks.append(model)
        return evaluate(model)

    for step in range(1, 8):
        with pytest.raises(Crash):
            tiny_run(data, tmp_path / "m", *TUNED, start_from=data / "base", reporter=CrashAt(step), look=look)
        if step == 2:
            assert len(looks) == 1  # the evaluation of the start is recorded, and not repeated
    tiny_run(data, tmp_path / "m", *TUNED, start_from=data / "base")
    assert difference(reference, outcome(tmp_path / "m")) == ""


def test_stopped_in_the_first_evaluation(data: Path, reference: dict[str, Any], tmp_path: Path) -> None:
    def look(model: torch.nn.Module, check: Callable[[], None]) -> Found:
        os.kill(os.getpid(), signal.SIGTERM)
        check()
        return evaluate(model)

    with raises(InterruptedTrainingError, "interrupted", "before the first step"):
        tiny_run(data, tmp_path / "m", *TUNED, start_from=data / "base", look=look)
    tiny_run(data, tmp_path / "m", *TUNED, start_from=data / "base")
    assert difference(reference, outcome(tmp_path / "m")) == ""


def test_the_starting_weights_are_kept_if_nothing_is_better(data: Path, tmp_path: Path) -> None:
    reporter = Notes()
    look = far_from(data / "base")
    tiny_run(data, tmp_path / "m", *TUNED, start_from=data / "base", look=look, reporter=reporter)
    assert "kept: the starting weights; fine-tuning did not help on this validation set" in reporter.notes
    for name, tensor in load_file(data / "base/model.safetensors").items():
        assert torch.equal(tensor, load_file(tmp_path / "m/model.safetensors")[name])
    assert "The weights are the starting weights." in (tmp_path / "m/card.md").read_text()


def test_they_are_not_kept_if_training_helps_nor_averaged_with_it(data: Path, tmp_path: Path) -> None:
    reporter, away = Notes(), far_from(data / "base")
    look = lambda model, check: Found({"loss": -away(model, check).figures["loss"]})  # noqa: E731
    tiny_run(data, tmp_path / "m", *TUNED, "train.save_every=2", start_from=data / "base", look=look, reporter=reporter)
    assert any(note.startswith("the average of the checkpoints [4, 6]:") for note in reporter.notes)
    assert not any(note.startswith("kept: the starting weights") for note in reporter.notes)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dragoman.training.checkpoints.averaging.prepared_directory", lambda _: data / "prepared")
        assert [part.name for part in parts_of_run(tmp_path / "m", 3)] == [f"m, step {step}" for step in (4, 6, 7)]


def test_the_card_names_the_base_model_its_data_and_its_license(
    data: Path, reference: dict[str, Any], tmp_path: Path
) -> None:
    card = (data / "reference/card.md").read_text()
    assert "Fine-tuned from base" in card and "Its license: CC-BY-4.0." in card
    assert card.count("| numbers.en |") == 2  # of this run, and of the base model
    assert "### Data of the base model, base" in card
    assert read_info(data / "reference").license == "CC-BY-4.0"
    tiny_run(data, tmp_path / "again", *TUNED, start_from=data / "reference")
    again = (tmp_path / "again/card.md").read_text()
    assert "### Data of the base model, reference" in again and "### Data of the base model, base" in again
    assert again.count("| numbers.en |") == 3
