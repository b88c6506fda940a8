"""Plans, durations and run lengths given by the user."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dragoman
from command_line import leave
from dragoman import SilentReporter
from dragoman.errors import ModelNotFoundError, TrainingError
from dragoman.training.speed import Speed
from raising import raises
from tiny_model import write_tiny_model
from tiny_run import TINY, write_corpus

QUIET = SilentReporter()
SETTINGS = [*TINY, "train.steps=4", "train.warmup_steps=1"]


class StopAt(SilentReporter):
    """Stops as Ctrl-C does, but at a known step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def step_done(self, step: int, target_tokens: float, loss: float) -> None:
        if step == self.step:
            raise KeyboardInterrupt


def data_of(folder: Path) -> dict[str, Any]:
    corpus = write_corpus(folder)
    return {"source": corpus.source, "target": corpus.target, "out": folder / "m", "device": "cpu", "reporter": QUIET}


def speed(seconds: float) -> Any:
    """A machine of this speed."""
    return lambda recipe, *_: Speed(1, seconds, 0.5, 1000, 10**6, {1: seconds})


def test_a_plan_is_what_the_run_does_and_leaves_only_the_data(tmp_path: Path) -> None:
    data = data_of(tmp_path)
    planned = dragoman.plan(**data, changes=SETTINGS)
    assert [path.name for path in (tmp_path / "m/training").iterdir()] == ["prepared"]
    assert planned.recipe.train.steps == 4 and planned.train_pairs + planned.valid_pairs <= 300
    assert 0 < planned.seconds_per_step < planned.seconds and planned.memory > 0
    assert "4 (" in planned.summary() and "m/training/prepared" in planned.summary()
    assert "1 thread\n" in replace(planned, threads=1).summary()
    result = dragoman.train(**data, changes=SETTINGS)
    assert result.recipe == planned.recipe
    from dragoman.models.loading import load_weights

    assert planned.parameters == sum(weight.numel() for weight in load_weights(result.path).values())


def test_the_command_prints_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(tmp_path)
    words = ["--source", str(data["source"]), "--target", str(data["target"]), "--out", str(tmp_path / "m")]
    words += [word for change in SETTINGS for word in ("--set", change)]
    code, out, err = leave(capsys, "train", *words, "--dry-run")
    assert (code, "parameters" in out) == (0, True), err
    assert leave(capsys, "train", *words, "--dry-run", "--processes", "2")[0] == 2
    assert leave(capsys, "train", *words, "--dry-run", "--finish-now")[0] == 2
    assert not (tmp_path / "m/training/run.json").exists()


def test_minutes_set_the_length_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(tmp_path)
    sizes = ["model.d_model=16", "model.n_heads=2", "model.d_ff=24", "text.vocabulary_size=300"]
    monkeypatch.setattr("dragoman.training.session.measure_speed", speed(0.002))
    planned = dragoman.plan(**data, changes=sizes, minutes=2)
    assert 60 < planned.seconds <= 120
    shorter = dragoman.plan(**data, changes=sizes, minutes=1)
    assert shorter.recipe.train.steps < planned.recipe.train.steps
    with pytest.raises(KeyboardInterrupt):
        dragoman.train(**{**data, "reporter": StopAt(3)}, changes=sizes, minutes=1)
    record = json.loads((tmp_path / "m/training/run.json").read_text())
    assert record["recipe"]["train"]["steps"] == shorter.recipe.train.steps
    monkeypatch.setattr("dragoman.training.session.measure_speed", speed(0.0001))  # a faster machine
    for minutes in (1, None):  # as long as it was, with or without the option
        again = dragoman.plan(**data, changes=sizes, minutes=minutes)
        assert again.recipe == shorter.recipe


def test_a_time_that_makes_no_sense(tmp_path: Path) -> None:
    data = data_of(tmp_path)
    for minutes in (0, -1, float("nan"), float("inf")):
        with raises(TrainingError, "out_of_range"):
            dragoman.plan(**data, minutes=minutes)
    with raises(TrainingError, "conflicting_options", "train.steps"):
        dragoman.plan(**data, minutes=3, changes={"train.steps": 9})


def test_too_little_time_for_a_small_model_gets_a_tiny_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(tmp_path)
    monkeypatch.setattr("dragoman.training.plan.model_choices", lambda *_: [small])
    monkeypatch.setattr("dragoman.training.plan.precision_choices", lambda *_: [])
    from dragoman.training.defaults import Choice

    small = Choice("model.preset=small", "for the test")
    measured = []

    def measure(recipe: Any, *_: Any) -> Speed:
        measured.append(recipe.model.d_model)
        seconds = {256: 0.02, 128: 0.004}[recipe.model.d_model]
        return Speed(1, seconds, 0.5, 1000, 10**6, {1: seconds})

    monkeypatch.setattr("dragoman.training.session.measure_speed", measure)
    assert dragoman.plan(**data, minutes=6000).recipe.model.d_model == 256
    planned = dragoman.plan(**data, minutes=4)
    assert planned.recipe.model.d_model == 128 and planned.recipe.train.learning_rate == 0.003
    assert measured[0] == 256 and measured[-1] == 128
    with pytest.raises(KeyboardInterrupt):
        dragoman.train(**{**data, "reporter": StopAt(1)}, minutes=4)
    assert dragoman.plan(**data).recipe == planned.recipe  # what was chosen then, not what would be chosen now


