"""What is measured over a length, as curves side by side, each with what was expected of it as a dashed line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from dragoman.inspect.pictures import pyplot, save

COLORS: Final = ("#c8452d", "#e39b2d", "#3b6ea8", "#4d9a5b", "#7d5ba6", "#6b6b6b")


class Curve(Protocol):
    """Values at some places, and what a formula says for them, if there is one."""

    @property
    def name(self) -> str:
        """What the legend calls it."""

    @property
    def places(self) -> Sequence[float]:
        """Along the axis."""

    @property
    def values(self) -> Sequence[float]:
        """What was measured there."""

    @property
    def expected(self) -> Sequence[float] | None:
        """What was expected there."""


def draw_curves(panels: Mapping[str, Sequence[Curve]], path: str | Path, along: str, title: str = "") -> str:
    """A panel for each title, on logarithmic axes; a curve of the same name has the same color in all."""
    figure, axes = pyplot().subplots(1, len(panels), figsize=(5.2 * len(panels), 4.6), layout="constrained")
    names = list(dict.fromkeys(curve.name for curves in panels.values() for curve in curves))
    for axis, (what, curves) in zip([axes] if len(panels) == 1 else axes, panels.items(), strict=True):
        for curve in curves:
            number = names.index(curve.name)
            color, marker = COLORS[number % len(COLORS)], "os^DvP"[number % 6]
            # Equal values hide each other: those that come first are drawn larger.
            size = 8.5 - 1.2 * number
            line = "-" if curve.expected is None else "none"
            look = {"linestyle": line, "marker": marker, "markersize": size, "color": color}
            axis.plot(curve.places, curve.values, label=curve.name, **look)
            if curve.expected is not None:
                axis.plot(curve.places, curve.expected, "--", linewidth=1, color=color)
        axis.set(title=what, xlabel=along, yscale="log")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.grid(color="0.9", linewidth=0.7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, fontsize=9)
    figure.suptitle(title)
    return save(figure, path)
