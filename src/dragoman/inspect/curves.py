"""Measured curves side by side, with expected values as dashed lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from dragoman.inspect.pictures import load_pyplot, save_figure

COLORS: Final = ("#c8452d", "#e39b2d", "#3b6ea8", "#4d9a5b", "#7d5ba6", "#6b6b6b")


class Curve(Protocol):
    """Measured values, and expected ones if there is a formula."""

    @property
    def name(self) -> str:
        """The name in the legend."""

    @property
    def x(self) -> Sequence[float]:
        """Positions along the axis."""

    @property
    def y(self) -> Sequence[float]:
        """Measured values."""

    @property
    def expected(self) -> Sequence[float] | None:
        """Expected values."""


def draw_curves(panels: Mapping[str, Sequence[Curve]], path: str | Path, x_label: str, title: str = "") -> str:
    """Draw a panel for each title, on logarithmic axes; curves of the same name have the same color."""
    figure, axes = load_pyplot().subplots(1, len(panels), figsize=(5.2 * len(panels), 4.6), layout="constrained")
    names = list(dict.fromkeys(curve.name for curves in panels.values() for curve in curves))
    for axis, (panel, curves) in zip([axes] if len(panels) == 1 else axes, panels.items(), strict=True):
        for curve in curves:
            number = names.index(curve.name)
            color, marker = COLORS[number % len(COLORS)], "os^DvP"[number % 6]
            # Equal values hide each other, so the first are drawn larger.
            size = 8.5 - 1.2 * number
            line = "-" if curve.expected is None else "none"
            style = {"linestyle": line, "marker": marker, "markersize": size, "color": color}
            axis.plot(curve.x, curve.y, label=curve.name, **style)
            if curve.expected is not None:
                axis.plot(curve.x, curve.expected, "--", linewidth=1, color=color)
        axis.set(title=panel, xlabel=x_label, yscale="log")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.grid(color="0.9", linewidth=0.7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, fontsize=9)
    figure.suptitle(title)
    return save_figure(figure, path)
