"""Shared by all pictures: matplotlib, fonts for many scripts, saving, and curves."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from dragoman.errors import DragomanError, MissingExtraError
from dragoman.files import write_output

PICTURE_SUFFIXES: Final = (".png", ".svg", ".pdf")
# Tried in this order for each character, if installed.
FONTS: Final = (
    *("DejaVu Sans", "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP"),
    *("Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "PingFang SC", "Hiragino Sans GB"),
    *("Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "SimHei"),
    *("Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai", "Noto Sans Bengali"),
    *("Noto Sans Tamil", "Noto Sans Georgian", "Noto Sans Armenian", "Noto Sans Ethiopic", "Arial Unicode MS"),
)
# A name, positions along the axis, measured values, and expected ones if there is a formula.
Curve = tuple[str, Sequence[float], Sequence[float], Sequence[float] | None]
COLORS: Final = ("#c8452d", "#e39b2d", "#3b6ea8", "#4d9a5b", "#7d5ba6", "#6b6b6b")


def load_pyplot() -> Any:
    """matplotlib's pyplot, drawing into files, with the installed fonts."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "pictures", "a picture") from None
    matplotlib.use("Agg")
    from matplotlib import font_manager, rcParams
    from matplotlib import pyplot as plot

    installed = {font.name for font in font_manager.fontManager.ttflist}
    rcParams["font.family"] = [name for name in FONTS if name in installed] or ["sans-serif"]
    rcParams["axes.unicode_minus"] = False
    rcParams["svg.fonttype"] = "path"  # letters as outlines, for readers without the fonts
    rcParams["svg.hashsalt"] = "dragoman"  # reproducible files
    return plot


def save_figure(figure: Any, path: str | Path) -> str:
    """Write a figure in the format of the file name; return a warning about missing characters, or nothing."""
    path = Path(path)
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        message = f"{path} has an unknown picture format; use {', '.join(PICTURE_SUFFIXES)}"
        raise DragomanError(message, code="unsupported_format")
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        drawn = BytesIO()
        figure.savefig(drawn, format=path.suffix.lower()[1:], dpi=150, metadata=metadata)
        load_pyplot().close(figure)
    write_output(path, drawn.getvalue())
    missing = sum("missing from font" in str(warning.message) for warning in caught)
    if not missing:
        return ""
    return (
        f"{missing} characters are drawn as boxes, because no installed font has them; install one, such as Noto Sans "
        "CJK for Chinese and Japanese (Debian: fonts-noto-cjk)"
    )


def draw_curves(panels: Mapping[str, Sequence[Curve]], path: str | Path, x_label: str, title: str = "") -> str:
    """Draw a panel for each title, on logarithmic axes; curves of the same name have the same color."""
    figure, axes = load_pyplot().subplots(1, len(panels), figsize=(5.2 * len(panels), 4.6), layout="constrained")
    names = list(dict.fromkeys(name for curves in panels.values() for name, *_ in curves))
    for axis, (panel, curves) in zip([axes] if len(panels) == 1 else axes, panels.items(), strict=True):
        for name, x, y, expected in curves:
            number = names.index(name)
            color, marker = COLORS[number % len(COLORS)], "os^DvP"[number % 6]
            size = 8.5 - 1.2 * number  # equal values hide each other, so the first are drawn larger
            line = "-" if expected is None else "none"
            axis.plot(x, y, label=name, linestyle=line, marker=marker, markersize=size, color=color)
            if expected is not None:
                axis.plot(x, expected, "--", linewidth=1, color=color)
        axis.set(title=panel, xlabel=x_label, yscale="log")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.grid(color="0.9", linewidth=0.7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, fontsize=9)
    figure.suptitle(title)
    return save_figure(figure, path)
