"""Sentence splitting: with sentencex, and with the fallback rules."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DragomanWarning
from dragoman.text import sentences
from dragoman.text.sentences import sentence_spans


def split(line: str, language: str = "en") -> list[str]:
    return [line[start:end] for start, end in sentence_spans(line, language)]


@pytest.fixture
def without_sentencex(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    monkeypatch.setattr(sentences, "_splitter", sentences._splitter.__wrapped__)


CASES = [
    ("en", ["Hello Mr. Smith.", "How are you?", "I paid $3.50 for it!", '"Really?" she said.']),
    ("en", ["It stands at 5 p.m. in the hall.", "Who?", "We do."]),
    ("de", ["Am 3. Mai kam er.", "Sie nicht!", "Das ist z. B. gut."]),
    ("es", ["¿Dónde está?", "¡Aquí!", "Vale."]),
    ("ru", ["Он пришёл.", "Она нет."]),
    ("en", ["no mark at the end"]),
]


@pytest.mark.parametrize(("language", "expected"), CASES)
def test_sentences(language: str, expected: list[str]) -> None:
    assert split(" ".join(expected), language) == expected


@pytest.mark.parametrize(("language", "expected"), CASES)
@pytest.mark.usefixtures("without_sentencex")
def test_simple_rules_agree_on_plain_text(language: str, expected: list[str]) -> None:
    if len(expected) == 1:  # a plain line needs no splitter, and so no warning
        assert split(expected[0], language) == expected
        return
    with pytest.warns(DragomanWarning, match="pip install sentencex"):
        assert split(" ".join(expected), language) == expected


@pytest.mark.parametrize("hidden", [False, True])
def test_scripts_without_spaces(hidden: bool, request: pytest.FixtureRequest) -> None:
    if hidden:
        request.getfixturevalue("without_sentencex")
    expected = ["我们去学校。", "你也来吗？", "好！"]
    if hidden:
        with pytest.warns(DragomanWarning):
            assert split("".join(expected), "zh") == expected
    else:
        assert split("".join(expected), "zh") == expected


def test_the_warning_comes_once(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    sentences._splitter.cache_clear()
    try:
        for _ in range(3):
            split("One. Two.")
    finally:
        sentences._splitter.cache_clear()
    assert [warning.category for warning in recwarn] == [DragomanWarning]


@given(st.text(st.sampled_from("aB1 .!?,:;'\"-…。！？)(é中\u200b"), max_size=40), st.booleans())
def test_nothing_but_white_space_is_between_sentences(line: str, simple: bool) -> None:
    if simple:
        ends = sentences.simple_boundaries(line, "en")
        assert all(0 < end <= len(line) for end in ends)
        assert ends == sorted(set(ends))
    spans = sentence_spans(line, "en")
    assert all(line[start:end] == line[start:end].strip() != "" for start, end in spans) or line != line.strip()
    covered = "".join(line[start:end] for start, end in spans)
    assert "".join(covered.split()) == "".join(line.split())


@given(
    st.lists(
        st.sampled_from(["Hello", "3.5", "Mr.", "ok,", "well-known", "don't", "中文。", "end.", "why?", "z"]),
        max_size=9,
    )
)
def test_lines_that_are_not_looked_at_have_one_sentence(words: list[str]) -> None:
    line = " ".join(words)
    if not sentences.has_inner_mark(line):
        assert len([end for end in sentences.sentencex_boundaries(line, "en") if end < len(line)]) == 0


@given(st.text("a .,'!-。\N{GRINNING FACE}", max_size=9))
def test_a_mark_before_a_word_is_found_in_linear_time_as_by_an_expression(line: str) -> None:
    assert sentences.has_inner_mark(line) == (re.search(r"[^\w\s,'’-]\W*\w", line) is not None)


@pytest.mark.parametrize("character", [".", "\N{GRINNING FACE}", "。", "!'", '"'])
def test_a_line_of_marks_alone_takes_no_time(character: str) -> None:
    line = character * 300_000  # hours, where each position were the start of another scan
    assert sentences.sentence_spans(line, "en") == [(0, len(line))]
    assert len(sentences.simple_boundaries(line, "en")) <= 1
