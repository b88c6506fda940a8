"""`dragoman forecast`: train a forecaster on series of numbers, predict with it, and evaluate it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click

from dragoman.cli import note
from dragoman.cli.options import FILE, NAME, OUTPUT_FILE, Group, complete_model, examples
from dragoman.cli.output import check_not_input, check_stdout
from dragoman.files import write_output

Missing = Literal["error", "interpolate"]


def data_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options for reading a table, which all subcommands have."""
    options = (
        click.option("--time", metavar="COLUMN", help="Column of time stamps (default: found by its name)."),
        click.option(
            "--missing",
            type=click.Choice(["error", "interpolate"]),
            default="error",
            show_default=True,
            help="Treatment of missing values and rows: stop with their line, or fill them linearly.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.group(
    cls=Group, name="forecast", epilog=examples("dragoman forecast train data.csv --target OT --horizon 96 --out model")
)
def command() -> None:
    """Forecast series of numbers with the Transformer's layers and trainer."""


@command.command(
    "train",
    short_help="Train a forecaster on columns of a CSV or Parquet file.",
    epilog=examples("dragoman forecast train data.csv --target OT --horizon 96 --out model"),
)
@click.argument("data", type=FILE)
@click.option("--target", multiple=True, metavar="COLUMN", help="Column to forecast; repeatable (default: all).")
@click.option("--horizon", type=int, help="Number of time steps to predict.")
@click.option("--look-back", type=int, help="Number of past time steps to read (default: by the data, at most 336).")
@click.option("--out", type=FILE, required=True, help="The model directory to write.")
@data_options
@click.option("--recipe", type=FILE, help="A TOML file; without it, sizes are chosen by the amount of data.")
@click.option(
    "--set", "changes", multiple=True, metavar="SECTION.KEY=VALUE", help="Change one setting of the recipe; repeatable."
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    help="Device to train on; auto is a GPU, if any.",
)
def train_command(
    data: Path,
    target: tuple[str, ...],
    horizon: int | None,
    look_back: int | None,
    out: Path,
    time: str | None,
    missing: Missing,
    recipe: Path | None,
    changes: tuple[str, ...],
    device: str | None,
) -> None:
    """Train a forecaster on columns of a CSV or Parquet file.

    The same command resumes a run that was stopped. Each column is a separate series; all share the weights.
    """
    from dragoman import forecast

    forecast.train(
        data,
        out=out,
        target=target,
        horizon=horizon,
        look_back=look_back,
        time=time,
        missing=missing,
        recipe=recipe,
        changes=changes,
        device=device,
    )


@command.command(
    "predict",
    short_help="Forecast the rows that follow a file.",
    epilog=examples(
        "dragoman forecast predict model data.csv --out ahead.csv",
        "dragoman forecast predict model data.csv --picture ahead.png",
    ),
)
@click.argument("model", type=NAME, shell_complete=complete_model)
@click.argument("data", type=FILE)
@data_options
@click.option(
    "--out", type=OUTPUT_FILE, help="CSV file to write (default: standard output, unless there is a --picture)."
)
@click.option("--picture", type=OUTPUT_FILE, help="Picture of forecast, intervals and attention (.png, .svg, .pdf).")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", help="Device to run on.")
def predict_command(
    model: str,
    data: Path,
    time: str | None,
    missing: Missing,
    out: Path | None,
    picture: Path | None,
    device: str,
) -> None:
    """Forecast the rows that follow the last row of DATA, as CSV."""
    from dragoman import forecast
    from dragoman.forecast.picture import draw_forecast

    if out is None and picture is None:
        check_stdout()
    for path in (out, picture):
        if path is not None:
            check_not_input(path, str(path), [data])
    found = forecast.predict(model, data, time=time, missing=missing, device=device)
    if out is not None:
        write_output(out, found.to_csv())
    if picture is not None and (warning := draw_forecast(found, picture)):
        note(warning)
    if out is None and picture is None:
        click.echo(found.to_csv(), nl=False)


@command.command(
    "evaluate",
    short_help="Measure forecasts: MSE and MAE, beside two baselines.",
    epilog=examples("dragoman forecast evaluate model data.csv"),
)
@click.argument("model", type=NAME, shell_complete=complete_model)
@click.argument("data", type=FILE)
@data_options
@click.option(
    "--part",
    type=click.Choice(["test", "valid", "train", "all"]),
    default="test",
    show_default=True,
    help="Part of the file, by the split of the model's recipe.",
)
@click.option("--season", type=click.IntRange(1), help="Rows per season of the baseline (default: by the time step).")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
@click.option("--report", type=OUTPUT_FILE, help="JSON file to write the figures to.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", help="Device to run on.")
def evaluate_command(
    model: str,
    data: Path,
    time: str | None,
    missing: Missing,
    part: Literal["train", "valid", "test", "all"],
    season: int | None,
    as_json: bool,
    report: Path | None,
    device: str,
) -> None:
    """Measure forecasts over all windows of a part of DATA: MSE and MAE, beside a seasonal-naive and a linear model.

    Errors are in deviations of each column over the training part, as in the literature.
    """
    from dragoman import forecast

    found = forecast.evaluate(
        model, data, part=part, season=season, time=time, missing=missing, device=device, report=report
    )
    if as_json:
        click.echo(found.to_json(), nl=False)
        return
    click.echo(f"{found.data}, {found.part}: {found.windows:,} windows, {found.look_back} steps to {found.horizon}")
    click.echo(found.table())
