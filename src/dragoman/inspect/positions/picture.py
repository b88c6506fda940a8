"""A picture of position codes: their values, their effect on pairs of positions, and that effect by distance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.inspect.pictures import COLORS, load_pyplot, save_figure
from dragoman.inspect.positions.codes import PositionView, by_distance
from dragoman.inspect.positions.palette import LIGHT

MANY_ROWS = 3  # rows are lower if there are more


def draw_positions(views: Sequence[PositionView], path: str | Path, title: str = "") -> str:
    """Draw a row for each code; if it differs by head, the square is that of the middle head."""
    height = 3.9 if len(views) <= MANY_ROWS else 2.9
    figure, axes = load_pyplot().subplots(
        len(views), 3, figsize=(13, height * len(views) + 0.3), layout="constrained", squeeze=False
    )
    colors = sign_colormap()
    for (heat, square, curve), view in zip(axes, views, strict=True):
        maximum = np.abs(view.values).max() or 1.0
        rows, columns = view.values.shape
        left = 0.5 if view.column_name.startswith("head") else -0.5  # heads count from 1
        edges = (left, left + columns, view.first_row + rows - 0.5, view.first_row - 0.5)
        limits = {"cmap": colors, "interpolation": "nearest"}
        image = heat.imshow(view.values, aspect="auto", vmin=-maximum, vmax=maximum, extent=edges, **limits)
        figure.colorbar(image, ax=heat, pad=0.02)
        heat.set(title=f"{view.name}: the code", xlabel=view.column_name, ylabel=view.row_name)
        head = (len(view.pairs) - 1) // 2
        span = np.abs(view.pairs[head]).max() or 1.0
        image = square.imshow(view.pairs[head], vmin=-span, vmax=span, **limits)
        figure.colorbar(image, ax=square, pad=0.02)
        what = f"bias of head {head + 1}" if view.measure == "bias" else "similarity (1: same position)"
        square.set(title=what, xlabel=view.row_name if view.row_name == "depth" else "position", ylabel="position")
        distances = np.arange(1 - view.length, view.length)
        for number, plane in enumerate(view.pairs):
            mean, low, high = by_distance(plane)
            color = LIGHT.positive if len(view.pairs) == 1 else COLORS[number % len(COLORS)]
            curve.fill_between(distances, low, high, color=color, alpha=0.2, linewidth=0)
            curve.plot(distances, mean, color=color)
        curve.axhline(0, color="0.6", linewidth=0.8)
        each = "each head" if len(view.pairs) > 1 else "mean, minimum, maximum"
        curve.set(title=f"by distance: {each}", xlabel="key minus query", xlim=(distances[0], distances[-1]))
        curve.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    return save_figure(figure, path)


def sign_colormap() -> Any:
    """The colors of the page on white, as a colormap of matplotlib."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("signs", [LIGHT.negative, "white", LIGHT.positive])
