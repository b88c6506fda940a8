"""The end of a run: which weights are kept, and what happens when they cannot be written."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import dragoman.modeldir.save
from dragoman.data.prepared import Prepared
from dragoman.errors import DamagedError, TrainingError
from dragoman.models.loading import build_model
from dragoman.progress import SilentReporter
from dragoman.training.run import is_finished, vocabulary_of
from raising import raises
from tiny_run import Found, Notes, difference, evaluate, outcome, prepare_tiny, recipe, tiny_run


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    prepare_tiny(directory)
    return directory


def figure(data: Path, *sets: dict[str, torch.Tensor]) -> str:
    """What the tiny evaluation says of the mean of some weights, as a note has it."""
    model = build_model(recipe().model, vocabulary_of(Prepared.open(data / "prepared")), 0)
    mean = {name: sum(each[name].double() for each in sets) / len(sets) for name in sets[0]}
    model.load_state_dict(mean)
    return f"loss {evaluate(model).figures['loss']:.3f}"


def test_every_candidate_is_what_its_name_says(data: Path, tmp_path: Path) -> None:
    reporter = Notes()
    tiny_run(data, tmp_path / "m", reporter=reporter)
    saved = {int(p.name[5:]): p for p in (tmp_path / "m/training/checkpoints").glob("step-*")}
    weights = {step: load_file(place / "model.safetensors") for step, place in saved.items()}
    ema = load_file(saved[14] / "ema.safetensors")
    assert f"the last weights: {figure(data, weights[14])}" in reporter.notes
    assert f"the average of the checkpoints [8, 12]: {figure(data, weights[8], weights[12])}" in reporter.notes
    assert f"the moving average: {figure(data, {**weights[14], **ema})}" in reporter.notes
    best = [step for step in saved if step not in (8, 12, 14)]
    assert all(f"the checkpoint of step {step}: {figure(data, weights[step])}" in reporter.notes for step in best)
    told = [float(note.rpartition("loss ")[2]) for note in reporter.notes if ": loss" in note]
    kept = next(note for note in reporter.notes if note.startswith("kept: ")).removeprefix("kept: ")
    assert f"{kept}: loss {min(told):.3f}" in reporter.notes
    assert kept in (tmp_path / "m/card.md").read_text()
    assert len({path.stat().st_mode for path in (tmp_path / "m").iterdir() if path.is_file()}) == 1


def test_a_damaged_checkpoint_is_not_averaged(data: Path, tmp_path: Path) -> None:
    reporter = Notes()
    tiny_run(data, tmp_path / "m")
    (tmp_path / "m/manifest.json").unlink()
    path = tmp_path / "m/training/checkpoints/step-00000012/model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x55")
    tiny_run(data, tmp_path / "m", reporter=reporter)
    assert any("step-00000012" in note and "skipping it" in note for note in reporter.notes)
    assert not any("average of the checkpoints" in note for note in reporter.notes)


def test_weights_that_give_no_number_are_never_kept(data: Path, tmp_path: Path) -> None:
    reporter, seen = Notes(), 0

    def first_is_none(*given: Any) -> Found:  # at the end the average comes first
        nonlocal seen
        seen += 1
        return Found({"loss": math.nan}) if seen == 6 else evaluate(*given)

    tiny_run(data, tmp_path / "m", reporter=reporter, look=first_is_none)
    told = [note for note in reporter.notes if ": loss" in note]
    assert told[0] == "the average of the checkpoints [8, 12]: loss nan"
    figures = {note.partition(": loss ")[0]: float(note.rpartition(" ")[2]) for note in told[1:]}
    assert f"kept: {min(figures, key=lambda name: figures[name])}" in reporter.notes


def test_a_run_of_which_no_weights_give_a_number_leaves_no_model(data: Path, tmp_path: Path) -> None:
    with raises(TrainingError, "diverged", "(it was 0.5)"):
        tiny_run(data, tmp_path / "m", "train.learning_rate=0.5", look=lambda *_: Found({"loss": math.nan}))
    assert not is_finished(tmp_path / "m")


@pytest.mark.parametrize("what", ["write_model_files", "write_manifest", "sync"])
def test_no_room_for_the_model(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    tiny_run(data, tmp_path / "reference")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(dragoman.modeldir.save, what, full)
        with raises(TrainingError, "cannot_write", "training is done", "No space left on device"):
            tiny_run(data, tmp_path / "m")
    assert not is_finished(tmp_path / "m")
    assert not (tmp_path / "m/training/model").exists()
    tiny_run(data, tmp_path / "m")
    assert is_finished(tmp_path / "m")
    assert difference(outcome(tmp_path / "reference"), outcome(tmp_path / "m")) == ""


def test_a_damaged_model_says_how_to_write_it_again(data: Path, tmp_path: Path) -> None:
    tiny_run(data, tmp_path / "m", "train.steps=2")
    whole = (tmp_path / "m/model.safetensors").read_bytes()
    (tmp_path / "m/model.safetensors").write_bytes(b"x")
    with raises(DamagedError, "file_damaged", f"remove {tmp_path / 'm/manifest.json'} and run the same command"):
        is_finished(tmp_path / "m")
    (tmp_path / "m/manifest.json").unlink()
    tiny_run(data, tmp_path / "m", "train.steps=2")
    assert is_finished(tmp_path / "m")
    assert (tmp_path / "m/model.safetensors").read_bytes() == whole


class RemoveAt(SilentReporter):
    """Removes a directory after a step; another run may have it then."""

    def __init__(self, step: int, directory: Path, again: bool) -> None:
        self.step, self.directory, self.again = step, directory, again

    def step_done(self, step: int, target_tokens: float, loss: float) -> None:
        if step == self.step:
            shutil.rmtree(self.directory)
            if self.again:
                (self.directory / "training").mkdir(parents=True, exist_ok=True)
                (self.directory / "training" / "lock").touch()


@pytest.mark.parametrize("step", [1, 4, 8, 14])  # before a line of the log, a save, both, and the end
@pytest.mark.parametrize("again", [False, True])
def test_an_output_that_is_removed_ends_the_run(data: Path, tmp_path: Path, step: int, again: bool) -> None:
    out = tmp_path / "m"
    with raises(TrainingError, "output_removed", str(out)):
        tiny_run(data, out, reporter=RemoveAt(step, out, again))
    assert [str(path.relative_to(out)) for path in sorted(out.rglob("*"))] == ["training", "training/lock"] * again


def test_an_output_that_is_removed_while_weights_are_selected(data: Path, tmp_path: Path) -> None:
    class Removing(Notes):
        def note(self, text: str) -> None:
            if text.startswith("kept: "):
                shutil.rmtree(tmp_path / "m")

    with raises(TrainingError, "output_removed"):
        tiny_run(data, tmp_path / "m", reporter=Removing())
    assert not (tmp_path / "m").exists()


def test_what_a_killed_process_was_writing_is_removed(data: Path, tmp_path: Path) -> None:
    training = tmp_path / "m" / "training"
    training.mkdir(parents=True)
    (training / "lock").touch()  # as every run leaves it
    for name in (".run.json.1.new", ".result.json.1.new"):
        (training / name).write_text("half of it")
    tiny_run(data, tmp_path / "m")
    assert not [path.name for path in training.iterdir() if path.name.endswith(".new")]
