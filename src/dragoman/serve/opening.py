"""Models for a server: found by name, loaded, and warmed before anybody waits for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dragoman.decode.languages import language_of
from dragoman.decode.opening import find_model
from dragoman.decode.settings import Search
from dragoman.decode.translator import Translator
from dragoman.errors import SearchError
from dragoman.serve.service import Served
from dragoman.serve.texts import cutter

WARM = "Good morning! 你好。 1 2 3"
PACKED = {".gz", ".xz", ".zst", ".bz2"}


def named(models: Sequence[str]) -> dict[str, Path]:
    """The directory of each model by the name it is served under: NAME=DIRECTORY, or the directory's own name."""
    found: dict[str, Path] = {}
    for model in models:
        name, equals, place = model.partition("=")
        if not equals or Path(model).is_dir():
            name, place = "", model
        directory = find_model(place)
        name = name or directory.resolve().name
        if name in found:
            raise SearchError(
                f"two models would be served as {name!r}: {found[name]} and {directory}; name one, as in other={place}"
            )
        found[name] = directory
    return found


def open_model(name: str, directory: Path, beam: int, **options: Any) -> Served:
    """A model, loaded and warmed: the first request is answered as quickly as the next."""
    languages = languages_of(name, directory)
    if languages is not None:
        options = {"language": languages[0], **options}
    translator = Translator.load(directory, **options)
    if translator.recipe.model.positions == "syntax":
        raise SearchError(
            f"{directory} cannot be served: it has model.positions='syntax' and reads each sentence with its "
            "dependency tree, which requests do not bring; use dragoman translate with --source-trees"
        )
    search = Search(beam=beam)
    engine = translator.running_for(search=search)
    translator.translate(WARM, search=search)
    return Served(name, translator, cutter(translator), str(engine), languages, looks(translator, search))


def looks(translator: Translator, search: Search) -> bool:
    """Whether a model has attention to show, tried, so that what shows it is loaded too."""
    try:
        translator.translate(WARM, search=search, alignment=True, attention=True)
    except SearchError:  # a model without attention between pieces
        return False
    return True


def batch_of(served: Served, beam: int) -> int:
    """How many sentences the engine of a model likes to have at once."""
    translator = served.translator
    if not isinstance(translator, Translator):
        return 0
    return int(getattr(translator.engines.for_search(Search(beam=beam)), "batch", 0))


def languages_of(name: str, directory: Path) -> tuple[str, str] | None:
    """The source's and the target's code: of a name such as en-de, or of the files that the model's card names."""
    pair = re.fullmatch(r"([a-z]{2,3})-([a-z]{2,3})", name)
    if pair is not None and (told := codes(pair[1], pair[2])) is not None:  # my-rot looks like a pair, and is none
        return told
    card = directory / "card.md"
    with suppress(OSError, UnicodeDecodeError):
        title = re.match(r"# (.+) to (.+)\n", card.read_text(encoding="utf-8"))
        return codes(*(ending(file) for file in title.groups())) if title is not None else None
    return None


def codes(source: str, target: str) -> tuple[str, str] | None:
    """Two codes, where both are codes of languages."""
    with suppress(SearchError):
        return language_of(source), language_of(target)
    return None


def ending(file: str) -> str:
    """The end of a file's name that tells its language, as the de of train.de.gz; of a bare word, the word."""
    suffixes = [suffix for suffix in Path(file).suffixes if suffix not in PACKED]
    return suffixes[-1].removeprefix(".") if suffixes else file
