"""A run that trains a forecaster: choose settings, train or resume, and write the model directory."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman import __version__
from dragoman.config.forecast import ForecasterRecipe
from dragoman.config.model import MAX_SIZE
from dragoman.config.sectioned import apply_changes
from dragoman.errors import TrainingError
from dragoman.files import HeldLock
from dragoman.forecast.baselines import LinearModel, SeasonalNaive, without_calendar
from dragoman.forecast.data.series import Series
from dragoman.forecast.data.windows import Scale, Windows, split_rows, window_starts
from dragoman.forecast.defaults import BASICS, schedule_choices, size_choices
from dragoman.forecast.evaluation import ForecastValidation, measure_errors
from dragoman.forecast.model import build_forecaster
from dragoman.forecast.workload import ForecastWorkload
from dragoman.modeldir.forecast_info import ForecastInfo
from dragoman.modeldir.layout import TRAINING
from dragoman.progress import Reporter
from dragoman.training.defaults import Choice
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.reporting.base_model import BaseModel
from dragoman.training.run import (
    is_early,
    is_finished,
    open_run,
    recorded_accumulation,
    save_result,
    write_model,
    writing_into,
)
from dragoman.training.run_record import (
    RUN,
    RunRecord,
    as_plain_json,
    check_output_directory,
    check_record,
    describe_machine,
    read_record,
)
from dragoman.training.selection import SelectedWeights
from dragoman.training.session import use_recorded_threads
from dragoman.training.speed import threads_kept
from dragoman.training.steps.eager import keep_freed_memory
from dragoman.training.trainer import Trainer


@dataclass(frozen=True)
class PreparedWindows:
    """A series ready for a run: standardized, with the windows of the training and the validation part."""

    series: Series
    scale: Scale
    windows: Windows
    train: Any
    valid: Any

    @classmethod
    def of(cls, series: Series, recipe: ForecasterRecipe, device: torch.device) -> PreparedWindows:
        """Split and standardize a series by a recipe."""
        parts = split_rows(len(series), recipe.forecast.split)
        scale = Scale.of(series, parts["train"])
        windows = Windows.of(series, scale, recipe.forecast).to(device)
        starts = [window_starts(parts[part], recipe.forecast, part) for part in ("train", "valid")]
        return cls(series, scale, windows, *starts)

    def info(self) -> ForecastInfo:
        """The content of `model.json`."""
        series = self.series
        mean, deviation = (tuple(map(float, each)) for each in (self.scale.mean, self.scale.deviation))
        return ForecastInfo(series.columns, mean, deviation, series.time_column, str(series.step), series.step.season())


def choose_recipe(
    series: Series, given: ForecasterRecipe | str | Path | None, changes: Sequence[str], reporter: Reporter
) -> ForecasterRecipe:
    """The user's recipe, or settings for the series; `changes` override both."""
    if given is not None:
        if not isinstance(given, ForecasterRecipe):
            return ForecasterRecipe.load(Path(given), changes)
        table = tomllib.loads(given.to_toml())
        apply_changes(table, changes)
        return ForecasterRecipe.from_table(table)
    keys = {change.partition("=")[0].strip() for change in changes}
    if "forecast.horizon" not in keys:
        raise TrainingError("give --horizon, the number of time steps to predict", code="missing_option")
    table = {}
    apply_changes(table, changes)
    asked = table["forecast"]
    horizon, look_back = (asked.get(key) for key in ("horizon", "look_back"))
    valid = all(type(number) is int and number > 0 for number in (horizon, look_back if look_back is not None else 1))
    choices = size_choices(len(series), len(series.columns), horizon, look_back) if valid else []
    first = ["train.learning_rate=0.001", *BASICS, *(choice.change for choice in choices)]
    enough = f"model.max_positions={MAX_SIZE}"  # too few rows are reported before too few positions
    draft = ForecasterRecipe.from_changes(
        [*first, "train.steps=1", "train.warmup_steps=0", *not_train(changes), enough]
    )
    starts = window_starts(split_rows(len(series), draft.forecast.split)["train"], draft.forecast, "train")
    steps = table.get("train", {}).get("steps")
    choices += schedule_choices(len(starts), draft.forecast.batch_windows, steps if type(steps) is int else None)
    report_choices(choices, keys, reporter)
    return ForecasterRecipe.from_changes([*BASICS, *(choice.change for choice in choices), *changes])


def not_train(changes: Sequence[str]) -> list[str]:
    """The changes outside of [train], whose settings depend on its length."""
    return [change for change in changes if not change.strip().startswith("train.")]


def report_choices(choices: Sequence[Choice], given: set[str], reporter: Reporter) -> None:
    """Show what was chosen, unless the user has."""
    for choice in choices:
        if choice.change.partition("=")[0] not in given:
            reporter.note(f"{choice.change}: {choice.reason}")


def run_record(series: Series, recipe: ForecasterRecipe, ranks: Ranks) -> RunRecord:
    """What determines the result of a run: its recipe, and the bytes and columns of its data."""
    data = repr((series.sha256, series.columns, series.time_column, len(series)))
    return RunRecord(
        as_plain_json(recipe), hashlib.sha256(data.encode()).hexdigest(), "", describe_machine(recipe, ranks)
    )


