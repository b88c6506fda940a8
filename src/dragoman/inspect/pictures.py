"""Shared by all pictures: matplotlib, fonts for many scripts, and saving."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from dragoman.errors import DragomanError, MissingExtraError, OutputError
from dragoman.files import write_atomically

PICTURE_SUFFIXES: Final = (".png", ".svg", ".pdf")
# Tried in this order for each character, if installed.
FONTS: Final = (
    *("DejaVu Sans", "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP"),
    *("Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "PingFang SC", "Hiragino Sans GB"),
    *("Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "SimHei"),
    *("Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai", "Noto Sans Bengali"),
    *("Noto Sans Tamil", "Noto Sans Georgian", "Noto Sans Armenian", "Noto Sans Ethiopic", "Arial Unicode MS"),
)


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
        message = f"{path} has no known picture format; use {', '.join(PICTURE_SUFFIXES)}"
        raise DragomanError(message, code="unknown_format")
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


def write_output(path: Path, content: str | bytes) -> None:
    """Write a picture or a page, and create its directory."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; choose another --out") from None
