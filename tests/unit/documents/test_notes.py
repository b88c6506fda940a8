"""Note marks are taken out of a sentence and follow the word that they were attached to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dragoman.documents.formats import html
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
    ],
)
def test_notes_follow_their_words(markup: str, sent: str, expected: str) -> None:
    translator = WordByWord(order=backward)
    assert translate(markup, translator) == expected
    assert translator.calls == [[sent]]


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
        "the 1<sup>st</sup> six",
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