def train_forecaster(series: Series, recipe: ForecasterRecipe, out: Path, reporter: Reporter, ranks: Ranks) -> None:
    """Train a forecaster to the end, or do nothing if the run is finished; the same call resumes a stopped run."""
    with ranks.guard(), threads_kept():
        use_recorded_threads(read_record(out), ranks)
        if ranks.broadcast(lambda: is_complete(series, recipe, out, ranks)):
            reporter.note(f"{out} is finished; nothing to do (set a larger train.steps to continue)")
            return
        train_and_write(series, recipe, out, reporter, ranks)
        reporter.note(f"{out} is finished")


def is_complete(series: Series, recipe: ForecasterRecipe, out: Path, ranks: Ranks) -> bool:
    """Whether `out` holds the finished model of this run; reject what belongs to another run."""
    check_output_directory(out)
    if not is_finished(out) or is_early(out):
        return False
    known = check_record(out / TRAINING / RUN, run_record(series, recipe, ranks))
    return known is None or recipe.train.steps <= known.recipe_of_kind().train.steps


def train_and_write(series: Series, recipe: ForecasterRecipe, out: Path, reporter: Reporter, ranks: Ranks) -> None:
    """Start or resume the run, and write its model."""
    if ranks.device.type == "cpu":
        keep_freed_memory()
    prepared = PreparedWindows.of(series, recipe, ranks.device)
    torch.manual_seed(recipe.train.seed)
    model = build_forecaster(recipe, len(series.columns))
    with ExitStack() as stack:
        locks = list[HeldLock]()
        record = run_record(series, recipe, ranks)
        ranks.broadcast(lambda: locks.append(open_run(stack, out, record, reporter)))
        trainer = Trainer(
            model,
            replace(recipe.train, accumulate=recorded_accumulation(out, ranks)),
            out / TRAINING,
            ForecastWorkload(prepared.windows, prepared.train, recipe, ranks),
            d_model=recipe.model.d_model,
            evaluate=ForecastValidation(prepared.windows, prepared.valid, recipe.forecast),
            reporter=reporter,
            ranks=ranks,
            writing=lambda: writing_into(out, locks),
        )
        trainer.run()
        write_model(trainer, out, partial(write_forecaster, out, prepared, recipe))


def write_forecaster(
    out: Path,
    prepared: PreparedWindows,
    recipe: ForecasterRecipe,
    selected: SelectedWeights,
    trainer: Trainer,
    base: BaseModel | None,
    early: bool,
) -> None:
    """Write the model directory of a run."""
    info = prepared.info()
    card = forecast_card(prepared, recipe, selected, trainer, baseline_figures(prepared, recipe, info.season))
    save_result(out, selected, trainer, early, recipe, info, card)


def baseline_figures(prepared: PreparedWindows, recipe: ForecasterRecipe, season: int) -> dict[str, dict[str, float]]:
    """MSE and MAE of the baselines on the validation windows, for the card."""
    naive, linear = SeasonalNaive(season, recipe.forecast.horizon), LinearModel.fit(prepared.windows, prepared.train)
    systems: dict[str, Callable[[Tensor], Tensor]] = {"seasonal naive": naive, "linear": linear}
    figures = {}
    for name, system in systems.items():
        errors = measure_errors(without_calendar(system), prepared.windows, prepared.valid, recipe.forecast)
        figures[name] = {"mse": errors.mse, "mae": errors.mae}
    return figures


def forecast_card(
    prepared: PreparedWindows,
    recipe: ForecasterRecipe,
    selected: SelectedWeights,
    trainer: Trainer,
    baselines: Mapping[str, dict[str, float]],
) -> str:
    """The card of a trained forecaster."""
    series, settings, model = prepared.series, recipe.forecast, recipe.model
    rows = {"this model": selected.scores, **baselines}
    figures = "\n".join(f"| {name} | {row['mse']:.4f} | {row['mae']:.4f} |" for name, row in rows.items())
    columns = ", ".join(series.columns)
    span = f", from {series.times[0]} to {series.times[-1]}" if series.times else ""
    decoder = f"+{model.decoder_layers}" if settings.mode == "decoder" else ""
    quantiles = f" It predicts the quantiles {', '.join(map(str, settings.quantiles))}." if settings.quantiles else ""
    return f"""# Forecasts of {columns}

Trained with Dragoman {__version__} (torch {version("torch")}) for {trainer.state.step:,} steps. It reads
{settings.look_back} time steps of {series.step} and predicts the next {settings.horizon}.{quantiles}

## Data

{series.name}: {len(series):,} rows{span}; SHA-256 begins `{series.sha256[:16]}`.

## License

Unknown. The license of the data says how this model may be used. Write it here.

## Model

{settings.mode}, {model.encoder_layers}{decoder} layers, d_model {model.d_model}, {model.n_heads} heads,
d_ff {model.d_ff}, dropout {model.dropout}; patches of {settings.patch} values. All settings are in recipe.toml.
The weights are {selected.name}.

## Scores on the validation part

In deviations of each column over the training part, over {len(prepared.valid):,} windows.

| forecast | MSE | MAE |
|---|---|---|
{figures}
"""
