"""What all pictures share: matplotlib where it is there, fonts for many scripts, and one way to save."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from dragoman.errors import DragomanError, MissingExtraError
from dragoman.files import write_atomically

FORMS: Final = (".png", ".svg", ".pdf")
# Tried in this order for each character, as far as they are installed.
FONTS: Final = (
    *("DejaVu Sans", "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP"),
    *("Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "PingFang SC", "Hiragino Sans GB"),
    *("Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "SimHei"),
    *("Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai", "Noto Sans Bengali"),
    *("Noto Sans Tamil", "Noto Sans Georgian", "Noto Sans Armenian", "Noto Sans Ethiopic", "Arial Unicode MS"),
)


def pyplot() -> Any:
    """matplotlib's pyplot, drawing into files, with the fonts there are."""
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
    rcParams["svg.fonttype"] = "path"  # letters as outlines: the file looks the same where a font is missing
    rcParams["svg.hashsalt"] = "dragoman"  # the same picture, the same file
    return plot


def save(figure: Any, path: str | Path) -> str:
    """Write the picture in the form its name asks for; in words, what could not be drawn, or nothing."""
    path = Path(path)
    if path.suffix.lower() not in FORMS:
        raise DragomanError(f"{path} is no name for a picture; let it end in {', '.join(FORMS)}")
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        drawn = BytesIO()
        figure.savefig(drawn, format=path.suffix.lower()[1:], dpi=150, metadata=metadata)
        pyplot().close(figure)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, drawn.getvalue())
    except OSError as error:
        raise DragomanError(f"{path} could not be written: {error.strerror or error}; choose another --out") from None
    lacking = sum("missing from font" in str(warning.message) for warning in caught)
    if not lacking:
        return ""
    return (
        f"{lacking} characters are drawn as boxes, because no font that is installed has them; install one that does, "
        "such as Noto Sans CJK for Chinese and Japanese (Debian: fonts-noto-cjk)"
    )
