"""The models that are installed: by data packages, in a checkout of the repository, and in the user's folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import DragomanError
from dragoman.files import MANIFEST, manifest_entries
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import CARD, EDITABLE, model_kind
from dragoman.modeldir.locate import is_model, model_sources


@dataclass(frozen=True)
class InstalledModel:
    """A model that can be used by its name; `bleu` is from its card, or None."""

    name: str
    path: Path
    origin: str
    source_languages: tuple[str, ...]
    target_languages: tuple[str, ...]
    bytes: int
    license: str
    bleu: float | None


def installed_models() -> list[InstalledModel]:
    """The translation models that can be used by name; of several with one name, the first in the search path."""
    found: dict[str, InstalledModel] = {}
    for model in _models():
        found.setdefault(model.name, model)
    return sorted(found.values(), key=lambda model: model.name)


def _models() -> Iterator[InstalledModel]:
    for origin, folder in model_sources():
        for path in sorted(entry.parent for entry in folder.glob(f"*/{MANIFEST}")):
            with suppress(DragomanError):  # a damaged model is reported by whoever loads it
                if is_model(path) and model_kind(path) == "translation":
                    info = read_info(path)
                    size = sum(size for size, _ in manifest_entries(path, (), EDITABLE).values())
                    languages = info.source_languages, info.target_languages
                    yield InstalledModel(path.name, path, origin, *languages, size, info.license, card_bleu(path))


def card_bleu(directory: Path) -> float | None:
    """The BLEU in the table of scores of a model's card."""
    card = directory / CARD
    with suppress(OSError, UnicodeDecodeError):
        if found := re.search(r"^\| bleu \| (\d+(?:\.\d+)?) \|$", card.read_text(encoding="utf-8"), re.MULTILINE):
            return float(found[1])
    return None