def test_finish_a_stopped_run_then_train_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(tmp_path)
    changes = [*SETTINGS, "train.steps=9", "train.save_every=2"]
    with pytest.raises(KeyboardInterrupt):
        dragoman.train(**{**data, "reporter": StopAt(5)}, changes=changes)
    with raises(ModelNotFoundError, "model_unfinished", f"dragoman finish {tmp_path / 'm'}"):
        dragoman.train(**{**data, "out": tmp_path / "other"}, start_from=tmp_path / "m")
    early = dragoman.finish(tmp_path / "m", reporter=QUIET)
    assert early.recipe.train.steps == 9 and early.metrics["loss"] > 0
    assert dragoman.Translator.load(tmp_path / "m", device="cpu").translate("one").text is not None
    final = dragoman.train(**data, changes=changes)
    assert max(entry["step"] for entry in final.curve) == 9
    code, _, err = leave(capsys, "finish", str(tmp_path / "m"))
    assert (code, "nothing to do" in err) == (0, True)
    longer = dragoman.train(**data, changes=[*changes, "train.steps=11"])
    assert max(entry["step"] for entry in longer.curve) == 11
    words = ["--source", str(data["source"]), "--target", str(data["target"]), "--out", str(tmp_path / "m")]
    code, _, err = leave(capsys, "train", *words, *(w for c in changes for w in ("--set", c)))
    assert (code, "nothing to do" in err) == (0, True), err  # shorter than it is
    assert leave(capsys, "train", *words, "--finish-now")[0] == 0


def test_a_run_keeps_the_choices_that_it_started_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        dragoman.train(**{**data, "reporter": StopAt(1)})
    before = json.loads((tmp_path / "m/training/run.json").read_text())["recipe"]
    monkeypatch.setattr("dragoman.training.defaults.LEARNING_RATES", {128: 7e-3})  # another version chooses otherwise
    monkeypatch.setattr("dragoman.training.defaults.MIN_INTERVAL", 33)
    kept = dragoman.plan(**data).recipe
    assert (kept.train.learning_rate, kept.train.steps) == (before["train"]["learning_rate"], before["train"]["steps"])
    with raises(TrainingError, "run_mismatch", "model.d_model"):
        dragoman.train(**data, changes={"model.preset": "small"})


def test_a_new_target_language_is_learned_as_from_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.training.session.measure_speed", speed(0.001))
    base = write_tiny_model(tmp_path / "base", 'text.targets=["de"]')
    numbers = write_corpus(tmp_path)
    (tmp_path / "numbers.fr").write_text(numbers.target.read_text().replace("eins", "un"))
    corpora = [replace(numbers, to="de"), replace(numbers, target=tmp_path / "numbers.fr", to="fr")]
    rates = {}
    for targets in (("de",), ("de", "fr")):
        planned = dragoman.plan(
            corpora=corpora[: len(targets)],
            start_from=base,
            out=tmp_path / "-".join(targets),
            changes={"text.targets": targets, "data.max_tokens": 200},
            device="cpu",
            reporter=QUIET,
        )
        rates[targets] = planned.recipe.train.learning_rate
    assert rates == {("de",): 5e-5, ("de", "fr"): 5e-4}


@pytest.mark.parametrize("name", ["metrics.jsonl", "result.json"])
def test_a_damaged_log_or_result_never_blocks_a_finished_run(tmp_path: Path, name: str) -> None:
    data = data_of(tmp_path)
    before = dragoman.train(**data, changes=SETTINGS)
    weights, file = (before.path / "model.safetensors").read_bytes(), before.path / "training" / name
    file.write_bytes(file.read_bytes()[:-20])
    for _ in range(2):
        again = dragoman.train(**data, changes=SETTINGS)
        assert again.metrics == before.metrics and (again.path / "model.safetensors").read_bytes() == weights
    assert again.curve == before.curve[: -1 if name == "metrics.jsonl" else None]


def test_what_does_not_fit_the_base_model_is_rejected_before_anything_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_of(tmp_path)
    with raises(TrainingError, "missing_option", "train.lora=2"):
        dragoman.train(**data, changes=[*SETTINGS, "train.lora=2"])
    assert not (tmp_path / "m").exists()
    base = write_tiny_model(tmp_path / "base")
    with raises(TrainingError, "conflicting_options", "choose another --out"):
        dragoman.train(**data | {"out": base}, start_from=base)
    monkeypatch.setattr("dragoman.training.session.measure_speed", None)
    with raises(TrainingError, "weights_mismatch"):
        dragoman.train(**data, start_from=base, changes=["train.steps=4", "model.d_ff=11"])


def test_without_its_training_files_a_model_is_not_trained_further(tmp_path: Path) -> None:
    class Notes(SilentReporter):
        def note(self, message: str) -> None:
            notes.append(message)

    notes: list[str] = []
    model = write_tiny_model(tmp_path / "model")
    dragoman.train(**data_of(tmp_path) | {"out": model, "reporter": Notes()}, changes=["train.steps=9"])
    assert "fine-tune it with --from" in notes[0] and "train.steps" not in notes[0]


def test_auto_is_a_device(tmp_path: Path) -> None:
    planned = dragoman.plan(**data_of(tmp_path) | {"device": "auto"}, changes=SETTINGS)
    assert planned.recipe.train.steps == 4
