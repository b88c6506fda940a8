"""A forecaster is trained, resumed bit for bit, loaded, evaluated and used; other kinds of models are rejected."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import dragoman.training.run
from dragoman import forecast
from dragoman.api import average, finish
from dragoman.config import TrainRecipe
from dragoman.errors import DamagedError, DataError, ModelNotFoundError, RecipeError, TrainingError
from dragoman.forecast.api import attention_to_past
from dragoman.forecast.data.windows import WindowBatch
from dragoman.forecast.defaults import schedule_choices
from dragoman.forecast.picture import draw_forecast
from dragoman.models.seq2seq import AttentionMaps
from dragoman.progress import SilentReporter
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.steps.cuda_graph import CudaGraphSteps
from dragoman.training.steps.eager import supports_cuda_graph
from dragoman.translation.translator import Translator
from no_gpu import stand_in
from raising import raises
from small_series import TINY, write_series
from tiny_model import write_tiny_model
from tiny_run import Crash, CrashAt, difference, outcome, weights_of

SILENT = SilentReporter()


def train(data: Path, out: Path, *changes: str, reporter: SilentReporter = SILENT) -> forecast.ForecastTraining:
    dragoman.training.run.draw_training_curves = lambda *_: None  # type: ignore[attr-defined]  # slow, tested elsewhere
    return forecast.train(
        data, out=out, horizon=6, look_back=16, changes=[*TINY, *changes], reporter=reporter, device="cpu"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data, a direct model, and a decoder model with quantiles and a calendar."""
    place = tmp_path_factory.mktemp("forecast")
    data = write_series(place / "data.csv")
    train(data, place / "direct")
    extras = ("forecast.quantiles=[0.1,0.5,0.9]", 'forecast.calendar=["hour"]', "forecast.valid_windows=5")
    train(data, place / "decoder", "forecast.mode=decoder", *extras)
    return place


@pytest.mark.parametrize("mode", ["direct", "decoder"])
def test_a_run_that_crashes_comes_to_the_same_bits(tmp_path: Path, mode: str) -> None:
    data = write_series(tmp_path / "data.csv", rows=150)
    changes = (f"forecast.mode={mode}", "model.norm=batch", "train.ema=0.9", "train.accumulate=2")
    train(data, tmp_path / "whole", *changes)
    for step in (3, 10):
        with pytest.raises(Crash):
            train(data, tmp_path / "m", *changes, reporter=CrashAt(step))
    train(data, tmp_path / "m", *changes)
    assert difference(outcome(tmp_path / "whole"), outcome(tmp_path / "m")) == ""


def test_training_learns_and_logs(tmp_path: Path) -> None:
    result = train(write_series(tmp_path / "data.csv"), tmp_path / "m", "train.steps=60", "train.log_every=10")
    logged = [entry for entry in result.curve if "loss" in entry]
    assert logged[-1]["mse"] < 0.7 * logged[0]["mse"]
    assert set(result.metrics) == {"loss", "mse", "mae"}
    card = (tmp_path / "m" / "card.md").read_text(encoding="utf-8")
    assert all(words in card for words in ("load, heat", "data.csv", "seasonal naive", f"{result.metrics['mse']:.4f}"))


def test_cuda_graph_steps_come_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_series(tmp_path / "data.csv", rows=150)
    changes = ("model.dropout=0.0", "train.epsilon=1e-3", "train.compile=true")
    with monkeypatch.context() as patch:
        patch.setattr(torch, "compile", lambda module, **_: module)
        train(data, tmp_path / "eager", *changes)
    used: list[object] = []
    stand_in(monkeypatch.setattr)
    monkeypatch.setattr("dragoman.training.trainer.supports_cuda_graph", lambda *_: True)
    monkeypatch.setattr(CudaGraphSteps, "_run", lambda steps, run=CudaGraphSteps._run: (used.append(steps), run(steps)))
    train(data, tmp_path / "graph", *changes)
    assert len(used) == 12
    for name, weight in weights_of(tmp_path / "eager", 12).items():
        torch.testing.assert_close(weights_of(tmp_path / "graph", 12)[name], weight, rtol=1e-4, atol=1e-6)


def test_batches_have_one_shape_as_cuda_graphs_need() -> None:
    batch = WindowBatch(torch.zeros(3, dtype=torch.int64), 1, 1, 0)
    gpu = Ranks(device=torch.device("cuda"))
    assert supports_cuda_graph(TrainRecipe(compile=True), gpu, batch, torch.nn.Linear(1, 1))


