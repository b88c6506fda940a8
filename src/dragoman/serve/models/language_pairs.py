"""Choose a model by language; detect the source language if it is not given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from dragoman.serve.errors import RequestError
from dragoman.serve.models.served_model import ServedModel
from dragoman.text.languages.codes import TO_TWO_LETTERS
from dragoman.text.languages.detection import Detected, detect_languages

AUTO: Final = "auto"
SHORT_TEXT: Final = 40  # characters; texts of a list up to this length are detected together
MIN_CONFIDENCE: Final = 0.6  # for another model than the preferred one, or none

Models = Mapping[str, ServedModel]


class ServedPair(NamedTuple):
    """A language pair of a model; a source of None means any language."""

    model: ServedModel
    source: str | None
    target: str


class ModelChoice(NamedTuple):
    """The model for a text, the target language if the model has several, and the source language if it is known.

    Without a model, the text is in the target language already.
    """

    model: str | None
    to: str | None
    source: str = ""
    detected: Detected | None = None


def served_pairs(models: Models) -> list[ServedPair]:
    """All known language pairs, in the order of the models."""
    return [ServedPair(model, source, target) for model in models.values() for source, target in model.pairs]


def served_languages(models: Models) -> list[str]:
    """All known languages, source and target."""
    pairs = served_pairs(models)
    return sorted({code for pair in pairs for code in (pair.source, pair.target) if code is not None})


def choose_model(models: Models, source: str, target: str) -> ModelChoice:
    """Choose the first model for a language pair, or for a source if there is no target; reject unknown pairs."""
    pair = next(matching_pairs(models, source, target), None)
    if pair is None:
        raise no_model_error(models, source, target)
    return to_choice(pair, source)


def choose_models(models: Models, texts: Sequence[str], target: str) -> list[ModelChoice]:
    """Choose the model for each text by its detected language, among the models that translate into `target`."""
    pairs = list(matching_pairs(models, None, target))
    if not pairs:
        raise no_model_error(models, AUTO, target)
    together = detect_source(models, pairs, "\n".join(text for text in texts if len(text) <= SHORT_TEXT))
    return [detect_source(models, pairs, text) if len(text) > SHORT_TEXT else together for text in texts]


def detect_source(models: Models, pairs: Sequence[ServedPair], text: str) -> ModelChoice:
    """Choose the pair whose source language is the most likely one for a text; none if that is clearly the target."""
    by_source = {pair.source: pair for pair in reversed(pairs)}
    languages = None if None in by_source else served_languages(models)
    ranked = detect_languages(text, languages)
    if ranked and ranked[0].confidence >= MIN_CONFIDENCE and same_language(ranked[0].language, pairs[0].target):
        return ModelChoice(None, None, ranked[0].language, ranked[0])
    detected = next((one for one in ranked if one.language in by_source or None in by_source), None)
    if detected is None:  # the detector knows none of them
        return to_choice(pairs[0], "", Detected(pairs[0].source or AUTO, 0.0))
    pair = by_source[detected.language if detected.language in by_source else None]
    return to_choice(pair, detected.language, detected)


def choose_for_text(models: Models, preferred: ModelChoice, text: str) -> ModelChoice:
    """The preferred model, or one that fits the language of a text better, with the same target if possible."""
    pairs = served_pairs(models)
    own = [pair for pair in pairs if pair.model.name == preferred.model and preferred.to in (None, pair.target)]
    ranked = detect_languages(text, served_languages(models)) if pairs else []
    detected = next((one for one in ranked if any(one.language == pair.source for pair in pairs)), None)
    if detected is None or detected.confidence < MIN_CONFIDENCE:
        return preferred
    if any(pair.source in (None, detected.language) for pair in own):
        return preferred._replace(source=detected.language)
    fitting = [pair for pair in pairs if pair.source == detected.language]
    targets = {pair.target for pair in own}
    return to_choice(next((pair for pair in fitting if pair.target in targets), fitting[0]), detected.language)


def target_code(models: Models, target: str) -> str:
    """The code of a target language that the models have; reject a language that no model translates into."""
    pair = next(matching_pairs(models, None, target), None)
    if pair is None:
        raise no_model_error(models, AUTO, target)
    return pair.target


def matching_pairs(models: Models, source: str | None, target: str) -> Iterator[ServedPair]:
    """Pairs that match a source (None for any) and a target ("" for any).

    Pairs with the same codes come first, then those with the same languages, then models that accept any source.
    """
    pairs = served_pairs(models)
    for same in (str.__eq__, same_language):
        for pair in pairs:
            fits_source = source is None or (pair.source is not None and same(source, pair.source))
            if fits_source and (not target or same(target, pair.target)):
                yield pair
    yield from (pair for pair in pairs if pair.source is None and (not target or same_language(target, pair.target)))


def same_language(one: str, other: str) -> bool:
    """Whether two codes name the same language and script, such as pt_BR and pt, deu and de, zh-Hans and zh."""
    return language_and_script(one) == language_and_script(other)


def language_and_script(code: str) -> tuple[str, ...]:
    """The language of a code, and its script unless that is the default."""
    language, *subtags = re.split("[-_]", code.lower())
    scripts = [subtag for subtag in subtags if len(subtag) == 4 and subtag.isalpha()]
    language = TO_TWO_LETTERS.get(language, language)
    return (language, *(script for script in scripts if (language, script) != ("zh", "hans")))


def to_choice(pair: ServedPair, source: str, detected: Detected | None = None) -> ModelChoice:
    """Convert a pair to a choice; `source` is for a model that accepts any. Only some models need `to`."""
    to = pair.target if pair.model.targets else None
    return ModelChoice(pair.model.name, to, pair.source or source, detected)


def no_model_error(models: Models, source: str, target: str) -> RequestError:
    """The error for a pair that no model has; it lists the available pairs and a model with unknown languages."""
    known = sorted({f"{pair.source or AUTO} to {pair.target}" for pair in served_pairs(models)})
    unknown = [name for name, model in models.items() if not model.pairs]
    parts = [f"no model translates {source} to {target or '?'}"]
    if known:
        parts.append(f"available: {', '.join(known)}")
    if unknown:
        advice = "use /v1/translate with its name, or restart the server with --languages, as in --languages en-es"
        parts.append(f"the languages of the model {unknown[0]!r} are unknown: {advice}")
    return RequestError(400, "unknown_language", "; ".join(parts))
