"""Note marks are taken out of a sentence and follow the word that they were attached to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dragoman.documents.formats.html import html
from dragoman.documents.segment import Segment, render
from dragoman.documents.transfer.notes import detach_notes
from dragoman.documents.translate import translate_segments
from dragoman.translation.result import Translation
from word_by_word import WordByWord, backward


def read(markup: str) -> Segment:
    (segment,) = html.read(f"<p>{markup}</p>".encode(), "a.html").segments
    return segment


def translate(markup: str, translator: WordByWord) -> str:
    (result,) = translate_segments([read(markup)], translator, align=True).results
    assert result.target is not None and result.words is not None and result.segment.text == read(markup).text
    linked = {
        (
            result.segment.text[slice(*result.words.source[s])].upper(),
            result.target.text[slice(*result.words.target[t])],
        )
        for s, t in result.words.links
    }
    assert all(source == target for source, target in linked)
    return render(result.target)


@pytest.mark.parametrize(
    ("markup", "sent", "expected"),
    [
        ("one two<sup>1</sup> three", "one two three", "THREE TWO<sup>1</sup> ONE"),
        ('one two<a href="#n">[5]</a> three', "one two three", 'THREE TWO<a href="#n">[5]</a> ONE'),
        ("one two<b>*</b>, three", "one two, three", "THREE TWO<b>*</b>, ONE"),
        ("one two<sup><a>†</a></sup> three", "one two three", "THREE TWO<sup><a>†</a></sup> ONE"),
        ("one <b>two<sup>1</sup></b> three", "one two three", "THREE <b>TWO<sup>1</sup></b> ONE"),
        ("one <b>two</b><sup>1</sup> three", "one two three", "THREE <b>TWO</b><sup>1</sup> ONE"),
        ("one two<sup>[5]</sup><sup>[a]</sup> six", "one two six", "SIX TWO<sup>[5]</sup><sup>[a]</sup> ONE"),
        ("in 2010<sup>2</sup> six<sup>3</sup> two", "in 2010 six two", "TWO SIX<sup>3</sup> 2010<sup>2</sup> IN"),
        ("one two.<sup>1</sup>", "one two.", "TWO. ONE<sup>1</sup>"),
        ("some 10<sup>9</sup> bytes", "some X1 bytes", "BYTES 10<sup>9</sup> SOME"),  # "ten" could have no exponent
        ("one <b>10<sup>6</sup></b> six", "one X1 six", "SIX <b>10<sup>6</sup></b> ONE"),
        ("one <b>10</b><sup>6</sup> six", "one X1 six", "SIX <b>10</b><sup>6</sup> ONE"),
        ("one <b>10<i><sup>6</sup></i></b> six", "one X1 six", "SIX <b>10<i><sup>6</sup></i></b> ONE"),
        ("one<b>2<sup>n</sup></b> six", "one2 six", "SIX ONE<b>2<sup>n</sup></b>"),
        ("one <b>two<i><sup>1</sup></i></b> six", "one two six", "SIX <b>TWO<i><sup>1</sup></i></b> ONE"),
        ("one Acme<sup>®</sup> six", "one Acme six", "SIX ACME<sup>®</sup> ONE"),
        ("one Acme<sup>(TM)</sup>, six", "one Acme, six", "SIX ACME<sup>(TM)</sup>, ONE"),
        ("one Smith<sup>a,b</sup> six", "one Smith six", "SIX SMITH<sup>a,b</sup> ONE"),
        ("one X<sub>i</sub> six", "one X1 six", "SIX X<sub>i</sub> ONE"),
        ("one f(X<sub>n</sub>) six", "one f(X1) six", "SIX F(X<sub>n</sub>) ONE"),
        ("one 10<sup>-3</sup> or 2<sup>n</sup>", "one X1 or X2", "2<sup>n</sup> OR 10<sup>-3</sup> ONE"),
        ("one index<sub>10</sub> six", "one index six", "SIX INDEX<sub>10</sub> ONE"),
    ],
)
def test_notes_follow_their_words(markup: str, sent: str, expected: str) -> None:
    translator = WordByWord(order=backward)
    assert translate(markup, translator) == expected
    assert translator.calls == [[sent]]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("the 1<sup>st</sup> six", "SIX 1ST<sup></sup> THE"),
        ("the <b>20<sup><i>th</i></sup></b> six", "SIX <b>20TH<sup><i></i></sup></b> THE"),
        ("one<sup>1</sup> 3<sup>ème</sup> six", "SIX 3ÈME<sup></sup> ONE<sup>1</sup>"),
    ],
)
def test_the_letters_of_an_ordinal_are_translated_with_it(markup: str, expected: str) -> None:
    assert translate(markup, WordByWord(order=backward)) == expected
    (result,) = translate_segments([read(markup)], WordByWord(order=backward)).results
    assert result.unaligned == ("sup",) and result.needs_review
    (result,) = translate_segments([replace(read(markup), bilingual=True)], WordByWord(word=str)).results
    assert result.target is not None and render(result.target) == markup and not result.unaligned


def test_a_mark_is_inside_a_compound() -> None:
    class Compounding(WordByWord):
        def translation(self, text: str, lost: frozenset[str], alignment: bool) -> Translation:
            written = ("▁the", "▁Acme-MACHINE")
            links = ((0, 0), (1, 1), (2, 1)) if alignment else None
            source = tuple("▁" + word for word in text.split())
            return Translation("the Acme-MACHINE", tokens=written, source_tokens=source, alignment=links)

    (result,) = translate_segments([read("the Acme<sup>®</sup> machine")], Compounding()).results
    assert result.target is not None and render(result.target) == "the Acme<sup>®</sup>-MACHINE"


@pytest.mark.parametrize(
    "markup",
    [
        "20 m<sup>2</sup> six",
        "20 km<sup>2</sup> six",
        "CO<sub>2</sub> six",
        "the H<sub>2</sub>O six",
        "paper A<b>4</b> six",
        "at 12:<b>30</b> six",
        "one <b>5</b> six",
        "one (<b>5</b>) six",
        "one<sup><code>5</code></sup> six",
    ],
)
def test_exponents_indices_and_numbers_are_not_notes(markup: str) -> None:
    assert detach_notes(read(markup)) is None


def test_a_note_to_a_word_without_links_follows_the_word_that_attends_to_it() -> None:
    weights = np.array([[0.9, 0.0, 0.1], [0.0, 0.1, 0.9], [0.1, 0.9, 0.0]])

    class Attentive(WordByWord):
        def translation(self, text: str, lost: frozenset[str], alignment: bool) -> Translation:
            found = super().translation(text, lost, alignment)
            return replace(found, alignment=((0, 0), (2, 1)), alignment_weights=weights)

    translator = Attentive(order=lambda words: [0, 2, 1])
    assert translate("we agreed<sup>1</sup> today", translator) == "WE TODAY AGREED<sup>1</sup>"