def test_the_same_call_does_nothing_and_other_data_are_rejected(folder: Path, tmp_path: Path) -> None:
    before = (folder / "direct" / "manifest.json").stat().st_mtime_ns
    train(folder / "data.csv", folder / "direct")
    assert (folder / "direct" / "manifest.json").stat().st_mtime_ns == before
    with raises(TrainingError, "run_mismatch", "data"):
        train(write_series(tmp_path / "data.csv", rows=239), folder / "direct")
    with raises(TrainingError, "run_mismatch", "forecast.patch"):
        train(folder / "data.csv", folder / "direct", "forecast.patch=2", "forecast.stride=2")


def test_settings_are_chosen_for_the_data(tmp_path: Path) -> None:
    data = write_series(tmp_path / "data.csv")
    short = ("train.steps=1", "train.warmup_steps=0")
    recipe = forecast.train(data, out=tmp_path / "m", horizon=6, changes=short, reporter=SILENT, device="cpu").recipe
    assert (recipe.forecast.look_back, recipe.forecast.patch, recipe.model.d_model) == (80, 16, 16)
    assert forecast.ForecasterRecipe.load(tmp_path / "m" / "recipe.toml") == recipe
    again = forecast.train(
        data, out=tmp_path / "n", recipe=tmp_path / "m" / "recipe.toml", reporter=SILENT, device="cpu"
    )
    assert again.recipe == recipe
    with raises(TrainingError, "missing_option", "--horizon"):
        forecast.train(data, out=tmp_path / "o", reporter=SILENT)
    with raises(RecipeError, "out_of_range", "horizon"):
        forecast.train(data, out=tmp_path / "o", horizon=0, reporter=SILENT)
    with raises(DataError, "too_few_rows"):
        forecast.train(data, out=tmp_path / "o", horizon=100, look_back=100, reporter=SILENT)
    with raises(DataError, "too_few_rows"):
        forecast.train(data, out=tmp_path / "o", horizon=6, look_back=10_000, reporter=SILENT)


@pytest.mark.parametrize("name", ["direct", "decoder"])
def test_errors_are_those_of_a_loop(folder: Path, name: str) -> None:
    report = forecast.evaluate(folder / name, folder / "data.csv", reporter=SILENT, report=folder / "report.json")
    loaded = forecast.load(folder / name, "cpu")
    series = forecast.read_series(folder / "data.csv")
    train_rows, test_rows = series.values[:168], range(192, 240)
    x = (series.values - train_rows.mean(0)) / train_rows.std(0)
    features = np.zeros((240, 0))
    if name == "decoder":
        angle = 2 * math.pi * np.array([time.hour for time in series.times]) / 24
        features = np.stack([np.sin(angle), np.cos(angle)], -1)
    squared, absolute, naive, inside = [], [], [], []
    for first in range(test_rows.start, test_rows.stop - 6 + 1):
        past = torch.tensor(x[first - 16 : first].T[None], dtype=torch.float32)
        calendar = torch.tensor(features[None, first - 16 : first + 6], dtype=torch.float32)
        with torch.no_grad():
            found = loaded.model.predict(past, calendar)[0].numpy()
        future = x[first : first + 6].T
        squared.append((found[..., loaded.model.median] - future) ** 2)
        absolute.append(abs(found[..., loaded.model.median] - future))
        naive.append((x[first - 16 : first - 10].T - future) ** 2)  # a season of 24 is longer than the past
        inside.append((found[..., 0] <= future) & (future <= found[..., -1]))
    ours = report.systems[name]
    assert report.windows == len(squared) == 43
    assert ours.mse == pytest.approx(np.mean(squared), rel=1e-4)
    assert ours.mae == pytest.approx(np.mean(absolute), rel=1e-4)
    assert ours.mae_of["heat"] == pytest.approx(np.mean(absolute, (0, 2))[1] * train_rows.std(0)[1], rel=1e-4)
    assert report.systems["seasonal naive"].mse == pytest.approx(np.mean(naive), rel=1e-4)
    if name == "decoder":
        assert ours.coverage == pytest.approx(np.mean(inside))
    assert json.loads((folder / "report.json").read_text())["systems"][name]["mse"] == ours.mse
    assert "linear" in report.table()
    everything = forecast.evaluate(loaded, folder / "data.csv", part="all", reporter=SILENT)
    assert ("linear" in everything.systems, everything.windows) == (False, 240 - 22 + 1)


