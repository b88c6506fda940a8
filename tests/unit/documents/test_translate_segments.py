from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest

from dragoman.documents import translate as translate_module
from dragoman.documents.formats.html import html
from dragoman.documents.formats.strings import json
from dragoman.documents.memory.lookup import Memory
from dragoman.documents.segment import Segment, render
from dragoman.documents.translate import DocumentTranslation, translate_segments
from dragoman.errors import DocumentError, SearchError
from dragoman.progress import Reporter
from dragoman.translation.result import Translation
from raising import raises
from word_by_word import WordByWord, backward


def translate(text: str, translator: WordByWord) -> str | None:
    (result,) = translate_segments([Segment(text)], translator).results
    return None if result.target is None else result.target.text


def test_placeholders_come_back_and_white_space_stays() -> None:
    text = "  Open {file} now.\n\n- Then  see https://x.org/?a=b. Close %(n)d files. "
    expected = "  NOW. {file} OPEN\n\n- https://x.org/?a=b. SEE THEN FILES. %(n)d CLOSE "
    assert translate(text, WordByWord(order=backward)) == expected


def test_wide_gaps_separate_columns() -> None:
    text = "  -h, --help     show this help\nName:      Anna     <date>"
    assert translate(text, WordByWord(order=backward)) == "  --help -H,     HELP THIS SHOW\nNAME:      ANNA     <DATE>"


@pytest.mark.parametrize("text", ["Delete all files", "Delete %s files"])
def test_placeholders_that_the_model_invents_are_reported(text: str) -> None:
    translator = WordByWord(word=lambda word: "%d Dateien" if word == "files" else word)
    report = translate_segments([Segment(text)], translator)
    assert [(result.target, result.problem) for result in report.kept] == [(None, "placeholder_lost")]


def test_text_without_words_is_not_translated() -> None:
    translator = WordByWord()
    assert [translate(text, translator) for text in ("12,5 %", "{a}: {b}", "", "https://x.org")] == [None] * 4
    assert sum(map(len, translator.calls)) == 0


@pytest.mark.parametrize(
    ("text", "read", "expected"),
    [
        ("DO NOT OPEN {file} HERE", "Do not open X1 here", "HERE {file} OPEN NOT DO"),
        ("(I AM ÉTIENNE 5)", "(I am étienne 5)", "5) ÉTIENNE AM (I"),
        ("COVID19 AND THE 1ST MP3 PLAYER", "COVID19 and the 1st MP3 player", "PLAYER MP3 1ST THE AND COVID19"),
        ("1ST PLACE", "1st place", "PLACE 1ST"),
        ("Not IN CAPITALS", "Not IN CAPITALS", "CAPITALS IN NOT"),
        ("请打开PDF文件并保存在这里 VIDEO", "请打开PDF文件并保存在这里 VIDEO", "VIDEO 请打开PDF文件并保存在这里"),
        ("يرجى فتح VIDEO الآن", "يرجى فتح VIDEO الآن", "الآن VIDEO فتح يرجى"),
        ("USB OF NATO", "USB OF NATO", "NATO OF USB"),
    ],
)
def test_sentences_in_capitals_are_read_in_lower_case(text: str, read: str, expected: str) -> None:
    translator = WordByWord(order=backward)
    assert translate(text, translator) == expected
    assert translator.calls == [[read]]


def test_markup_of_sentences_in_capitals_follows_its_words() -> None:
    page = "<p>ONE <b>STRASSE</b> IS LARGE</p>"
    document = html.read(page.encode(), "page.html")
    report = translate_segments(document.segments, WordByWord(lambda word: word.replace("ss", "ß"), backward))
    written = document.write([result.target for result in report.results]).decode()
    assert written == "<p>LARGE IS <b>STRASSE</b> ONE</p>"


def test_untranslated_segments_are_left() -> None:
    translator = WordByWord()
    results = translate_segments([Segment("one", translate=False), Segment("two")], translator).results
    assert [result.target and result.target.text for result in results] == [None, "TWO"]


def test_a_lost_mask_is_tried_with_another_mask() -> None:
    translator = WordByWord(lost=frozenset(["X1"]))
    (result,) = translate_segments([Segment("open {file} now")], translator).results
    assert result.target is not None and result.target.text == "OPEN {file} NOW"
    assert result.retried and result.problem is None and not result.needs_review


def test_a_mask_that_is_lost_twice_is_required() -> None:
    class Forgetful(WordByWord):
        def stream(self, texts, alignment):  # type: ignore[no-untyped-def]
            return (
                self.translation(" ".join(w for w in t.split() if w.islower()), self.lost, alignment) for t in texts
            )

    assert translate("open {file} now", Forgetful()) == "OPEN {file} NOW"


def test_a_sentence_that_loses_its_placeholder_keeps_its_source_and_is_reported() -> None:
    lost = frozenset(["X1", "4831"])
    report = translate_segments(
        [Segment("One two. Open {file} now. Three", key="k")], WordByWord(lost=lost, can_require=False)
    )
    (result,) = report.results
    assert result.target is not None and result.target.text == "ONE TWO. Open {file} now. THREE"
    assert result.problem == "placeholder_lost" and report.kept == [result]
    assert report.to_json()["review"][0]["key"] == "k"
    assert "1 of 1 segments translated; 1 with text left in the source language" in report.summary()


def test_an_empty_translation_keeps_the_source() -> None:
    (result,) = translate_segments([Segment("one")], WordByWord(word=lambda word: "")).results
    assert result.target is None and result.problem == "empty"


