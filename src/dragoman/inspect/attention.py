"""Attention as pictures: one map with its words, the heads of a layer, or every layer and head at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.inspect.attention_maps import Kind, Looked, Weights, by_words
from dragoman.inspect.pictures import pyplot, save
from dragoman.text.word_groups import Side

TITLES = {"cross": "target looks at source", "encoder": "source looks at source", "decoder": "target looks at target"}
TURNED = {"rotation": 60, "ha": "left", "rotation_mode": "anchor"}
WIDEST = 22  # inches of maps side by side, or below each other
READABLE = 0.11  # inches of a row under which names would be a smear
LINED = 80  # cells a side, up to which lines are drawn between them


def draw_attention(
    weights_TS: Any, source: Sequence[str], written: Sequence[str], path: str | Path, title: str = ""
) -> str:
    """Draw one map of weights, a row for each written token and a column for each source token."""
    cell = min(0.42, WIDEST / len(source), WIDEST / len(written))
    size = (1.5 + cell * len(source), 1.2 + 0.86 * cell * len(written))
    figure, axis = pyplot().subplots(figsize=size, layout="constrained")
    named = cell >= READABLE
    show(axis, np.asarray(weights_TS), list(written) if named else [], list(source) if named else [])
    axis.set_title(title)
    return save(figure, path)


def draw_heads(
    looked: Looked,
    path: str | Path,
    kind: Kind = "cross",
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
) -> str:
    """Every layer and head, the heads of one layer with their mean, or one head; both are counted from 1."""
    looked.check(kind, layer, head)
    weights, rows, columns = looked.maps[kind], looked.rows(kind), looked.columns(kind)
    if words:
        weights = by_words(weights, rows, columns)
    names = [labels(rows, words), labels(columns, words)]
    if layer is not None and head is not None:
        title = f"{TITLES[kind]}: layer {layer}, head {head}"
        return draw_attention(weights[layer - 1, head - 1], names[1], names[0], path, title)
    if head is not None:
        chosen = [(f"layer {i + 1}, head {head}", w[head - 1]) for i, w in enumerate(weights)]
        return panels(chosen, names, path, f"{TITLES[kind]}: head {head}", across=min(5, len(chosen)))
    if layer is not None:
        heads = weights[layer - 1]
        chosen = [(f"head {i + 1}", w) for i, w in enumerate(heads)] + [("mean", heads.mean(0))]
        return panels(chosen, names, path, f"{TITLES[kind]}: layer {layer}", across=min(5, len(chosen)))
    chosen = [
        (f"layer {i + 1}, head {j + 1}", weights[i, j])
        for i in range(weights.shape[0])
        for j in range(weights.shape[1])
    ]
    return panels(chosen, names, path, TITLES[kind], across=weights.shape[1])


def labels(side: Side, words: bool) -> list[str]:
    """The names of rows or columns."""
    return [word.label for word in side.words] if words else list(side.tokens)


def panels(
    chosen: Sequence[tuple[str, Weights]], names: Sequence[list[str]], path: str | Path, title: str, across: int
) -> str:
    """Small maps side by side; words stand at the left and at the top alone."""
    down = -(-len(chosen) // across)
    rows, columns = names
    cell = min(0.24, WIDEST / across / len(columns), WIDEST / down / len(rows))
    wide, high = max(1.1, cell * len(columns)), max(1.1, cell * len(rows))
    if cell < READABLE:
        rows, columns = [], []
    size = (across * (wide + 0.12) + 1.4, down * (high + 0.35) + 1.6)
    figure, axes = pyplot().subplots(down, across, figsize=size, layout="constrained", squeeze=False)
    for number, axis in enumerate(axes.flat):
        if number >= len(chosen):
            axis.set_axis_off()
            continue
        name, weights = chosen[number]
        left, top = number % across == 0, number < across
        show(axis, weights, rows if left else [], columns if top else [], size=8)
        axis.set_xlabel(name, fontsize=8, color="0.35", labelpad=2)
    figure.suptitle(title, fontsize=11)
    return save(figure, path)


def show(axis: Any, weights: Weights, rows: list[str], columns: list[str], size: float = 10) -> None:
    """One map: white where nothing is looked at, dark where all is."""
    axis.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for ticks, names, turn in ((axis.set_xticks, columns, True), (axis.set_yticks, rows, False)):
        if names:
            # "$" would begin a formula.
            clean = [name.replace("$", r"\$") for name in names]
            ticks(range(len(names)), clean, fontsize=size, **(TURNED if turn else {}))
        else:
            ticks([])
    axis.xaxis.tick_top()
    axis.xaxis.set_label_position("bottom")
    axis.tick_params(length=0, pad=3)
    if max(weights.shape) <= LINED:  # more lines than that would leave nothing between them
        axis.set_xticks(np.arange(weights.shape[1] + 1) - 0.5, minor=True)
        axis.set_yticks(np.arange(weights.shape[0] + 1) - 0.5, minor=True)
        axis.grid(which="minor", color="white", linewidth=0.6)
        axis.tick_params(which="minor", length=0)
    for spine in axis.spines.values():
        spine.set_color("0.8")
