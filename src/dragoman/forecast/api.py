"""Train, load, evaluate and use forecasters: the functions behind `dragoman forecast`."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.arrays import Int64Array
from dragoman.config import Changes, as_changes, toml_value
from dragoman.config.forecast import ForecasterRecipe
from dragoman.engines.select import check_device
from dragoman.errors import DataError
from dragoman.files import check_parent, write_output
from dragoman.forecast.baselines import LinearModel, SeasonalNaive, without_calendar
from dragoman.forecast.data.series import Missing, Series, read_series
from dragoman.forecast.data.windows import Part, Scale, Windows, split_rows, window_starts
from dragoman.forecast.evaluation import Errors, ForecastReport, measure_errors
from dragoman.forecast.model import Forecaster, build_forecaster
from dragoman.forecast.run import choose_recipe, train_forecaster
from dragoman.modeldir.forecast_info import ForecastInfo, read_forecast_info
from dragoman.modeldir.layout import RECIPE, TRAINING, WEIGHTS, verify_model_cached
from dragoman.modeldir.locate import find_model, model_name
from dragoman.modeldir.weights import check_tensors
from dragoman.models.loading import load_weights
from dragoman.models.seq2seq import AttentionMaps
from dragoman.progress import ConsoleReporter, Reporter, SilentReporter
from dragoman.training.distributed.ranks import join
from dragoman.training.reporting.metrics import METRICS_FILE, MetricsLog, read_result
from dragoman.values import plural

PathLike = str | Path


@dataclass(frozen=True)
class ForecastTraining:
    """A trained forecaster: its directory, its recipe, its scores on the validation part, and the training log."""

    path: Path
    recipe: ForecasterRecipe
    metrics: Mapping[str, float]
    curve: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Forecast:
    """Predicted rows: `values [T, C]`, with quantiles also `quantiles [T, C, Q]`, in the units of the data.

    `past [L, C]` is what the model read. `attention [C, L]` is how much it attended to each past value.
    """

    columns: tuple[str, ...]
    times: tuple[datetime, ...]
    values: NDArray[np.float64]
    levels: tuple[float, ...]
    quantiles: NDArray[np.float64] | None
    past: NDArray[np.float64]
    past_times: tuple[datetime, ...]
    attention: NDArray[np.float64]
    time_column: str
    model: str

    def to_csv(self) -> str:
        """A header and a row for each time step; quantiles are columns such as `OT 0.9`."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = [*self.columns]
        if self.quantiles is not None:
            names = [f"{name} {level:g}" for name in self.columns for level in self.levels]
        writer.writerow([self.time_column or "step", *names])
        for row in range(len(self.values)):
            cells = self.values[row] if self.quantiles is None else self.quantiles[row].ravel()
            stamp = self.times[row].isoformat(" ") if self.times else row + 1
            writer.writerow([stamp, *(f"{value:.7g}" for value in cells)])
        return text.getvalue()


@dataclass(frozen=True)
class LoadedForecaster:
    """A forecaster with what `model.json` and the recipe say of it."""

    directory: Path
    model: Forecaster
    recipe: ForecasterRecipe
    info: ForecastInfo

    @property
    def scale(self) -> Scale:
        """The standardization of the training data."""
        return Scale(np.array(self.info.mean), np.array(self.info.scale))

    def read(self, data: PathLike, time: str | None, missing: Missing, reporter: Reporter) -> Series:
        """Read the columns of the model from a file; its rows must have the time step that the model was trained on."""
        stamps = time if time is not None else self.info.time_column or None
        series = read_series(data, self.info.columns, time=stamps, missing=missing, reporter=reporter)
        if str(series.step) != self.info.step:
            raise DataError(
                f"{series.name} has a row every {series.step}, but the model was trained on rows every "
                f"{self.info.step}; resample the data",
                code="irregular_times",
            )
        return series


def train(
    data: PathLike,
    *,
    out: PathLike,
    target: str | Sequence[str] = (),
    horizon: int | None = None,
    look_back: int | None = None,
    time: str | None = None,
    missing: Missing = "error",
    recipe: ForecasterRecipe | PathLike | None = None,
    changes: Changes = (),
    device: str | None = None,
    reporter: Reporter | None = None,
) -> ForecastTraining:
    """Train a forecaster on columns of a CSV or Parquet file and write it to the model directory `out`.

    `target` names the columns; by default all columns of numbers. Without `recipe`, sizes and schedule are chosen for
    the data; `changes`, such as {"forecast.mode": "decoder"}, override them. Call it again with the same arguments to
    resume where it stopped.
    """
    ranks = join(None if device in (None, "auto") else torch.device(check_device(device)))
    report: Reporter = (reporter or ConsoleReporter(unit="values")) if ranks.first else SilentReporter()
    given = as_changes(changes)
    for key, value in (("horizon", horizon), ("look_back", look_back)):
        given += [f"forecast.{key}={toml_value(value)}"] if value is not None else []
    series = read_series(
        data, [target] if isinstance(target, str) else target, time=time, missing=missing, reporter=report
    )
    chosen = choose_recipe(series, recipe, given, report)
    directory = Path(out)
    train_forecaster(series, chosen, directory, report, ranks)
    training = directory / TRAINING
    scores = read_result(training).get("scores", {})
    return ForecastTraining(directory, chosen, scores, tuple(MetricsLog(training / METRICS_FILE).read()))


