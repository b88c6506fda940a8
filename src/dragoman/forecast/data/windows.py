"""Windows of a series: the usual split, standardization by the training part, and batches of windows.

A batch holds only where its windows start; the values stay on the device, and the loss gathers them there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.arrays import Int64Array
from dragoman.config.forecast import ForecastRecipe
from dragoman.data.batching import random_order
from dragoman.data.loader import EPOCH_STRIDE
from dragoman.errors import DataError
from dragoman.forecast.data.series import Series
from dragoman.forecast.data.time_stamps import calendar_features
from dragoman.values import plural

if TYPE_CHECKING:
    from types import TracebackType

Part = Literal["train", "valid", "test"]
PARTS: Final[tuple[Part, ...]] = ("train", "valid", "test")
WINDOWS: Final = 0x57  # purpose of the random order


def split_rows(rows: int, split: tuple[float, ...]) -> dict[Part, range]:
    """The rows of each part, in order of time; rows after the last part are not used."""
    if split[0] >= 1:
        sizes = [int(size) for size in split]
    else:
        sizes = [int(rows * split[0]), 0, int(rows * split[2])]
        sizes[1] = int(rows * sum(split) + 0.5) - sizes[0] - sizes[2]
    if sum(sizes) > rows:
        raise DataError(
            f"forecast.split={list(split)} needs {sum(sizes):,} rows, but the series has {rows:,}; use fractions, or "
            "fewer rows",
            code="too_few_rows",
        )
    ends = np.cumsum([0, *sizes]).tolist()
    return {part: range(ends[i], ends[i + 1]) for i, part in enumerate(PARTS)}


def window_starts(rows: range, recipe: ForecastRecipe, part: str) -> Int64Array:
    """The first row of each window whose horizon lies in these rows; the past may lie before them, if it exists."""
    first = max(0, rows.start - recipe.look_back)
    last = rows.stop - recipe.look_back - recipe.horizon
    if last < first:
        needed, shorter = f"forecast.horizon={recipe.horizon}", "horizon"
        if rows.start < recipe.look_back:  # no past before the part
            needed, shorter = f"forecast.look_back={recipe.look_back} and {needed}", "look-back or horizon"
        raise DataError(
            f"the {part} part has {plural(len(rows), 'row')}, too few for {needed}; use a shorter {shorter}, or "
            "another forecast.split",
            code="too_few_rows",
        )
    return np.arange(first, last + 1)


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of each column over the training part."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    @classmethod
    def of(cls, series: Series, rows: range) -> Scale:
        """Measure a part of a series; a constant column cannot be standardized."""
        values = series.values[rows.start : rows.stop]
        deviation = values.std(0)
        if (constant := np.flatnonzero(deviation == 0)).size:
            raise DataError(
                f"{series.name}: {series.columns[constant[0]]} is constant over the training part; leave it out with "
                "--target",
                code="constant_column",
            )
        return cls(values.mean(0), deviation)

    def standardize(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        """Values in deviations from the mean."""
        return ((values - self.mean) / self.deviation).astype(np.float32)

    def restore(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Standardized values `[..., columns]` in their own units."""
        return values.astype(np.float64) * self.deviation + self.mean


@dataclass(frozen=True)
class Windows:
    """All values of a series on a device: `values [columns, rows]`, and `calendar [rows, features]`."""

    values: Tensor
    calendar: Tensor
    look_back: int
    horizon: int

    @classmethod
    def of(cls, series: Series, scale: Scale, recipe: ForecastRecipe, ahead: int = 0) -> Windows:
        """The standardized series; `ahead` adds the calendar of rows that are not there yet."""
        if recipe.calendar and not series.times:
            raise DataError(
                f"forecast.calendar={list(recipe.calendar)} needs time stamps, which {series.name} does not have; name "
                "their column with --time, or leave the calendar out",
                code="missing_setting",
            )
        values = torch.from_numpy(np.ascontiguousarray(scale.standardize(series.values).T))
        times = [*series.times, *series.times_after(ahead)] if recipe.calendar else [None] * (len(series) + ahead)
        features = calendar_features(times, recipe.calendar)  # type: ignore[arg-type]  # times are there if needed
        return cls(values, torch.from_numpy(features), recipe.look_back, recipe.horizon)

    def to(self, device: torch.device) -> Windows:
        """The same on a device."""
        return replace(self, values=self.values.to(device), calendar=self.calendar.to(device))

    def past(self, starts: Tensor) -> tuple[Tensor, Tensor]:
        """The past `[B, C, L]` and the calendar `[B, L + T, K]` of windows by their first rows."""
        rows = starts[:, None] + torch.arange(self.look_back, device=starts.device)
        whole = starts[:, None] + torch.arange(self.look_back + self.horizon, device=starts.device)
        return self.values[:, rows].transpose(0, 1), self.calendar[whole]

    def future(self, starts: Tensor) -> Tensor:
        """The values to predict, `[B, C, T]`."""
        rows = starts[:, None] + self.look_back + torch.arange(self.horizon, device=starts.device)
        return self.values[:, rows].transpose(0, 1)


@dataclass(frozen=True)
class WindowBatch:
    """The first rows of some windows; `state` is the loader's state after this batch."""

    starts: Tensor
    source_tokens: int
    target_tokens: int
    state: int
    fixed_shape: bool = True

    def to(self, device: torch.device) -> WindowBatch:
        """The same batch on a device."""
        return replace(self, starts=self.starts.to(device, non_blocking=True))


class WindowLoader(Iterator[WindowBatch]):
    """Batches of windows in an order that depends only on (seed, epoch); its state is one number, as in `Loader`.

    All batches have the same size: the windows that are left over at the end of an epoch are dropped, others in each.
    """

    def __init__(
        self, starts: Int64Array, recipe: ForecastRecipe, columns: int, *, rank: int = 0, world: int = 1, state: int = 0
    ) -> None:
        self.starts, self.recipe, self.columns, self.rank, self.world, self.state = (
            starts, recipe, columns, rank, world, state,
        )  # fmt: skip
        self.size = min(recipe.batch_windows, max(1, len(starts) // world))
        self.batches = len(starts) // (self.size * world) * world  # of all ranks, in an epoch
        if not self.batches:
            raise DataError(f"{plural(len(starts), 'window')} cannot be shared by {world} ranks", code="too_few_rows")
        self._order: tuple[int, Int64Array] = (-1, starts)

    def __next__(self) -> WindowBatch:
        epoch, done = divmod(self.state, EPOCH_STRIDE)
        if self._order[0] != epoch:
            self._order = (epoch, random_order(len(self.starts), self.recipe.seed, epoch, WINDOWS))
        first = (done + self.rank) * self.size
        chosen = self.starts[self._order[1][first : first + self.size]]
        done += self.world
        self.state = (epoch + 1) * EPOCH_STRIDE if done >= self.batches else epoch * EPOCH_STRIDE + done
        cells = self.size * self.columns
        counts = cells * self.recipe.look_back, cells * self.recipe.horizon
        return WindowBatch(torch.from_numpy(chosen), *counts, self.state)

    def __enter__(self) -> WindowLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
