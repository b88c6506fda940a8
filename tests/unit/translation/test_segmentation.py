"""Texts to sentences and back: nothing is lost, and every line stays where it was."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.translation.options import SplitMode
from dragoman.translation.result import Translation, join_texts
from dragoman.translation.segmentation import (
    MAX_SENTENCE_CHARACTERS,
    SplitLine,
    fits,
    split_characters,
    split_line,
    split_texts,
)
from dragoman.translation.translator import Translator
from tiny_model import write_tiny_model


def whole(line: str) -> list[str]:
    return [line]


def words(line: str) -> list[str]:
    return line.split()


SPACES = st.text(st.sampled_from("ab é中 \t\n\r\v\f\x1c\x85\u2028\u2029\u00a0\u3000"), max_size=30)


@given(st.lists(SPACES, max_size=4))
def test_what_is_translated_into_itself_comes_back_to_the_letter(texts: list[str]) -> None:
    layouts, sentences = split_texts(texts, whole)
    assert all(sentence == sentence.strip() and len(sentence.splitlines()) == 1 for sentence in sentences)
    assert [answer.text for answer in join_texts(layouts, [Translation(one) for one in sentences])] == texts


def test_lines_keep_their_ends_and_their_indentation() -> None:
    layouts, sentences = split_texts(["  one\r\n\r\n\ttwo three \n", "", " \n"], whole)
    assert sentences == ["one", "two three"]
    found = join_texts(
        layouts, [Translation("EINS"), Translation("ZWEI\nDREI")]
    )  # a line end of the model's own is a space
    assert [answer.text for answer in found] == ["  EINS\r\n\r\n\tZWEI DREI \n", "", " \n"]


def test_a_line_in_parts_is_joined_with_spaces_where_the_script_has_them() -> None:
    layouts, _ = split_texts(["a b\nc d"], words)
    texts = ["Eins.", "Zwei.", "一。", "二。"]
    (answer,) = join_texts(layouts, [Translation(text, -0.5, -1.0) for text in texts])
    assert answer.text == "Eins. Zwei.\n一。二。"
    assert answer.flags == ("split",)


def test_scores_are_log_p_over_lp_of_the_whole_text() -> None:
    layouts, _ = split_texts(["a\nb", "c", ""], whole)
    found = join_texts(
        layouts, [Translation("A", -0.5, -1.0), Translation("B", -2.0, -3.0), Translation("C", -0.25, -1.5)]
    )
    assert found[0].score == pytest.approx((-1.0 - 3.0) / (2.0 + 1.5))
    assert found[0].log_probability == -4.0
    assert (found[1].score, found[2].score) == (-0.25, 0.0)


def test_alternatives_are_the_next_best_of_each_line() -> None:
    layouts, _ = split_texts(["a\nb"], whole)
    one = Translation("A", alternatives=(Translation("A1"), Translation("A2")))
    other = Translation("B", alternatives=(Translation("B1"),))
    (answer,) = join_texts(layouts, [one, other])
    assert [answer.text, *(other.text for other in answer.alternatives)] == ["A\nB", "A1\nB1", "A2\nB1"]


def test_alignments_count_the_words_of_all_lines() -> None:
    layouts, _ = split_texts(["one two\nthree"], whole)
    first = Translation("x", tokens=("▁x", "y"), source_tokens=("▁one", "▁two"), alignment=((1, 0),))
    second = Translation("z", tokens=("▁z",), source_tokens=("▁three",), alignment=((0, 0),))
    (answer,) = join_texts(layouts, [first, second])
    assert answer.alignment == ((1, 0), (2, 1))
    assert join_texts(layouts, [Translation("x"), Translation("z")])[0].alignment is None


def test_flags_of_the_lines_are_flags_of_the_text() -> None:
    layouts, _ = split_texts(["a\nb"], whole)
    (answer,) = join_texts(layouts, [Translation("A", truncated=True), Translation("", repetitive=True)])
    assert answer.flags == ("truncated", "repetitive", "empty")


PARTS = ["a", "bc ", " ", "中", "x" * (MAX_SENTENCE_CHARACTERS // 2), "y " * MAX_SENTENCE_CHARACTERS]


@given(st.lists(st.sampled_from(PARTS), max_size=12))
def test_a_sentence_without_end_is_cut_and_nothing_is_lost(parts_of_it: list[str]) -> None:
    sentence = "".join(parts_of_it)
    parts = list(split_characters(sentence))
    assert all(1 <= len(part) <= MAX_SENTENCE_CHARACTERS for part in parts)
    assert "".join("".join(parts).split()) == "".join(sentence.split())


def test_a_cut_is_at_a_space_where_there_is_one() -> None:
    parts = list(split_characters("word " * MAX_SENTENCE_CHARACTERS))
    assert {word for part in parts for word in part.split(" ")} == {"word"}


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    place: Path = write_tiny_model(tmp_path_factory.mktemp("cut") / "model")
    return Translator.load(place, device="cpu")


def splitter(translator: Translator) -> SplitLine:
    options = {"max_tokens": translator.longest, "language": translator.language}
    return partial(split_line, tokenizer=translator.source, **options)


@pytest.mark.parametrize(
    ("split", "expected"), [("long", [True, True, False]), ("never", [True] * 3), ("sentences", [False] * 3)]
)
def test_what_fits(split: SplitMode, expected: list[bool]) -> None:
    assert [fits(n, 10, split) for n in (9, 10, 11)] == expected


def test_a_line_that_the_model_takes_stays_whole(translator: Translator) -> None:
    cut = splitter(translator)
    for line in ("the old box. It stands.", "我们去学校。你也来吗？", "é"):
        assert len(translator.source.encode(line)) <= translator.longest
        assert cut(line) == [line]


def test_a_longer_one_is_translated_as_the_translator_itself_would(translator: Translator) -> None:
    line = "The old box stands in the hall. We see seven boxes, and nine halls! Are they new? 我们去学校。你也来吗？"
    parts = splitter(translator)(line)
    assert len(parts) > 2
    layouts, sentences = split_texts([line], splitter(translator))
    (answer,) = join_texts(layouts, translator.translate(sentences))
    expected = translator.translate(line)
    assert answer.text == expected.text
    assert answer.score == pytest.approx(expected.score)
    assert answer.log_probability == pytest.approx(expected.log_probability)
    assert "split" in answer.flags