@pytest.mark.parametrize("name", ["direct", "decoder"])
def test_predictions_continue_the_file(folder: Path, name: str, tmp_path: Path) -> None:
    found = forecast.predict(folder / name, folder / "data.csv", reporter=SILENT)
    series = forecast.read_series(folder / "data.csv")
    assert found.values.shape == (6, 2)
    assert (found.times[0], len(found.times)) == (series.times_after(1)[0], 6)
    np.testing.assert_array_equal(found.past, series.values[-16:])
    np.testing.assert_allclose(found.attention.sum(-1), 1, rtol=1e-5)
    header, first, *rest = found.to_csv().splitlines()
    assert len(rest) == 5
    if name == "direct":
        assert header == "date,load,heat"
        assert first.split(",")[0] == str(found.times[0])
        assert [float(cell) for cell in first.split(",")[1:]] == pytest.approx(found.values[0].tolist(), rel=1e-6)
    else:
        assert header == "date,load 0.1,load 0.5,load 0.9,heat 0.1,heat 0.5,heat 0.9"
        assert (np.diff(found.quantiles, axis=-1) > 0).all()
    short = tmp_path / "short.csv"
    short.write_text("\n".join((folder / "data.csv").read_text().splitlines()[:16]), encoding="utf-8")
    with raises(DataError, "too_few_rows", "15 rows", "16"):
        forecast.predict(folder / name, short, reporter=SILENT)


def test_attention_is_spread_over_the_values_of_its_patches(folder: Path) -> None:
    loaded = forecast.load(folder / "direct", "cpu")
    weights = torch.zeros(2, 2, 4, 4)
    weights[:, :, :, 1] = 1.0
    found = attention_to_past(AttentionMaps(encoder=[weights]), loaded)
    np.testing.assert_allclose(found[0], [0] * 4 + [0.25] * 4 + [0] * 8)
    recipe = replace(loaded.recipe, forecast=replace(loaded.recipe.forecast, patch=8))  # with a stride of 4
    found = attention_to_past(AttentionMaps(encoder=[torch.full((2, 2, 4, 4), 0.25)]), replace(loaded, recipe=recipe))
    np.testing.assert_allclose(found, 1 / 16)  # even attention, also at the ends


def test_the_picture_is_drawn(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = forecast.predict(folder / "decoder", folder / "data.csv", reporter=SILENT)
    assert draw_forecast(found, tmp_path / "ahead.svg") == ""
    assert (tmp_path / "ahead.svg").read_bytes().count(b"<path") > 50


def test_models_of_the_other_kind_are_rejected(folder: Path, tmp_path: Path) -> None:
    with raises(ModelNotFoundError, "wrong_model_kind", "forecast"):
        Translator.load(folder / "direct")
    with raises(ModelNotFoundError, "wrong_model_kind"):
        average(folder / "direct", out=tmp_path / "average")
    write_tiny_model(tmp_path / "translator")
    with raises(ModelNotFoundError, "wrong_model_kind", "translate"):
        forecast.load(tmp_path / "translator")
    with raises(TrainingError, "run_mismatch", "dragoman forecast train"):
        (folder / "direct" / "training" / "result.json").rename(tmp_path / "kept")
        (folder / "direct" / "manifest.json").rename(tmp_path / "manifest.json")
        try:
            finish(folder / "direct", reporter=SILENT)
        finally:
            (tmp_path / "kept").rename(folder / "direct" / "training" / "result.json")
            (tmp_path / "manifest.json").rename(folder / "direct" / "manifest.json")


def test_data_with_another_time_step_are_rejected(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "data.csv").read_text().splitlines()
    every_second = tmp_path / "data.csv"
    every_second.write_text("\n".join([lines[0], *lines[1::2]]), encoding="utf-8")
    with raises(DataError, "irregular_times", "2 hours", "1 hour"):
        forecast.predict(folder / "direct", every_second, reporter=SILENT)


def test_damage_is_found_before_anything_is_loaded(folder: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder / "direct", copy, ignore=shutil.ignore_patterns("training"))
    assert forecast.load(copy, "cpu").info.columns == ("load", "heat")
    weights = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    with raises(DamagedError, "file_damaged"):
        forecast.load(copy)
    (copy / "model.safetensors").write_bytes(weights)
    (copy / "model.json").write_text('{"format": 2, "kind": "forecast", "columns": []}')
    with pytest.raises(DamagedError):
        forecast.load(copy)


@pytest.mark.parametrize(
    ("windows", "expected"), [(10, "the minimum"), (32 * 20, "20 epochs of 20 steps"), (10**6, "the maximum")]
)
def test_the_number_of_steps_has_its_reason(windows: int, expected: str) -> None:
    assert schedule_choices(windows, 32, None)[0].reason == expected
