"""The normalizer against its documented rules, written as one loop over characters."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.errors import TextError
from dragoman.text import normalize
from raising import raises

# Unicode's White_Space property and the four information separators, which str.split takes for white space too.
WHITE = {*range(0x09, 0x0E), *range(0x1C, 0x20), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029}
WHITE |= {0x202F, 0x205F, 0x3000}
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NASTY = st.text(
    st.sampled_from("a é\u0301\u0338=|  \t\n\r\x00\x1c\x7f\x85\xa0\xad\u200b\u200d\u2028\u3000\ufeffÅ가ᄀ"), max_size=12
)


def by_the_rules(text: str) -> str:
    kept = [c for c in text if ord(c) in WHITE or not (unicodedata.category(c) == "Cc" or c in "\ufeff\xad")]
    words = [""]
    for c in unicodedata.normalize("NFC", "".join(kept)):
        if ord(c) in WHITE:
            words.append("")
        else:
            words[-1] += c
    return " ".join(word for word in words if word)


@given(ANY | NASTY)
@settings(max_examples=400, deadline=None)
@example("two  spaces")
@example(" led and followed ")
@example("one\u2028line\u3000only")
def test_it_does_what_is_documented_and_nothing_more(text: str) -> None:
    assert normalize(text) == by_the_rules(text)
    assert normalize(normalize(text)) == normalize(text)


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("e\u0301", "é"),
        ("e\xad\u0301", "é"),  # dropping comes before composing
        ("m² ½ ，ﬁ", "m² ½ ，ﬁ"),  # no compatibility forms
        ("\ufeffBOM", "BOM"),
        ("Ge\xadsetz", "Gesetz"),
        ("a\x00b\x07c", "abc"),
        ("10\xa0€\u202f!", "10 € !"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("می\u200cروم", "می\u200cروم"),
        ("\u200eשלום", "\u200eשלום"),
        (" \t\r\n", ""),
        ("", ""),
    ],
)
def test_by_example(given_text: str, expected: str) -> None:
    assert normalize(given_text) == expected


@pytest.mark.parametrize("text", ["\ud800", "ab\udfffc", "\ud83d \ude00"])
def test_a_lone_surrogate_is_refused_with_its_place(text: str) -> None:
    place = next(i for i, c in enumerate(text) if 0xD800 <= ord(c) < 0xE000)
    with raises(TextError, "invalid_character", f"U+{ord(text[place]):04X}", f"character {place}:"):
        normalize(text)
