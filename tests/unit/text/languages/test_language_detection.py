"""Language detection: among all languages or some, and without py3langid."""

from __future__ import annotations

import subprocess
import sys

import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from dragoman.errors import TextError
from dragoman.text.languages import detection
from dragoman.text.languages.detection import detect_languages, detectable, detection_available
from raising import raises

SENTENCES = {
    "en": "The old house on the hill was sold last year.",
    "de": "Das alte Haus auf dem Hügel wurde letztes Jahr verkauft.",
    "fr": "La vieille maison sur la colline a été vendue l'année dernière.",
    "ru": "Старый дом на холме был продан в прошлом году.",
    "zh": "山上的老房子去年卖掉了。",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_sentences_are_recognized(code: str) -> None:
    assert detect_languages(SENTENCES[code])[0].language == code
    assert detect_languages(SENTENCES[code], list(SENTENCES))[0].language == code


def test_restricted_probabilities_are_those_of_the_library() -> None:
    reference = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    everything = detect_languages(SENTENCES["fr"])
    reference.set_languages(["de", "en"])
    assert detect_languages(SENTENCES["fr"], ["de", "en"]) == reference.rank(SENTENCES["fr"])
    assert detect_languages(SENTENCES["fr"]) == everything  # the full detector is still full


def test_codes_are_the_callers_own() -> None:
    found = detect_languages(SENTENCES["zh"], ["zh-Hans", "zh-Hant", "nb", "deu"])
    assert found[0].language == "zh-Hans"
    assert {one.language for one in found} == {"zh-Hans", "nb", "deu"}  # of two that cannot be told apart, the first


def test_languages_that_the_library_does_not_know_are_left_out() -> None:
    assert detectable(["en", "gsw", "pt_BR"]) == ["en", "pt_BR"]
    assert detect_languages("Hello", ["gsw"]) == []
    assert [one.language for one in detect_languages("Hello", ["gsw", "en"])] == ["en"]


def test_numbers_are_no_language() -> None:
    assert "zxx" not in {one.language for one in detect_languages("12.5 <br/> 77")}


def test_without_the_package_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    detection.load_detector.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid", None)
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    assert not detection_available()
    with raises(TextError, "detection_unavailable", "pip install py3langid"):
        detect_languages("Hello")


def test_nothing_is_loaded_before_it_is_needed() -> None:
    code = "import sys; from dragoman.text.languages.detection import detection_available; assert detection_available()"
    code += "; assert not {'py3langid', 'numpy', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
