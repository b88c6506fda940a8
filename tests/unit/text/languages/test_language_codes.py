"""Language codes: known ones are mapped to sentencex's, others are rejected with a suggestion."""

from __future__ import annotations

from itertools import product
from string import ascii_lowercase

import pytest
from sentencex import segment

from dragoman.errors import SearchError
from dragoman.text.languages.codes import (
    COMMON_MISTAKES,
    KNOWN_CODES,
    MACROLANGUAGE_MEMBERS,
    SENTENCEX_ONLY,
    THREE_LETTER_CODES,
    TO_TWO_LETTERS,
    TWO_LETTER_CODES,
    normalize_language,
    parse_aliases,
    suggest_language,
)
from raising import raises

PROBES = (  # of each, some language's rules make other sentences than those of English
    "Er kam bzw. Sie. Am 3. Mai.", "Le M. Dupont. Voir av. J.-C. Il est.", "El Sr. Ruiz. Ud. Ve.", "V. Exa. Ele. Foi.",
    "Il sig. Rossi. Es. Uno.", "Hr. Jensen. f.eks. Her.", "esim. Se. 3. maaliskuuta.", "bijv. Dit. o.a. Het.",
    "np. To. m.in. On.", "г. Москва. т.е. Он. ул. Мира.", "вул. Шевченка. ім. Франка.", "κ. Παπάς. π.χ. Αυτό.",
    "ж. Алматы. т.б. Бұл.", "ا. ب؟ د. محمد. ج", "ա։ բ։ Գ. դ. Ե", "क। ख। डॉ. राम. ग.", "No. 5. Mr. X. e.g. This.",
)  # fmt: skip


def sentences(code: str) -> list[list[str]]:
    return [list(segment(code, probe)) for probe in PROBES]


@pytest.mark.parametrize(
    ("given", "code"),
    [("de", "de"), ("DE", "de"), ("deu", "de"), ("ger", "de"), ("zho", "zh"), ("cmn", "zh"), ("zh-Hant", "zh"),
     ("pt_BR", "pt"), ("gsw", "gsw"), ("bar", "bar"), ("ace", "ace"), ("sh", "sh"), ("hbs", "sh")],
)  # fmt: skip
def test_codes_that_are_known(given: str, code: str) -> None:
    assert normalize_language(given) == code


@pytest.mark.parametrize(
    ("given", "hint"),
    [("german", "did you mean 'de'?"), ("Deutsch", "did you mean 'de'?"), ("japanese", "did you mean 'ja'?"),
     ("jp", "did you mean 'ja'?"), ("gr-GR", "did you mean 'el'?"), ("dee", "did you mean 'de'"), ("iw", "'he'?"),
     ("xyz", None), ("zz", None), ("klingon", None), ("", None), ("e", None), ("-", None), (None, None), (5, None)],
)  # fmt: skip
def test_codes_that_are_not_are_refused_with_what_was_meant(given: object, hint: str | None) -> None:
    with raises(SearchError, "unknown_language") as refused:
        normalize_language(given)  # type: ignore[arg-type]
    assert f"language={given!r}" in str(refused.value)
    assert hint in str(refused.value) if hint else "did you mean" not in str(refused.value)


def test_what_is_suggested_is_known() -> None:
    for wrong, right in parse_aliases(COMMON_MISTAKES).items():
        assert wrong not in KNOWN_CODES and right in KNOWN_CODES and repr(right) in suggest_language(wrong)


def test_the_tables_do_not_contradict_each_other() -> None:
    three = [
        *parse_aliases(TWO_LETTER_CODES),
        *parse_aliases(MACROLANGUAGE_MEMBERS),
        *THREE_LETTER_CODES.split(),
        *SENTENCEX_ONLY.split(),
    ]
    assert len(three) == len(set(three)) and all(len(code) == 3 and code.isalpha() for code in three)
    assert (
        all(len(code) == 2 for code in TO_TWO_LETTERS.values())
        and len({*parse_aliases(TWO_LETTER_CODES).values()}) == 185
    )  # and sh, of old


def test_every_code_for_which_sentencex_has_rules_is_known() -> None:
    english = sentences("en")
    assert english == sentences("zzq")  # what it does not know
    for letters in product(ascii_lowercase, repeat=3):
        code = "".join(letters)
        if sentences(code) != english:
            assert code in KNOWN_CODES
    assert all(sentences(code) != english for code in ("gsw", "rue", "arz", "kea", "mai"))  # the probes do tell
