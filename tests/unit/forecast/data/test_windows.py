"""Windows are those of the literature's splits, standardized by the training part; batches resume exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from dragoman.config.forecast import ForecastRecipe
from dragoman.errors import DataError
from dragoman.forecast.data.series import read_series
from dragoman.forecast.data.windows import Scale, WindowLoader, Windows, split_rows, window_starts
from raising import raises
from small_series import write_series

RECIPE = ForecastRecipe(look_back=12, horizon=5, patch=4, stride=4, batch_windows=7)


def test_splits() -> None:
    assert split_rows(17_420, (8640, 2880, 2880)) == {
        "train": range(8640), "valid": range(8640, 11_520), "test": range(11_520, 14_400)
    }  # fmt: skip
    assert split_rows(101, (0.7, 0.1, 0.2)) == {"train": range(70), "valid": range(70, 81), "test": range(81, 101)}
    with raises(DataError, "too_few_rows", "101"):
        split_rows(101, (90, 10, 10))


def test_windows_of_a_part_predict_its_rows_only() -> None:
    ett = ForecastRecipe(look_back=336, horizon=96)
    assert len(window_starts(range(8640), ett, "train")) == 8640 - 336 - 96 + 1
    test = window_starts(range(11_520, 14_400), ett, "test")
    assert (test[0] + 336, test[-1] + 336 + 96) == (11_520, 14_400)  # the usual 2,785 windows
    assert len(test) == 2785
    with raises(DataError, "too_few_rows", "valid"):
        window_starts(range(20, 24), RECIPE, "valid")


def test_values_are_those_of_a_loop(tmp_path: Path) -> None:
    series = read_series(write_series(tmp_path / "data.csv", rows=60))
    scale = Scale.of(series, range(40))
    windows = Windows.of(series, scale, ForecastRecipe(look_back=12, horizon=5, patch=4, stride=4, calendar=("hour",)))
    starts = torch.tensor([3, 0, 41])
    (past, calendar), future = windows.past(starts), windows.future(starts)
    assert (past.shape, calendar.shape, future.shape) == ((3, 2, 12), (3, 17, 2), (3, 2, 5))
    for b, start in enumerate(starts.tolist()):
        for c in range(2):
            column = series.values[:, c]
            expected = (column - column[:40].mean()) / column[:40].std()
            np.testing.assert_allclose(past[b, c], expected[start : start + 12], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(future[b, c], expected[start + 12 : start + 17], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scale.restore(past[0].T.numpy()), series.values[3:15], rtol=1e-5)
    flat = series.values.copy()
    flat[:40, 1] = 3
    with raises(DataError, "constant_column", "heat"):
        Scale.of(type(series)(**{**series.__dict__, "values": flat}), range(40))


def test_an_epoch_has_each_window_at_most_once_and_ranks_share_it() -> None:
    starts = np.arange(100, 145)
    whole = WindowLoader(starts, RECIPE, 2)
    epoch = [next(whole) for _ in range(whole.batches)]
    seen = torch.cat([batch.starts for batch in epoch])
    assert (len(seen), len(seen.unique())) == (42, 42)
    assert (epoch[0].source_tokens, epoch[0].target_tokens) == (7 * 2 * 12, 7 * 2 * 5)
    again = torch.cat([next(whole).starts for _ in range(whole.batches)])
    assert set(seen.tolist()) != set(again.tolist()) or not torch.equal(seen, again)
    ranks = [WindowLoader(starts, RECIPE, 2, rank=rank, world=2) for rank in (0, 1)]
    for number in range(0, len(epoch), 2):
        for rank in (0, 1):
            assert torch.equal(next(ranks[rank]).starts, epoch[number + rank].starts)


def test_a_loader_continues_from_its_state() -> None:
    whole = WindowLoader(np.arange(45), RECIPE, 1)
    batches = [next(whole) for _ in range(15)]  # more than two epochs
    for done in (1, 6, 7, 13):
        resumed = WindowLoader(np.arange(45), RECIPE, 1, state=batches[done - 1].state)
        assert all(torch.equal(next(resumed).starts, batch.starts) for batch in batches[done:])
