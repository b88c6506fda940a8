"""Load models for the server, and warm them up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.engines.base import EngineRequest
from dragoman.errors import SearchError
from dragoman.modeldir.adapter import find_adapter, read_adapter_info
from dragoman.modeldir.info import language_codes, read_info
from dragoman.modeldir.layout import WEIGHTS, hashed_files
from dragoman.modeldir.locate import find_model, model_name
from dragoman.search.constraints.terms import Terms
from dragoman.search.types import Sampling, Search
from dragoman.serve.models.resources import ModelMemory, merge_terms
from dragoman.serve.models.served_model import ServedModel
from dragoman.translation.forced_attention import forced_attention
from dragoman.translation.translator import Translator

WARM_UP = "Good morning! 你好。 1 2 3"
SUBTAGS = "(?:_(?:[A-Z][a-z]{3}|[A-Z]{2}|[0-9]{3}))*"  # a script and a region, as in zh_Hans_CN


def model_directories(models: Sequence[str]) -> dict[str, Path]:
    """Map names to directories; each argument is NAME=DIRECTORY, or a directory or model name."""
    found: dict[str, Path] = {}
    for model in models:
        name, location = split_name(model)
        directory = find_model(location)
        name = name or model_name(directory)
        if name in found:
            message = f"two models have the name {name!r}: {found[name]} and {directory}; use NAME={location}"
            raise SearchError(message, code="duplicate_name")
        found[name] = directory
    return found


def adapter_directories(adapters: Sequence[str], models: Mapping[str, Path]) -> dict[str, tuple[Path, Path]]:
    """Map names to (base, adapter); each argument is NAME=DIRECTORY, or a directory or name of an adapter.

    The base of an adapter is the served model with the weights that it was trained on.
    """
    found: dict[str, tuple[Path, Path]] = {}
    for given in adapters:
        name, location = split_name(given)
        directory = find_model(location, "adapter")
        name = name or model_name(directory)
        if name in found or name in models:
            message = f"two models have the name {name!r}; give the adapter another: --adapter NAME={location}"
            raise SearchError(message, code="duplicate_name")
        wanted = read_adapter_info(directory).base_weights
        bases = [base for base in models.values() if hashed_files(base)[WEIGHTS][1] == wanted]
        base = bases[0] if bases else next(iter(models.values()))
        found[name] = base, find_adapter(directory, base)  # the error names both, if there is no base
    return found


def split_name(given: str) -> tuple[str, str]:
    """The name, if any, and the location of NAME=DIRECTORY."""
    name, equals, location = given.partition("=")
    if not equals or Path(given).is_dir():
        name, location = "", given
    if not location:
        message = f"{given!r} has no directory; write NAME=DIRECTORY, such as en-de=my-model"
        raise SearchError(message, code="missing_option")
    return name, location


def load_served_model(
    name: str, directory: Path, beam: int, languages: tuple[str, str] | None = None, **options: Any
) -> ServedModel:
    """Load a model and warm it up, so the first request is as fast as the next.

    `languages` is the pair (source, target); by default it comes from the name or from the model.
    """
    given, sources = languages is not None, read_info(directory).source_languages
    languages = languages or model_languages(name, directory)
    if languages is not None:
        options = {"language": languages[0], **options}
    elif len(sources) == 1:
        options = {"language": sources[0], **options}
    translator = Translator.load(directory, **options)
    if translator.recipe.model.reads_trees:
        advice = "translate files with dragoman translate --source-trees instead"
        message = f"{directory} reads dependency trees, which requests do not have; {advice}"
        raise SearchError(message, code="missing_trees")
    search, targets = Search(beam=beam), translator.targets
    if given and targets:
        message = f"--languages has no effect: {directory} translates into {', '.join(targets)}; drop it"
        raise SearchError(message, code="unused_option")
    engine = translator.running_for(search=search)
    translator.translate(WARM_UP, search=search, to=targets[0] if targets else None)
    attention = has_attention(translator, search, targets[0] if targets else None)
    load_other_engines(translator, search, targets[0] if targets else None)
    return ServedModel(
        name,
        translator,
        translator.segmenter,
        str(engine),
        None if targets else languages,
        attention,
        targets,
        sources if targets else (),
        partial(forced_attention, translator),
        lambda text: len(translator.source.encode(text)),
        lambda request: translator.engines.for_request(request).capabilities.concurrent,
    )


def add_resources(model: ServedModel, memories: Sequence[Path], terms: Sequence[Terms]) -> ServedModel:
    """The model with its translation memories, which are read now, and its terms."""
    memory = ModelMemory(memories) if memories else None
    if memory is not None:
        memory.load(model.pairs)
    found = merge_terms(terms)
    if found is not None:
        to = model.targets[0] if model.targets else None
        next(iter(model.translator.stream([WARM_UP], terms=found, to=to)), None)  # raises if no engine supports terms
    return replace(model, memory=memory, terms=found)


def has_attention(translator: Translator, search: Search, to: str | None = None) -> bool:
    """Whether a model has attention between tokens; the test also loads the engine for it."""
    try:
        translator.translate(WARM_UP, search=search, alignment=True, to=to)
    except SearchError:  # a model without attention between tokens
        return False
    return True


def load_other_engines(translator: Translator, search: Search, to: str | None = None) -> None:
    """Load the engines for sampling and constraints now: the files may be deleted or replaced later."""
    for options in ({"search": replace(search, sampling=Sampling())}, {"search": search, "avoid": ["\N{SNOWMAN}"]}):
        with suppress(SearchError):  # the chosen engine may not support them
            translator.translate(WARM_UP, to=to, **options)


def preferred_batch(model: ServedModel, beam: int) -> int:
    """The preferred batch size of a model's engine; 0 if it has no preference."""
    translator = model.translator
    if not isinstance(translator, Translator):
        return 0
    return translator.engines.for_request(EngineRequest(Search(beam=beam))).batch


def model_languages(name: str, directory: Path) -> tuple[str, str] | None:
    """The source and target language, from a name such as en-de or from the model.

    A given name takes precedence over the model. The name of a directory does not: it may look like a pair by
    accident, such as my-new (Burmese and Newari).
    """
    from_name, from_model = parse_language_pair(name), read_info(directory).language_pair
    return from_model or from_name if name == model_name(directory) else from_name or from_model


def parse_languages(pair: str) -> tuple[str, str]:
    """Parse the value of --languages, such as en-es."""
    found = parse_language_pair(pair)
    if found is None:
        message = f"--languages must be a source and a target language, such as en-es; got {pair!r}"
        raise SearchError(message, code="unknown_language")
    return found


def parse_language_pair(name: str) -> tuple[str, str] | None:
    """Parse a name such as en-de, deu-eng or pt_BR-zh_Hans; None if it is not a pair, such as my-run."""
    pair = re.fullmatch(rf"([a-z]{{2,3}}){SUBTAGS}-([a-z]{{2,3}}){SUBTAGS}", name)
    found = [code for part in pair.groups() for code in language_codes([part])] if pair is not None else []
    if pair is None or len(found) != 2:
        return None
    # beside a two-letter code, a three-letter code is accepted only if its language has no two-letter code
    same_form = all(len(a) == len(b) for a, b in zip(pair.groups(), found, strict=True))
    return (found[0], found[1]) if same_form or len(pair[1]) == len(pair[2]) else None
