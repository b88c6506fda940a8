"""A picture of a forecast: the past, the prediction with its intervals, and the attention over the past."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from dragoman.forecast.api import Forecast
from dragoman.inspect.pictures import load_pyplot, save_figure

COLORS: Final = {"past": "#4a4a4a", "forecast": "#c8452d", "attention": "#3b6ea8"}
MAX_COLUMNS: Final = 8  # panels; more columns would be unreadable


def draw_forecast(forecast: Forecast, path: str | Path) -> str:
    """Draw a panel for each column, the first eight at most; return a warning about missing characters, or nothing."""
    shown = forecast.columns[:MAX_COLUMNS]
    heights = [4.0, 1.0] * len(shown)
    figure, axes = load_pyplot().subplots(
        2 * len(shown),
        1,
        figsize=(10, 0.6 + 2.9 * len(shown)),
        sharex=True,
        layout="constrained",
        gridspec_kw={"height_ratios": heights},
    )
    before: Any = forecast.past_times or np.arange(1 - len(forecast.past), 1)
    after: Any = forecast.times or np.arange(1, len(forecast.values) + 1)
    for number, name in enumerate(shown):
        top, bottom = axes[2 * number], axes[2 * number + 1]
        top.plot(before, forecast.past[:, number], color=COLORS["past"], linewidth=1, label="past")
        top.plot(after, forecast.values[:, number], color=COLORS["forecast"], linewidth=1.4, label="forecast")
        if forecast.quantiles is not None:
            for inner in range(len(forecast.levels) // 2):
                low, high = forecast.quantiles[:, number, inner], forecast.quantiles[:, number, -1 - inner]
                share = 100 * (forecast.levels[-1 - inner] - forecast.levels[inner])
                label = f"{share:.0f} % interval"
                top.fill_between(after, low, high, color=COLORS["forecast"], alpha=0.15, linewidth=0, label=label)
        top.set_ylabel(name.replace("$", r"\$"))
        top.grid(color="0.92", linewidth=0.7)
        bottom.fill_between(
            before, forecast.attention[number], step="mid", color=COLORS["attention"], alpha=0.8, linewidth=0
        )
        bottom.set_ylabel("attention", fontsize=8)
        bottom.set_ylim(bottom=0)
        bottom.set_yticks([])
        for axis in (top, bottom):
            axis.spines[["top", "right"]].set_visible(False)
    if forecast.times:  # dates would overlap
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=8, interval_multiples=False)  # type: ignore[no-untyped-call]
        axes[-1].xaxis.set_major_locator(locator)
        axes[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes[0].legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=6, borderaxespad=0)
    figure.suptitle(f"{forecast.model}: the next {len(forecast.values)} time steps")
    return save_figure(figure, path)
