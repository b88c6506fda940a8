"""Parts of `card.md` that trained, averaged and imported models share."""

from __future__ import annotations

import re
from pathlib import Path

from dragoman.modeldir.info import ModelInfo
from dragoman.modeldir.layout import CARD

UNKNOWN_DATA = "## Data\n\nUnknown; describe it here.\n"


def license_section(info: ModelInfo) -> str:
    """The `## License` section, which says how to record a license where none is known."""
    if info.license:
        return f"## License\n\n{info.license}\n"
    return """## License

Unknown. The license of the training data, or of an imported model, says how this model may be used. Write it here, and
record it in model.json (not by hand: the file is hashed) with Python:

    from dragoman.modeldir.save import set_license
    set_license("path/of/this/model", "CC-BY-4.0")
"""


def data_section(directory: Path) -> str:
    """The `## Data` section of the card of a model, for a model that is derived from it."""
    path = directory / CARD
    card = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    found = re.search(r"^## Data\n.*?(?=^## |\Z)", card, re.DOTALL | re.MULTILINE)
    return found.group().rstrip() + "\n" if found else UNKNOWN_DATA