def test_every_protected_text_is_written_once() -> None:
    from dragoman.documents.segment import SegmentBuilder

    builder = SegmentBuilder()
    builder.add_text("call ")
    builder.add_protected("f(x)", "<code>f(x)</code>")
    builder.add_text(" and {g}")
    (result,) = translate_segments([builder.build()], WordByWord(order=backward)).results
    assert result.target is not None
    assert render(result.target) == "{g} AND <code>f(x)</code> CALL"


def test_only_sentences_with_markup_inside_are_aligned() -> None:
    from dragoman.documents.segment import SegmentBuilder

    builder = SegmentBuilder()
    builder.add_text("One two. Three ")
    builder.open_pair("<b>", name="b")
    builder.add_text("four. Five six.")
    builder.close_pair("</b>", "b")
    builder.add_text(" Seven {x}.")
    builder.add_point("<f/>")
    translator = WordByWord(order=backward)
    (result,) = translate_segments([builder.build()], translator).results
    assert translator.calls == [["One two.", "Five six.", "Seven X1."], ["Three four."]]
    assert result.target is not None
    assert render(result.target) == "TWO. ONE <b>FOUR. THREE SIX. FIVE</b> {x}. SEVEN<f/>"


def test_blocks_in_threads_give_the_same_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    segments = [Segment(f"number {i}. {'word ' * (i % 7)}") for i in range(40)] + [Segment("x", translate=False)]
    (tmp_path / "m.tsv").write_text("number 7.\tseven\nnumber 39.\tlast\n")
    alone = [translate_segments(segments, WordByWord(), memory=one) for one in (None, Memory([tmp_path / "m.tsv"]))]
    monkeypatch.setattr(translate_module, "BLOCK_CHARACTERS", 60)
    for memory, expected in zip((None, Memory([tmp_path / "m.tsv"])), alone, strict=True):
        translator, reporter = WordByWord(), Counting()
        translator.threads = 2
        found = translate_segments(segments, translator, reporter, memory=memory)
        assert found == expected and len(translator.calls) > 10
        assert reporter.total == reporter.done == sum(map(len, translator.calls))


def test_segments_that_are_given_early_are_translated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = [Segment(f"number {i}. {'word ' * (i % 7)}") for i in range(40)]
    expected = translate_segments(segments, WordByWord())
    monkeypatch.setattr(translate_module, "BLOCK_CHARACTERS", 60)
    translator, reporter = WordByWord(), Counting()
    translator.threads = 2
    with DocumentTranslation(translator) as translation:
        for segment in [*segments[20:], Segment("not in the document")]:
            translation.add(segment)
        assert translation.finish(segments, reporter) == expected
    assert sum(map(len, translator.calls)) == reporter.done == reporter.total


def test_a_document_that_proves_damaged_ends_its_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(WordByWord):
        def stream(self, texts: Sequence[str], alignment: bool) -> Iterator[Translation]:
            started.set()
            assert ended.wait(60)
            return super().stream(texts, alignment)

        def interrupt(self) -> None:
            super().interrupt()
            ended.set()

    started, ended = Event(), Event()
    monkeypatch.setattr(translate_module, "BLOCK_CHARACTERS", 1)
    translator = Slow()
    translator.threads = 1
    with raises(DocumentError, "damaged_document"), DocumentTranslation(translator) as translation:
        for letter in "abcdefgh":
            translation.add(Segment(letter))
        assert started.wait(60)
        raise DocumentError("x is damaged", code="damaged_document")
    assert translator.calls == [["a"]]


def test_an_error_in_a_block_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(WordByWord):
        def stream(self, texts: Sequence[str], alignment: bool) -> Iterator[Translation]:
            if "b" in texts:
                raise SearchError("broken", code="not_finite")
            return super().stream(texts, alignment)

    monkeypatch.setattr(translate_module, "BLOCK_CHARACTERS", 1)
    translator = Broken()
    translator.threads = 2
    with raises(SearchError, "not_finite", "broken"):
        translate_segments([Segment(letter) for letter in "abcdefgh"], translator)
    assert translator.interrupted


class Counting(Reporter):
    """Counts sentences."""

    total = done = 0

    def start_stage(self, title: str, total: int | None, unit: str) -> None:
        self.total = total or 0

    def advance(self, amount: int = 1) -> None:
        self.done += amount


@pytest.mark.parametrize("markup", ["<code>in %s</code> of %d", '<a href="%s">one</a> of <b>%d</b>', "<i>%s</i> of {}"])
def test_arguments_in_markup_stay_in_order(markup: str) -> None:
    """Without names, the first placeholder is the first argument, in markup too."""
    document = json.read(f'["{markup}"]'.replace('="', "='").replace('">', "'>").encode(), "x.json")
    (kept,) = translate_segments(document.segments, WordByWord(order=backward)).results
    assert (kept.target, kept.problem) == (None, "placeholder_lost")
    (done,) = translate_segments(document.segments, WordByWord()).results
    assert done.target is not None


def test_links_with_encoded_addresses_change_places() -> None:
    document = html.read(b"<p><a href='%D0%B4s'>one</a> two <a href='%d1%81'>three</a>", "x.html")
    (result,) = translate_segments(document.segments, WordByWord(order=backward)).results
    assert result.target is not None and result.target.text == "THREE TWO ONE"


def test_protected_text_outside_of_its_pair_is_not_written_twice() -> None:
    text = "%% two <b>x {{x}}\\n<i>{n, plural, other {it}}</i></b>"
    document = json.read(f'["{text}"]'.encode(), "x.json")
    report = translate_segments(document.segments, WordByWord(order=backward))
    written = document.write([result.target for result in report.results]).decode()
    assert written.count("{n, plural") == 1 and [one.problem for one in report.kept] == ["markup_lost"]
