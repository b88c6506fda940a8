"""A picture of all heads: importance as color, labels as text, and the curve of removing heads."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Final

from dragoman.inspect.attention.picture import TITLES
from dragoman.inspect.heads.gates import KIND_ORDER
from dragoman.inspect.heads.survey import HeadReport, HeadSurvey
from dragoman.inspect.pictures import load_pyplot, save_figure

CELL_WIDTH, CELL_HEIGHT = 1.36, 0.76  # inches
CELL_LETTERS: Final = 18  # characters per line of a cell
LEFT, ABOVE, GAP = 0.62, 0.55, 0.25  # inches left of a block, above it, and between two
HEADING, SCALE = 0.85, 0.75  # height of the title and of the color scale, in inches
PANEL: Final = (4.4, 2.3)  # size of a curve, in inches
PANEL_GAP: Final = 1.0  # inches
MAX_SIDE_BY_SIDE: Final = 8.0  # largest width of the blocks, in inches, with curves next to them
MIN_WIDTH: Final = 7.8  # inches, for the line below the title
INK, BLUE = "0.15", "#3b6ea8"


def draw_survey(survey: HeadSurvey, path: str | Path, title: str = "") -> str:
    """Draw a block of layers and heads for each kind of attention, and the curve if there is one."""
    plot = load_pyplot()
    from matplotlib.colors import PowerNorm

    blocks = [(kind, rows) for kind in KIND_ORDER if (rows := survey.layers(kind))]
    wide = LEFT + CELL_WIDTH * max(len(row) for _, rows in blocks for row in rows)
    high = HEADING + sum(ABOVE + CELL_HEIGHT * len(rows) + GAP for _, rows in blocks) + SCALE
    count = 0 if not survey.curve else 1 + (survey.curve[0].bleu is not None)
    side_by_side = wide <= MAX_SIDE_BY_SIDE
    corners = [
        (wide + PANEL_GAP, HEADING + ABOVE + i * (PANEL[1] + PANEL_GAP))
        if side_by_side
        else (LEFT + i * (PANEL[0] + PANEL_GAP), high + 0.4)
        for i in range(count)
    ]
    inches = (
        max([wide, MIN_WIDTH, *(x + PANEL[0] for x, _ in corners)]) + 0.3,
        max([high, *(y + PANEL[1] + 0.7 for _, y in corners)]),
    )
    figure = plot.figure(figsize=inches)
    highest = max(1e-9, *(head.importance for head in survey.heads))
    norm, colors = PowerNorm(0.5, 0, 1000 * highest), plot.get_cmap("Blues")

    def axes(x: float, y: float, w: float, h: float) -> Any:
        """Axes at a position in inches from the top left."""
        return figure.add_axes((x / inches[0], 1 - (y + h) / inches[1], w / inches[0], h / inches[1]))

    def write(text: str, y: float, font_size: float, color: str) -> None:
        figure.text(0.12 / inches[0], 1 - y / inches[1], text, fontsize=font_size, va="center", color=color)

    write(title.replace("$", r"\$"), 0.25, 12, INK)
    write(describe_importance(survey), 0.52, 8.5, "0.35")
    y = HEADING
    for kind, rows in blocks:
        axis = axes(LEFT, y + ABOVE, CELL_WIDTH * len(rows[0]), CELL_HEIGHT * len(rows))
        draw_block(axis, rows, norm, colors)
        axis.set_title(f"{kind}: {TITLES[kind]}", fontsize=10, pad=20, loc="left", color=INK)
        y += ABOVE + CELL_HEIGHT * len(rows) + GAP
    bar = axes(LEFT, y + 0.05, min(4.0, wide - LEFT), 0.13)
    scale = figure.colorbar(plot.cm.ScalarMappable(norm, colors), cax=bar, orientation="horizontal")
    scale.outline.set_visible(False)
    bar.tick_params(labelsize=7.5, length=2, colors="0.35")
    draw_removal_curve(survey, [axes(*corner, *PANEL) for corner in corners])
    return save_figure(figure, path)


def describe_importance(survey: HeadSurvey) -> str:
    """The caption that explains the numbers in the cells."""
    rise, gradient = "increase in cross-entropy without this head", "absolute gradient of the cross-entropy at the gate"
    how = f"Bold and color: {rise if survey.ablated else gradient}"
    return f"{how}, in thousandths of a nat per token, over {survey.sentences:,} sentence pairs"


def draw_block(axis: Any, rows: list[list[HeadReport]], norm: Any, colors: Any) -> None:
    """Draw a row for each layer, a cell for each head."""
    from matplotlib.patches import Rectangle

    heads = max(map(len, rows))
    for head in (head for row in rows for head in row):
        column, row = head.id.head - 1, head.id.layer - 1
        shade = float(norm(max(0.0, 1000 * head.importance)))
        ink = "white" if shade > 0.71 else "black"  # whichever has more contrast: at least 4.5
        axis.add_patch(Rectangle((column, row), 1, 1, facecolor=colors(shade), edgecolor="white", linewidth=2))
        centered = {"ha": "center", "va": "center", "color": ink}
        figure = format_importance(head.importance)
        axis.text(column + 0.5, row + 0.2, figure, fontsize=9, weight="bold", **centered)
        lines = textwrap.wrap(head.label.replace(" %", "\xa0%"), CELL_LETTERS)[:3]  # a number keeps its percent sign
        axis.text(column + 0.5, row + 0.63, "\n".join(lines), fontsize=7.4, linespacing=1.15, **centered)
    axis.set(xlim=(0, heads), ylim=(len(rows), 0))
    axis.xaxis.tick_top()
    axis.set_xticks([i + 0.5 for i in range(heads)], [f"head {i + 1}" for i in range(heads)], fontsize=8)
    axis.set_yticks([i + 0.5 for i in range(len(rows))], [f"layer {i + 1}" for i in range(len(rows))], fontsize=8)
    axis.tick_params(length=0, colors="0.35")
    for spine in axis.spines.values():
        spine.set_visible(False)


def format_importance(importance: float) -> str:
    """Thousandths of a nat, with one decimal if it is small."""
    thousandths = 1000 * importance
    return f"{thousandths:.0f}" if abs(thousandths) >= 9.95 else f"{thousandths:.1f}"


def draw_removal_curve(survey: HeadSurvey, axes: list[Any]) -> None:
    """Draw cross-entropy, and BLEU if measured, over the number of removed heads."""
    removed = [point.removed for point in survey.curve]
    series = [
        ("cross-entropy, nats per token", [point.cross_entropy for point in survey.curve]),
        ("BLEU, greedy", [point.bleu for point in survey.curve]),
    ]
    for axis, (name, values) in zip(axes, series, strict=False):
        axis.plot(removed, values, marker="o", markersize=3.5, color=BLUE, linewidth=1.4)
        axis.set_title(name, fontsize=10, loc="left", color=INK)
        axis.set_xlabel(f"heads removed of {removed[-1]}, least important first", fontsize=8.5)
        axis.tick_params(labelsize=8)
        axis.set_ylim(bottom=0)
        axis.grid(color="0.9", linewidth=0.7)
        axis.spines[["top", "right"]].set_visible(False)
