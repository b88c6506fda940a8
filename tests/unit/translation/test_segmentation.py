"""Text to sentences and back: nothing is lost, and lines keep their place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.line_lengths import LineLengths
from dragoman.translation.options import SplitMode
from dragoman.translation.result import Translation, join_texts
from dragoman.translation.segmentation import Layout, Segmenter, split_characters
from dragoman.translation.translator import Translator
from tiny_model import write_tiny_model


class Words:
    """A tokenizer for which a token is a word."""

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*range(len(text.split()))] for text in texts]


def split_texts(texts: Sequence[str], split: SplitMode = "never") -> tuple[list[Layout], list[str]]:
    return Segmenter(Words(), "en", 50).split_texts(texts, split)  # type: ignore[arg-type]


SPACES = st.text(st.sampled_from("ab é中 \t\n\r\v\f\x1c\x85\u2028\u2029\u00a0\u3000"), max_size=30)


@given(st.lists(SPACES, max_size=4))
def test_what_is_translated_into_itself_comes_back_to_the_letter(texts: list[str]) -> None:
    layouts, sentences = split_texts(texts)
    assert all(sentence == sentence.strip() and len(sentence.splitlines()) == 1 for sentence in sentences)
    assert [answer.text for answer in join_texts(layouts, [Translation(one) for one in sentences])] == texts


def test_lines_keep_their_ends_and_their_indentation() -> None:
    layouts, sentences = split_texts(["  one\r\n\r\n\ttwo three \n", "", " \n"])
    assert sentences == ["one", "two three"]
    found = join_texts(
        layouts, [Translation("EINS"), Translation("ZWEI\nDREI")]
    )  # a line end of the model's own is a space
    assert [answer.text for answer in found] == ["  EINS\r\n\r\n\tZWEI DREI \n", "", " \n"]


def test_lists_keep_their_bullets() -> None:
    text = "Shopping:\n  - 2 eggs\n* milk\n•\tsalt\n-5 degrees\n-\n- \n"
    layouts, sentences = split_texts([text], "auto")
    assert sentences == ["Shopping:", "2 eggs", "milk", "salt", "-5 degrees", "-", "-"]
    (answer,) = join_texts(layouts, [Translation(sentence.upper()) for sentence in sentences])
    assert answer.text == text.upper()
    assert split_texts(["- 2 eggs"], "never")[1] == ["- 2 eggs"]


def test_a_line_in_parts_is_joined_with_spaces_where_the_script_has_them() -> None:
    layouts, _ = split_texts(["One. Two.\nThree. Four."], "sentences")
    texts = ["Eins.", "Zwei.", "一。", "二。"]
    (answer,) = join_texts(layouts, [Translation(text, -0.5, -1.0) for text in texts])
    assert answer.text == "Eins. Zwei.\n一。二。"
    assert answer.flags == ("split",)


def test_scores_are_log_p_over_lp_of_the_whole_text() -> None:
    layouts, _ = split_texts(["a\nb", "c", ""])
    found = join_texts(
        layouts, [Translation("A", -0.5, -1.0), Translation("B", -2.0, -3.0), Translation("C", -0.25, -1.5)]
    )
    assert found[0].score == pytest.approx((-1.0 - 3.0) / (2.0 + 1.5))
    assert found[0].log_probability == -4.0
    assert (found[1].score, found[2].score) == (-0.25, 0.0)


def test_alternatives_are_the_next_best_of_each_line() -> None:
    layouts, _ = split_texts(["a\nb"])
    one = Translation("A", alternatives=(Translation("A1"), Translation("A2")))
    other = Translation("B", alternatives=(Translation("B1"),))
    (answer,) = join_texts(layouts, [one, other])
    assert [answer.text, *(other.text for other in answer.alternatives)] == ["A\nB", "A1\nB1", "A2\nB1"]


def test_alignments_count_the_words_of_all_lines() -> None:
    layouts, _ = split_texts(["one two\nthree"])
    first = Translation("x", tokens=("▁x", "y"), source_tokens=("▁one", "▁two"), alignment=((1, 0),))
    second = Translation("z", tokens=("▁z",), source_tokens=("▁three",), alignment=((0, 0),))
    (answer,) = join_texts(layouts, [first, second])
    assert answer.alignment == ((1, 0), (2, 1))
    assert join_texts(layouts, [Translation("x"), Translation("z")])[0].alignment is None


def test_flags_of_the_lines_are_flags_of_the_text() -> None:
    layouts, _ = split_texts(["a\nb"])
    (answer,) = join_texts(layouts, [Translation("A", truncated=True), Translation("", repetitive=True, empty=True)])
    assert answer.flags == ("truncated", "repetitive", "empty")


LIMIT = 200
PARTS = ["a", "bc ", " ", "中", "x" * (LIMIT // 2), "y " * LIMIT]


@given(st.lists(st.sampled_from(PARTS), max_size=12))
def test_a_sentence_without_end_is_cut_and_nothing_is_lost(parts_of_it: list[str]) -> None:
    sentence = "".join(parts_of_it)
    parts = list(split_characters(sentence, LIMIT))
    assert all(1 <= len(part) <= LIMIT for part in parts)
    assert "".join("".join(parts).split()) == "".join(sentence.split())


def test_a_cut_is_at_a_space_where_there_is_one() -> None:
    parts = list(split_characters("word " * LIMIT, LIMIT))
    assert {word for part in parts for word in part.split(" ")} == {"word"}
    assert split_texts(["word " * LIMIT])[1] == [("word " * LIMIT).strip()]
    limited = Segmenter(Words(), "en", 50).split_texts(["word " * LIMIT], "never", LIMIT)[1]  # type: ignore[arg-type]
    assert limited == parts


# most lines have one sentence of up to 6 words, a tenth two of up to 9 words together; three were too rare to learn
KNOWN = LineLengths(12, (0.89, 0.10, 0.01), ((3, 6, 8), (7, 9, 10), (9, 11, 12)), (0.5, 2.0))
LINE = "One two. Three four five. Six seven eight nine. Ten. Eleven."


@pytest.mark.parametrize(
    ("split", "lengths", "expected"),
    [
        ("auto", [KNOWN], ["One two. Three four five.", "Six seven eight nine. Ten.", "Eleven."]),
        ("auto", [None], ["One two.", "Three four five.", "Six seven eight nine.", "Ten.", "Eleven."]),
        ("auto", [KNOWN, None], ["One two.", "Three four five.", "Six seven eight nine.", "Ten.", "Eleven."]),
        ("sentences", [KNOWN], ["One two.", "Three four five.", "Six seven eight nine.", "Ten.", "Eleven."]),
        ("never", [KNOWN], [LINE]),
    ],
)
def test_sentences_are_joined_as_far_as_training_had_such_lines(
    split: SplitMode, lengths: list[LineLengths | None], expected: list[str]
) -> None:
    segmenter = Segmenter(Words(), "en", 50, tuple(lengths))  # type: ignore[arg-type]
    assert segmenter.split_line(LINE, split) == expected
    assert segmenter.split_line("One two. Three.", split) == (
        ["One two. Three."] if split == "never" or (lengths == [KNOWN] and split == "auto") else ["One two.", "Three."]
    )
    long = "one two three four five six seven eight nine ten eleven twelve thirteen"
    assert segmenter.split_line(long, split) == [long]  # a sentence is never split into sentences


def test_sentences_are_not_joined_beyond_what_the_model_takes() -> None:
    assert Segmenter(Words(), "en", 4, (KNOWN,)).split_line("One two. Three four five.") == [  # type: ignore[arg-type]
        "One two.",
        "Three four five.",
    ]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    place: Path = write_tiny_model(tmp_path_factory.mktemp("cut") / "model")
    return Translator.load(place, device="cpu")


def test_a_long_line_is_translated_as_its_segments_are(translator: Translator) -> None:
    line = "The old box stands in the hall. We see seven boxes, and nine halls! Are they new? 我们去学校。你也来吗？"
    layouts, segments = translator.segmenter.split_texts([line])
    assert len(segments) > 2
    (answer,) = join_texts(layouts, translator.translate(segments))
    expected = translator.translate(line)
    assert answer == expected
    assert answer.split


def test_line_breaks_and_indentation_are_kept(translator: Translator) -> None:
    lines = ["the old box", "seven boxes. the hall.", "we see"]
    parts = translator.translate(lines, max_length=9)
    text = f"  {lines[0]}\r\n\n\t{lines[1]} \n{lines[2]}\n"
    found = translator.translate(text, max_length=9)
    assert found.text == f"  {parts[0].text}\r\n\n\t{parts[1].text} \n{parts[2].text}\n"
    assert found.tokens == tuple(token for part in parts for token in part.tokens)
    assert found.log_probability == pytest.approx(sum(part.log_probability for part in parts))
