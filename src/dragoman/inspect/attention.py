"""Attention as a picture: what each written piece looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from dragoman.errors import MissingExtraError


def draw_attention(
    weights_TS: Tensor, source: Sequence[str], written: Sequence[str], path: Path, title: str = ""
) -> None:
    """Draw one map of weights, a row for each written piece and a column for each source piece."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "pictures", "a picture of attention") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    size = (1.5 + 0.42 * len(source), 1.2 + 0.36 * len(written))
    figure, axis = pyplot.subplots(figsize=size, layout="constrained")
    axis.imshow(weights_TS.cpu().numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(source)), source, rotation=60, ha="left")
    axis.set_yticks(range(len(written)), written)
    axis.xaxis.tick_top()
    axis.set_title(title)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