def load(model: PathLike, device: str = "auto") -> LoadedForecaster:
    """Verify and load a forecaster from its directory, or by its name."""
    directory = find_model(model, "forecast")
    recipe = ForecasterRecipe.load(directory / RECIPE)
    verify_model_cached(directory)
    info, weights = read_forecast_info(directory), load_weights(directory)
    with torch.device("meta"):  # a damaged recipe may describe a model of any size
        described = build_forecaster(recipe, len(info.columns)).state_dict()
    shapes = [(name, tuple(w.shape)) for name, w in described.items()]
    check_tensors(directory / WEIGHTS, {name: w.shape for name, w in weights.items()}, shapes)
    found = build_forecaster(recipe, len(info.columns))
    found.load_state_dict(weights)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return LoadedForecaster(directory, found.to(torch.device(check_device(device))).eval(), recipe, info)


def predict(
    model: PathLike | LoadedForecaster,
    data: PathLike,
    *,
    time: str | None = None,
    missing: Missing = "error",
    device: str = "auto",
    reporter: Reporter | None = None,
) -> Forecast:
    """Forecast the rows that follow the last row of a file."""
    loaded = model if isinstance(model, LoadedForecaster) else load(model, device)
    series = loaded.read(data, time, missing, reporter or ConsoleReporter())
    settings = loaded.recipe.forecast
    if len(series) < settings.look_back:
        raise DataError(
            f"{series.name} has {plural(len(series), 'row')}, but the model reads {settings.look_back}; give more rows",
            code="too_few_rows",
        )
    device_ = next(loaded.model.parameters()).device
    windows = Windows.of(series, loaded.scale, settings, ahead=settings.horizon).to(device_)
    maps = AttentionMaps()
    with torch.inference_mode():
        past, calendar = windows.past(torch.tensor([len(series) - settings.look_back], device=device_))
        found = loaded.model.predict(past, calendar, maps)[0].permute(1, 0, 2).cpu().numpy()  # [T, C, Q]
    scale = loaded.scale
    restored = np.stack([scale.restore(found[..., q]) for q in range(found.shape[-1])], -1)
    return Forecast(
        series.columns,
        series.times_after(settings.horizon),
        restored[..., loaded.model.median],
        settings.quantiles,
        restored if settings.quantiles else None,
        series.values[len(series) - settings.look_back :],
        series.times[len(series) - settings.look_back :],
        attention_to_past(maps, loaded),
        series.time_column,
        model_name(loaded.directory),
    )


def attention_to_past(maps: AttentionMaps, loaded: LoadedForecaster) -> NDArray[np.float64]:
    """How much the last layer attends to each past value, `[C, L]`, as a mean over heads and queries.

    A decoder's attention to the encoded past, or else the encoder's to itself. A value gets the mean weight of the
    patches that contain it, scaled to a sum of 1: even attention is even, also at the ends, which are in fewer patches.
    """
    settings, layers = loaded.recipe.forecast, loaded.recipe.model.decoder_layers
    chosen = maps.cross[layers - 1 :: layers] if settings.mode == "decoder" else maps.encoder[-1:]
    weights = torch.stack([each.float().mean((1, 2)) for each in chosen]).mean(0).cpu().numpy()  # [C, patches]
    spread, patches = np.zeros((len(weights), settings.look_back)), np.zeros(settings.look_back)
    for number in range(weights.shape[1]):
        inside = slice(number * settings.stride, number * settings.stride + settings.patch)
        spread[:, inside] += weights[:, number : number + 1]
        patches[inside] += 1
    spread /= np.maximum(patches, 1)
    found: NDArray[np.float64] = spread / spread.sum(1, keepdims=True)
    return found


def evaluate(
    model: PathLike | LoadedForecaster,
    data: PathLike,
    *,
    part: Literal["train", "valid", "test", "all"] = "test",
    season: int | None = None,
    time: str | None = None,
    missing: Missing = "error",
    device: str = "auto",
    report: PathLike | None = None,
    reporter: Reporter | None = None,
) -> ForecastReport:
    """Measure a forecaster and the baselines over all windows of a part of a file, by the split of its recipe.

    The linear baseline is fitted to the training part, and left out with `part` "all". `season`
    is the number of rows per season of the seasonal-naive baseline. `report` is a JSON file to write the figures to.
    """
    if report is not None:
        check_parent(Path(report))
    loaded = model if isinstance(model, LoadedForecaster) else load(model, device)
    series = loaded.read(data, time, missing, reporter or ConsoleReporter())
    settings, device_ = loaded.recipe.forecast, next(loaded.model.parameters()).device
    windows = Windows.of(series, loaded.scale, settings).to(device_)
    naive = SeasonalNaive(season if season is not None else loaded.info.season, settings.horizon)
    name = model_name(loaded.directory)
    systems: dict[str, Any] = {name: loaded.model.predict, "seasonal naive": without_calendar(naive)}
    if part == "all":
        starts = window_starts(range(len(series)), settings, "whole")
    else:
        parts: dict[Part, range] = split_rows(len(series), settings.split)
        starts = window_starts(parts[part], settings, part)
        linear = LinearModel.fit(windows, window_starts(parts["train"], settings, "train"))
        systems["linear"] = without_calendar(linear)
    with torch.inference_mode():
        figures = {name: _errors(system, windows, starts, loaded) for name, system in systems.items()}
    found = ForecastReport(name, series.name, part, len(starts), settings.horizon, settings.look_back, figures)
    if report is not None:
        write_output(Path(report), found.to_json())
    return found


def _errors(system: Any, windows: Windows, starts: Int64Array, loaded: LoadedForecaster) -> Errors:
    columns, deviation = loaded.info.columns, loaded.info.scale
    return measure_errors(system, windows, starts, loaded.recipe.forecast, columns=columns, deviation=deviation)
