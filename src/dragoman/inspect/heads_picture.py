"""All heads of a model in one picture: dark is worth much, words say what each does; and the curve of removing them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Final

from dragoman.inspect.attention import TITLES
from dragoman.inspect.gates import ORDER
from dragoman.inspect.heads import Head, Survey
from dragoman.inspect.pictures import pyplot, save

WIDE, HIGH = 1.36, 0.76  # inches of a head's cell
LETTERS: Final = 18  # on a line inside it
LEFT, NAMES, GAP = 0.62, 0.55, 0.25  # inches beside a block, above it, and between two
HEADING, SCALE = 0.85, 0.75  # inches of the title, and of the scale below all blocks
PANEL: Final = (4.4, 2.3)  # inches of a curve
ROOM: Final = 1.0  # inches around it
NARROW: Final = 8.0  # inches of blocks beside which the curves stand, and not below
LEAST: Final = 7.8  # inches that the line below the title takes
INK, BLUE = "0.15", "#3b6ea8"


def draw_survey(survey: Survey, path: str | Path, title: str = "") -> str:
    """A block of layers and heads for each use of attention, and the curve, if there is one."""
    plot = pyplot()
    from matplotlib.colors import PowerNorm

    blocks = [(kind, survey.of_kind(kind)) for kind in ORDER]
    wide = LEFT + WIDE * max(len(row) for _, rows in blocks for row in rows)
    high = HEADING + sum(NAMES + HIGH * len(rows) + GAP for _, rows in blocks) + SCALE
    count = 0 if not survey.curve else 1 + (survey.curve[0].bleu is not None)
    beside = wide <= NARROW
    corners = [
        (wide + ROOM, HEADING + NAMES + i * (PANEL[1] + ROOM)) if beside else (LEFT + i * (PANEL[0] + ROOM), high + 0.4)
        for i in range(count)
    ]
    whole = (
        max([wide, LEAST, *(x + PANEL[0] for x, _ in corners)]) + 0.3,
        max([high, *(y + PANEL[1] + 0.7 for _, y in corners)]),
    )
    figure = plot.figure(figsize=whole)
    norm, colors = PowerNorm(0.5, 0, 1000 * max(1e-9, *(head.worth for head in survey.heads))), plot.get_cmap("Blues")

    def axes(x: float, y: float, w: float, h: float) -> Any:
        """A place in inches from the top left."""
        return figure.add_axes((x / whole[0], 1 - (y + h) / whole[1], w / whole[0], h / whole[1]))

    def say(words: str, y: float, size: float, color: str) -> None:
        figure.text(0.12 / whole[0], 1 - y / whole[1], words, fontsize=size, va="center", color=color)

    say(title.replace("$", r"\$"), 0.25, 12, INK)
    say(measure(survey), 0.52, 8.5, "0.35")
    y = HEADING
    for kind, rows in blocks:
        axis = axes(LEFT, y + NAMES, WIDE * len(rows[0]), HIGH * len(rows))
        draw_block(axis, rows, norm, colors)
        axis.set_title(f"{kind}: {TITLES[kind]}", fontsize=10, pad=20, loc="left", color=INK)
        y += NAMES + HIGH * len(rows) + GAP
    bar = axes(LEFT, y + 0.05, min(4.0, wide - LEFT), 0.13)
    scale = figure.colorbar(plot.cm.ScalarMappable(norm, colors), cax=bar, orientation="horizontal")
    scale.outline.set_visible(False)
    bar.tick_params(labelsize=7.5, length=2, colors="0.35")
    draw_curve(survey, [axes(*corner, *PANEL) for corner in corners])
    return save(figure, path)


def measure(survey: Survey) -> str:
    """What the figures in the cells are."""
    how = (
        "In bold and color: how much the cross-entropy rises without this head"
        if survey.exact
        else "In bold and color: the size of the cross-entropy's slope at this head's gate"
    )
    return f"{how}, in thousandths of a nat a token, over {survey.sentences:,} sentence pairs"


def draw_block(axis: Any, rows: list[list[Head]], norm: Any, colors: Any) -> None:
    """A row for each layer, a cell for each head."""
    from matplotlib.patches import Rectangle

    heads = max(map(len, rows))
    for head in (head for row in rows for head in row):
        column, row = head.place.head - 1, head.place.layer - 1
        shade = float(norm(max(0.0, 1000 * head.worth)))
        ink = "white" if shade > 0.71 else "black"  # whichever has more contrast: at least 4.5
        axis.add_patch(Rectangle((column, row), 1, 1, facecolor=colors(shade), edgecolor="white", linewidth=2))
        axis.text(column + 0.5, row + 0.2, figure_of(head.worth), ha="center", va="center", fontsize=9, weight="bold",
                  color=ink)  # fmt: skip
        words = "\n".join(textwrap.wrap(head.label.replace(" %", "\xa0%"), LETTERS)[:3])  # a figure keeps its sign
        axis.text(column + 0.5, row + 0.63, words, ha="center", va="center", fontsize=7.4, color=ink, linespacing=1.15)
    axis.set(xlim=(0, heads), ylim=(len(rows), 0))
    axis.xaxis.tick_top()
    axis.set_xticks([i + 0.5 for i in range(heads)], [f"head {i + 1}" for i in range(heads)], fontsize=8)
    axis.set_yticks([i + 0.5 for i in range(len(rows))], [f"layer {i + 1}" for i in range(len(rows))], fontsize=8)
    axis.tick_params(length=0, colors="0.35")
    for spine in axis.spines.values():
        spine.set_visible(False)


def figure_of(worth: float) -> str:
    """Thousandths of a nat, with as many places as say something."""
    thousandths = 1000 * worth
    return f"{thousandths:.0f}" if abs(thousandths) >= 9.95 else f"{thousandths:.1f}"


def draw_curve(survey: Survey, axes: list[Any]) -> None:
    """Cross-entropy, and BLEU if it is there, over the number of heads that were removed."""
    removed = [point.removed for point in survey.curve]
    series = [
        ("cross-entropy, nats a token", [point.cross_entropy for point in survey.curve]),
        ("BLEU, greedy", [point.bleu for point in survey.curve]),
    ]
    for axis, (name, values) in zip(axes, series, strict=False):
        axis.plot(removed, values, marker="o", markersize=3.5, color=BLUE, linewidth=1.4)
        axis.set_title(name, fontsize=10, loc="left", color=INK)
        axis.set_xlabel(f"heads removed of {removed[-1]}, the least worthy first", fontsize=8.5)
        axis.tick_params(labelsize=8)
        axis.set_ylim(bottom=0)
        axis.grid(color="0.9", linewidth=0.7)
        axis.spines[["top", "right"]].set_visible(False)
