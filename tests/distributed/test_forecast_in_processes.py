"""Two processes train the forecaster that one trains with twice the windows, within rounding."""

from __future__ import annotations

from pathlib import Path

import torch

from dragoman import forecast
from dragoman.forecast.run import choose_recipe, train_forecaster
from dragoman.progress import SilentReporter
from dragoman.training.distributed.ranks import Ranks, join
from small_series import TINY, write_series
from tiny_run import Team, weights_of

CHANGES = (
    *TINY,
    "train.epsilon=1e-3",
    "forecast.horizon=6",
    "forecast.look_back=16",
    "model.dropout=0.0",
    "model.norm=layer",
)


def train(ranks: Ranks, data: Path, out: Path, windows: int) -> None:
    series = forecast.read_series(data)
    recipe = choose_recipe(series, None, [*CHANGES, f"forecast.batch_windows={windows}"], SilentReporter())
    train_forecaster(series, recipe, out, SilentReporter(), ranks)


def train_as_rank(data: Path, out: Path, windows: int) -> None:
    train(join(torch.device("cpu")), data, out, windows)


def test_two_processes_equal_one(tmp_path: Path) -> None:
    data = write_series(tmp_path / "data.csv", rows=150)
    team = Team(2, train_as_rank, data, tmp_path / "two", 8, folder=tmp_path)
    assert team.wait() == [0, 0], team.said()
    train(Ranks(), data, tmp_path / "one", 16)
    for name, weight in weights_of(tmp_path / "one", 12).items():
        torch.testing.assert_close(weights_of(tmp_path / "two", 12)[name], weight, rtol=2e-4, atol=2e-6)
