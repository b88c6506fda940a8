"""English names of languages."""

from __future__ import annotations

import pytest

from dragoman.text.languages.codes import KNOWN_CODES, TWO_LETTER_CODES
from dragoman.text.languages.names import ENGLISH_NAMES, language_name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("en", "English"),
        ("deu", "German"),
        ("zh-Hans", "Chinese (Simplified)"),
        ("zh_hant", "Chinese (Traditional)"),
        ("pt_BR", "Portuguese (BR)"),
        ("sr_Latn_RS", "Serbian (Latin, RS)"),
        ("gsw", "Swiss German"),
        ("qaa", "qaa"),
        ("", ""),
    ],
)
def test_names(code: str, name: str) -> None:
    assert language_name(code) == name


def test_every_language_of_iso_639_1_has_a_name_of_its_own() -> None:
    codes = {word.split("=")[0] for word in TWO_LETTER_CODES.split()}
    assert codes <= set(ENGLISH_NAMES) <= KNOWN_CODES
    assert len(set(ENGLISH_NAMES.values())) == len(ENGLISH_NAMES)
