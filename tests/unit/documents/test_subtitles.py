from __future__ import annotations

import html
import random
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pysubs2
import pytest
from tests.word_by_word import WordByWord, backward

from dragoman.documents.detect import detect, read_document
from dragoman.documents.formats.subtitles.division import (
    break_places,
    divide,
    part_widths,
    slice_target,
    text_width,
    wrap_lines,
)
from dragoman.documents.segment import SegmentBuilder, Target, render
from dragoman.documents.translate import translate_segments
from dragoman.errors import DocumentError
from raising import raises

FIXTURES = Path(__file__).parents[2] / "fixtures" / "subtitles"
FILES = sorted(path.name for path in FIXTURES.iterdir() if path.suffix in (".srt", ".vtt", ".ass", ".ssa"))


def translate(data: bytes, name: str, translator: WordByWord) -> bytes:
    document = read_document(data, name)
    report = translate_segments(document.segments, translator)
    return document.write([result.target for result in report.results])


def cues(data: bytes) -> list[tuple[int, int, str]]:
    found = pysubs2.SSAFile.from_string(data.decode("utf-8-sig"))
    return [(one.start, one.end, re.sub(r"<[^>]*>", "", html.unescape(one.plaintext))) for one in found]


def segments(name: str) -> list[str]:
    return [one.text for one in read_document((FIXTURES / name).read_bytes(), name).segments]


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_targets_is_the_same_bytes(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    found = detect(data, "x" if name != "untidy.srt" else name)
    assert found is not None and found.name == {"ssa": "ass"}.get(name[-3:], name[-3:])
    document = read_document(data, name)
    assert document.segments
    assert document.write([None] * len(document.segments)) == data
    assert translate(data, name, WordByWord(word=str)) == data


@pytest.mark.parametrize("name", FILES)
def test_pysubs2_sees_the_same_cues_with_translated_words(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    before, after = cues(data), cues(translate(data, name, WordByWord()))
    assert [one[:2] for one in before] == [one[:2] for one in after]
    untouched = ("m 0 0 l", "Lalala", "This comment")
    words = [" ".join(t for *_, t in side if not t.startswith(untouched)).split() for side in (before, after)]
    assert [word.upper() for word in words[0]] == words[1]


@pytest.mark.parametrize("name", FILES)
def test_everything_but_the_text_is_the_same(name: str) -> None:
    data = (FIXTURES / name).read_bytes().decode()
    written = translate(data.encode(), name, WordByWord(order=backward, word=lambda word: word[::-1].title())).decode()

    def rest(text: str) -> list[str]:
        if name.endswith(("ass", "ssa")):
            fields = [line.split(",", 9)[:9] if line.startswith("Dialogue") else [line] for line in text.split("\n")]
            return [field for line in fields for field in line]
        blocks = re.split(r"((?:[^\n]*\n)?[^\n]*-->[^\n]*\n)", text)
        return [blocks[0], *blocks[1::2]] if name != "untidy.srt" else blocks[1::2]

    assert rest(data) == rest(written)
    assert data.count("\r\n") == 0 or "\n" not in written.replace("\r\n", "")


def test_a_sentence_over_several_cues_is_one_segment() -> None:
    assert segments("plain.srt") == [
        "The old garden behind the house was quiet that morning, because nobody had opened the green gate for years.",
        "Hello?",
        "Is anyone here? I brought the key.",
    ]
    assert segments("tags.srt")[:3] == [
        "A voice from above says that the red door is closed.",
        "Who said that?",
        "Nobody.",
    ]
    assert segments("chinese.srt") == ["我们一直在等你，但是你没有来。"]
    assert segments("aegisub.ass") == [
        "The roses, which my mother planted long ago, are still alive.", "No entry", "Really?", "Yes, of course.",
        "From above.",
    ]  # fmt: skip
    assert "I have brought you a basket of red apples." in segments("features.vtt")
    assert segments("youtube.vtt")[:3] == ["welcome to our garden"] * 3  # lines that scroll stay alone


@pytest.mark.parametrize(("numbers", "keys"), [("1234", "1223"), ("2578", "2557")])
def test_keys_are_the_numbers_of_the_cues_in_the_file(numbers: str, keys: str) -> None:
    texts = ["One two.", "- Hello.\n- Hi.", "Three", "four."]
    times = [f"00:00:0{i},000 --> 00:00:0{i},900" for i in range(4)]
    srt = "".join(f"{number}\n{time}\n{text}\n\n" for number, time, text in zip(numbers, times, texts, strict=True))
    assert [one.key for one in read_document(srt.encode(), "a.srt").segments] == [f"cue {key}" for key in keys]
    vtt = "WEBVTT\n\n" + "".join(f"{time}\n{text}\n\n" for time, text in zip(times, texts, strict=True))
    keys_of_vtt = [one.key for one in read_document(vtt.replace(",", ".").encode(), "a.vtt").segments]
    assert keys_of_vtt == ["cue 1", "cue 2", "cue 2", "cue 3"]


def test_the_translation_is_divided_by_alignment_and_length() -> None:
    written = translate((FIXTURES / "plain.srt").read_bytes(), "plain.srt", WordByWord()).decode()
    assert written.upper() == written and "THAT MORNING,\n\n2\n" in written
    longer = WordByWord(word=lambda word: word.upper() + "XX")
    lines = translate((FIXTURES / "plain.srt").read_bytes(), "plain.srt", longer).decode().splitlines()
    assert max(map(len, lines)) <= 42
    assert "MORNING,XX" in lines[lines.index("2") - 2]


def test_tags_stay_with_their_words_and_around_their_cues() -> None:
    written = translate((FIXTURES / "tags.srt").read_bytes(), "tags.srt", WordByWord()).decode()
    for expected in (
        "{\\an8}<i>A VOICE FROM ABOVE SAYS</i>", "<i>THAT THE <b>RED</b> DOOR IS CLOSED.</i>",
        "- WHO SAID THAT?\n- <i>NOBODY.</i>", '<font color="#ffff00">READ THE SIGN</font> TWICE.',
    ):  # fmt: skip
        assert expected in written
    vtt = translate((FIXTURES / "features.vtt").read_bytes(), "x.vtt", WordByWord(order=backward)).decode()
    for expected in (
        "<v Anna>FRIEND! &amp; NEIGHBOR DEAR <c.loud>MORNING</c>, GOOD\n",
        "YOU. <i.soft>THANK</i> <lang fr>MAGNIFIQUE</lang>, IS IT", "<ruby>APPLE<rt>22</rt></ruby>",
    ):  # fmt: skip
        assert expected in vtt
    assert re.findall(r"<(00:00:\d\d\.\d+)>", vtt) == ["00:00:09.500", "00:00:10.000", "00:00:10.500"]
    ass = translate((FIXTURES / "aegisub.ass").read_bytes(), "x.ass", WordByWord()).decode()
    assert "are {\\i1}still{\\i0} alive.".upper().replace("\\I", "\\i") in ass
    assert "- REALLY?\\N- YES, OF COURSE." in ass and "{\\an8\\i1}FROM ABOVE.{\\i0}" in ass


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_a_division_are_the_text(seed: int) -> None:
    generator = random.Random(seed)
    for _ in range(30):
        words = ["".join(generator.choices("abcdefg,. ", k=generator.randint(1, 9))).strip() or "x" for _ in range(12)]
        text = " ".join(words)
        n_parts = generator.randint(1, 5)
        sizes = [generator.randint(1, 40) for _ in range(n_parts)]
        cuts = divide(text, sizes, sorted(generator.choices(range(len(text)), k=n_parts - 1)), 84)
        assert len(cuts) == n_parts and "".join(text[a:b] for a, b in cuts) == text
        assert all(cut[0] in (0, *break_places(text)) and cut[0] < cut[1] for cut in cuts)


def test_a_division_has_the_least_cost() -> None:
    text = "aaaa bb, cccc dd ee ffff. g hhhh"
    (_, first), (_, second), _ = divide(text, [10, 12, 8], [9, 26], 0)
    assert text[:first].strip().endswith("bb,") and text[first:second].strip().endswith("ffff.")


def test_a_pair_that_is_cut_is_closed_and_opened_again() -> None:
    builder = SegmentBuilder()
    builder.add_text("a ")
    builder.open_pair("<i>", name="i")
    builder.add_text("b c")
    builder.add_point("<x>")
    builder.add_text(" d")
    builder.close_pair("</i>", "i")
    target = Target(builder.build().text, builder.build().spans)
    parts = [render(slice_target(target, *cut)) for cut in ((0, 4), (4, len(target.text)))]
    assert parts == ["a <i>b</i>", "<i>c<x> d</i>"]


@pytest.mark.parametrize(
    "text", ["one two three four five six seven", "短い文をここで二行に分けてみましょう。そうです。", "x" * 60]
)
def test_lines_fit_and_are_balanced(text: str) -> None:
    lines = wrap_lines(Target(text), 20, 3).text.split("\n")
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    widths = [text_width(line) for line in lines]
    assert max(widths) <= 20 or len(lines) == 1
    assert len(lines) == 1 or max(widths) - min(widths) <= 10


def test_a_text_that_does_not_fit_gets_longer_lines_and_no_more() -> None:
    text = " ".join(["word"] * 20)
    for most in (1, 2, 3, 4):
        lines = wrap_lines(Target(text), 20, most).text.split("\n")
        assert len(lines) == most and " ".join(lines) == text
        assert max(map(len, lines)) - min(map(len, lines)) <= 5


def test_a_text_of_many_lines_is_not_one_line() -> None:
    text = " ".join(["words"] * 85)  # 13 lines of 39 columns
    lines = wrap_lines(Target(text), 39, 13).text.split("\n")
    assert len(lines) == 9 and " ".join(lines) == text and max(map(len, lines)) <= 60


@pytest.mark.parametrize(
    ("before", "most"),
    [("one two", 2), ("one\ntwo", 2), ("one\ntwo\nsix", 3), ("- one\n- two", 2), ("- one\n- two\nsix", 3)],
)
def test_a_cue_gets_no_more_lines_than_it_had_or_two(before: str, most: int) -> None:
    data = f"1\n00:00:01,000 --> 00:00:02,000\n{before}.\n".encode()
    written = translate(data, "x.srt", WordByWord(word=lambda word: " ".join([word] * 20)))
    ((*_, text),) = cues(written)
    assert text.count("\n") + 1 == most
    assert text.replace("- ", "").split().count("one") == 20


class Vague(WordByWord):
    """Translates without an alignment, into one word."""

    def translation(self, text: str, lost: frozenset[str], alignment: bool):  # type: ignore[no-untyped-def]
        from dragoman.translation.result import Translation

        return Translation("Ja.")


def test_a_translation_with_fewer_words_than_cues() -> None:
    written = translate((FIXTURES / "plain.srt").read_bytes(), "plain.srt", Vague())
    assert [text for *_, text in cues(written)][:2] == ["Ja.", "…"]


@pytest.mark.parametrize("name", ["tags.srt", "features.vtt", "aegisub.ass", "untidy.srt"])
def test_damaged_files_give_an_error_or_a_document(name: str) -> None:
    generator = random.Random(11)
    whole = (FIXTURES / name).read_text(encoding="utf-8")
    marks: Sequence[str] = [
        "<i>",
        "</i>",
        "{\\i1}",
        "\n\n",
        "-->",
        "<",
        "{",
        "}",
        ",",
        "00:00:01,000 --> 00:00:02,000\n",
        "",
        "<v>",
    ]
    for _ in range(60):
        text = whole
        for _ in range(generator.randint(1, 6)):
            place = generator.randrange(len(text))
            text = text[:place] + generator.choice(marks) + text[place + generator.randint(0, 12) :]
        try:
            document = read_document(text.encode(), name, name[-3:])
        except DocumentError as error:
            assert error.code == "damaged_document"
            continue
        assert document.write([None] * len(document.segments)) == text.encode()
        report = translate_segments(document.segments, WordByWord(order=backward))
        document.write([result.target for result in report.results])


@pytest.mark.parametrize("name", ["srt", "vtt", "ass"])
def test_files_without_cues_or_with_old_line_ends_give_an_error(name: str) -> None:
    read = import_module(f"dragoman.documents.formats.subtitles.{name}").read
    content = b"WEBVTT\r\r00:00:01.000 --> 00:00:02.000\rone two\r"
    with raises(DocumentError, "damaged_document", "CR alone"):
        read(content, f"file.{name}")
    if name == "srt":
        for data in (b"", b"one two\n"):
            with raises(DocumentError, "damaged_document", "no cues"):
                read(data, "file.srt")


@pytest.mark.parametrize("unit", ["!", "a\n", ": ", "...\n"])
def test_a_long_cue_is_translated(unit: str) -> None:
    """In seconds: the time must not grow with the square of its length."""
    text = f"1\n00:00:01,000 --> 00:00:02,000\none {unit * 20_000} two\n"
    document = read_document(text.encode(), "x.srt")
    report = translate_segments(document.segments, WordByWord())
    assert document.write([result.target for result in report.results]).decode().split()[4] == "ONE"


@pytest.mark.parametrize("text", ["one two, three", " a  日本。 b ", "\u00a0", ""])
def test_the_widths_of_parts_are_those_of_their_texts(text: str) -> None:
    width, places = part_widths(text), range(len(text) + 1)
    for start, end in ((a, b) for a in places for b in places if a <= b):
        assert width(start, end) == text_width(text[start:end].strip())


def test_a_sentence_over_long_cues_is_divided() -> None:
    """In less than a second, not minutes."""
    size = 400
    cuts = divide("word " * 6 * (size // 5), [size] * 6, [size * i for i in range(1, 6)], 84)
    assert [end - start for start, end in cuts] == [size] * 6


def test_a_time_stamp_that_moves_into_a_tag_repeats_no_words() -> None:
    text = "WEBVTT\n\n00:00:01.000 --> 00:00:03.000\none <00:00:01.500>two <i>three <00:00:02.000>four five</i>\n"
    document = read_document(text.encode(), "x.vtt")
    report = translate_segments(document.segments, WordByWord(order=backward))
    written = document.write([result.target for result in report.results]).decode()
    cue = written.splitlines()[-1]
    assert re.sub("<.*?>", "", cue).split() == ["FIVE", "FOUR", "THREE", "TWO", "ONE"]
    assert re.findall(r"<[\d:.]+>", cue) == ["<00:00:01.500>", "<00:00:02.000>"]
