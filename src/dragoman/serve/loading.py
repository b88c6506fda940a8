"""Models for a server: found by name, loaded, and warmed before anybody waits for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.errors import SearchError
from dragoman.modeldir.info import read_info
from dragoman.modeldir.languages import language_codes
from dragoman.modeldir.locate import find_model
from dragoman.search.types import Search
from dragoman.serve.service import Served
from dragoman.translation.segmentation import split_line
from dragoman.translation.translator import Translator

WARM = "Good morning! 你好。 1 2 3"
SUBTAGS = "(?:_(?:[A-Z][a-z]{3}|[A-Z]{2}|[0-9]{3}))*"  # a script and a region, as in zh_Hans_CN


def named(models: Sequence[str]) -> dict[str, Path]:
    """The directory of each model by the name it is served under: NAME=DIRECTORY, or the directory's own name."""
    found: dict[str, Path] = {}
    for model in models:
        name, equals, place = model.partition("=")
        if not equals or Path(model).is_dir():
            name, place = "", model
        if not place:
            raise SearchError(f"{model!r} names no model; write it as NAME=DIRECTORY, as in en-de=my-model")
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
    languages, sources = languages_of(name, directory), read_info(directory).source_languages
    if languages is not None:
        options = {"language": languages[0], **options}
    elif len(sources) == 1:
        options = {"language": sources[0], **options}
    translator = Translator.load(directory, **options)
    if translator.recipe.model.reads_trees:
        raise SearchError(
            f"{directory} cannot be served: it has model.positions='syntax' and reads each sentence with its "
            "dependency tree, which requests do not bring; use dragoman translate with --source-trees"
        )
    search, targets = Search(beam=beam), translator.targets
    engine = translator.running_for(search=search)
    translator.translate(WARM, search=search, to=targets[0] if targets else None)
    shows = looks(translator, search, targets[0] if targets else None)
    split = partial(
        split_line, tokenizer=translator.source, max_tokens=translator.longest, language=translator.language
    )
    if targets:
        return Served(name, translator, split, str(engine), None, shows, targets, sources)
    return Served(name, translator, split, str(engine), languages, shows)


def looks(translator: Translator, search: Search, to: str | None = None) -> bool:
    """Whether a model has attention to show, tried, so that what shows it is loaded too."""
    try:
        translator.translate(WARM, search=search, alignment=True, attention=True, to=to)
    except SearchError:  # a model without attention between tokens
        return False
    return True


def batch_of(served: Served, beam: int) -> int:
    """How many sentences the engine of a model likes to have at once."""
    translator = served.translator
    if not isinstance(translator, Translator):
        return 0
    return int(getattr(translator.engines.for_search(Search(beam=beam)), "batch", 0))


def languages_of(name: str, directory: Path) -> tuple[str, str] | None:
    """The source's and the target's code: of a name such as en-de, or of the model.

    A name that somebody chose comes first. One that is the directory's own may be a pair by chance, as my-new is
    (Burmese and Newari), so there the model's own languages come first.
    """
    told, written = of_name(name), read_info(directory).language_pair
    return written or told if name == directory.resolve().name else told or written


def of_name(name: str) -> tuple[str, str] | None:
    """The codes in a name such as en-de, deu-eng or pt_BR-zh_Hans; my-run has two (Burmese, Rundi), but no pair."""
    pair = re.fullmatch(rf"([a-z]{{2,3}}){SUBTAGS}-([a-z]{{2,3}}){SUBTAGS}", name)
    found = [code for part in pair.groups() for code in language_codes([part])] if pair is not None else []
    if pair is None or len(found) != 2:
        return None
    # who writes two letters for one language writes three only for one that has no code of two
    alike = len(pair[1]) == len(pair[2]) or all(len(a) == len(b) for a, b in zip(pair.groups(), found, strict=True))
    return (found[0], found[1]) if alike else None
