"""Detect the language of a text with py3langid, which is loaded on first use."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterable
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from dragoman.errors import TextError
from dragoman.text.languages.codes import TO_TWO_LETTERS

MAX_CHARACTERS: Final = 5_000  # per text: more characters take time without changing the result
NO_LANGUAGE: Final = "zxx"  # py3langid's label for numbers, markup and the like
LABELS: Final = {"nb": "no", "fil": "tl"}  # py3langid's labels for codes that it does not have


class Detected(NamedTuple):
    """A language and its probability among the candidates."""

    language: str
    confidence: float


def detection_available() -> bool:
    """Whether py3langid is installed."""
    try:
        return find_spec("py3langid") is not None
    except ValueError:  # the module is blocked by None in sys.modules
        return False


def detect_languages(text: str, languages: Collection[str] | None = None) -> list[Detected]:
    """The languages of a text, the most likely first, among `languages` or all that py3langid supports.

    Languages that py3langid does not support are left out.
    """
    if languages is None:
        ranked = load_detector().rank(text[:MAX_CHARACTERS])
        return [Detected(label, confidence) for label, confidence in ranked if label != NO_LANGUAGE]
    codes = {detector_label(code): code for code in reversed([*languages])}  # the first of two with the same label
    labels = frozenset(codes).intersection(known_labels())
    if not labels:
        return []
    ranked = load_restricted_detector(labels).rank(text[:MAX_CHARACTERS])
    return [Detected(codes[label], confidence) for label, confidence in ranked]


def detectable(languages: Iterable[str]) -> list[str]:
    """Those of `languages` that py3langid supports."""
    return [code for code in languages if detector_label(code) in known_labels()]


def detector_label(code: str) -> str:
    """py3langid's label for a language code, such as zh for zh-Hans."""
    language = re.split("[-_]", code)[0].lower()
    language = TO_TWO_LETTERS.get(language, language)
    return LABELS.get(language, language)


@cache
def load_detector() -> Any:
    """py3langid's identifier for all languages, with probabilities; loading takes about a second and 100 MB."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        advice = "install it with: pip install py3langid, or name the source language"
        message = f"detecting languages needs the package 'py3langid'; {advice}"
        raise TextError(message, code="detection_unavailable") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def known_labels() -> frozenset[str]:
    """The languages that py3langid supports."""
    return frozenset(load_detector().labels) - {NO_LANGUAGE}


@lru_cache(maxsize=32)
def load_restricted_detector(labels: frozenset[str]) -> Any:
    """An identifier for some languages; it shares the tables of the full one, which does not change."""
    restricted = copy.copy(load_detector())
    restricted.set_languages(labels)
    return restricted
