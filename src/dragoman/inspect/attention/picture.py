"""Pictures of attention: one map, the heads of a layer, or every layer and head."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from dragoman.engines.forced import AttentionKind
from dragoman.inspect.attention.maps import AttentionWeights, SentenceAttention
from dragoman.inspect.pictures import load_pyplot, save_figure
from dragoman.text.word_groups import Side

TITLES: Final = {
    "cross": "target attends to source",
    "encoder": "source attends to source",
    "decoder": "target attends to target",
}
ROTATED: Final = {"rotation": 60, "ha": "left", "rotation_mode": "anchor"}
MAX_INCHES: Final = 22  # of all maps in a row or column
MIN_LABEL_INCHES: Final = 0.11  # minimum cell size for readable labels
MAX_GRID_CELLS: Final = 80  # largest number of tokens per side with grid lines


def draw_attention(
    weights_TS: Any, source: Sequence[str], target: Sequence[str], path: str | Path, title: str = ""
) -> str:
    """Draw one map, a row for each target token and a column for each source token."""
    cell = min(0.42, MAX_INCHES / len(source), MAX_INCHES / len(target))
    size = (1.5 + cell * len(source), 1.2 + 0.86 * cell * len(target))
    figure, axis = load_pyplot().subplots(figsize=size, layout="constrained")
    labeled = cell >= MIN_LABEL_INCHES
    draw_map(axis, np.asarray(weights_TS), list(target) if labeled else [], list(source) if labeled else [])
    axis.set_title(title)
    return save_figure(figure, path)


def draw_heads(
    attention: SentenceAttention,
    path: str | Path,
    kind: AttentionKind = "cross",
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
) -> str:
    """Draw every layer and head, the heads of one layer with their mean, or one head; both count from 1."""
    attention.check(kind, layer, head)
    weights = attention.pool(kind) if words else attention.maps[kind]
    names = [side_labels(side, words) for side in (attention.queries(kind), attention.keys(kind))]
    if layer is not None and head is not None:
        title = f"{TITLES[kind]}: layer {layer}, head {head}"
        return draw_attention(weights[layer - 1, head - 1], names[1], names[0], path, title)
    if head is not None:
        chosen = [(f"layer {i + 1}, head {head}", w[head - 1]) for i, w in enumerate(weights)]
        return draw_panels(chosen, names, path, f"{TITLES[kind]}: head {head}", across=min(5, len(chosen)))
    if layer is not None:
        heads = weights[layer - 1]
        chosen = [(f"head {i + 1}", w) for i, w in enumerate(heads)] + [("mean", heads.mean(0))]
        return draw_panels(chosen, names, path, f"{TITLES[kind]}: layer {layer}", across=min(5, len(chosen)))
    chosen = [(f"layer {i + 1}, head {j + 1}", weights[i, j]) for i, j in np.ndindex(weights.shape[:2])]
    return draw_panels(chosen, names, path, TITLES[kind], across=weights.shape[1])


def side_labels(side: Side, words: bool) -> list[str]:
    """The labels of rows or columns."""
    return [word.label for word in side.words] if words else list(side.tokens)


def draw_panels(
    chosen: Sequence[tuple[str, AttentionWeights]],
    names: Sequence[list[str]],
    path: str | Path,
    title: str,
    across: int,
) -> str:
    """Draw small maps side by side, with labels at the left and at the top only."""
    down = -(-len(chosen) // across)
    rows, columns = names
    cell = min(0.24, MAX_INCHES / across / len(columns), MAX_INCHES / down / len(rows))
    wide, high = max(1.1, cell * len(columns)), max(1.1, cell * len(rows))
    if cell < MIN_LABEL_INCHES:
        rows, columns = [], []
    size = (across * (wide + 0.12) + 1.4, down * (high + 0.35) + 1.6)
    figure, axes = load_pyplot().subplots(down, across, figsize=size, layout="constrained", squeeze=False)
    for number, axis in enumerate(axes.flat):
        if number >= len(chosen):
            axis.set_axis_off()
            continue
        name, weights = chosen[number]
        left, top = number % across == 0, number < across
        draw_map(axis, weights, rows if left else [], columns if top else [], size=8)
        axis.set_xlabel(name, fontsize=8, color="0.35", labelpad=2)
    figure.suptitle(title, fontsize=11)
    return save_figure(figure, path)


def draw_map(axis: Any, weights: AttentionWeights, rows: list[str], columns: list[str], size: float = 10) -> None:
    """Draw one map, from white (0) to dark (1)."""
    axis.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for ticks, names, turn in ((axis.set_xticks, columns, True), (axis.set_yticks, rows, False)):
        if names:
            # "$" would start a formula.
            clean = [name.replace("$", r"\$") for name in names]
            ticks(range(len(names)), clean, fontsize=size, **(ROTATED if turn else {}))
        else:
            ticks([])
    axis.xaxis.tick_top()
    axis.xaxis.set_label_position("bottom")
    axis.tick_params(length=0, pad=3)
    if max(weights.shape) <= MAX_GRID_CELLS:  # more grid lines would hide the cells
        axis.set_xticks(np.arange(weights.shape[1] + 1) - 0.5, minor=True)
        axis.set_yticks(np.arange(weights.shape[0] + 1) - 0.5, minor=True)
        axis.grid(which="minor", color="white", linewidth=0.6)
        axis.tick_params(which="minor", length=0)
    for spine in axis.spines.values():
        spine.set_color("0.8")
